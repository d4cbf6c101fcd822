"""Tensors some of whose modes are reduced, and their normal form.

    axes_problem(shape, axes, dtype)                   checked: strides, offsets, what is written
    normalise(axes_problem(shape, axes, dtype))        the few modes that are left of it

The normal form.  Every mode is reduced or kept, with a stride in the source, one in the destination if that
has the mode, and one in weight and bias: `modes.normal_form` of these sides, led by the source.

    (64,256,56,56) over (0,2,3)        R 3136 : 1              images of 56 x 56 are one run
                                       K 256 : 3136 -> 1       channels
                                       R 64 : 802816           batch
    (32,1024,1024) over (1,)           K 1024 : 1 -> 1,  R 1024 : 1024,  K 32 : 1048576 -> 1024

If the first mode has stride 1 the source is read in vectors: along what is reduced ("rows") or across it
("columns").

Notes.  Strides and offsets are in elements and count from a 16-byte boundary, so a base that is not aligned
is an offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, shown
from layoutalg.kernels.modes import (
    StridedMode,
    buffer_elems,
    check_written,
    compact_strides,
    lowest,
    normal_form,
)

MOST_RANK = 8
"""The most modes of a problem."""

ELEMENTS = ("f32", "f16", "bf16")
"""Element types that can be computed with."""


# --- tensors with reduced modes ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AxesProblem:
    """A tensor of `shape` whose modes `axes` are reduced; strides and offsets are in elements.

    `dst` has a stride for every mode; `keeps` says that the destination has the reduced modes too, as that
    of a softmax has; those of a sum count for nothing and are 0.  `source_elems` and `target_elems` are the
    lengths of the buffers, from a 16-byte boundary to the last element.

    >>> print(axes_problem((2, 3), (1,), "f32"))
    (2,3) over (1) f32, src (3,1) -> dst (1,0)
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    dtype: DType
    src: tuple[int, ...]
    dst: tuple[int, ...]
    src_offset: int
    dst_offset: int
    source_elems: int
    target_elems: int
    keeps: bool

    @property
    def kept_shape(self) -> tuple[int, ...]:
        """Extents of the modes that are not reduced."""
        return tuple(n for k, n in enumerate(self.shape) if k not in self.axes)

    @property
    def outputs(self) -> int:
        """Number of groups of elements that are reduced together."""
        return prod(self.kept_shape)

    @property
    def count(self) -> int:
        """Elements of each group."""
        return prod(self.shape[k] for k in self.axes)

    @property
    def read_elems(self) -> int:
        """Elements of the source that exist once."""
        return prod(n for n, s in zip(self.shape, self.src, strict=True) if s)

    def __str__(self) -> str:
        shape, axes, src, dst = (
            f"({','.join(map(str, t))})" for t in (self.shape, self.axes, self.src, self.dst)
        )
        at = f" at {self.src_offset} -> {self.dst_offset}" if self.src_offset or self.dst_offset else ""
        return f"{shape} over {axes} {self.dtype}, src {src} -> dst {dst}{at}"


def find_axes(axes: int | Iterable[int] | None, rank: int) -> tuple[int, ...]:
    """Return the requested axes in order and counted from 0: one, several, or None for all.

    Negative ones count from the last mode.  Raises ShapeError for what is not an axis, or named twice.

    >>> find_axes(-1, 3), find_axes((2, 0), 3), find_axes(None, 2)
    ((2,), (0, 2), (0, 1))
    """
    if axes is None:
        return tuple(range(rank))
    asked = (axes,) if isinstance(axes, int) else tuple(axes)
    for a in asked:
        if not isinstance(a, int) or isinstance(a, bool) or not -rank <= a < rank:
            accepted = f"{-rank} to {rank - 1} are accepted" if rank else "it has no axes"
            raise ShapeError(f"axis {shown(a)} of a tensor with {rank} modes: {accepted}")
    found = tuple(sorted(a % rank for a in asked))
    if len(set(found)) < len(found):
        raise ShapeError(f"axes {asked} of a tensor with {rank} modes name one mode twice")
    return found


