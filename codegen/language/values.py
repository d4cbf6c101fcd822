"""Arithmetic on register tensors: `v * alpha + b` is a formula, computed by one instruction per vector.

    y = k.map(v * alpha + b)                       a fragment of v's shape
    k.store(exp(v - m) / s, part)                  m and s are one value per thread
    k.store((x + bias).to("f16"), part)            rounded, two elements per word
    k.store(where(v > 0, v, v * 0.01), part)       a choice of each element
    row = k.index("row", ids)                      the number in a register as an index of memory

The idea.  Fragments, typed parameters, indices and numbers are leaves; Python's operators and the functions
of `terms` build a tree, and nothing is computed until it is stored or mapped.  Types are checked then: floats
with floats, integers with integers of the same sign; f16 and bf16 are computed with as floats.  Numbers have
the type of what they stand beside, indices are u32.  Other types are converted first, and a type narrower
than 32 bits last: `v.to("s32")`, `x.to("e4m3")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Select, Var, is_predicate, simplify
from layoutalg.codegen.language.fragment import Fragment
from layoutalg.codegen.language.tensor import Tensor
from layoutalg.codegen.program import MemRef
from layoutalg.codegen.terms import Arithmetic, Value, where
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import layout_size, modes

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder


@dataclass(frozen=True, slots=True)
class Scalar(Arithmetic):
    """A parameter of the kernel that is a number of type `element`: its bits are the word `var`.

    >>> from layoutalg.codegen.language.builder import KernelBuilder
    >>> print(KernelBuilder("k", 32).scalar("alpha", "f32") * 2 + 1)
    add(mul(alpha, 2), 1)
    """

    var: Var
    element: DType

    def __str__(self) -> str:
        return self.var.name


class _Leaves:
    """The operands of an instruction on vectors of fragments of `size` elements, in the order they occur."""

    __slots__ = ("registers", "size", "words")

    def __init__(self, size: int) -> None:
        self.registers: list[Fragment] = []
        self.words: list[Scalar | Expr] = []
        self.size = size

    def formula(self, x: Any, kind: str) -> instr.Formula:
        """The formula of a value; numbers that stand alone are of the type `kind`."""
        match x:
            case Value(op, (arg,)) if op.startswith("to "):
                return self._conversion(self.formula(arg, kind), op.removeprefix("to "))
            case Value(op, args):
                own = instr.OPERATIONS.get(op)
                of = own.of if own else 0
                kind = _kind(args[of:]) or kind
                return instr.Apply(
                    op, tuple(self.formula(a, "bool" if i < of else kind) for i, a in enumerate(args))
                )
            case Scalar():
                return instr.Word(_number(self.words, x), x.element.name)
            case int() | float():
                if kind != "f32" and not float(x).is_integer():
                    raise UnsupportedError(f"{x} beside values of {kind}: a whole number is needed")
                return instr.Number(x, kind)
            case _ if isinstance(x, Expr):
                if is_predicate(x):
                    chosen = Select(x, Const(1), Const(0))
                    return instr.Apply("ne", (self.formula(chosen, kind), instr.Number(0, "u32")))
                return instr.Word(_number(self.words, simplify(x)), "u32")
            case _:
                single = x.size == 1 and self.size > 1
                return instr.Input(_number(self.registers, x), x.element.name, single)

    def _conversion(self, arg: instr.Formula, target: str) -> instr.Formula:
        if target not in instr.COMPUTED:
            return instr.Cast(arg, target)
        if instr.computed(arg) == target:
            return instr.Apply("widen", (arg,)) if target == "f32" else arg
        return instr.Apply(f"to_{target}", (arg,))


def _kind(values: tuple[Any, ...]) -> str:
    """The type that values are computed with, by the first that is not a number; empty where all are."""
    for x in values:
        match x:
            case Value(op, args):
                own = instr.OPERATIONS.get(op)
                found = op.removeprefix("to ") if op.startswith("to ") else own.result if own else ""
                found = found or _kind(args[own.of if own else 0 :])
            case int() | float():
                found = ""
            case _ if isinstance(x, Expr):
                found = "bool" if is_predicate(x) else "u32"
            case _:
                found = "f32" if x.element.name in instr.PACKED else x.element.name
        if found:
            return found
    return ""


def _number(known: list[Any], x: Any) -> int:
    if x not in known:
        known.append(x)
    return known.index(x)


def _fragments(x: Any) -> Iterator[Fragment]:
    match x:
        case Value(_, args):
            for a in args:
                yield from _fragments(a)
        case Fragment():
            yield x


def mapped(
    k: KernelBuilder, value: Arithmetic | Expr | float, *, into: Fragment | None = None, name: str = "mapped"
) -> Fragment:
    """Compute a value, such as v * alpha + b, in registers of its own unless `into` says in which.

    Of several fragments all have the same places, or one element that is used for all; `into` may have places
    for a value of one element, or of none.  A comparison is 1 or 0, a u32.  Raises UnsupportedError for types
    that do not go together and for a shift that may pass the width, ShapeError for sizes.
    """
    given, value = value, _with_converted(k, value)
    match value:
        case Value(op, (arg,)) if op.startswith("to ") and not _is_step(op.removeprefix("to "), arg):
            computed = arg if isinstance(arg, Fragment) else mapped(k, arg, name=name)
            return converted(k, computed, op.removeprefix("to "), into)
        case Fragment() if into is None and value is not given:
            return value  # nothing but a conversion
    fragments = list(_fragments(value))
    places = [*fragments, *([] if into is None else [into])]
    if not places:
        raise ArgumentTypeError(f"map of {value}: it holds no registers; name those of the result as `into`")
    largest = max(places, key=lambda f: f.size)
    for f in fragments:
        if f.size not in (1, largest.size):
            raise ShapeError(f"map of {value}: {f} has {f.size} elements, and {largest} has {largest.size}")
    leaves = _Leaves(largest.size)
    alone = into.element.name if into is not None and not fragments else ""
    formula = leaves.formula(value, _kind((value,)) or (alone if alone in instr.COMPUTED else "f32"))
    element = instr.element_of(formula)
    if element == "bool":
        formula, element = instr.Apply("to_u32", (formula,)), "u32"
    several = [f for f in leaves.registers if f.size == largest.size] or [largest]
    n = gcd(*(f.run for f in several))
    held = into
    if held is None:
        held = k.fragment(name, element, largest.layout.shape, values=_row(largest, element, several, n))
    if held.element.name != element or held.size != largest.size:
        raise ShapeError(
            f"map of {value} into {held} of {held.element}: {largest.size} of {element} are needed"
        )
    n = gcd(n, held.run)
    _check_words(f"map of {value}", n, held, *several)
    step = instr.elementwise(formula, n)
    words = [w.var if isinstance(w, Scalar) else w for w in leaves.words]
    with k.Unroll(k.fresh("i"), largest.size // n) as i:
        at = simplify(i * n)
        inputs = [f.at(at, values=n) if f.size == largest.size else f.at(0) for f in leaves.registers]
        k.do(step, held.at(at, values=n), *inputs, *words)
    return held


def _is_step(target: str, arg: Any) -> bool:
    """Whether a conversion is a step of a formula: what it is of computes, and its result is held so."""
    return target in instr.COMPUTED or (target in instr.PACKED and _kind((arg,)) == "f32")


def _check_words(what: str, n: int, *fragments: Fragment) -> None:
    for f in fragments:
        if n % f.per_word:
            raise UnsupportedError(
                f"{what}: {n} elements of {f} lie side by side, and a register holds {f.per_word} of "
                f"{f.element}"
            )


def _row(largest: Fragment, element: str, several: list[Fragment], n: int) -> int:
    """Elements of a row of registers for a result: the longest operand's; of a narrower type those of mode 0,
    so that several vectors of floats are stored as one.
    """
    row = gcd(max(f.vector for f in several), largest.size)  # of a part of a row, its elements
    first = layout_size(modes(largest.layout)[0])
    return first if dtype(element).bits < 32 and n % 2 == 0 and first % row == 0 else row


def _with_converted(k: KernelBuilder, x: Any) -> Any:
    """A value of registers that formulas compute with: `to` of others is done in front of it."""
    match x:
        case Value(op, (Fragment() as arg,)) if op.startswith("to "):
            source, target = arg.element.name, op.removeprefix("to ")
            computes = source in (*instr.COMPUTED, *instr.PACKED)
            return x if computes or source == target else converted(k, arg, target)
        case Value(op, args):
            made = tuple(_with_converted(k, a) for a in args)
            return x if all(a is b for a, b in zip(made, args, strict=True)) else Value(op, made)
    return x


def converted(
    k: KernelBuilder, held: Fragment, element: str, into: Fragment | None = None, *, values: int = 0
) -> Fragment:
    """Registers as elements of another type, `values` of them side by side, as `instr.convert` does it."""
    if into is None:
        values = values or max(layout_size(modes(held.layout)[0]), held.per_word)
        values = values if held.size % values == 0 else held.size
        into = k.fragment(f"{held.reg.name}_{element}", element, held.layout.shape, values=values)
    if into.element.name != element or into.size != held.size:
        raise ShapeError(f"{held} as {element} into {into} of {into.element}: {held.size} are needed")
    n = gcd(held.run, into.run)
    _check_words(f"{held} as {element}", n, held, into)
    step = instr.convert(n, held.element.name, element)
    with k.Unroll(k.fresh("i"), held.size // n) as i:
        at = simplify(i * n)
        k.do(step, into.at(at, values=n), held.at(at, values=n))
    return into


def coordinates(k: KernelBuilder, part: Tensor, mode: int, name: str = "") -> Fragment:
    """The coordinate along a mode of the buffer of each place of a partition: registers of u32, for masks."""
    held = k.fragment(name or f"{part.buffer.name}_at{mode}", "u32", part.shape)
    step = instr.elementwise(instr.Word(0, "u32"), 1)
    with k.Unroll(k.fresh("i"), part.size) as i:
        k.do(step, held.at(i), part.coordinate(i)[mode])
    return held


def index(k: KernelBuilder, name: str, value: Fragment | Value | MemRef) -> Var:
    """The number in a register, or in memory, as an index that addresses memory: `t[k.index("i", v), None]`.

    Of the number its range is known: what the formula says, as `v & 255`, or an unsigned type; negative ones
    are above all extents, and so are those past 32 bits.  What may leave a tensor is refused where it is
    accessed, unless a predicate such as `row < rows` or `part.inside` is there.  Raises UnsupportedError for
    what is not an integer, ShapeError for several.
    """
    most = (1 << instr.WORD_BITS) - 1
    if isinstance(value, MemRef):
        element = value.tensor.element if value.tensor is not None else None
        held = k.fragment(f"{name}_word", element, (1,))
        k.do((instr.LDS if value.buffer.space == "shared" else instr.LDG)[held.element.nbytes], held, value)
    elif isinstance(value, Value):
        held = k.map(value)
        if all(f.element.name in instr.COMPUTED for f in _fragments(value)):
            most = instr.largest(_Leaves(1).formula(value, "u32"))
    else:
        held = value
    kind, bits = held.element.name, held.element.bits
    if kind[0] not in "su":
        raise UnsupportedError(f"index {name} of {kind}: an integer is needed, to which to('u32') converts")
    if held.size != 1:
        raise ShapeError(f"index {name} of {held}: one element is needed, such as v[i]")
    if bits < instr.WORD_BITS:
        held, most = converted(k, held, "u32"), (1 << bits) - 1 if kind[0] == "u" else most
    if bits > instr.WORD_BITS:
        low, high = (held.recast("u32")[i] for i in (0, 1))
        held = k.map(where(high.eq(0), low, most))
    return k.take(name, held.at(0), most)
