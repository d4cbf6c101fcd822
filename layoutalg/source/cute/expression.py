"""evaluate: an expression of CuTe as a value, in spellings of C++, the DSL, pycute and CuTe's prints.

The idea.  The reader of terms (layoutalg.notation) says what names of layouts and operators mean; here it
also knows the functions by which kernels are read: atoms, tilings, partitions, tiles of layouts.  Nothing
is executed.

>>> print(evaluate("composition((8,64):(64,1), make_layout(4, 2))"))
4:128
>>> print(evaluate("local_tile(A, (8,8), (1,2))", {"A": "(64,64):(64,1)"}))
(8,8):(64,1) from offset 528
>>> print(evaluate("MMA_Traits<SM80_16x8x16_F32F16F16F32_TN>::CLayout"))
((4,8),(2,2)):((32,1),(16,8))

Notes.  A text has at most Most.TEXT characters and Most.TOKENS integers and names, its brackets nest at most
Most.NESTING deep, and a number has at most Most.INT_BITS bits; what a function computes is bounded by its own
limits.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from layoutalg import decide
from layoutalg import layout as values
from layoutalg.algebra import slice_
from layoutalg.atoms import COPY_ATOMS, MMA_ATOMS, CopyAtom, MMAAtom, find_copy_atom, find_mma_atom
from layoutalg.compose import composition
from layoutalg.errors import (
    ArgumentTypeError,
    UnknownNameError,
    UnsupportedError,
    check_type,
    printable,
    shown,
)
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, flatten_tree, to_text
from layoutalg.notation import FORMS, FUNCTIONS, Options, Term, TermReader, parse, term_of
from layoutalg.source.cute import functions
from layoutalg.source.cute.values import Atom, Index, Tensor, Tiled
from layoutalg.source.terms import Sum

_FAMILY = "an expression"
_OTHERS = ("tensor", "dsl-print", "linear-layout", "torch")
"""Notations that are not source, by their beginnings."""

_NAME = re.compile(r"[A-Za-z_]\w{0,60}", re.ASCII)
_ATOM = re.compile(
    r"(?:cute(?:::|\.))?(?:SM\d+(?:_|::)[\w:]+|UniversalCopy|UniversalFMA|DefaultCopy|AutoVectorizing\w+"
    r"|(?:MMA|Copy)_(?:Atom|Traits))",
    re.ASCII,
)
_MEMBER = re.compile(r"(.+?)(?:::|\.)(\w+)", re.ASCII)
_OF_TENSORS: Mapping[str, int] = MappingProxyType(
    {
        "local_tile": 0, "local_partition": 0, "domain_offset": 1,
        **{f"partition_{x}": 1 for x in (*functions.OPERANDS, "S", "D")},
    }
)  # fmt: skip
"""Functions of tensors, of which a layout is one that begins at offset 0: the argument that is; read only."""

_MORE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "with_shape": lambda of, *shape: composition(of, Layout(shape[0] if len(shape) == 1 else shape)),
        "compose": composition, "slice": slice_, "slice_": slice_,
        "slice_and_offset": lambda at, of: Part(*values.slice_and_offset(at, of)),
        "crd2idx": lambda at, of, *more: of(at) if isinstance(of, Layout) else values.crd2idx(at, of, *more),
        "idx2crd": lambda at, of: values.idx2crd(at, of.shape if isinstance(of, Layout) else of),
        **{name: getattr(decide, name) for name in ("is_injective", "is_bijective", "image_size")},
        "same_function": decide.same_function,
    }
)  # fmt: skip
"""Functions and members beside those by which kernels are read; read only."""

_KNOWN = (*functions.OWN, *functions.NUMBERED, *_MORE)
_INSIDE = frozenset({"at", "coordinate", "tensor", "recast", "element_A", "element_B", "element_C"})
"""Functions of the reader of kernels that are not CuTe's, or are of tensors alone."""

SIDES = ("src", "dst", "ref")


def _operand(operand: Any, of: MMAAtom) -> Layout:
    return of.tv(operand)


def _side(side: Any, of: CopyAtom) -> Layout:
    return of.value_layout(side)


_LAYOUTS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        **{x: partial(_operand, x) for x in functions.OPERANDS},
        **{f"{x}Layout": partial(_operand, x) for x in functions.OPERANDS},
        **{side: partial(_side, side) for side in SIDES},
        **{f"ValLayout{side.title()}": partial(_side, side) for side in SIDES},
        "SrcLayout": lambda of: of.src_tv, "DstLayout": lambda of: of.dst_tv,
        "RefLayout": lambda of: of.ref_tv, "ThrID": lambda of: of.thr_layout,
        "Shape_MNK": lambda of: of.shape_mnk,
    }
)  # fmt: skip
"""Members of atoms; read only."""


