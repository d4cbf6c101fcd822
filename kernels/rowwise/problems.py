"""What is asked: a tensor of which some modes are reduced, what is made of it, and its normal form.

    reduce_problem(shape, axes, "sum", dtype)          sum, max, mean
    norm_problem("softmax", shape, axes, dtype)        softmax, layer norm, rms norm
    normalise(axes_problem(shape, axes, dtype))        the few modes that are left of it

Both check what is asked once; `reduced` and `normed` are what they mean, in float64.  Elements are f32, f16
or bf16, and all that is computed between is a float.

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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import nan, prod
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar

from layoutalg.decide import find_collision
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import (
    ArgumentTypeError,
    NotInjectiveError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
    shown,
)
from layoutalg.kernels.modes import StridedMode, buffer_elems, compact_strides, lowest, normal_form
from layoutalg.layout import Layout

MOST_RANK = 8
"""Modes that a problem may have."""

ELEMENTS = ("f32", "f16", "bf16")
"""Element types that can be computed with."""

FOLD = MappingProxyType({"sum": "sum", "mean": "sum", "max": "max"})
"""What each reduction folds its elements with."""

PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"softmax": (), "layer_norm": ("weight", "bias"), "rms_norm": ("weight",)}
)
"""The norms by name, and the parameters that each has."""

OPS = tuple(PARAMETERS)
"""The norms."""

MOST_EPS = (2.0 - 2.0**-23) * 2.0**127
"""The largest eps: statistics are floats of 32 bits."""


# --- tensors with reduced modes ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AxesProblem:
    """A tensor of `shape`, of which the modes `axes` are reduced; strides and offsets are in elements.

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
    """Axes as they are asked for, in order and counted from 0: one, several, or None for all.

    Negative ones count from the last mode.  Raises ShapeError for what is not an axis, or named twice.

    >>> find_axes(-1, 3), find_axes((2, 0), 3), find_axes(None, 2)
    ((2,), (0, 2), (0, 1))
    """
    if axes is None:
        return tuple(range(rank))
    asked = (axes,) if isinstance(axes, int) else tuple(axes)
    for a in asked:
        if not isinstance(a, int) or isinstance(a, bool) or not -rank <= a < rank:
            raise ShapeError(
                f"axis {shown(a)} of a tensor with {rank} modes: {-rank} to {rank - 1} are accepted"
            )
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
    _check_written(written, dst)
    sides = (("source", shape, src, src_offset), ("destination", written, dst, dst_offset))
    read, made = (buffer_elems(*side) if prod(side[1]) else side[-1] + 1 for side in sides)
    return AxesProblem(
        shape, reduced, find_dtype(dtype), src, dst, src_offset, dst_offset, read, made, keeps
    )  # fmt: skip


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, 0 for modes of extent 1."""
    return tuple(d if n != 1 else 0 for n, d in zip(shape, compact_strides(shape), strict=True))


def _check_written(shape: tuple[int, ...], dst: tuple[int, ...]) -> None:
    """Raise NotInjectiveError for a destination that has one place for two coordinates."""
    written = [(n, abs(d)) for n, d in zip(shape, dst, strict=True) if n != 1]
    if not written or any(n == 0 for n, _ in written):
        return
    target = Layout(*zip(*written, strict=True))
    if clash := find_collision(target):
        said = f"the destination {target} has one place for two coordinates, {clash[0]} and {clash[1]}"
        raise NotInjectiveError(said, layout=target, a=clash[0], b=clash[1])


# --- the normal form -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode that is left: its extent, its strides in elements, and whether it is reduced.

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
        """Where coordinate 0 lies in the destination; in the source, that is `src_offset`."""
        return self.dst_offset + sum((m.extent - 1) * max(-m.dst, 0) for m in self.modes)

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


# --- reductions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReduceProblem:
    """`op` over some modes of a tensor, the outputs of type `result`.

    >>> print(reduce_problem((2, 3), 1, "sum", "f16"))
    sum of (2,3) over (1) f16, src (3,1) -> dst (1,0)
    """

    op: str
    axes: AxesProblem
    result: DType

    in_place: ClassVar[bool] = False
    parameters: ClassVar[Mapping[str, int]] = MappingProxyType({})

    @property
    def dtype(self) -> DType:
        """Type of the elements of the source."""
        return self.axes.dtype

    @property
    def empty(self) -> bool:
        """True when nothing is read: no outputs, or outputs of nothing."""
        return self.axes.count * self.axes.outputs == 0

    @property
    def of_nothing(self) -> float | None:
        """What every output is if no element is reduced: 0 for a sum, NaN for a mean.

        None if some are, and if there are no outputs: then a maximum has no element either.
        """
        return None if self.axes.count or not self.axes.outputs else {"sum": 0.0, "mean": nan}[self.op]

    @property
    def read_bytes(self) -> int:
        """Bytes of the source that exist once."""
        return self.axes.read_elems * self.dtype.nbytes

    @property
    def written_bytes(self) -> int:
        """Bytes of the outputs."""
        return self.axes.outputs * self.result.nbytes

    @property
    def moved_bytes(self) -> int:
        """Bytes that must be read and written."""
        return self.read_bytes + self.written_bytes

    def __str__(self) -> str:
        return f"{self.op} of {self.axes}"


def reduce_problem(
    shape: tuple[int, ...],
    axes: int | tuple[int, ...] | None,
    op: str,
    dtype: str | DType,
    src: tuple[int, ...] | None = None,
    dst: tuple[int, ...] | None = None,
    src_offset: int = 0,
    dst_offset: int = 0,
    result: str | DType | None = None,
) -> ReduceProblem:
    """A checked problem: the "sum", "max" or "mean" over `axes` (None: all), as type `result`.

    Strides, one for every mode of `shape` on either side, are in elements, row-major by default; those in
    `dst` of reduced modes count for nothing.  `result` is the source's type by default, or f32.  Raises
    UnknownNameError for another operation, UnsupportedError for other types, ShapeError for a maximum of
    nothing, and as `axes_problem` does.

    >>> reduce_problem((4, 0), 1, "sum", "f32").of_nothing
    0.0
    """
    if op not in FOLD:
        raise UnknownNameError("reduction", str(op), FOLD)
    p = axes_problem(shape, axes, dtype, src, dst, src_offset, dst_offset)
    to = p.dtype if result is None else find_dtype(result)
    for what, kind in (("elements", p.dtype), ("results", to)):
        if kind.name not in ELEMENTS:
            raise UnsupportedError(f"{op} with {what} of {kind}: {', '.join(ELEMENTS)} are accepted")
    if to.name not in (p.dtype.name, "f32"):
        raise UnsupportedError(f"{op} of {p.dtype} as {to}: {p.dtype} and f32 are accepted")
    if op == "max" and not p.count and p.outputs:
        raise ShapeError(f"the maximum over {p.axes} of shape {p.shape} is that of no elements: it has none")
    return ReduceProblem(op, p, to)


def reduced(p: ReduceProblem, src: Any) -> Any:
    """The outputs by definition, float64 of the kept modes' shape: `src` holds numbers, not bits.

    >>> import numpy
    >>> reduced(reduce_problem((2, 3), 1, "mean", "f32"), numpy.arange(6.0)).tolist()
    [1.0, 4.0]
    """
    import numpy

    x = p.axes
    steps = tuple(d * src.itemsize for d in x.src)
    view = numpy.lib.stride_tricks.as_strided(src[x.src_offset :], x.shape, steps).astype("f8")
    with numpy.errstate(all="ignore"):
        return numpy.asarray(getattr(view, p.op)(axis=x.axes))


# --- norms ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NormProblem:
    """A norm of `axes.shape` over `axes.axes`; see `norm_problem`.

    >>> print(norm_problem("softmax", (64, 1000), 1, "f16"))
    softmax (64,1000) over (1) f16, src (1000,1) -> dst (1000,1)
    """

    op: str
    axes: AxesProblem
    eps: float = 0.0
    weight: bool = False
    bias: bool = False
    in_place: bool = False
    weight_offset: int = 0
    bias_offset: int = 0

    @property
    def parameters(self) -> dict[str, int]:
        """The weight and bias that there are, by name, and the offset of each."""
        given = {"weight": (self.weight, self.weight_offset), "bias": (self.bias, self.bias_offset)}
        return {name: offset for name, (there, offset) in given.items() if there}

    @property
    def dtype(self) -> DType:
        """Type of the elements of source, destination, weight and bias."""
        return self.axes.dtype

    @property
    def result(self) -> DType:
        """Type of the results, that of the elements."""
        return self.axes.dtype

    @property
    def moved_bytes(self) -> int:
        """Bytes that must be read and written."""
        return (self.axes.read_elems + prod(self.axes.shape)) * self.dtype.nbytes

    def __str__(self) -> str:
        extra = [f"{name} at {at}" if at else name for name, at in self.parameters.items()]
        extra += ["in_place"] * self.in_place
        return f"{self.op} {self.axes}" + (f", {' and '.join(extra)}" if extra else "")


def norm_problem(
    op: str,
    shape: tuple[int, ...],
    axes: int | Iterable[int] | None,
    dtype: str | DType,
    src: tuple[int, ...] | None = None,
    dst: tuple[int, ...] | None = None,
    src_offset: int = 0,
    dst_offset: int = 0,
    *,
    eps: float = 1e-5,
    weight: bool = False,
    bias: bool = False,
    in_place: bool = False,
    weight_offset: int = 0,
    bias_offset: int = 0,
) -> NormProblem:
    """A checked problem: softmax = e^x / sum e^x, layer_norm = (x - mean) / sqrt(variance + eps) * w + b,
    rms_norm = x / sqrt(mean x^2 + eps) * w.

    Strides, one a mode on either side, are row-major by default.  Weight and bias have the shape of the
    reduced modes, in their order, row-major, and start at an offset too.  In place, the destination is the
    source.

    Raises UnknownNameError for another operation, UnsupportedError for elements that are not f32, f16 or
    bf16 and for parameters that the norm does not have, ArgumentTypeError where eps is not a number,
    ShapeError where in place the strides differ, where eps is not from 0 to MOST_EPS or an offset is
    negative, and as `axes_problem` does.

    >>> norm_problem("layer_norm", (8, 16), 1, "f32", weight=True).axes.count
    16
    """
    if op not in OPS:
        raise UnknownNameError("norm", str(op), OPS)
    eps = checked_eps(op, eps)
    if op == "softmax" and (weight or bias):
        raise UnsupportedError("a softmax has no weight and no bias; layer_norm accepts both")
    if bias and "bias" not in PARAMETERS[op]:
        raise UnsupportedError(f"{op} has no bias; layer_norm accepts one")
    if min(weight_offset, bias_offset) < 0:
        raise ShapeError(
            f"offsets {weight_offset} and {bias_offset} of weight and bias: must not be negative"
        )
    if in_place and dst is None:
        dst, dst_offset = src, src_offset
    p = axes_problem(shape, axes, dtype, src, dst, src_offset, dst_offset, keeps=True)
    if p.dtype.name not in ELEMENTS:
        raise UnsupportedError(f"{op} of {p.dtype} elements: {', '.join(ELEMENTS)} are accepted")
    if in_place and (p.src, p.src_offset) != (p.dst, p.dst_offset):
        raise ShapeError(
            f"{op} of {p.shape} in place: the strides {p.src} at {p.src_offset} of the source and {p.dst} at "
            f"{p.dst_offset} of the destination must be the same"
        )
    eps = eps if PARAMETERS[op] else 0.0
    return NormProblem(op, p, eps, weight, bias, in_place, weight_offset, bias_offset)


def checked_eps(op: str, eps: object) -> float:
    """`eps` as a float.  Raises ArgumentTypeError, and ShapeError past 0 to MOST_EPS and for NaN.

    >>> checked_eps("layer_norm", 1)
    1.0
    """
    if isinstance(eps, bool) or not isinstance(eps, Real):
        raise ArgumentTypeError(f"eps of {op} is {shown(eps)}: a number is needed")
    number: Any = eps
    if not 0 <= number <= MOST_EPS:
        raise ShapeError(f"eps of {op} is {shown(eps)}: a number from 0 to {MOST_EPS:.8g} is needed")
    return float(number)


def normed(p: NormProblem, x: Any, weight: Any = None, bias: Any = None) -> Any:
    """The result in float64, by definition: `x` of the problem's shape, weight and bias of the reduced shape.

    >>> import numpy
    >>> normed(norm_problem("softmax", (2,), 0, "f32"), numpy.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    import numpy

    x, axes = numpy.asarray(x, dtype=numpy.float64), p.axes.axes
    with numpy.errstate(all="ignore"):
        if p.op == "softmax":
            e = numpy.exp(x - x.max(axis=axes, keepdims=True, initial=-numpy.inf))
            return e / e.sum(axis=axes, keepdims=True)
        centred = x - x.mean(axis=axes, keepdims=True) if p.op == "layer_norm" else x
        y = centred / numpy.sqrt((centred**2).mean(axis=axes, keepdims=True) + p.eps)
    wide = tuple(n if k in axes else 1 for k, n in enumerate(p.axes.shape))
    y = y * numpy.asarray(weight, dtype=numpy.float64).reshape(wide) if p.weight else y
    return y + numpy.asarray(bias, dtype=numpy.float64).reshape(wide) if p.bias else y
