"""Norms: problems on a tensor whose modes are normalised together, and their definitions.

    norm_problem("softmax", shape, axes, dtype)        softmax, layer norm, rms norm
    normed(problem, x, weight, bias)                   the results by definition, in float64

Elements are f32, f16 or bf16, and all that is computed between is a float.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from numbers import Real
from typing import Any

import numpy

from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError, check_choice, shown
from layoutalg.kernels.elements import values_of, words_of
from layoutalg.kernels.modes import check_written
from layoutalg.kernels.norms import NORMS, Norm
from layoutalg.kernels.rowwise.tensors import ELEMENTS, AxesProblem, axes_problem

MOST_EPS = (2.0 - 2.0**-23) * 2.0**127
"""The largest eps: statistics are floats of 32 bits."""

LEAST_EPS = 2.0**-149
"""The least eps above 0, likewise."""


@dataclass(frozen=True, slots=True)
class NormProblem:
    """A norm of `axes.shape` over `axes.axes`; see `norm_problem`.

    >>> print(norm_problem("softmax", (64, 1000), 1, "f16"))
    softmax (64,1000) over (1) f16, src (1000,1) -> dst (1000,1)
    """

    op: str
    axes: AxesProblem
    result: DType
    eps: float = 0.0
    weight: bool = False
    bias: bool = False
    in_place: bool = False
    weight_offset: int = 0
    bias_offset: int = 0

    @property
    def parameters(self) -> dict[str, int]:
        """The weight and bias of the problem, by name, and the offset of each."""
        given = {"weight": (self.weight, self.weight_offset), "bias": (self.bias, self.bias_offset)}
        return {name: offset for name, (there, offset) in given.items() if there}

    @property
    def norm(self) -> Norm:
        """The record of the norm."""
        return NORMS[self.op]

    @property
    def formula(self) -> str:
        """The name of the plain norm."""
        return self.norm.formula

    @property
    def rows_apart(self) -> bool:
        """True where vectors must not reach into other rows: something that is read is written in place."""
        return self.in_place or self.norm.adds

    @property
    def read(self) -> tuple[str, ...]:
        """The tensors of the source's layout that are read."""
        return ("src", *("residual",) * self.norm.adds)

    @property
    def dtype(self) -> DType:
        """Type of the elements of source, residual, weight and bias."""
        return self.axes.dtype

    @property
    def title(self) -> str:
        """The name of its kernels."""
        return f"{self.op}_{self.dtype}" + (f"_{self.result}" if self.result != self.dtype else "")

    @property
    def written_bytes(self) -> int:
        """Bytes that must be written."""
        return prod(self.axes.shape) * (self.result.nbytes + self.norm.adds * self.dtype.nbytes)

    @property
    def moved_bytes(self) -> int:
        """Bytes that must be read and written."""
        return self.axes.read_elems * len(self.read) * self.dtype.nbytes + self.written_bytes

    def __str__(self) -> str:
        extra = [f"{name} at {at}" if at else name for name, at in self.parameters.items()]
        extra += ["in_place"] * self.in_place + [f"as {self.result}"] * (self.result != self.dtype)
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
    result: str | DType | None = None,
) -> NormProblem:
    """A checked problem of one of `NORMS`, with elements of type `result`, by default of that of the source.

    Strides, one a mode on either side, are row-major by default.  Weight and bias have the shape of the
    reduced modes, in their order, row-major, and start at an offset too.  In place, the destination is the
    source, of one type.  A residual has the strides of the source, and may not alias.

    Raises UnknownNameError for another operation, UnsupportedError for elements and results that are not f32,
    f16 or bf16 and for parameters that the norm does not have, ArgumentTypeError where eps is not a number,
    ShapeError where in place the strides differ, where `checked_eps` refuses eps or an offset is
    negative, and as `axes_problem` does.

    >>> norm_problem("layer_norm", (8, 16), 1, "f32", weight=True).axes.count
    16
    """
    check_choice("norm", op, NORMS)
    norm = NORMS[op]
    eps = checked_eps(op, eps)
    if op == "softmax" and (weight or bias):
        raise UnsupportedError("a softmax has no weight and no bias; layer_norm accepts both")
    if bias and "bias" not in norm.parameters:
        raise UnsupportedError(f"{op} has no bias; layer_norm accepts one")
    if min(weight_offset, bias_offset) < 0:
        raise ShapeError(
            f"offsets {weight_offset} and {bias_offset} of weight and bias: must not be negative"
        )
    if in_place and dst is None:
        dst, dst_offset = src, src_offset
    p = axes_problem(shape, axes, dtype, src, dst, src_offset, dst_offset, keeps=True)
    to = p.dtype if result is None else find_dtype(result)
    for kind in (p.dtype, to):
        if kind.name not in ELEMENTS:
            raise UnsupportedError(f"{op} of {kind} elements: {', '.join(ELEMENTS)} are accepted")
    if in_place and to != p.dtype:
        raise UnsupportedError(f"{op} of {p.dtype} as {to} in place: one type is accepted")
    if in_place and (p.src, p.src_offset) != (p.dst, p.dst_offset):
        raise ShapeError(
            f"{op} of {p.shape} in place: the strides {p.src} at {p.src_offset} of the source and {p.dst} at "
            f"{p.dst_offset} of the destination must be the same"
        )
    if norm.adds:
        check_written(f"shape {p.shape}", p.shape, p.src)
    eps = eps if norm.parameters else 0.0
    return NormProblem(op, p, to, eps, weight, bias, in_place, weight_offset, bias_offset)


