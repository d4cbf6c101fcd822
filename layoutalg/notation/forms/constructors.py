"""Layouts as source makes them: C++ types and calls, CuTe DSL, pycute, tensor-layouts; one table of names.

The idea.  `cute::Layout<cute::tuple<cute::C<8>>>`, `make_layout(make_shape(Int<8>{}))`,
`cute.make_layout((8,))` and `Layout((8,), (1,))` are terms (layoutalg.notation.form) whose names, without
namespace, are the rows of one table: a row says what the name makes of its arguments.

>>> text = "make_layout(make_shape(Int<8>{}, 64), LayoutRight{})"
>>> print(read_constructor(text, Options(), family=CPP_FAMILY))
(8,64):(64,1)
>>> print(read_constructor("composition(Sw<3,3,3>, (8,64):(64,1))", Options(), family=CPP_FAMILY))
Sw<3,3,3> o 0 o (8,64):(64,1)

Operators are rows as names are, so that CuTe's prints stand inside of source.

Notes.  Nothing is executed: a name outside of the table is refused by name.  An extent of type `int` in a C++
type, known at run time alone, is a symbol, as `?` is (see symbols.py).

Sources.  CUTLASS, include/cute/layout.hpp, stride.hpp, layout_composed.hpp, swizzle_layout.hpp,
atom/mma_traits_sm90_gmma.hpp; CuTe DSL, cutlass.cute.core; pycute; tensor_layouts.
"""

from __future__ import annotations

import difflib
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

from layoutalg.compose import composition
from layoutalg.dtype import DType, dtype
from layoutalg.errors import LayoutAlgError, printable
from layoutalg.layout import (
    ComposedLayout,
    IntTuple,
    Layout,
    ScaledBasis,
    Swizzle,
    Swizzles,
    concat,
    flatten_tree,
    has_bases,
    is_symbolic,
    modes,
    unflatten_tree,
)
from layoutalg.limits import Most
from layoutalg.notation.form import (
    Options,
    Term,
    Value,
    first,
    joined,
    read_term,
    refuse,
    swizzle_in_elements,
)
from layoutalg.notation.forms.functions import FUNCTIONS, OF_TENSORS, Major, call_function
from layoutalg.notation.symbols import Dynamic

CPP_FAMILY, DSL_FAMILY, PYTHON_FAMILY = "CuTe C++", "CuTe DSL", "a layout in Python"

BEFORE = re.compile(
    r"(?:(?:(?:(?:static|constexpr|const|auto|using)\s+)+[A-Za-z_]\w*\s*="
    r"|[#A-Za-z_]\w*\s*=(?=\s*[#A-Za-z_:]))\s*)?(?:typename\s+)?"
)
"""The text that may stand before a term: `auto layout =`, `using Layout =`, `#blocked =`."""

_WORDS = frozenset({"int", "unsigned", "long", "int32_t", "int64_t", "uint32_t", "uint64_t", "size_t"})
"""Types of extents that are known only at run time."""

_MAJOR = {
    "LayoutLeft": "left", "GenColMajor": "left", "LayoutRight": "right", "GenRowMajor": "right",
}  # fmt: skip

_TYPES = frozenset({"decltype", "remove_cvref_t", "remove_reference_t", "remove_const_t", "decay_t"})
"""Wrappers of a type, whose value is that of what they wrap."""

_NUMBER = re.compile(r"_([0-9]{1,18})")
"""A static integer behind a namespace: cute::_8."""

_KEEPS = frozenset({"_", "X", "Underscore"})
"""In a tiler or a coordinate: the mode is kept."""

_NOT_LAYOUTS = {
    "TiledMMA": "a tiled MMA is threads over atoms, no layout",
    "TiledCopy": "a tiled copy is threads over atoms, no layout",
    "make_tiled_mma": "a tiled MMA is threads over atoms, no layout",
    "make_tiled_copy": "a tiled copy is threads over atoms, no layout",
    "MMA_Atom": "an atom has several layouts: see layoutalg.atoms.MMA_ATOMS",
    "Copy_Atom": "an atom has several layouts: see layoutalg.atoms.COPY_ATOMS",
    **OF_TENSORS,
}


