"""The loss functions: the cross entropy of logits and integer targets, in arrays on a GPU or the CPU.

    layoutalg.ops.cross_entropy(x, target)                              the mean over the rows of x
    layoutalg.ops.cross_entropy(x, target, 1, reduction="none")         a loss per position of (n, c, h, w)

A row is read once, independent of its length.  Intermediate values are float32 on a GPU and in the simulator,
and float64 for arrays on the CPU, rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from math import nan
from typing import Any

from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError, shown
from layoutalg.kernels.calls.arrays import check_fellows
from layoutalg.kernels.calls.operation import Call, Operation, nothing
from layoutalg.kernels.calls.reduce_api import (
    REDUCED,
    check_element,
    is_dense,
    of_nothing,
    rows,
    whole_axes,
)
from layoutalg.kernels.elements import ELEMENT
from layoutalg.kernels.rowwise import (
    IGNORE_INDEX,
    REDUCTIONS,
    CrossEntropyProblem,
    cross_entropy_problem,
    joined_losses,
)

_TARGETS = {"int64": "s64", "int32": "s32"}


def cross_entropy(
    x: Any, target: Any, axis: int = -1, ignore_index: int = IGNORE_INDEX, reduction: str = "mean",
    out: Any = None, *, simulate: bool = False,
) -> Any:  # fmt: skip
    """log sum e^x - x[target] along an axis of classes: the "mean" over all targets but `ignore_index`, the
    "sum", or with "none" each of them, 0 where it is ignored.

    Targets are int64 or int32, contiguous, of the shape of x without the axis.  A loss is NaN where its
    target is neither a class nor ignored, and so is a mean of nothing.  The result has x's type, or that of
    `out`, which may be float32 and is contiguous.  `simulate` runs the kernels for arrays on the CPU in the
    simulator.

    Raises UnknownNameError for another reduction, ShapeError for an axis that x has not, targets or an `out`
    of another shape or not contiguous, and where there is no class, UnsupportedError for elements and targets
    of other types, ArgumentTypeError for what is not an array, an ignore_index that is not an integer of 64
    bits, arrays of several libraries or devices, and an `out` that overlaps, AlignmentError for elements that
    do not start at multiples of their width, ResourceError where the result does not fit into memory, or x is
    simulated and too large.

    >>> import numpy
    >>> x = numpy.zeros((3, 4), "f4")
    >>> [round(float(loss), 4) for loss in cross_entropy(x, numpy.array([0, 3, -100]), reduction="none")]
    [1.3863, 1.3863, 0.0]
    """
    return CROSS_ENTROPY.compute((axis, ignore_index, reduction), (x, target, out), simulate)


def _losses(call: Call, axis: int, ignore_index: int, reduction: str) -> Callable[[], object]:
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        given = reduction if isinstance(reduction, str) else shown(reduction)
        raise UnknownNameError("reduction of losses", given, REDUCTIONS)
    source, at = call.first, call.views["target"]
    form = source.form
    check_element(form, "cross_entropy", REDUCED)
    if at.form.kind not in _TARGETS:
        raise UnsupportedError(f"targets of {at.form.kind}: {' and '.join(_TARGETS)} are accepted")
    over, _, shape = whole_axes(axis, form.shape)
    if len(over) != 1:
        raise ShapeError(f"cross_entropy along the axes {shown(axis)}: classes lie along one")
    check_fellows(source, at, "target")
    if at.form.shape != shape:
        raise ShapeError(f"target has shape {at.form.shape}; x without its axis of classes has {shape}")
    made = shape if reduction == "none" else ()
    goal = call.result(made, tuple(dict.fromkeys((form.kind, "float32"))))
    for name, v in (("target", at), ("out", goal)):
        if not is_dense(v.form):
            raise ShapeError(f"{name} has strides {v.form.strides} in bytes; it must be contiguous")

    def problem(starts: Mapping[str, int] | None) -> CrossEntropyProblem:
        modes = zip(form.shape, form.strides, strict=True)
        steps = None if starts is None else tuple(d // form.itemsize if n > 1 else 0 for n, d in modes)
        begin = {name: (starts or {name: 0})[name] // call.views[name].form.itemsize for name in call.views}
        return cross_entropy_problem(
            form.shape, over[0], ELEMENT[form.kind], _TARGETS[at.form.kind], steps, begin["x"], begin["out"],
            target_offset=begin["target"], ignore_index=ignore_index, reduction=reduction,
            result=ELEMENT[goal.form.kind],
        )  # fmt: skip

    if form.elems:
        return rows(
            call, "cross_entropy", problem,
            lambda p, numbers: joined_losses(p, numbers["src"], at.host.ravel()), _between,
        )  # fmt: skip
    problem(None)  # raises what has to be refused of arrays without elements too
    if reduction == "none":
        return nothing
    return functools.partial(of_nothing, "cross_entropy", goal, nan if reduction == "mean" else 0.0)


def _between(p: CrossEntropyProblem) -> Mapping[str, int]:
    """Bytes of the losses and their sums, which are passed from launch to launch."""
    return {} if p.reduction == "none" else {"losses": 4 * p.loss_words, "sums": 8}


CROSS_ENTROPY = Operation(
    "cross_entropy", ("x", "target", "out"), ("axis", "ignore_index", "reduction"), _losses, needed=2
)