def axes_problem(
    shape: tuple[int, ...],
    axes: int | Iterable[int] | None,
    dtype: str | DType,
    src: tuple[int, ...] | None = None,
    dst: tuple[int, ...] | None = None,
    src_offset: int = 0,
    dst_offset: int = 0,
    *,
    keeps: bool = False,
) -> AxesProblem:
    """A checked problem; strides, one per mode on either side, are row-major by default.

    The strides in `dst` of modes that the destination does not have count for nothing.  Raises ShapeError
    for axes, extents, strides and offsets that make no tensor, NotInjectiveError for a destination that
    aliases, UnknownNameError for a dtype that does not exist.

    >>> axes_problem((4, 6), 0, "f16").dst, axes_problem((4, 6), 0, "f16", keeps=True).dst
    ((0, 1), (6, 1))
    """
    shape, rank = tuple(shape), len(shape)
    if rank > MOST_RANK:
        raise ShapeError(f"shape {shape} has {rank} modes; at most {MOST_RANK} are accepted")
    if any(n < 0 for n in shape):
        raise ShapeError(f"shape {shape}: extents must not be negative")
    reduced = find_axes(axes, rank)
    written = tuple(n if keeps or k not in reduced else 1 for k, n in enumerate(shape))
    src = _dense(shape) if src is None else tuple(src)
    dst = _dense(written) if dst is None else dst
    if not rank == len(src) == len(dst):
        raise ShapeError(f"shape {shape} with strides {src} and {dst}: every mode needs one on either side")
    dst = tuple(d if keeps or k not in reduced else 0 for k, d in enumerate(dst))
    check_written("", written, dst)
    sides = (("source", shape, src, src_offset), ("destination", written, dst, dst_offset))
    read, made = (buffer_elems(*side) if prod(side[1]) else side[-1] + 1 for side in sides)
    return AxesProblem(
        shape, reduced, find_dtype(dtype), src, dst, src_offset, dst_offset, read, made, keeps
    )  # fmt: skip


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, 0 for modes of extent 1."""
    return tuple(d if n != 1 else 0 for n, d in zip(shape, compact_strides(shape), strict=True))


# --- the normal form -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of the normal form: its extent, its strides in elements, and whether it is reduced.

    In a form for any number of rows the extent of its last kept mode is a parameter, see `forms.with_rows`.
    `src` is >= 0.  `dst` and `weight` may be negative: the buffer runs backwards.  They are 0 in modes that
    the destination or the weight does not have.
    """

    extent: int
    src: int
    dst: int
    reduced: bool
    weight: int = 0

    def __str__(self) -> str:
        to = f"->{self.dst}" if self.dst or not self.reduced else ""
        weight = f" w{self.weight}" if self.weight else ""
        return f"{'R' if self.reduced else 'K'} {self.extent}:{self.src}{to}{weight}"


@dataclass(frozen=True, slots=True)
class Form:
    """The normal form of a problem: modes by source stride, and the offsets of the lowest elements."""

    modes: tuple[Mode, ...]
    src_offset: int
    dst_offset: int

    @property
    def lead(self) -> Mode:
        """The first mode; one of a single reduced element where none is left."""
        return self.modes[0] if self.modes else Mode(1, 1, 1, reduced=True, weight=1)

    @property
    def kept(self) -> tuple[Mode, ...]:
        """The modes that are not reduced, by source stride."""
        return tuple(m for m in self.modes if not m.reduced)

    @property
    def reduced(self) -> tuple[Mode, ...]:
        """The modes that are reduced, by source stride."""
        return tuple(m for m in self.modes if m.reduced)

    @property
    def outputs(self) -> int:
        """Number of groups of elements that are reduced together."""
        return prod(m.extent for m in self.kept)

    @property
    def count(self) -> int:
        """Elements of each group."""
        return prod(m.extent for m in self.reduced)

    @property
    def dst_start(self) -> int:
        """The place of coordinate 0 in the destination; in the source, that is `src_offset`."""
        return self.dst_offset + sum((m.extent - 1) * -m.dst for m in self.modes if m.dst < 0)

    def __str__(self) -> str:
        return ", ".join(map(str, self.modes)) or "one element"


def normalise(p: AxesProblem, *, weighted: bool = False) -> Form:
    """The normal form of a problem: the same elements in the same groups, by fewer modes.

    `weighted`: beside the source and the destination there is a buffer of the reduced modes, row-major.

    >>> print(normalise(axes_problem((32, 1024, 1024), 1, "f32")))
    K 1024:1->1, R 1024:1024, K 32:1048576->1024
    >>> print(normalise(axes_problem((8, 100), 1, "f32", src=(100, -1), src_offset=99)))
    R 100:1, K 8:100->1
    """
    inner = compact_strides(tuple(p.shape[k] for k in p.axes))
    weights = dict(zip(p.axes, inner, strict=True)) if weighted else {}
    modes = (
        Mode(n, s, d, k in p.axes, weights.get(k, 0))
        for k, (n, s, d) in enumerate(zip(p.shape, p.src, p.dst, strict=True))
    )
    low = (lowest(p.shape, *side) for side in ((p.src, p.src_offset), (p.dst, p.dst_offset)))
    return Form(fewest(modes), *low)


def fewest(modes: Iterable[Mode]) -> tuple[Mode, ...]:
    """The fewest modes that step through the same places, by source stride; see `modes.normal_form`."""
    sides = (StridedMode(m.extent, (m.src, m.dst, m.weight), m.reduced) for m in modes)
    return tuple(
        Mode(m.extent, m.strides[0], m.strides[1], bool(m.kind), m.strides[2]) for m in normal_form(sides)
    )
