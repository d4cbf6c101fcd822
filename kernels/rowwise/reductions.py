"""Reductions: problems on a tensor whose modes are reduced, and their definitions.

    reduce_problem(shape, axes, "sum", dtype)     and max, min, prod, mean, var, logsumexp, argmax, argmin
    reduced(problem, numbers)                     the outputs by definition

An operation folds elements into values: floats of 32 bits, or values of several words:

    float             sum, prod, max, min, mean           a float                  x's type, or f32
                      var, logsumexp                      moments, exponentials    x's type, or f32
    integer           sum, prod                           64 bits, modulo 2^64     s64
                      max, min                            64 bits                  x's type
    both              argmax, argmin                      an index with its value  s64

A "cross_entropy" is a logsumexp less the element that an integer names, of a buffer beside the source: the
`Labels` of a problem.  It is no reduction by itself; see `kernels.rowwise.entropy`.

The index of an element is its number among those that are reduced with it, by rows, in the order of the axes;
of equal ones the first counts, and NaN is more than any number for either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy

from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ResourceError, ShapeError, UnsupportedError, check_choice
from layoutalg.kernels.rowwise.tensors import ELEMENTS, AxesProblem, axes_problem

INTEGERS = ("s8", "u8", "s16", "s32", "s64")
"""Types of integers that are reduced."""

FOLD = MappingProxyType(
    {
        "sum": "sum", "mean": "sum", "max": "max", "min": "min", "prod": "prod", "argmax": "arg",
        "argmin": "arg", "var": "moments", "logsumexp": "logsumexp",
    }
)  # fmt: skip
"""The fold of each reduction of floats."""

FOLDED = MappingProxyType({**FOLD, "cross_entropy": "nll"})
"""The same, with what needs labels."""

OF_INTEGERS = ("sum", "max", "min", "prod", "argmax", "argmin")
"""The reductions of integers."""

WAY = MappingProxyType({"argmin": "min"})
"""The extreme that an operation looks for, where that is not the "max"."""

INT32_COUNT = (1 << 31) - 1
"""Elements that are reduced together where one has an index, or counts in a float."""

_OF_NOTHING = MappingProxyType({"sum": 0.0, "prod": 1.0, "mean": nan, "var": nan, "logsumexp": -inf})


def fold_of(op: str, element: str) -> str:
    """Return the fold of a reduction for elements of a type.

    >>> fold_of("mean", "f16"), fold_of("max", "s8"), fold_of("argmax", "s8"), fold_of("argmax", "s64")
    ('sum', 'max_s64', 'arg', 'arg_s64')
    """
    name = FOLDED[op]
    if element in INTEGERS and (name != "arg" or element == "s64"):
        return f"{name}_s64"
    return name


def results_of(op: str, element: str) -> tuple[str, ...]:
    """The types that results may have, the default first.

    >>> results_of("sum", "f16"), results_of("sum", "u8"), results_of("argmax", "f32")
    (('f16', 'f32'), ('s64',), ('s64',))
    """
    if FOLDED[op] == "arg" or (element in INTEGERS and op in ("sum", "prod")):
        return ("s64",)
    return tuple(dict.fromkeys((element, "f32"))) if element in ELEMENTS else (element,)


class Labels(NamedTuple):
    """Integers with a sign of `nbytes`, one per output in the order of a dense destination, from `offset` on.

    Each names one of `classes` elements, or is `ignore`; with `counts` there is a second output behind the
    first of all: 1 where it is not, 0 where it is.
    """

    nbytes: int
    classes: int
    ignore: int
    offset: int = 0
    counts: bool = False


@dataclass(frozen=True, slots=True)
class ReduceProblem:
    """`op` over some modes of a tensor, the outputs of type `result`.

    A variance is the sum of squares from the mean over the number of elements less `ddof`.

    >>> print(reduce_problem((2, 3), 1, "sum", "f16"))
    sum of (2,3) over (1) f16, src (3,1) -> dst (1,0)
    """

    op: str
    axes: AxesProblem
    result: DType
    ddof: int = 0
    labels: Labels | None = None

    in_place: ClassVar[bool] = False
    parameters: ClassVar[Mapping[str, int]] = MappingProxyType({})
    read: ClassVar[tuple[str, ...]] = ("src",)

    @property
    def formula(self) -> str:
        """The operation."""
        return self.op

    @property
    def dtype(self) -> DType:
        """Type of the elements of the source."""
        return self.axes.dtype

    @property
    def empty(self) -> bool:
        """Whether nothing is read: no outputs, or outputs of no elements."""
        return self.axes.count * self.axes.outputs == 0

    @property
    def of_nothing(self) -> float | None:
        """The value of every output if no element is reduced: 0 for a sum, 1 for a product, NaN for a mean or
        a variance, -infinity for a logsumexp.

        None if some are, and if there are no outputs: then a maximum needs no element either.
        """
        return None if self.axes.count or not self.axes.outputs else _OF_NOTHING[self.op]

    @property
    def is_exact(self) -> bool:
        """Whether nothing is rounded: for integers, indices, a maximum and a minimum."""
        return self.dtype.name in INTEGERS or FOLDED[self.op] in ("arg", "max", "min")

    @property
    def fold(self) -> str:
        """The fold of its elements."""
        return fold_of(self.op, self.dtype.name)

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
        return f"{self.op} of {self.axes}" + (f", ddof {self.ddof}" if self.ddof else "")


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
    ddof: int = 0,
) -> ReduceProblem:
    """A checked problem: a reduction by its name over `axes` (None: all), as type `result`.

    Strides, one for every mode of `shape` on either side, are in elements, row-major by default; those in
    `dst` of reduced modes count for nothing.  `result` is one of `results_of`.  Raises UnknownNameError for
    another operation, UnsupportedError for other types and a ddof of what is no variance, ShapeError for a
    maximum, a minimum or their index of nothing and a negative ddof, ResourceError for an index among more
    than 2^31 elements, and as `axes_problem` does.

    >>> reduce_problem((4, 0), 1, "sum", "f32").of_nothing
    0.0
    """
    check_choice("reduction", op, FOLD)
    p = axes_problem(shape, axes, dtype, src, dst, src_offset, dst_offset)
    accepted = (*ELEMENTS, *(INTEGERS if op in OF_INTEGERS else ()))
    if p.dtype.name not in accepted:
        raise UnsupportedError(f"{op} with elements of {p.dtype}: {', '.join(accepted)} are accepted")
    results = results_of(op, p.dtype.name)
    to = find_dtype(results[0]) if result is None else find_dtype(result)
    if to.name not in results:
        are = "are" if len(results) > 1 else "is"
        raise UnsupportedError(f"{op} of {p.dtype} as {to}: {' and '.join(results)} {are} accepted")
    if ddof and op != "var":
        raise UnsupportedError(f"{op} has no ddof; var accepts one")
    if ddof < 0:
        raise ShapeError(f"ddof of {op} is {ddof}: a number from 0 on is needed")
    if op not in _OF_NOTHING and not p.count:  # also where there is no result, as in NumPy
        what = {"max": "maximum", "min": "minimum"}.get(op, op)
        raise ShapeError(f"the {what} over {p.axes} of shape {p.shape} is that of no elements: it has none")
    if FOLD[op] in ("arg", "moments") and p.count > INT32_COUNT:
        raise ResourceError(f"elements that {op} counts", p.count, INT32_COUNT)
    return ReduceProblem(op, p, to, ddof)


def reduced(p: ReduceProblem, src: Any) -> Any:
    """The outputs by definition, of the kept modes' shape: float64 of floats, int64 of integers and indices.

    `src` holds numbers, not bits.

    >>> import numpy
    >>> reduced(reduce_problem((2, 3), 1, "mean", "f32"), numpy.arange(6.0)).tolist()
    [1.0, 4.0]
    >>> reduced(reduce_problem((2, 3), 1, "argmax", "s32"), numpy.array([1, 5, 5, 7, 0, 2])).tolist()
    [1, 0]
    """
    x = p.axes
    steps = tuple(d * src.itemsize for d in x.src)
    view = numpy.lib.stride_tricks.as_strided(src[x.src_offset :], x.shape, steps)
    view = view.astype("i8" if p.dtype.name in INTEGERS else "f8")
    with numpy.errstate(all="ignore"):
        if FOLD[p.op] == "arg":
            last = numpy.moveaxis(view, x.axes, range(-len(x.axes), 0) if x.axes else ())
            return numpy.asarray(getattr(last.reshape(*x.kept_shape, x.count), p.op)(axis=-1))
        if p.op == "var":
            q = numpy.square(view - view.mean(axis=x.axes, keepdims=True)).sum(axis=x.axes)
            return numpy.asarray(q * share_of(p))
        if p.op == "logsumexp":
            most = view.max(axis=x.axes, keepdims=True, initial=-inf)
            base = numpy.where(numpy.isfinite(most), most, 0)
            total = numpy.log(numpy.exp(view - base).sum(axis=x.axes))
            return numpy.asarray(total + base.reshape(total.shape))
        return numpy.asarray(getattr(view, p.op)(axis=x.axes))


def share_of(p: ReduceProblem) -> float:
    """Return the factor of a variance's sum of squares: 1 / (count - ddof), infinity where that is not
    positive.

    >>> share_of(reduce_problem((5,), 0, "var", "f32", ddof=1))
    0.25
    """
    left = p.axes.count - p.ddof
    return 1 / left if left > 0 else inf
