"""Permutations as data: a problem as it is stated, and the few modes of its normal form.

The idea.  Moving a tensor is one statement, dst[i] = src[i] for every coordinate i of a shape, with a stride
a mode on either side.  Transposes, permutes, slices, broadcasts and relayouts are all of this form, so a
kernel never needs to know which of them it is.  `normalise` brings a problem into its shortest form:

    (64,1024,16,128) f32, permuted (0,2,1,3)         dst stride   src stride
        16-byte elements:   32 of stride 1 / 1       rows of 128 floats move as 32 vectors
                            1024 : 32 / 512          the two middle modes are exchanged
                            16 : 32768 / 32
                            64 : 524288 / 524288

Modes of extent 1 leave, neighbours that are contiguous on both sides become one (coalesce, on two
layouts at once), modes are sorted by the destination's strides, and elements that stay together become one
wider element.

Two layouts with the same coordinates are a problem too.  Written out over flat coordinates each is a chain of
modes; where one cuts the domain the other is cut too:

    NHWC   (8,16,16,64):(16384,1024,64,1)             n, h, w, c
    NC/32  (8,16,16,(32,2)):(16384,512,32,(1,8192))   channels in groups of 32 outside the image
    both   8, 16, 16, 32, 2                           64 channels were cut into 32 and 2

Layouts whose cuts do not nest (6 = 2 x 3 on one side, 3 x 2 on the other) have no common modes and are
refused.  Their swizzles stay outside: an offset goes through them last.

Notes.  Strides and offsets are in elements and count from a 16-byte boundary, so a base that is not aligned
is an offset.  A source stride of 0 broadcasts; a negative one runs backwards.  The destination may not alias.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy

from layoutalg.codegen.instr import CONVERTED, converted
from layoutalg.compose import NormalForm, find_normal_form
from layoutalg.decide import cosize
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.modes import (
    StridedMode,
    buffer_elems,
    check_written,
    compact_strides,
    lowest,
    normal_form,
    strided,
)
from layoutalg.layout import AnyLayout, Layout, Swizzle, Swizzles, coalesce, flatten_tree, product

WIDTHS_BYTES = (1, 2, 4, 8, 16)
"""Element widths that can be moved."""

STILL = Swizzles()
"""The chain that moves nothing."""


@dataclass(frozen=True, slots=True)
class PermuteProblem:
    """dst[i] = src[i] for all i of `shape`; strides and the offsets of coordinate 0 are in elements.

    `source_elems` and `target_elems` are the lengths of the buffers, from a 16-byte boundary to the last
    element.  Where there are swizzles every offset goes through them, the leftmost last.  `result` is the
    type that elements are converted to, None where they stay as they are.  `order` lists the modes as they
    stand in the source where that is known; equal moves are equal problems whatever it is.

    >>> print(permute_problem((2, 3), (1, 0), "f32"))
    permute (3,2) f32, src (1,3) -> dst (2,1)
    >>> permute_problem((2, 3), (1, 0), "f32", result="f16").moved_bytes
    36
    """

    shape: tuple[int, ...]
    dtype: DType
    src: tuple[int, ...]
    dst: tuple[int, ...]
    src_offset: int
    dst_offset: int
    source_elems: int
    target_elems: int
    src_swizzle: Swizzles = STILL
    dst_swizzle: Swizzles = STILL
    result: DType | None = None
    order: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @property
    def element_bytes(self) -> int:
        """Width of an element of the source."""
        return self.dtype.nbytes

    @property
    def result_bytes(self) -> int:
        """Width of an element of the destination."""
        return (self.result or self.dtype).nbytes

    @property
    def moved_bytes(self) -> int:
        """Bytes read plus bytes written, every element that exists once."""
        read = prod(n for n, s in zip(self.shape, self.src, strict=True) if s)
        return read * self.element_bytes + prod(self.shape) * self.result_bytes

    def __str__(self) -> str:
        shape, src, dst = (f"({','.join(map(str, t))})" for t in (self.shape, self.src, self.dst))
        at = f" at {self.src_offset} -> {self.dst_offset}" if self.src_offset or self.dst_offset else ""
        src, dst = (
            f"{swizzles} o {strides}" if swizzles else strides
            for swizzles, strides in ((self.src_swizzle, src), (self.dst_swizzle, dst))
        )
        types = f"{self.dtype} to {self.result}" if self.result else f"{self.dtype}"
        return f"permute {shape} {types}, src {src} -> dst {dst}{at}"


def permute_problem(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    dtype: str | DType = "f32",
    src: tuple[int, ...] | None = None,
    dst: tuple[int, ...] | None = None,
    src_offset: int = 0,
    dst_offset: int = 0,
    result: str | DType | None = None,
) -> PermuteProblem:
    """dst = src.transpose(axes): mode k of the destination is mode axes[k] of the source, as in NumPy; axes
    below 0 count from the last mode.

    `src` are the strides of the source's modes, `dst` those of the destination's, row-major by default;
    `result` is the type that elements are converted to.  Raises ShapeError where axes are not a permutation
    or sizes do not fit, and as `move_problem` does.

    >>> permute_problem((4, 6), (-1, 0), "u8", dst=(8, 1)).target_elems
    44
    """
    rank, asked = len(shape), tuple(axes)
    axes = tuple(axis + rank if -rank <= axis < 0 else axis for axis in asked)
    if sorted(axes) != list(range(rank)):
        raise ShapeError(f"axes {asked} are not a permutation of 0..{rank - 1}, the modes of {shape}")
    src = compact_strides(shape) if src is None else src
    if len(src) != rank or (dst is not None and len(dst) != rank):
        raise ShapeError(f"strides {src} and {dst} of shape {shape}: every mode needs one stride")
    moved = tuple(shape[a] for a in axes)
    dst = compact_strides(moved) if dst is None else dst
    strides = tuple(src[a] for a in axes)
    problem = move_problem(moved, dtype, strides, dst, src_offset, dst_offset, result=result)
    return replace(problem, order=tuple(map(axes.index, range(rank))))


def move_problem(
    shape: tuple[int, ...],
    dtype: str | DType,
    src: tuple[int, ...],
    dst: tuple[int, ...],
    src_offset: int = 0,
    dst_offset: int = 0,
    src_swizzle: Swizzles = STILL,
    dst_swizzle: Swizzles = STILL,
    elems: tuple[int, int] | None = None,
    result: str | DType | None = None,
) -> PermuteProblem:
    """A checked problem; `elems` are the lengths of both buffers, as far as elements reach by default.

    Swizzles need them, since an offset may move up.  `result` is the type that elements are converted to.
    Raises ShapeError for extents, strides and offsets that make no tensor, UnsupportedError for elements that
    are not 1, 2, 4, 8 or 16 bytes wide and for types that are not converted, NotInjectiveError for a
    destination that aliases.

    >>> move_problem((4, 6), "u8", (0, 1), (6, 1)).moved_bytes
    30
    """
    element = find_dtype(dtype)
    if element.nbytes not in WIDTHS_BYTES:
        raise UnsupportedError(
            f"elements of {element.bits} bits ({element}): 8, 16, 32, 64 and 128 bits are accepted"
        )
    made = None if result is None or find_dtype(result) == element else find_dtype(result)
    for side in (element, made) if made else ():
        if side.name not in CONVERTED:
            raise UnsupportedError(f"conversions of {side}: {', '.join(CONVERTED)} are accepted")
    if not len(shape) == len(src) == len(dst):
        raise ShapeError(f"shape {shape} with strides {src} and {dst}: every mode needs one on either side")
    if any(n < 1 for n in shape):
        raise ShapeError(f"shape {shape}: extents must be positive")
    reach = (
        buffer_elems("source", shape, src, src_offset),
        buffer_elems("destination", shape, dst, dst_offset),
    )
    if elems is None and (src_swizzle or dst_swizzle):
        raise ShapeError("a swizzled side moves offsets up: the lengths of both buffers are needed")
    check_written("a permutation", shape, dst)
    return PermuteProblem(
        tuple(shape),
        element,
        tuple(src),
        tuple(dst),
        src_offset,
        dst_offset,
        *(reach if elems is None else elems),
        src_swizzle,
        dst_swizzle,
        made,
    )


def relayout_problem(
    src: AnyLayout,
    dst: AnyLayout,
    dtype: str | DType,
    elems: tuple[int, int] | None = None,
    result: str | DType | None = None,
) -> PermuteProblem:
    """dst_buffer[dst(i)] = src_buffer[src(i)] for every coordinate i of both layouts.

    `elems` are the lengths of the buffers, the layouts' cosizes by default; `result` is the type that
    elements are converted to.  Raises ShapeError where the
    domains or buffers do not fit, UnsupportedError where the layouts have no common modes or are composed of
    more than swizzles and strides, and as `move_problem` does.

    >>> nhwc = Layout((4, 8, 64), (512, 64, 1))
    >>> print(relayout_problem(nhwc, Layout((4, 8, (32, 2)), (512, 32, (1, 256))), "u8"))
    permute (4,8,32,2) u8, src (512,64,1,32) -> dst (512,32,1,256)
    """
    (of, src_offset, from_plain), (to, dst_offset, to_plain) = _strided(src), _strided(dst)
    if product(from_plain.shape) != product(to_plain.shape):
        raise ShapeError(
            f"relayout from {src} to {dst}: their domains have {product(from_plain.shape)} and "
            f"{product(to_plain.shape)} coordinates; both layouts need the same"
        )
    reach = cosize(src), cosize(dst)
    elems = reach if elems is None else elems
    for name, layout, needed, given in zip(("source", "destination"), (src, dst), reach, elems, strict=True):
        if given < needed:
            raise ShapeError(f"the {name} layout {layout} needs {needed} elements; its buffer has {given}")
    shape, src_strides, dst_strides = common_modes(from_plain, to_plain)
    offsets = src_offset, dst_offset
    return move_problem(shape, dtype, src_strides, dst_strides, *offsets, of, to, elems, result)


def _strided(layout: AnyLayout) -> NormalForm:
    """The swizzles, the offset and the strided layout that a layout is composed of."""
    form = find_normal_form(layout)
    if form is None:
        raise UnsupportedError(f"{layout} is composed of layouts; swizzles over one strided layout move")
    if any(d < 0 for d in flatten_tree(form.layout.stride)):
        raise UnsupportedError(f"{layout} has a negative stride; relayout counts from the start of a buffer")
    return form


def common_modes(a: Layout, b: Layout) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(shape, strides of a, strides of b) of the coarsest modes on which both are strided.

    Raises UnsupportedError where the cuts of one do not divide those of the other.

    >>> common_modes(Layout((4, 6), (6, 1)), Layout((2, 12), (12, 1)))
    ((2, 2, 6), (6, 12, 1), (12, 1, 2))
    >>> common_modes(Layout((2, 3)), Layout((3, 2), (2, 1)))
    ((3, 2), (1, 3), (2, 1))
    """
    shape: list[int] = []
    strides: tuple[list[int], list[int]] = ([], [])
    whole = [coalesce(x) for x in (a, b)]  # contiguous neighbours are one mode
    queues = [list(zip(flatten_tree(x.shape), flatten_tree(x.stride), strict=True)) for x in whole]
    queues = [[(n, d) for n, d in q if n > 1][::-1] for q in queues]
    while queues[0] and queues[1]:
        (n, s), (m, d) = queues[0].pop(), queues[1].pop()
        step = min(n, m)
        if max(n, m) % step:
            raise UnsupportedError(
                f"{a} and {b} have no common modes: after {shape} the one continues with {n}, the other "
                f"with {m} coordinates, and neither divides the other"
            )
        shape.append(step)
        strides[0].append(s)
        strides[1].append(d)
        if n > step:
            queues[0].append((n // step, s * step))
        if m > step:
            queues[1].append((m // step, d * step))
    return tuple(shape), tuple(strides[0]), tuple(strides[1])


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of the normal form: its extent and its strides, in elements.  `dst` is positive.

    `src` may be negative: the source runs backwards.
    """

    extent: int
    src: int
    dst: int


@dataclass(frozen=True, slots=True)
class Moves:
    """A problem in its shortest form: modes by destination stride, offsets of the lowest elements.

    `src_elems` and `dst_elems` are the lengths of the buffers.  `cast` are the types of source and
    destination where elements are converted; only what is not is put together to wider elements.

    >>> normalise(permute_problem((64, 128), (0, 1), "f32")).modes
    (Mode(extent=2048, src=1, dst=1),)
    """

    element_bytes: int
    modes: tuple[Mode, ...]
    src_offset: int
    dst_offset: int
    src_elems: int
    dst_elems: int
    src_swizzle: Swizzles = STILL
    dst_swizzle: Swizzles = STILL
    cast: tuple[DType, DType] | None = None

    @property
    def result_bytes(self) -> int:
        """Width of an element of the destination."""
        return self.cast[1].nbytes if self.cast else self.element_bytes

    @property
    def rank(self) -> int:
        """Number of modes."""
        return len(self.modes)

    def __str__(self) -> str:
        modes = ", ".join(f"{m.extent}:{m.src}->{m.dst}" for m in self.modes)
        elements = "{} to {}".format(*self.cast) if self.cast else f"{self.element_bytes}-byte elements"
        return f"{elements}, {modes}"


def normalise(p: PermuteProblem) -> Moves:
    """The shortest form of a problem: the same bytes move, by fewer modes and wider elements.

    A u8 and the s8 that it becomes are the same bits, which move.

    >>> print(normalise(permute_problem((64, 1024, 16, 128), (0, 2, 1, 3), "f32")))
    16-byte elements, 32:1->1, 1024:512->32, 16:32->32768, 64:524288->524288
    >>> print(normalise(permute_problem((128, 224, 224, 3), (0, 3, 1, 2), "f16")))
    2-byte elements, 50176:3->1, 3:1->50176, 128:150528->150528
    """
    sides = zip(p.shape, zip(p.src, p.dst, strict=True), strict=True)
    modes = (Mode(m.extent, *m.strides) for m in normal_form((StridedMode(*side) for side in sides), lead=1))
    moves = Moves(
        p.element_bytes, tuple(modes) or (Mode(1, 1, 1),), lowest(p.shape, p.src, p.src_offset),
        lowest(p.shape, p.dst, p.dst_offset), p.source_elems, p.target_elems, p.src_swizzle, p.dst_swizzle,
        (p.dtype, p.result) if p.result and {p.dtype.name, p.result.name} != {"u8", "s8"} else None,
    )  # fmt: skip
    while (wider := _widened(moves)) is not None:
        moves = wider
    return moves


def _widened(x: Moves) -> Moves | None:
    """The same moves with elements twice as wide, where pairs of elements stay together on both sides."""
    first, *rest = x.modes
    strides = [s for m in rest for s in (m.src, m.dst)]
    whole = not any(v % 2 for v in (first.extent, x.src_offset, x.dst_offset, *strides))
    if any(s.bits and s.base == 0 for s in (*x.src_swizzle, *x.dst_swizzle)):
        return None
    if x.cast or x.element_bytes == 16 or first.src != 1 or first.dst != 1 or not whole:
        return None
    halves = [Mode(m.extent, m.src // 2, m.dst // 2) for m in rest]
    if first.extent > 2 or not halves:
        halves.insert(0, Mode(first.extent // 2, 1, 1))
    src_swizzle, dst_swizzle = (
        Swizzles(*(Swizzle(s.bits, max(0, s.base - 1), s.shift) for s in side))
        for side in (x.src_swizzle, x.dst_swizzle)
    )
    return Moves(
        2 * x.element_bytes, tuple(halves), x.src_offset // 2, x.dst_offset // 2, -(-x.src_elems // 2),
        -(-x.dst_elems // 2), src_swizzle, dst_swizzle,
    )  # fmt: skip


def reference(p: PermuteProblem, src: Any, old: Any) -> Any:
    """The destination buffer that results, by definition: `old` with every element moved into it.

    Elements that are converted are words of their type's width in both buffers.

    >>> import numpy
    >>> reference(permute_problem((2, 3), (1, 0), "u8"), numpy.arange(6), numpy.zeros(6)).tolist()
    [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    """
    result = old.copy()
    if p.result:
        src = converted(src, p.dtype.name, p.result.name)
    if p.src_swizzle or p.dst_swizzle:
        crd = numpy.indices(p.shape, sparse=True)
        to, of = (
            swizzles(sum((i * d for i, d in zip(crd, strides, strict=True)), offset))
            for strides, offset, swizzles in (
                (p.dst, p.dst_offset, p.dst_swizzle), (p.src, p.src_offset, p.src_swizzle)
            )
        )  # fmt: skip
        result[to] = src[of]
    else:
        strided(result, p.shape, p.dst, p.dst_offset)[...] = strided(src, p.shape, p.src, p.src_offset)
    return result
