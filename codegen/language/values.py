"""Arithmetic on register tensors: `v * alpha + b` is a formula, computed by one instruction per vector.

    y = k.map(v * alpha + b)               a fragment of v's shape
    k.store(exp(v - m) / s, part)          m and s are one value per thread
    k.store((x + bias).to("f16"), part)    rounded, two elements per word

The idea.  Fragments, typed parameters and numbers are leaves; Python's operators and the functions of `terms`
build a tree, and nothing is computed until it is stored or mapped.  Types are checked then: floats with
floats, integers with integers; f16 and bf16 are computed with as floats, and `to` is the last step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any, Literal

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Var, simplify
from layoutalg.codegen.terms import Arithmetic, Value
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import layout_size, modes

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder
    from layoutalg.codegen.language.fragment import Fragment


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
        self.words: list[Scalar] = []
        self.size = size

    def formula(self, x: Any, kind: str) -> instr.Formula:
        """The formula of a value; numbers are of the type `kind`."""
        match x:
            case Value("to f32", (arg,)):
                return instr.Apply("widen", (self.formula(arg, kind),))
            case Value(op, (arg,)) if op.startswith("to "):
                return instr.Cast(self.formula(arg, kind), op.removeprefix("to "))
            case Value(op, args):
                return instr.Apply(op, tuple(self.formula(a, kind) for a in args))
            case Scalar():
                return instr.Word(_number(self.words, x), x.element.name)
            case int() | float():
                return instr.Number(x, kind)
            case _:
                single = x.size == 1 and self.size > 1
                return instr.Input(_number(self.registers, x), x.element.name, single)


def _number(known: list[Any], x: Any) -> int:
    if x not in known:
        known.append(x)
    return known.index(x)


def _fragments(x: Any) -> list[Fragment]:
    match x:
        case Value(_, args):
            return [f for a in args for f in _fragments(a)]
        case Scalar() | int() | float():
            return []
        case _:
            return [x]


def mapped(
    k: KernelBuilder, value: Arithmetic, *, into: Fragment | None = None, name: str = "mapped"
) -> Fragment:
    """Compute a value, such as v * alpha + b, in registers of its own unless `into` says in which.

    Of several fragments all have the same places, or one element that is used for all.  Raises
    UnsupportedError for types that do not go together, ShapeError for sizes.
    """
    fragments = _fragments(value)
    if not fragments:
        raise ArgumentTypeError(f"map of {value}: there are no registers in it")
    largest = max(fragments, key=lambda f: f.size)
    for f in fragments:
        if f.size not in (1, largest.size):
            raise ShapeError(f"map of {value}: {f} has {f.size} elements, and {largest} has {largest.size}")
    leaves = _Leaves(largest.size)
    kinds = [x.element.name for x in fragments]
    formula = leaves.formula(value, "s32" if set(kinds) == {"s32"} else "f32")
    several = [f for f in leaves.registers if f.size == largest.size]
    n = gcd(*(f.run for f in several))
    element = instr.element_of(formula)
    held = into or k.fragment(name, element, largest.layout.shape, values=_row(largest, element, several, n))
    if held.element.name != element or held.size != largest.size:
        raise ShapeError(
            f"map of {value} into {held} of {held.element}: {largest.size} of {element} are needed"
        )
    n = gcd(n, held.run)
    if n % held.per_word:
        raise UnsupportedError(
            f"map of {value} into {held}: {n} of its operands lie side by side, and a register holds "
            f"{held.per_word} of {element}"
        )
    step = instr.elementwise(formula, n)
    with k.Unroll(k.fresh("i"), largest.size // n) as i:
        at = simplify(i * n)
        inputs = [f.at(at, values=n) if f.size == largest.size else f.at(0) for f in leaves.registers]
        k.do(step, held.at(at, values=n), *inputs, *(w.var for w in leaves.words))
    return held


def _row(largest: Fragment, element: str, several: list[Fragment], n: int) -> int:
    """Elements of a row of registers for a result: the longest operand's; of a narrower type those of mode 0,
    so that several vectors of floats are stored as one.
    """
    row = gcd(max(f.vector for f in several), largest.size)  # of a part of a row, its elements
    first = layout_size(modes(largest.layout)[0])
    return first if dtype(element).bits < 32 and n % 2 == 0 and first % row == 0 else row


def reduced(
    k: KernelBuilder, op: Literal["sum", "max"], held: Fragment, *, lanes: int = 32, name: str = ""
) -> Fragment:
    """The sum or the maximum of all elements of `lanes` neighbouring lanes: one f32, the same in each.

    `lanes` is a power of two up to 32.  Raises UnsupportedError for other elements and numbers of lanes.
    """
    if held.element.name != "f32" or op not in instr.NEUTRAL:
        raise UnsupportedError(
            f"{op} of {held.element}: sum and max of f32 are accepted; map narrower values first"
        )
    if lanes < 1 or lanes & (lanes - 1) or lanes > instr.WARP:
        raise UnsupportedError(f"{op} over {lanes} lanes: a power of two up to {instr.WARP} is needed")
    result = k.fragment(name or f"{op}_of_{held.reg.name}", "f32", (1,))
    k.do(instr.fill(1), result, Const(instr.NEUTRAL[op]))
    with k.Unroll(k.fresh("i"), held.size // held.vector) as i:
        k.do(instr.fold(op, held.vector, 1), result, held.at(simplify(i * held.vector), values=held.vector))
    for bit in range(lanes.bit_length() - 1):
        k.do(instr.butterfly(op, 1), 1 << bit, result)
    return result
