"""Derivations of single values: crd2idx, idx2crd, crd2crd, and a layout or a swizzle at a coordinate.

>>> paper = Paper()
>>> explain_value(paper, 0b011010, function=Swizzle(2, 0, 3))
25
>>> print(*(statement for step in paper.steps for statement in step.statements), sep="\\n")
S = Sw<2,0,3>
26 = 0b11010
0b11010 & 0b11000 = 0b11000
0b11000 >> 3 = 0b00011
0b11010 ^ 0b00011 = 0b11001
S(26) = 25
26 >> 3 & 1 = 1
26 >> 0 & 1 = 0
25 >> 0 & 1 = 1
26 >> 4 & 1 = 1
26 >> 1 & 1 = 1
25 >> 1 & 1 = 0
"""

from __future__ import annotations

from typing import Any

from layoutalg.composed import Chain
from layoutalg.derivation import Paper, attempt, notation
from layoutalg.int_tuple import IntTuple, flatten, prefix_product, to_text, weakly_congruent
from layoutalg.layout import Layout
from layoutalg.shapes import crd2crd, crd2idx, idx2crd
from layoutalg.swizzle import AnyLayout, Swizzle, Swizzles


def explain_idx2crd(paper: Paper, index: int, shape: IntTuple) -> Any:
    """Digit by digit, the leftmost leaf first; the last one keeps what is left.

    >>> explain_idx2crd(Paper(), 47, ((2, 4), 8))
    ((1, 3), 5)
    """
    result, _ = attempt(idx2crd, index, shape)
    if result is None:
        paper.step("coordinates count from 0", f"{index} < 0")
        return None
    extents = flatten(shape)
    paper.step(
        "an index runs through the leaves from left to right; each takes its remainder, the last what is left"
    )
    rest = index
    for s in extents[:-1]:
        paper.write(f"{rest} % {s} = {rest % s}", f"{rest} // {s} = {rest // s}")
        rest //= s
    if extents:
        digits = notation(flatten(result))
        paper.step(
            f"the digits {digits}, in the tree of the shape",
            f"idx2crd({index}, {to_text(shape)}) = {notation(result)}",
        )
    return result


def explain_crd2idx(paper: Paper, crd: Any, shape: IntTuple, stride: IntTuple | None = None) -> int | None:
    """The coordinate spelled out to the leaves, then the inner product with the strides.

    >>> explain_crd2idx(Paper(), (7, 5), ((2, 4), 8))
    47
    """
    result: int | None = attempt(crd2idx, crd, shape, stride)[0]
    if stride is None:
        stride = prefix_product(shape)
        paper.step(
            "without strides the leaves are packed from left to right: each stride is the product of the "
            "extents before; extents of 1 get stride 0",
        )
    if result is None:
        _explain_misfit(paper, crd, shape)
        return None
    full = _spelled(paper, crd, shape)
    pairs = list(zip(flatten(full), flatten(stride), strict=True))
    terms = " + ".join(f"{x} * {d}" for x, d in pairs) or "0"
    arguments = ", ".join(map(notation, (full, shape, stride)))
    paper.step("the offset is the sum of digit * stride", f"crd2idx({arguments}) = {terms} = {result}")
    return result


def _explain_misfit(paper: Paper, crd: Any, shape: IntTuple) -> None:
    """Why a coordinate is none of a shape: it has another form, or leaves below 0."""
    fits, _ = attempt(weakly_congruent, crd, shape)
    if not fits:
        paper.step(
            "tuples in a coordinate meet tuples of the same length in the shape",
            f"weakly_congruent({notation(crd)}, {to_text(shape)}) = False",
        )
    elif low := [x for x in flatten(crd) if x < 0]:
        paper.step("coordinates count from 0", f"{low[0]} < 0")


def _spelled(paper: Paper, crd: Any, shape: IntTuple) -> Any:
    """The coordinate with an integer for every leaf, each flat index in it divided up."""
    if isinstance(crd, tuple) and isinstance(shape, tuple):
        return tuple(_spelled(paper, c, s) for c, s in zip(crd, shape, strict=True))
    if isinstance(shape, tuple):
        return explain_idx2crd(paper, crd, shape)
    return crd