def checked_eps(op: str, eps: object) -> float:
    """`eps` as a float.  Raises ArgumentTypeError, and ShapeError for what is neither 0 nor from LEAST_EPS to
    MOST_EPS.

    >>> checked_eps("layer_norm", 1)
    1.0
    """
    if isinstance(eps, bool) or not isinstance(eps, Real):
        raise ArgumentTypeError(f"eps of {op} is {shown(eps)}: a number is needed")
    number: Any = eps
    if number != 0 and not LEAST_EPS <= number <= MOST_EPS:
        least, most = f"{LEAST_EPS:.8g}", f"{MOST_EPS:.8g}"
        raise ShapeError(f"eps of {op} is {shown(eps)}: 0, or a number from {least} to {most} is needed")
    return float(number)


def added(p: NormProblem, x: Any, residual: Any) -> Any:
    """The sum of a source and a residual, in float32, rounded to the type of the elements.

    >>> import numpy
    >>> p = norm_problem("add_rms_norm", (2,), 0, "bf16")
    >>> added(p, numpy.array([1.0, 256.0]), numpy.array([2.0, 1.0])).tolist()
    [3.0, 256.0]
    """
    with numpy.errstate(all="ignore"):
        total = numpy.asarray(x, numpy.float32) + numpy.asarray(residual, numpy.float32)
        return values_of(words_of(total, p.dtype.name), p.dtype.name)


def normed(p: NormProblem, x: Any, weight: Any = None, bias: Any = None) -> Any:
    """The result in float64, by definition: `x`, or what is `added`, of the problem's shape, weight and bias
    of the reduced shape.

    >>> import numpy
    >>> normed(norm_problem("softmax", (2,), 0, "f32"), numpy.array([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    x, axes = numpy.asarray(x, dtype=numpy.float64), p.axes.axes
    with numpy.errstate(all="ignore"):
        if p.formula == "softmax":
            e = numpy.exp(x - x.max(axis=axes, keepdims=True, initial=-numpy.inf))
            return e / e.sum(axis=axes, keepdims=True)
        centred = x - x.mean(axis=axes, keepdims=True) if p.formula == "layer_norm" else x
        y = centred / numpy.sqrt((centred**2).mean(axis=axes, keepdims=True) + p.eps)
    wide = tuple(n if k in axes else 1 for k, n in enumerate(p.axes.shape))
    y = y * numpy.asarray(weight, dtype=numpy.float64).reshape(wide) if p.weight else y
    return y + numpy.asarray(bias, dtype=numpy.float64).reshape(wide) if p.bias else y
