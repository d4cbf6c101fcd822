"""Reductions: what is asked of a tensor whose modes are reduced, and what it means.

    reduce_problem(shape, axes, "sum", dtype)          sum, max, mean
    reduced(problem, numbers)                          the outputs by definition, in float64

All that is computed between is a float.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from types import MappingProxyType
from typing import Any, ClassVar

from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels.rowwise.problems.tensors import ELEMENTS, AxesProblem, axes_problem

FOLD = MappingProxyType({"sum": "sum", "mean": "sum", "max": "max"})
"""What each reduction folds its elements with."""


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
