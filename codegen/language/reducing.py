"""Reductions over the lanes of a warp: of fragments to one value, by a named operation or by a function.

    k.reduce("max", v)                                   f32, s32 or u32: the same in each lane
    k.reduce("any", v > limit)                           1 or 0
    k.reduce("argmax", v, index=k.coordinates(part, 1))  the value and its index: two fragments
    k.reduce(lambda a, b: a + b * b, v, neutral=0.0)     a join of one's own
    k.reduce(join, (m, s), neutral=(-inf, 0.0))          of values of several numbers, tuples to join

The idea.  A lane joins its elements to what changes nothing, then the lanes join theirs in a butterfly, in
which each exchanges with the lane whose number differs in one bit.  A join is a formula of `terms`, which is
associative and commutative: lanes join in different orders.  Sums, products and extrema of floats have
instructions that join several elements as a tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, simplify
from layoutalg.codegen.terms import Arithmetic, Value, maximum, minimum, where
from layoutalg.errors import ArgumentTypeError, ShapeError, UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder
    from layoutalg.codegen.language.fragment import Fragment

Join: TypeAlias = Callable[[Any, Any], Any]
"""A function of two values, or of two tuples of them, to one."""

_LEAST: Mapping[str, float] = MappingProxyType({"f32": -math.inf, "s32": -(1 << 31), "u32": 0})
_MOST: Mapping[str, float] = MappingProxyType({"f32": math.inf, "s32": (1 << 31) - 1, "u32": (1 << 32) - 1})
_ALL_SAME: Mapping[str, float] = MappingProxyType({"f32": 0, "s32": 0, "u32": 0})

JOINS: Mapping[str, tuple[Join, Mapping[str, float]]] = MappingProxyType(
    {
        "sum": (lambda a, b: a + b, _ALL_SAME),
        "prod": (lambda a, b: a * b, {"f32": 1, "s32": 1, "u32": 1}),
        "max": (maximum, _LEAST),
        "min": (minimum, _MOST),
        "any": (lambda a, b: a | b, {"u32": 0}),
        "all": (lambda a, b: a & b, {"u32": 1}),
        "argmax": (lambda a, b: _first(a, b, b[0] > a[0]), _LEAST),
        "argmin": (lambda a, b: _first(a, b, b[0] < a[0]), _MOST),
    }
)
"""Operations by name: how two values join, and by type the one that changes nothing."""


def _first(a: Any, b: Any, better: Value) -> tuple[Value, Value]:
    """A value with its index: the better one, NaN before all others, the first of equal ones."""
    nan, other_nan = a[0].ne(a[0]), b[0].ne(b[0])
    same = b[0].eq(a[0]) | (nan & other_nan)
    taken = better | (other_nan & a[0].eq(a[0])) | (same & (b[1] < a[1]))
    return where(taken, b[0], a[0]), where(taken, b[1], a[1])


def reduced(
    k: KernelBuilder,
    op: str | Join,
    held: Fragment | Value | tuple[Fragment, ...],
    *,
    lanes: int = instr.WARP,
    name: str = "",
    neutral: Any = None,
    index: Fragment | None = None,
) -> Any:
    """All elements of `lanes` neighbouring lanes joined: one element, the same in each of them.

    `op` is "sum", "prod", "max" or "min" of f32, s32 or u32; "any" or "all" of what is not 0, which is 1 or
    0; "argmax" or "argmin" with the `index` of each element, u32, which gives the value and the first index
    that has it; or a function of two values, or of tuples of them where `held` is several fragments, with the
    `neutral` one.  It has to be associative and commutative.  Of a NaN the extrema are NaN, and the first NaN
    is the first. `lanes` is a power of two up to 32.  Raises UnsupportedError for other elements and numbers
    of lanes, ArgumentTypeError where a function has no neutral value, or an index is missing.
    """
    if lanes < 1 or lanes & (lanes - 1) or lanes > instr.WARP:
        raise UnsupportedError(f"{op} over {lanes} lanes: a power of two up to {instr.WARP} is needed")
    if isinstance(op, str) and op not in JOINS:
        raise UnknownNameError("reduction", op, JOINS)
    if isinstance(held, Value):
        held = k.map(held)
    if op in ("any", "all") and not isinstance(held, tuple):
        held = k.map(held.ne(0))
    several = held if isinstance(held, tuple) else (held,)
    kinds = [f.element.name for f in several]
    if isinstance(op, str):
        join, start = JOINS[op]
        if kinds[0] not in start or len(kinds) > 1:
            raise UnsupportedError(
                f"{op} of {' and '.join(kinds)}: one of {', '.join(start)} is accepted; map narrower values "
                "first"
            )
        name = name or f"{op}_of_{several[0].reg.name}"
        if kinds == ["f32"] and op in instr.NEUTRAL:
            return _folded(k, op, several[0], lanes, name)
        starts: tuple[Any, ...] = (start[kinds[0]],)
        if op.startswith("arg"):
            if index is None or index.element.name != "u32" or index.size != several[0].size:
                raise ArgumentTypeError(
                    f"{op} of {several[0]}: the `index` of each element, of u32, is needed"
                )
            several, starts = (several[0], index), (start[kinds[0]], _MOST["u32"])
    else:
        if neutral is None:
            raise ArgumentTypeError(
                f"a reduction of {several[0]} by a function: its `neutral` value is needed"
            )
        join, name = op, name or f"reduced_{several[0].reg.name}"
        starts = neutral if isinstance(held, tuple) else (neutral,)
    if len({f.size for f in several}) > 1 or len(starts) != len(several):
        raise ShapeError(
            f"{op} of {', '.join(map(str, several))}: as many elements of each, and neutral values"
        )
    state = tuple(k.fragment(name, f.element, (1,)) for f in several)
    for f, value in zip(state, starts, strict=True):
        k.map(value, into=f)
    with k.Unroll(k.fresh("i"), several[0].size) as i:
        _join(k, join, state, tuple(f[i] for f in several))
    others = tuple(k.fragment(f"{name}_other", f.element, (1,)) for f in state)
    for bit in range(lanes.bit_length() - 1):
        for f, other in zip(state, others, strict=True):
            k.do(instr.SHUFFLE_XOR, other, f, 1 << bit)
        _join(k, join, state, others)
    return state if len(state) > 1 else state[0]


def _folded(k: KernelBuilder, op: str, held: Fragment, lanes: int, name: str) -> Fragment:
    """Floats, vector by vector."""
    result = k.fragment(name, "f32", (1,))
    k.do(instr.fill(1), result, Const(instr.NEUTRAL[op]))
    with k.Unroll(k.fresh("i"), held.size // held.vector) as i:
        k.do(instr.fold(op, held.vector, 1), result, held.at(simplify(i * held.vector), values=held.vector))
    for bit in range(lanes.bit_length() - 1):
        k.do(instr.butterfly(op, 1), 1 << bit, result)
    return result


def _join(k: KernelBuilder, join: Join, state: tuple[Fragment, ...], other: tuple[Fragment, ...]) -> None:
    """The state joined with other values; all of it is read before any of it changes."""
    if len(state) == 1:
        k.map(join(state[0], other[0]), into=state[0])
        return
    made: tuple[Arithmetic, ...] = join(state, other)
    new = [k.map(value, name=f"{f.reg.name}_new") for f, value in zip(state, made, strict=True)]
    for f, value in zip(state, new, strict=True):
        k.map(value, into=f)