class _Pointer(int):
    """A pointer to elements of `bits` bits, in place of the offset of a composed layout."""

    __slots__ = ()


def element_of(name: str) -> DType:
    """An element type as C++, CuTe DSL or MLIR spells it.  Raises UnknownNameError.

    >>> str(element_of("cutlass::half_t"))
    'f16'
    """
    return dtype(re.split(r"::|\.", name)[-1])


def begin(text: str, start: int) -> int:
    """The position at which the term at `start` begins, perhaps behind `auto layout =`."""
    match = BEFORE.match(text, start)
    return match.end() if match else start


def read_constructor(text: str, options: Options, *, family: str) -> Value:
    """The layout, or the swizzle alone, that a text makes.  Raises ParseError with line and column."""
    term = term_of(text, family)
    value = TermReader(text, family, options).value(term)
    if isinstance(value, (Layout, ComposedLayout)):
        return joined(value)
    if not isinstance(value, Swizzle):
        refuse(text, family, "expected a layout", term.start)
    return value


def term_of(text: str, family: str) -> Term:
    """The term of a source text, perhaps behind `auto layout =`.  Raises ParseError with line and column."""
    return read_term(text, family, begin(text, first(text)), operators=True)


class TermReader:
    """Turn the terms of a text into values; a reader that knows more overrides `value` and `call`."""

    known: tuple[str, ...] = ()
    """Names that are called and are not in the tables of this module."""
    refused: Mapping[str, str] = MappingProxyType(_NOT_LAYOUTS)
    """Names that are known and have no value, and why."""
    hands_on = False
    """Whether errors of functions, which name their operands, are raised as they are."""

    def __init__(self, text: str, family: str, options: Options) -> None:
        self.text, self.family, self.options = text, family, options
        self.dynamic = Dynamic()
        self.printed = False
        """Whether the term stands beside `:`, where (8) is a tuple, as CuTe prints it."""
        self.open = 0
        """Terms that are being read, one inside the other."""

    def fail(self, why: object, term: Term) -> NoReturn:
        refuse(self.text, self.family, why, term.start)

    def value(self, term: Term) -> Any:
        """The value of a term: an int, a tuple, a layout, a swizzle, a pointer or an order of modes."""
        self.open += 1
        if self.open > Most.NESTING.number:
            self.fail(f"at most {Most.NESTING.number} calls, brackets and operators inside each other", term)
        value = self._value(term)
        self.open -= 1
        return value

    def _value(self, term: Term) -> Any:
        if term.quoted:
            self.fail("expected a layout, an integer or a tuple, found a quoted text", term)
        if isinstance(term.head, int):
            if any(group.terms for group in term.groups):
                self.fail("an integer is not called", term)
            return term.head
        if term.head is None:
            return self.group(term)
        name = last_name(term)
        if name == "?":
            return self.dynamic.extent()
        if number := _NUMBER.fullmatch(name):
            return int(number[1])
        if name == "Tensor" and [group.mark for group in term.groups[:1]] == ["<"]:
            return self.tensor(term)
        if name in self.refused:
            self.fail(f"{name}: {self.refused[name]}", term)
        if name in _MAJOR:
            return Major(_MAJOR[name])
        if name in _KEEPS:
            return None
        if name in _WORDS:
            return self.dynamic.extent()
        if name in _TYPES:
            return self.typed(term)
        calls = (name in FUNCTIONS or name in self.known) and any(g.mark == "(" for g in term.groups)
        if not calls and name not in ROWS:
            return self.answered(term, lambda: self.other(name, term), lambda: f"{name} is not a value")
        numbers, arguments, options = list[int](), list[Any](), dict[str, Any]()

        def result() -> Any:
            nonlocal numbers, arguments, options
            numbers, values = self.bracketed(name, term) if calls else ([], term)
            arguments, options = self.arguments(values)
            if name in ROWS:
                return self.noted(name, arguments, ROWS[name](self, *arguments, **options))
            return self.call(name, numbers, arguments, options)

        def refusal() -> str:
            before = f"<{', '.join(map(str, numbers))}>" if numbers else ""
            listed = ", ".join([str(a) for a in arguments] + [f"{k}={v}" for k, v in options.items()])
            return f"{name} does not take {before}({listed[:60]})"

        return self.answered(term, result, refusal)

    def answered(self, term: Term, result: Callable[[], Any], refusal: Callable[[], str]) -> Any:
        """A result, or the refusal of the term: `refusal` says that arguments are not taken."""
        why: object
        try:
            return result()
        except (LayoutAlgError, ValueError) as error:
            if getattr(error, "text", "") == self.text or (
                self.hands_on and isinstance(error, LayoutAlgError)
            ):
                raise
            why = getattr(error, "message", error)
        except (TypeError, KeyError, AttributeError):
            why = refusal()
        return self.fail(why, term)

    def call(self, name: str, numbers: list[int], arguments: list[Any], options: dict[str, Any]) -> Any:
        """The result of a function for the numbers in <...>, its arguments and those with keys."""
        return call_function(name, numbers, arguments, options)

    def noted(self, name: str, arguments: list[Any], result: Any) -> Any:
        """The result of a row of the table."""
        return result

    def other(self, name: str, term: Term) -> Any:
        """A name outside of the table: a symbol, an atom of shared memory, or refused."""
        if not term.groups and self.options.symbols and name in self.options.symbols:
            return self.options.symbols[name]
        if re.fullmatch(r"Layout_(?:(?:MN|K)_)?\w+_Atom(?:_Bits)?", name):
            return self.atom(name, term)
        if not term.groups or not any(group.terms for group in term.groups):
            self.fail(f"expected an integer or a layout, found the name {term.head}", term)
        return self.fail(unknown_function(str(term.head), self.known), term)

    def typed(self, term: Term) -> Any:
        """The value of the type in a wrapper: decltype(...), remove_cvref_t<...>."""
        inner = [part for group in term.groups for part in group.terms]
        if len(inner) != 1:
            self.fail(f"{term.head} is of one type, and has {len(inner)}", term)
        return self.value(inner[0])

    def bracketed(self, name: str, term: Term) -> tuple[list[int], Term]:
        """The numbers in <...> of a function call, or the bits of the types there; the term without them."""
        numbers: list[int] = []
        for part in (part for group in term.groups if group.mark == "<" for part in group.terms):
            row = FUNCTIONS.get(name)
            value = self.bits(part) if row is not None and row.brackets == "types" else self.value(part)
            if type(value) is not int:
                self.fail(f"{name} takes integers in <...>", part)
            numbers.append(value)
        return numbers, replace(term, groups=tuple(group for group in term.groups if group.mark != "<"))

    def bits(self, term: Term) -> int:
        """The bits of the element type that a term names."""
        name = last_name(term)
        wide = re.fullmatch(r"u?int(128|256)_t|u?int_(bit|byte)_t", name)
        if wide is None:
            return element_of(str(term.head)).bits
        if wide[1]:
            return int(wide[1])
        (number,) = [self.value(part) for group in term.groups for part in group.terms]
        return int(number) * (8 if wide[2] == "byte" else 1)

    def atom(self, name: str, term: Term) -> Any:
        """An atom of shared memory for wgmma: Layout_K_SW128_Atom<half_t>."""
        from layoutalg.arch import atom_layout

        inner = [part for group in term.groups for part in group.terms]
        if len(inner) == 2 and isinstance(inner[1].head, str):
            major = last_name(inner[1])
            name = name.replace("Layout_", f"Layout_{major}_") if major in ("K", "MN") else name
        if not inner or not isinstance(inner[0].head, str):
            self.fail(f"{name} needs its element type, as in {name}<half_t>", term)
        return atom_layout(name, element_of(inner[0].head))

    def tensor(self, term: Term) -> Any:
        """The layout of a tensor's type, Tensor<Engine, Layout>, under the swizzle of its pointer."""
        if len(term.groups[0].terms) != 2:
            self.fail("expected Tensor<Engine, Layout>", term)
        engine, inner = term.groups[0].terms
        layout = self.value(inner)
        pointer = next((part for part in _parts(engine) if last_name(part) == "swizzle_ptr"), None)
        if pointer is None:
            return layout
        swizzle = next((part for part in _parts(pointer) if last_name(part) == "Swizzle"), None)
        for part in _parts(pointer):
            bits = _element_bits(part)
            if bits and swizzle is not None:
                return ComposedLayout(swizzle_in_elements(self.value(swizzle), bits), 0, layout)
        return self.fail("expected swizzle_ptr<Swizzle<...>, smem_ptr<T*>> of a known element type", pointer)

    def group(self, term: Term) -> Any:
        """A group without a name: a tuple, or a number in parentheses as Python reads them."""
        group = term.groups[0]
        if any(group.keys):
            self.fail("expected a tuple, found keys", term)
        values = tuple([self.value(part) for part in group.terms])
        grouped = not isinstance(group.terms[0].head, int) if values else False  # (n+1), not (8)
        bare = grouped if self.family == CPP_FAMILY or self.printed else True
        return values[0] if group.mark == "(" and len(values) == 1 and not group.trailing and bare else values

    def arguments(self, term: Term) -> tuple[list[Any], dict[str, Any]]:
        """All arguments of a name, those in `<...>` first, and those with keys."""
        of_value = bool(term.groups) and not term.groups[0].mark  # an operator, a call, a member
        if not of_value and len([group for group in term.groups if group.terms]) > 1:
            self.fail(f"{term.head} with both a type and values: give the type, or make_layout(...)", term)
        places: list[Any] = []
        options: dict[str, Any] = {}
        before, self.printed = self.printed, term.head == ":"
        for group in term.groups:
            for key, part in zip(group.keys, group.terms, strict=True):
                if key is None:
                    places.append(self.value(part))
                else:
                    options[key] = self.value(part)
        self.printed = before
        return places, options

    def swizzled(self, outer: Any, offset: Any, inner: Any) -> ComposedLayout:
        """A composed layout, its swizzle counted in elements."""
        bits = int(offset) if isinstance(offset, _Pointer) else 0
        if not bits and self.options.unit == "bytes" and isinstance(outer, Swizzle):
            bits = self.options.need_element(self.family, "with a swizzle of bytes needs its element").bits
        if bits and isinstance(outer, Swizzle):
            outer = swizzle_in_elements(outer, bits)
        return ComposedLayout(outer, 0 if isinstance(offset, _Pointer) else offset, inner)