class Part(NamedTuple):
    """A part of a layout, and the offset from which it counts."""

    layout: AnyLayout
    offset: Any

    def __str__(self) -> str:
        return f"{self.layout} from offset {to_text(self.offset)}" if self.offset else str(self.layout)


class Call(NamedTuple):
    """A call that an expression makes: its function, the numbers in <...>, its arguments and its result."""

    name: str
    numbers: tuple[int, ...]
    arguments: tuple[Any, ...]
    result: Any

    def __str__(self) -> str:
        before = f"<{','.join(map(str, self.numbers))}>" if self.numbers else ""
        return (
            f"{self.name}{before}({', '.join(map(value_text, self.arguments))}) = {value_text(self.result)}"
        )


def evaluate(
    text: str,
    let: Mapping[str, Any] | None = None,
    *,
    symbols: Iterable[str] = (),
    trace: list[Call] | None = None,
) -> Any:
    """The value of an expression of CuTe: a layout, a swizzle, a number, a tuple, an atom or a tiling.

    `let` gives values, or expressions of the names before them, to names; `symbols` are names of positive
    integers.  Calls are appended to `trace`, the innermost first.  A tile or a partition of a layout is a
    Part, with the offset from which it counts.  Raises ParseError with line and column, also for a name that
    is not known, ArgumentTypeError, and what the functions raise.

    >>> print(evaluate("raked_product((4,8):(8,1), (2,2):(1,2))"))
    ((2,4),(2,8)):((32,8),(64,1))
    >>> print(evaluate("A.with_shape(n, 4)", {"A": "make_layout(n*4)"}, symbols=["n"]))
    (n,4):(1,n)
    >>> evaluate("cosize(foo)")
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: cannot read 'cosize(foo)' as an expression: unknown name 'foo' at line 1, \
column 8
    """
    check_type("evaluate", text, str, "a text")
    known = {} if let is None else let
    check_type("evaluate", known, Mapping, "a mapping from names to values")
    check_type("evaluate", symbols, Iterable, "names of symbols")
    names: dict[str, Any] = {}
    declared = tuple(symbols)
    for name in (*declared, *known):
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ArgumentTypeError(f"evaluate: {shown(name)} is not a name")
    for name in declared:
        import sympy

        names[name] = sympy.Symbol(name, integer=True, positive=True)
    for name, value in known.items():
        names[name] = _read(value, names, None) if isinstance(value, str) else value
    return _outside(_read(text, names, trace))


def value_text(value: Any) -> str:
    """A value as CuTe writes it.

    >>> value_text(((8, (2, 4)), True)), value_text(None)
    ('((8,(2,4)),true)', '_')
    """
    value = _outside(value)
    if value is None:
        return "_"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not isinstance(value, Part):
        return f"({','.join(map(value_text, value))})"
    return str(value)


def _read(text: str, names: Mapping[str, Any], trace: list[Call] | None) -> Any:
    """The value of a text inside of the reader; other notations than source are read by their own readers."""
    if any(FORMS[name].recognises.match(text.lstrip()) for name in _OTHERS):  # type: ignore[union-attr]
        return parse(text)
    return _Reader(text, names, trace).value(term_of(text, _FAMILY))


def _outside(value: Any) -> Any:
    """A value of the reader as a value of the library."""
    if isinstance(value, Index):
        if not isinstance(value.value, Sum) or not value.value.known:
            raise UnsupportedError(f"{value} is not a number")
        return value.value.constant
    if isinstance(value, (Atom, Tiled)):
        return value.instruction if isinstance(value, Atom) else value.tiling
    if isinstance(value, Tensor):
        at = _outside(value.at)
        swizzled = ComposedLayout(value.swizzles, at, value.layout) if value.swizzles else None
        return swizzled or (Part(value.layout, at) if at and any(flatten_tree(at)) else value.layout)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map(_outside, value))
    return value


