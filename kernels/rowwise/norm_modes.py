"""Softmax and layer norm as data: a problem as it is asked, and the few modes that are left of it.

The idea.  Both divide a tensor's modes into reduced ones, over which statistics are made, and kept ones; each
element is read, and written to the same coordinate.  So a mode has a stride on either side, and, if the norm
has a weight or a bias, one in those too.  `shortest` leaves as few modes as possible, sorted by the source's
strides; reduced rows shorter than a sector come after the mode that follows them:

    layer norm of (32,1024,1024) over (2,), weighted     R 1024:1->1 w1, K 32768:1024->1024
    softmax of (64,256,56,56) over (0,2,3)               R 3136:1->1, K 256:3136->3136, R 64:802816->802816

Notes.  Strides and offsets are in elements and count from a 16-byte boundary.  A source that runs backwards
is turned round and the other strides with it, which may then be negative: such a mode starts at its end, and
coordinate 0 of the destination, `dst_start`, is not its lowest element.  In place means that the destination
is the source: one buffer, the same strides and offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, ShapeError, UnknownNameError, UnsupportedError, shown
from layoutalg.kernels.rowwise.reduce_modes import AxesProblem, axes_problem, compact_strides

Op: TypeAlias = Literal["softmax", "layer_norm"]

SECTOR_BYTES = 32

OPS = ("softmax", "layer_norm")
"""What can be asked for."""

ELEMENTS = MappingProxyType({"f32": 4, "f16": 2, "bf16": 2})
"""Element types and their widths in bytes; statistics are floats of 32 bits for all of them."""


MOST_EPS = (2.0 - 2.0**-23) * 2.0**127
"""The largest eps: statistics are kept in f32."""


@dataclass(frozen=True, slots=True)
class NormProblem:
    """A softmax or layer norm of `axes.shape` over `axes.axes`; see `norm_problem`.

    >>> print(norm_problem("softmax", (64, 1000), 1, "f16"))
    softmax (64,1000) over (1) f16, src (1000,1) -> dst (1000,1)
    """

    op: Op
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
    def moved_bytes(self) -> int:
        """Bytes that must be read and written: every element of the source that exists, and all results."""
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
    """A checked problem: softmax = e^x / sum e^x, layer_norm = (x - mean) / sqrt(variance + eps) * w + b.

    Strides, one a mode on either side, are row-major by default.  Weight and bias have the shape of the
    reduced modes, in their order, row-major, and start at an offset too.  In place, the destination is the
    source.

    Raises UnknownNameError for another operation, UnsupportedError for elements that are not f32, f16 or
    bf16 and for a softmax with weight or bias, ArgumentTypeError where eps is not a number, ShapeError where
    in place the strides differ, where eps is not from 0 to MOST_EPS or an offset is negative, and as
    `axes_problem` does.

    >>> norm_problem("layer_norm", (8, 16), 1, "f32", weight=True).axes.count
    16
    """
    if op not in OPS:
        raise UnknownNameError("norm", str(op), OPS)
    eps = checked_eps(op, eps)
    if op == "softmax" and (weight or bias):
        raise UnsupportedError("a softmax has no weight and no bias; layer_norm accepts both")
    if min(weight_offset, bias_offset) < 0:
        raise ShapeError(
            f"offsets {weight_offset} and {bias_offset} of weight and bias: must not be negative"
        )
    if in_place and dst is None:
        dst, dst_offset = src, src_offset
    p = axes_problem(shape, axes, dtype, src, dst, src_offset, dst_offset, keeps=True)
    if str(p.dtype) not in ELEMENTS:
        raise UnsupportedError(f"{op} of {p.dtype} elements: {', '.join(ELEMENTS)} are accepted")
    if in_place and (p.src, p.src_offset) != (p.dst, p.dst_offset):
        raise ShapeError(
            f"{op} of {p.shape} in place: the strides {p.src} at {p.src_offset} of the source and {p.dst} at "
            f"{p.dst_offset} of the destination must be the same"
        )
    norm: Op = "softmax" if op == "softmax" else "layer_norm"
    eps = eps if norm == "layer_norm" else 0.0
    return NormProblem(norm, p, eps, weight, bias, in_place, weight_offset, bias_offset)


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


@dataclass(frozen=True, slots=True)
class NormMode:
    """One mode that is left: its extent, its strides in elements, and whether it is reduced.

    `src` is >= 0.  `dst` and `weight` may be negative; `weight` is 0 where there is none.
    """

    extent: int
    src: int
    dst: int
    weight: int
    reduced: bool

    def __str__(self) -> str:
        weight = f" w{self.weight}" if self.weight else ""
        return f"{'R' if self.reduced else 'K'} {self.extent}:{self.src}->{self.dst}{weight}"


@dataclass(frozen=True, slots=True)
class NormModes:
    """A problem in its shortest form: modes by source stride, offsets of the lowest elements.

    `src_elems` and `dst_elems` are the lengths of the buffers.

    >>> print(shortest(norm_problem("softmax", (64, 256, 56, 56), (0, 2, 3), "f32")))
    R 3136:1->1, K 256:3136->3136, R 64:802816->802816
    """

    problem: NormProblem
    modes: tuple[NormMode, ...]
    src_offset: int
    dst_offset: int

    @property
    def element_bytes(self) -> int:
        """Width of an element."""
        return self.problem.dtype.nbytes

    @property
    def dst_start(self) -> int:
        """Where coordinate 0 lies in the destination, from the boundary on; in the source, at `src_offset`.

        >>> backwards = shortest(norm_problem("softmax", (2, 3), 1, "f32", (-3, 1), (3, 1), 4, 1))
        >>> print(backwards, backwards.dst_offset, backwards.dst_start)
        R 3:1->1, K 2:3->-3 1 4
        """
        return self.dst_offset + sum((m.extent - 1) * max(-m.dst, 0) for m in self.modes)

    @property
    def outputs(self) -> int:
        """Number of groups of elements that share statistics."""
        return prod(m.extent for m in self.modes if not m.reduced)

    @property
    def count(self) -> int:
        """Elements of each group."""
        return prod(m.extent for m in self.modes if m.reduced)

    def __str__(self) -> str:
        return ", ".join(map(str, self.modes))


def shortest(p: NormProblem) -> NormModes:
    """The shortest form of a problem.  Raises ShapeError for one without elements: there is nothing to do.

    >>> print(shortest(norm_problem("layer_norm", (32, 1024, 1024), 2, "f32", weight=True)))
    R 1024:1->1 w1, K 32768:1024->1024
    """
    a = p.axes
    if not prod(a.shape):
        raise ShapeError(f"{p} has no elements: there is nothing to compute")
    strides = dict(zip(a.axes, compact_strides(tuple(a.shape[k] for k in a.axes)), strict=True))
    weights = strides if p.weight or p.bias else {}
    modes, src_low, dst_low = [], a.src_offset, a.dst_offset
    for k, (n, s, d) in enumerate(zip(a.shape, a.src, a.dst, strict=True)):
        if n == 1:
            continue
        src_low -= (n - 1) * max(-s, 0)
        dst_low -= (n - 1) * max(-d, 0)
        sign = -1 if s < 0 or (s == 0 and d < 0) else 1
        modes.append(NormMode(n, abs(s), sign * d, sign * weights.get(k, 0), k in a.axes))
    merged: list[NormMode] = []
    for m in sorted(modes, key=lambda m: (m.src == 0, m.src, m.reduced, abs(m.dst))):
        if merged and _continues(merged[-1], m):
            low = merged[-1]
            merged[-1] = NormMode(low.extent * m.extent, low.src, low.dst, low.weight, low.reduced)
        else:
            merged.append(m)
    if _short_rows(merged, p.dtype.nbytes):
        merged[0], merged[1] = merged[1], merged[0]
    return NormModes(p, tuple(merged) or (NormMode(1, 1, 1, 1, True),), src_low, dst_low)


def _short_rows(modes: list[NormMode], element_bytes: int) -> bool:
    """True for rows of a few bytes, many to a statistic, beside rows of others: those are columns."""
    if len(modes) < 3 or not modes[0].reduced or modes[1].reduced:
        return False
    low, next_to_it = modes[0], modes[1]
    dense = next_to_it.src == low.extent * low.src
    return dense and low.extent * low.src * element_bytes < SECTOR_BYTES and any(m.reduced for m in modes[2:])


def _continues(low: NormMode, m: NormMode) -> bool:
    """True when m steps from end to end of `low`, everywhere."""
    n = low.extent
    return (m.reduced, m.src, m.dst, m.weight) == (low.reduced, n * low.src, n * low.dst, n * low.weight)


def reference(p: NormProblem, x: Any, weight: Any = None, bias: Any = None) -> Any:
    """The result in float64, by definition: `x` of the problem's shape, weight and bias of the reduced shape.

    >>> import numpy
    >>> reference(norm_problem("softmax", (2,), 0, "f32"), numpy.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    import numpy

    x, axes = numpy.asarray(x, dtype=numpy.float64), p.axes.axes
    with numpy.errstate(all="ignore"):
        if p.op == "softmax":
            e = numpy.exp(x - x.max(axis=axes, keepdims=True, initial=-numpy.inf))
            return e / e.sum(axis=axes, keepdims=True)
        centred = x - x.mean(axis=axes, keepdims=True)
        y = centred / numpy.sqrt((centred**2).mean(axis=axes, keepdims=True) + p.eps)
    wide = tuple(n if k in axes else 1 for k, n in enumerate(p.axes.shape))
    y = y * numpy.asarray(weight, dtype=numpy.float64).reshape(wide) if p.weight else y
    return y + numpy.asarray(bias, dtype=numpy.float64).reshape(wide) if p.bias else y