def unknown_function(name: str, known: tuple[str, ...] = ()) -> str:
    """The refusal of a name that is called and is not in the table.

    >>> unknown_function("foo"), unknown_function("cute::raked_prodct")
    ("unknown function 'foo'", "unknown function 'cute::raked_prodct'; nearest: raked_product")
    """
    last = re.split(r"::|\.", name)[-1]
    if last in _NOT_LAYOUTS:
        return f"{last}: {_NOT_LAYOUTS[last]}"
    near = difflib.get_close_matches(last, (*CONSTRUCTORS, *known), 1)
    return f"unknown function {printable(name[:60])!r}" + (f"; nearest: {near[0]}" if near else "")


def last_name(term: Term) -> str:
    """The name of a term without its namespace."""
    return re.split(r"::|\.", term.head)[-1] if isinstance(term.head, str) else ""


def _parts(term: Term) -> Iterator[Term]:
    """A term and all terms inside of it."""
    waiting = [term]
    while waiting:
        part = waiting.pop(0)
        yield part
        waiting += [inner for group in part.groups for inner in group.terms]


def _element_bits(term: Term) -> int:
    """The bits of the element type that a term names; 0 where it names none."""
    try:
        return element_of(last_name(term)).bits
    except LayoutAlgError:
        return 0