class _Reader(TermReader):
    """The terms of layouts, with names of values, atoms, tilings and their members."""

    known = tuple(name for name in dict.fromkeys(_KNOWN) if name not in _INSIDE)
    refused = MappingProxyType(
        {name: why for name, why in TermReader.refused.items() if name not in _KNOWN or name in _INSIDE}
    )

    hands_on = True

    def __init__(self, text: str, names: Mapping[str, Any], trace: list[Call] | None) -> None:
        super().__init__(text, _FAMILY, Options())
        self.names, self.trace = names, trace

    def _value(self, term: Term) -> Any:
        """The value of a term."""
        head = term.head
        if not isinstance(head, str) or term.quoted:
            return super()._value(term)
        if head[0] == "." and head != ".":
            of, *groups = term.groups
            return self.member(self.value(of.terms[0]), head[1:], term, groups)
        if head in self.names:
            return self.applied(self.names[head], term)
        member = _MEMBER.fullmatch(head)
        if member is not None and (
            member[1] in self.names or (_ATOM.fullmatch(member[1]) and member[2] in _LAYOUTS)
        ):
            of = self.names[member[1]] if member[1] in self.names else self.atom_of(member[1], term)
            return self.member(of, member[2], term, list(term.groups))
        if _ATOM.fullmatch(head):
            return self.atom_of(_spelled(term), term)
        tiled = re.fullmatch(r"(?:.*\W)?(TiledMMA|TiledCopy)", head)
        if tiled is not None:
            return self.tried(tiled[1], term, functions.tiled, tiled[1], *self.arguments(term)[0])
        return super()._value(term)

    def other(self, name: str, term: Term) -> Any:
        """A name outside of the tables: an atom of shared memory, or refused with the nearest name."""
        if term.groups or name.startswith("Layout_"):
            return super().other(name, term)
        return self.fail(_unknown("name", str(term.head), (*self.names, *self.known, *FUNCTIONS)), term)

    def applied(self, value: Any, term: Term) -> Any:
        """The value of a name, or what it gives for a coordinate behind it."""
        coordinate = [self.value(part) for group in term.groups if group.mark == "(" for part in group.terms]
        return self.tried("()", term, lambda of, *at: of(*at), value, *coordinate) if coordinate else value

    def tried(self, name: str, term: Term, function: Callable[..., Any], *given: Any) -> Any:
        """The value of a function, whose refusal is one of this term."""
        return self.answered(
            term, lambda: function(*given), lambda: f"{name} does not take {value_text(given)[:60]}"
        )

    def atom_of(self, text: str, term: Term) -> Any:
        """The atom of a name."""
        copies = "Copy" in text.partition("<")[0] or "CP_ASYNC" in text
        try:
            found: CopyAtom | MMAAtom = (find_copy_atom if copies else find_mma_atom)(text)
        except UnknownNameError:
            try:
                found = (find_mma_atom if copies else find_copy_atom)(text)
            except UnknownNameError:
                error = UnknownNameError("atom", text, (*MMA_ATOMS, *COPY_ATOMS))
                return self.fail(error.message, term)
        return Atom(found)

    def member(self, of: Any, name: str, term: Term, groups: list[Any]) -> Any:
        """A member of a value, or what its method gives."""
        if isinstance(of, Atom) and name in _LAYOUTS:
            return self.tried(name, term, _LAYOUTS[name], of.instruction)
        if isinstance(of, Tiled) and name in (*functions.OPERANDS, "S", "D"):
            name = f"get_layout{name}_TV"
        numbers = [self.value(part) for group in groups if group.mark == "<" for part in group.terms]
        given = [self.value(part) for group in groups if group.mark == "(" for part in group.terms]
        if name not in self.known and name not in FUNCTIONS:
            return self.fail(_unknown("member", name, (*self.known, *FUNCTIONS, *_LAYOUTS)), term)
        return self.tried(name, term, lambda *all_of: self.call(name, numbers, [*all_of], {}), of, *given)

    def call(self, name: str, numbers: list[int], arguments: list[Any], options: dict[str, Any]) -> Any:
        """The result of a function."""
        if options:
            result = super().call(name, numbers, arguments, options)
        elif name in _MORE:
            result = _MORE[name](*arguments)
        else:
            at = _OF_TENSORS.get(name)
            given = [_begun(each) if n == at else each for n, each in enumerate(arguments)]
            result = functions.call(
                name, *([numbers] if numbers or name in functions.NUMBERED else []), *given
            )
        return self.noted(name, arguments, result, numbers)

    def noted(self, name: str, arguments: list[Any], result: Any, numbers: Iterable[int] = ()) -> Any:
        """The result, kept in the trace."""
        if self.trace is not None and (name.isidentifier() or name == "o"):
            self.trace.append(Call(name, tuple(numbers), tuple(arguments), result))
        return result


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"unknown {kind} {printable(name[:60])!r}" + (f"; nearest: {near[0]}" if near else "")


def _begun(of: Any) -> Any:
    """A layout as a tensor that begins at offset 0."""
    return functions.tensor(None, of, 0, "") if isinstance(of, (Layout, ComposedLayout)) else of


def _spelled(term: Term) -> str:
    """A type as its text."""
    inner = ",".join(_spelled(part) for group in term.groups if group.mark == "<" for part in group.terms)
    return f"{term.head}<{inner}>" if inner else str(term.head)