def explain_crd2crd(paper: Paper, crd: Any, source: IntTuple, target: IntTuple) -> Any:
    """The flat index of a coordinate in one shape, divided up in another.

    >>> explain_crd2crd(Paper(), (1, 2), (4, 8), 32)
    9
    """
    result, _ = attempt(crd2crd, crd, source, target)
    if isinstance(crd, tuple) and isinstance(source, tuple) and isinstance(target, tuple):
        paper.step("three tuples: each mode is renamed for itself")
        for other in (source, target):
            if len(crd) != len(other):
                paper.write(f"{len(crd)} != {len(other)}")
                return None
        for i, (c, s, t) in enumerate(zip(crd, source, target, strict=True)):
            paper.step(f"mode {i}")
            explain_crd2crd(paper, c, s, t)
        if result is None:
            return None
        arguments = ", ".join(map(notation, (crd, source, target)))
        paper.step("the modes together", f"crd2crd({arguments}) = {notation(result)}")
    else:
        index = explain_crd2idx(paper, crd, source)
        if index is not None:
            explain_idx2crd(paper, index, target)
    return result


def explain_value(paper: Paper, *crd: Any, function: AnyLayout | Swizzle | Chain) -> int | None:
    """A layout at a coordinate, a swizzle at an offset, or both one after the other.

    >>> from layoutalg.swizzle import ComposedLayout
    >>> explain_value(Paper(), 2, 1, function=ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1))))
    11
    """
    if isinstance(function, (Swizzle, Swizzles, tuple)):
        chain = function if isinstance(function, tuple) else Swizzles(function).factors
        return _swizzled(paper, chain, crd[0])
    name = paper.name(function, "A")
    if isinstance(function, Layout):
        whole = crd[0] if len(crd) == 1 else crd
        value = explain_crd2idx(paper, whole, function.shape, function.stride)
        if value is not None:
            paper.step("that is the value of the layout", f"{name}({_arguments(crd)}) = {value}")
        return value
    inner = explain_value(paper, *crd, function=function.inner)
    if inner is None:
        return None
    value = inner + function.offset
    paper.step(f"{name} adds its offset to the value inside", f"{inner} + {function.offset} = {value}")
    if isinstance(function.outer, Layout):
        value = explain_value(paper, value, function=function.outer) or 0
    else:
        value = _swizzled(paper, function.swizzles.factors, value)
    paper.step("that is the value of the composed layout", f"{name}({_arguments(crd)}) = {value}")
    return value


def _arguments(crd: tuple[Any, ...]) -> str:
    return ", ".join(map(notation, crd))


def _swizzled(paper: Paper, chain: tuple[Swizzle, ...], x: int) -> int:
    for swizzle in reversed(chain):
        x = _bit_by_bit(paper, swizzle, x)
    return x


def _bit_by_bit(paper: Paper, swizzle: Swizzle, x: int) -> int:
    """What one swizzle does to an offset: the field that is read, moved, and XORed into the other."""
    name = paper.name(swizzle, "S")
    value: int = swizzle(x)
    if not swizzle.bits:
        paper.step(f"{swizzle} has no bits and moves nothing", f"{name}({x}) = {value}")
        return value
    read, changed = swizzle.yyy_mask, swizzle.zzz_mask
    width = max(x, read, changed).bit_length()

    def binary(n: int) -> str:
        return f"0b{n:0{width}b}"

    low, high = (changed & -changed).bit_length() - 1, (read & -read).bit_length() - 1
    shift = f">> {swizzle.shift}" if swizzle.shift > 0 else f"<< {-swizzle.shift}"
    paper.step(
        f"{swizzle} XORs bits {high}..{high + swizzle.bits - 1} into bits {low}..{low + swizzle.bits - 1}",
        f"{x} = {binary(x)}",
        f"{binary(x)} & {binary(read)} = {binary(x & read)}",
        f"{binary(x & read)} {shift} = {binary(x ^ value)}",
        f"{binary(x)} ^ {binary(x ^ value)} = {binary(value)}",
        f"{name}({x}) = {value}",
    )
    if not swizzle.is_involution:
        less = f"|{swizzle.shift}| < {swizzle.bits}"
        paper.step(f"{less}: the fields overlap, so {swizzle} is not its own inverse")
    flips = [(y, z) for y, z in sorted(swizzle.bit_pairs()) if x >> y & 1]
    shown = ", ".join(f"bit {y} flips bit {z}" for y, z in flips) or "no bit is set in the field that is read"
    paper.step(f"bit by bit: {shown}")
    for y, z in flips:
        paper.write(
            f"{x} >> {y} & 1 = 1", f"{x} >> {z} & 1 = {x >> z & 1}", f"{value} >> {z} & 1 = {value >> z & 1}"
        )
    return value