def compact(shape: IntTuple, major: str) -> IntTuple:
    """Strides without gaps, the first mode fastest (left) or the last (right), as CuTe gives them: 0 for 1.

    >>> compact((2, (1, 4)), "right"), compact((2, (1, 4)), "left")
    ((4, (0, 1)), (1, (0, 2)))
    """
    leaves = list(flatten_tree(shape))
    strides, step = [0] * len(leaves), 1
    for mode in range(len(leaves)) if major == "left" else reversed(range(len(leaves))):
        strides[mode] = 0 if leaves[mode] == 1 else step
        step = step * leaves[mode]
    return unflatten_tree(tuple(strides), shape)


def _as_ints(value: Any) -> IntTuple:
    """A shape: integers and symbols in tuples."""
    if not all(type(leaf) is int or is_symbolic(leaf) for leaf in flatten_tree(value)):
        raise ValueError(f"expected integers in tuples, found {value}")
    return value  # type: ignore[no-any-return]


def _layout(reader: TermReader, /, *places: Any, **options: Any) -> Any:
    """Layout and make_layout: of a shape, of shape and strides, of layouts."""
    parts = [*places, *[options.pop(key) for key in ("shape", "stride") if key in options]]
    of_layouts = bool(parts) and all(isinstance(part, Layout) for part in parts)
    if options or not (of_layouts or 1 <= len(parts) <= 2):
        raise TypeError
    if of_layouts:
        return concat(*parts)
    shape, stride = parts if len(parts) > 1 else (*parts, Major("left"))
    if isinstance(stride, Major):
        return Layout(_as_ints(shape), compact(shape, stride))
    return Layout(_as_ints(shape), reader.dynamic.of_any_sign(stride))


def _composed(reader: TermReader, /, *places: Any, **options: Any) -> Any:
    """ComposedLayout and make_composed_layout: outer, offset, inner; tensor-layouts has offset=."""
    if len(places) == 2:
        places = (places[0], options.pop("offset", 0), places[1])
    return reader.swizzled(*places, **options)


def _composition(reader: TermReader, /, *places: Any, **options: Any) -> Any:
    """composition: a swizzle over a layout is a composed layout; of layouts, their composition."""
    if len(places) == 3:
        return reader.swizzled(*places)
    if len(places) == 2 and isinstance(places[0], Swizzle):
        return reader.swizzled(places[0], 0, places[1])
    return call_function("composition", (), places, options)


def _tuple(reader: TermReader, /, *places: Any) -> Any:
    return places


def _integer(reader: TermReader, /, *places: Any) -> Any:
    """Int<8>, C<8>; of constant<int, 8> the last, since `int` is an extent of its own elsewhere."""
    if not 1 <= len(places) <= 2 or type(places[-1]) is not int:
        raise TypeError
    return places[-1]


def _basis(reader: TermReader, value: Any, /, *path: Any, **options: Any) -> Any:
    """ScaledBasis<C<3>, 0, 1> and ScaledBasis(3, [0, 1])."""
    return ScaledBasis(value, *flatten_tree(path))


def _unit_basis(reader: TermReader, /, *path: Any, **options: Any) -> Any:
    return ScaledBasis(1, *flatten_tree(path))


def _swizzle(reader: TermReader, /, *places: Any, **options: Any) -> Any:
    return Swizzle(*places, *[options[key] for key in ("bits", "base", "shift") if key in options])


def _swizzles(reader: TermReader, /, *places: Any, **options: Any) -> Any:
    return Swizzles(*places)


def _flag(reader: TermReader, bits: Any = 1, /, **options: Any) -> Any:
    if bits < 1 or bits & (bits - 1):
        raise ValueError(f"expected a power of two of bits, found {bits}")
    return _Pointer(bits)


def _tensor(reader: TermReader, layout: Any, /, *, offset: Any = 0, **options: Any) -> Any:
    """tensor_layouts.Tensor, whose offset is added before a swizzle."""
    if offset and not (isinstance(layout, ComposedLayout) and layout.swizzles):
        raise ValueError(f"a tensor that begins at offset {offset}: a layout counts from its tensor's start")
    return ComposedLayout(layout.outer, layout.offset + offset, layout.inner) if offset else layout


def _printed(reader: TermReader, shape: Any, stride: Any, /) -> Any:
    """shape:stride."""
    return Layout(_as_ints(shape), stride)


def _chain(reader: TermReader, /, *parts: Any) -> Any:
    """outer o offset o inner; swizzles may be chained, and without an offset it is a composition."""
    *before, made = parts
    if before and isinstance(before[0], tuple) and has_bases(made):
        del before[0]  # where a tensor of coordinates begins
    offset: Any = None
    for part in reversed(before):
        if isinstance(part, int) or is_symbolic(part):
            if offset is not None:
                raise ValueError("an offset stands between two layouts")
            offset = part
            continue
        swizzled = isinstance(part, Swizzle) and isinstance(made, (Layout, ComposedLayout))
        if offset is None and not swizzled:
            made = composition(part, made)
        elif isinstance(part, Swizzle):
            made = joined(reader.swizzled(part, offset or 0, made))
        else:
            made = ComposedLayout(part, offset, made)
        offset = None
    if offset is not None:
        raise ValueError("an offset stands between two layouts")
    return made


def _number(value: Any) -> Any:
    """An operand of an operator."""
    if type(value) is not int and not is_symbolic(value) and not isinstance(value, ScaledBasis):
        raise TypeError
    return value


def _added(reader: TermReader, /, *parts: Any) -> Any:
    return functools.reduce(operator.add, map(_number, parts))


def _multiplied(reader: TermReader, /, *parts: Any) -> Any:
    Most.INT_BITS.guard(sum(part.bit_length() for part in parts if type(part) is int), "bits of a product")
    return functools.reduce(operator.mul, map(_number, parts))


def _divided(reader: TermReader, a: Any, b: Any, /) -> Any:
    """The quotient, rounded towards 0 as C++ rounds."""
    if type(a) is not int or type(b) is not int:
        raise TypeError
    if b == 0:
        raise ValueError("a division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(reader: TermReader, a: Any, b: Any, /) -> Any:
    return a - _divided(reader, a, b) * b


def _based(reader: TermReader, value: Any, mode: Any, /) -> Any:
    """1@0, and 3@1@0: along mode 1 of mode 0."""
    if isinstance(value, ScaledBasis):
        return ScaledBasis(value.value, mode, *value.modes)
    return ScaledBasis(_number(value), mode)


def _called(reader: TermReader, of: Any, /, *coordinate: Any) -> Any:
    """The offset of a coordinate, or the modes that its `_` keep."""
    if not isinstance(of, (Layout, ComposedLayout, Swizzle)):
        raise TypeError
    return of(*coordinate)


def _indexed(reader: TermReader, of: Any, at: Any, /) -> Any:
    """A mode of a layout or of a tuple."""
    parts = of if isinstance(of, tuple) else modes(of)
    if type(at) is not int or not -len(parts) <= at < len(parts):
        raise TypeError
    return parts[at]


_TABLE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **dict.fromkeys(("Int", "C", "constant", "integral_constant", "Integer"), _integer),
        **dict.fromkeys(
            ("Shape", "Stride", "Step", "Coord", "IntTuple", "tuple", "make_shape", "make_stride",
             "make_tuple", "make_coord", "make_step", "Tile", "make_tile"),
            _tuple,
        ),
        "Layout": _layout, "make_layout": _layout,
        "ComposedLayout": _composed, "make_composed_layout": _composed, "composition": _composition,
        "Swizzle": _swizzle, "make_swizzle": _swizzle, "Swizzles": _swizzles,
        "ScaledBasis": _basis, "E": _unit_basis,
        "smem_ptr_flag": _flag, "smem_ptr_flag_bits": _flag,
        "Tensor": _tensor,
    }
)  # fmt: skip
"""The function that makes the value of each name, without its namespace, from its arguments."""

CONSTRUCTORS = tuple(dict.fromkeys((*_TABLE, *_TYPES, *FUNCTIONS)))
"""Every name that a source text may call."""

ROWS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **_TABLE, "Sw": _swizzle, "S": _swizzle, "ArithTuple": _tuple,
        ":": _printed, "o": _chain, "+": _added, "*": _multiplied, "/": _divided, "%": _remainder,
        "@": _based, "()": _called, "[]": _indexed,
    }
)  # fmt: skip
"""The same, with what CuTe prints and with operators."""
