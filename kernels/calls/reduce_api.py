"""The operations that reduce data: reduce, softmax, norms and cross entropy of arrays on a GPU or the CPU.

The idea.  As in api, an array is an address, a shape and strides, and a problem's kernels are planned
for it, compiled once and kept.

    layoutalg.ops.reduce(x, "sum", (0, 2, 3))                     a value per channel of NCHW
    layoutalg.ops.softmax(x, 0)                                   over columns as fast as over rows
    layoutalg.ops.layer_norm(x, -1, weight, bias)

Elements are float32, float16 or bfloat16, results of that type or of that of `out`; intermediate values are
float32 on a GPU and in the simulator, which simulate=True selects, and float64 for arrays on the CPU, rounded
once.
Integers are reduced exactly, in 64 bits: sums and products modulo 2^64.

Notes.  Sums are made in a fixed order: equal calls give equal bits.  A maximum, a softmax and a layer norm of
NaN are NaN.  A sum of nothing is 0, a mean of nothing NaN with a RuntimeWarning, a maximum of nothing is
refused, all as in NumPy.

Cross entropy is the loss of logits and integer targets.

    layoutalg.ops.cross_entropy(x, target)                              the mean over the rows of x
    layoutalg.ops.cross_entropy(x, target, 1, reduction="none")         a loss per position of (n, c, h, w)

Its rows are read once, independent of their length.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from math import isnan, nan
from typing import Any, SupportsIndex, TypeAlias

from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
    check_choice,
    shown,
)
from layoutalg.kernels import rowwise
from layoutalg.kernels.calls import arrays
from layoutalg.kernels.calls.operation import BUFFERS, Call, Operation, nothing, words_in
from layoutalg.kernels.elements import ELEMENT, INTEGERS, kind_of, values_of, words_of
from layoutalg.kernels.modes import compact_strides
from layoutalg.kernels.norms import NORMS
from layoutalg.kernels.plan_cache import LOADED_PLANS

Axes: TypeAlias = "SupportsIndex | Iterable[SupportsIndex] | None"
"""An axis, several, or None for all; negative ones count from the last."""

Shape: TypeAlias = "tuple[int, ...]"

REDUCED = ("float32", "float16", "bfloat16")
"""The floating-point types that are computed with, by NumPy's names."""


def reduce(
    x: Any, op: str, axes: Axes = None, keepdims: bool = False, out: Any = None, dtype: Any = None, *,
    ddof: int = 0, simulate: bool = False,
) -> Any:  # fmt: skip
    """The "sum", "max", "min", "mean", "prod", "var", "logsumexp", "argmax" or "argmin" of x over some axes,
    all by default.

    With `keepdims` these stay, of extent 1.  The result has x's type, or `dtype` or that of `out`, which may
    be float32.  Integers (uint8, and those with a sign) have sums and products in int64, and extremes of
    their type.  An index is int64: that of the first of the largest or smallest, or of the first NaN, among
    all that are reduced together, by rows.  A variance divides by their number less `ddof`.  `simulate` runs
    the kernel for an array on the CPU in the simulator, up to 2^16 elements.

    Raises UnknownNameError for another operation, ShapeError for axes that x has not, another shape of `out`,
    a negative ddof and a maximum, minimum or index of nothing, UnsupportedError for other elements and
    results, NotInjectiveError for an `out` that aliases, ArgumentTypeError for what is not an array and where
    x and `out` overlap, AlignmentError for elements that do not start at multiples of their width,
    ResourceError where the result does not fit into memory, x is simulated and too large, or an index or a
    variance is of 2^31 elements and more.

    >>> import numpy
    >>> reduce(numpy.arange(6, dtype="f4").reshape(2, 3), "sum", 1).tolist()
    [3.0, 12.0]
    >>> reduce(numpy.array([[3, 7, 7], [-1, -1, -2]], "i4"), "argmax", 1).tolist()
    [1, 0]
    """
    return REDUCE.compute((axes, op, keepdims, dtype, ddof), (x, out), simulate)


def softmax(x: Any, axes: Axes = -1, out: Any = None, *, simulate: bool = False) -> Any:
    """e^x over its sum along some axes, the last by default; safe for any magnitude.  `out` may be x itself.

    Raises as `reduce` does.

    >>> import numpy
    >>> softmax(numpy.zeros((2, 4), "f4")).tolist()
    [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """
    return NORM_OPERATIONS["softmax"].compute((axes,), (x, out), simulate)


def layer_norm(
    x: Any, axes: Axes = -1, weight: Any = None, bias: Any = None, eps: float = 1e-5, out: Any = None, *,
    simulate: bool = False,
) -> Any:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, the mean and variance over some axes.

    Weight and bias, if given, are contiguous arrays of the shape of these axes, in their order, and of x's
    type; they may start at any element.  `out` may be x itself.  Raises as `reduce` does, ArgumentTypeError
    for an eps that is not a number, ShapeError for one that is neither 0 nor among the positive f32.

    >>> import numpy
    >>> layer_norm(numpy.array([[1, 3], [2, 2]], "f4"), eps=3.0).tolist()
    [[-0.5, 0.5], [0.0, 0.0]]
    """
    return NORM_OPERATIONS["layer_norm"].compute((axes, eps), (x, weight, bias, out), simulate)


def rms_norm(
    x: Any, axes: Axes = -1, weight: Any = None, eps: float = 1e-5, out: Any = None, *, simulate: bool = False
) -> Any:
    """x / sqrt(mean x^2 + eps) * weight, the mean over some axes; all else as in `layer_norm`.

    >>> import numpy
    >>> rms_norm(numpy.array([[1, 7], [5, 5]], "f4"), eps=0).tolist()
    [[0.20000000298023224, 1.399999976158142], [1.0, 1.0]]
    """
    return NORM_OPERATIONS["rms_norm"].compute((axes, eps), (x, weight, out), simulate)


# --- calls that are worked out -------------------------------------------------------------------------

# A call on the CPU makes its problem each time, and so does one with an option that is not a plain value.
_reduce_problem = functools.lru_cache(LOADED_PLANS, typed=True)(rowwise.reduce_problem)
_norm_problem = functools.lru_cache(LOADED_PLANS, typed=True)(rowwise.norm_problem)


def _reduced(
    call: Call, axes: Axes, op: str, keepdims: bool, dtype: Any, ddof: int
) -> Callable[[], object]:  # fmt: skip
    check_choice("reduction", op, rowwise.FOLD)
    form = call.first.form
    check_element(form, op, (*REDUCED, *(INTEGERS.values() if op in rowwise.OF_INTEGERS else ())))
    if not form.shape and op not in ("mean", "var", "logsumexp") and type(axes) is int and axes in (0, -1):
        axes = ()  # NumPy reduces a number along its "last" axis, but for a mean
    over, with_ones, shape = whole_axes(axes, form.shape)
    target = call.result(
        with_ones if arrays.flag("keepdims", keepdims) else shape, _results(op, form.kind, dtype)
    )
    if isinstance(ddof, bool) or not isinstance(ddof, int):
        raise ArgumentTypeError(f"ddof is {shown(ddof)}: an int is needed")

    def problem(starts: Mapping[str, int] | None) -> rowwise.ReduceProblem:
        src, dst, *at = (None, None, 0, 0) if starts is None else _places(call, over, starts)
        kinds = ELEMENT[form.kind], ELEMENT[target.form.kind]
        return _reduce_problem(form.shape, over, op, kinds[0], src, dst, *at, kinds[1], ddof)

    if form.elems:
        return rows(call, op, problem, lambda p, numbers: rowwise.reduced(p, numbers["src"]))
    value = problem(None).of_nothing
    if value is None:
        return nothing
    check_whole(target, "out")
    problem({"x": 0, "out": arrays.unit_base(target)[1]})  # raises where `out` aliases
    return functools.partial(of_nothing, op, target, value)


REDUCE = Operation("reduce", ("x", "out"), ("axes", "op", "keepdims", "dtype", "ddof"), _reduced)


def of_nothing(op: str, target: arrays.View, value: float) -> None:
    """Write the result of nothing, with a warning where it is NaN.

    >>> import numpy
    >>> from layoutalg.kernels.calls.arrays import view
    >>> x = numpy.ones(1)
    >>> of_nothing("sum", view(x), 0.0)
    >>> x.tolist()
    [0.0]
    """
    if isnan(value):
        warnings.warn(f"{op} of nothing: the result is NaN", RuntimeWarning, stacklevel=5)
    arrays.fill(target, value)


def _normed(op: str, call: Call, axes: Axes, eps: float = 0.0) -> Callable[[], object]:
    eps = rowwise.checked_eps(op, eps) if op != "softmax" else eps
    source, form = call.first, call.first.form
    check_element(form, op, REDUCED)
    over = whole_axes(axes, form.shape)[0]
    given = [name for name in ("weight", "bias") if name in call.views]
    for name in given:
        _check_parameter(source, tuple(form.shape[k] for k in over), name, call.views[name])
    if NORMS[op].adds:
        _check_residual(call)
    target = call.result(form.shape, tuple(dict.fromkeys((form.kind, *REDUCED))), in_place="x")
    same = form.kind == target.form.kind and arrays.lie_alike(form, target.form)
    in_place = source.address == target.address and same

    def problem(starts: Mapping[str, int] | None) -> rowwise.NormProblem:
        strides = () if starts is None else _places(call, over, starts)
        at = {f"{name}_offset": starts[name] // form.itemsize for name in given} if starts else {}
        return _norm_problem(
            op, form.shape, over, ELEMENT[form.kind], *strides, eps=eps, weight="weight" in given,
            bias="bias" in given, in_place=in_place and starts is not None,
            result=ELEMENT[target.form.kind], **at,
        )  # fmt: skip

    if not form.elems:
        problem(None)  # raises what has to be refused of arrays without elements too
        return nothing

    def exact(p: Any, numbers: Mapping[str, Any]) -> Any:
        x = numbers["src"].reshape(form.shape)
        if NORMS[op].adds:
            x = rowwise.added(p, x, numbers["residual"].reshape(form.shape))
            words_in(call.views["residual"])[...] = words_of(x, ELEMENT[form.kind])
        return rowwise.normed(p, x, numbers.get("weight"), numbers.get("bias"))

    return rows(call, op, problem, exact)


NORM_OPERATIONS: Mapping[str, Operation] = {
    op: Operation(
        op, ("x", *("residual",) * norm.adds, *norm.parameters, "out"),
        ("axes", "eps") if norm.parameters else ("axes",),
        functools.partial(_normed, op), 1 + norm.adds, ("residual",) * norm.adds,
    )
    for op, norm in NORMS.items()
}  # fmt: skip


def _adding(op: str) -> Callable[..., Any]:
    """The function of a norm that adds a residual, which is its record alone."""
    operation, plain = NORM_OPERATIONS[op], NORMS[op].formula

    def norm(
        x: Any, residual: Any, axes: Axes = -1, weight: Any = None, eps: float = 1e-5, out: Any = None, *,
        simulate: bool = False,
    ) -> Any:  # fmt: skip
        return operation.compute((axes, eps), (x, residual, weight, out), simulate)

    norm.__name__ = norm.__qualname__ = op
    norm.__doc__ = f"""The `{plain}` of x + residual; the sum is written over the residual.

    The residual has x's type, shape and strides, and starts at the same place of 16 bytes.  The sum is made
    in float32 and rounded to that type, and that is normed.  `out` may be x itself.  Raises as `{plain}`
    does, UnsupportedError for rows that neither registers nor shared memory hold, and ArgumentTypeError for a
    residual that lies otherwise than x, is read-only or overlaps another array.

    >>> import numpy
    >>> x, residual = numpy.array([[1, 3]], "f4"), numpy.array([[0, 4]], "f4")
    >>> {op}(x, residual, eps=0).round(2).tolist(), residual.tolist()
    ([[0.20000000298023224, 1.399999976158142]], [[1.0, 7.0]])
    """
    return norm


NORM_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm,
    **{op: _adding(op) for op, norm in NORMS.items() if norm.adds},
}  # fmt: skip
"""The function of each norm by its name."""


def rows(
    call: Call, family: str, problem: Callable[[Mapping[str, int] | None], Any],
    exact: Callable[[Any, Mapping[str, Any]], Any],
    beside: Callable[[Any], Mapping[str, int]] = lambda p: {},
) -> Callable[[], object]:  # fmt: skip
    """Return the function that computes a problem of rows, see `Call.planned`; by definition results are the
    `exact` ones of a problem and the numbers of its buffers by name, rounded once."""
    for name, v in call.views.items():
        check_whole(v, name)
    target = call.views["out"]

    def define() -> None:
        numbers = {
            BUFFERS.get(name, name): values_of(words_in(v).ravel(), ELEMENT[v.form.kind])
            for name, v in call.views.items()
            if name != "out"
        }
        results = words_of(exact(problem(None), numbers), ELEMENT[target.form.kind])
        words_in(target)[...] = results.reshape(target.shape)

    return call.planned(family, problem, define, beside)


# --- arguments -----------------------------------------------------------------------------------------


def check_element(form: arrays.Form, op: str, accepted: Collection[str]) -> None:
    """Raise UnsupportedError for elements of a type that an operation does not take."""
    if form.kind not in accepted:
        raise UnsupportedError(f"{op} of {form.kind} elements: {', '.join(accepted)} are accepted")


def _results(op: str, kind: str, dtype: Any) -> tuple[str, ...]:
    """The types that results may have, or the requested one."""
    accepted = tuple(kind_of(name) for name in rowwise.results_of(op, ELEMENT[kind]))
    if dtype is None:
        return accepted
    kind_asked = kind_of(dtype)
    if kind_asked not in accepted:
        are = "are" if len(accepted) > 1 else "is"
        raise UnsupportedError(f"results of {kind} as {kind_asked}: {' and '.join(accepted)} {are} accepted")
    return (kind_asked,)


def whole_axes(axes: Axes, shape: Shape) -> tuple[Shape, Shape, Shape]:
    """Axes from 0 on, and the shape with them of extent 1, and without them."""
    several = (axes,) if hasattr(axes, "__index__") else axes
    numbers = None if axes is None else arrays.ints_of(several, "an int, several, or None for all are")
    over = rowwise.find_axes(numbers, len(shape))
    with_ones = tuple(1 if k in over else n for k, n in enumerate(shape))
    return over, with_ones, tuple(n for k, n in enumerate(shape) if k not in over)


def _check_parameter(x: arrays.View, shape: tuple[int, ...], name: str, v: arrays.View) -> None:
    """Raise unless a weight or bias is contiguous, of a shape, and of x's type, library and device."""
    arrays.check_fellows(x, v, name)
    if v.form.kind != x.form.kind:
        raise ArgumentTypeError(f"{name} holds {v.form.kind}, x {x.form.kind}: both must be of one type")
    if v.form.shape != shape:
        raise ShapeError(f"{name} has shape {v.form.shape}; the axes have {shape}")
    if not is_dense(v.form):
        raise ShapeError(f"{name} has strides {v.form.strides} in bytes; it must be contiguous")


def _check_residual(call: Call) -> None:
    """Raise unless the residual, which is written, lies as x does, apart from all that is read."""
    x, residual = call.first, call.views["residual"]
    arrays.check_result(x, residual, x.form.shape, (x.form.kind,), "residual")
    starts = arrays.unit_base(x)[1], arrays.unit_base(residual)[1]
    if not arrays.lie_alike(x.form, residual.form) or starts[0] != starts[1]:
        raise ArgumentTypeError(
            f"residual has strides {residual.form.strides} from byte {starts[1]} of 16, x {x.form.strides} "
            f"from byte {starts[0]}: it must lie as x does"
        )
    arrays.check_apart({name: v for name, v in call.views.items() if name != "out"}, written="residual")


@functools.lru_cache(arrays.KEPT_FORMS)
def is_dense(form: arrays.Form) -> bool:
    """Whether elements follow each other in row-major order."""
    modes = zip(form.shape, form.strides, compact_strides(form.shape), strict=True)
    return not form.elems or all(n == 1 or d == form.itemsize * step for n, d, step in modes)


def check_whole(v: arrays.View, name: str) -> None:
    """Raise AlignmentError unless all elements start at multiples of their width."""
    size = v.form.itemsize
    if v.address % size or v.form.unit % size:
        raise AlignmentError(
            f"{name} starts at {v.address:#x} with strides {v.form.strides} in bytes: its elements must "
            f"start at multiples of {size}",
            offset=v.address,
            required_bytes=size,
        )


def _places(call: Call, over: Shape, starts: Mapping[str, int]) -> tuple[Shape, Shape, int, int]:
    """Strides of source and destination, and where they start, in elements; 0 along modes of one element, and
    along reduced ones of the destination."""
    forms = {name: call.views[name].form for name in ("x", "out")}
    src, dst = (arrays.in_elements(form.shape, form.strides, form.itemsize) for form in forms.values())
    at, to = (starts[name] // form.itemsize for name, form in forms.items())
    if len(dst) < len(src):
        steps = iter(dst)
        dst = tuple(0 if k in over else next(steps) for k in range(len(src)))
    return src, dst, at, to


_TARGETS = {"int64": "s64", "int32": "s32"}


def cross_entropy(
    x: Any, target: Any, axis: int = -1, ignore_index: int = rowwise.IGNORE_INDEX, reduction: str = "mean",
    out: Any = None, *, simulate: bool = False,
) -> Any:  # fmt: skip
    """log sum e^x - x[target] along an axis of classes: the "mean" over all targets but `ignore_index`, the
    "sum", or with "none" each of them, 0 where it is ignored.

    Targets are int64 or int32, contiguous, of the shape of x without the axis.  A loss is NaN where its
    target is neither a class nor ignored, and so is a mean of nothing.  The result has x's type, or that of
    `out`, which may be float32 and is contiguous.  `simulate` runs the kernels for arrays on the CPU in the
    simulator.

    Raises UnknownNameError for another reduction, ShapeError for an axis that x has not, targets or an `out`
    of another shape or not contiguous and an x without classes, UnsupportedError for elements and targets
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
    if not isinstance(reduction, str) or reduction not in rowwise.REDUCTIONS:
        given = reduction if isinstance(reduction, str) else shown(reduction)
        raise UnknownNameError("reduction of losses", given, rowwise.REDUCTIONS)
    source, at = call.first, call.views["target"]
    form = source.form
    check_element(form, "cross_entropy", REDUCED)
    if at.form.kind not in _TARGETS:
        raise UnsupportedError(f"targets of {at.form.kind}: {' and '.join(_TARGETS)} are accepted")
    over, _, shape = whole_axes(axis, form.shape)
    if len(over) != 1:
        raise ShapeError(f"cross_entropy along the axes {shown(axis)}: classes lie along one")
    arrays.check_fellows(source, at, "target")
    if at.form.shape != shape:
        raise ShapeError(f"target has shape {at.form.shape}; x without its axis of classes has {shape}")
    made = shape if reduction == "none" else ()
    goal = call.result(made, tuple(dict.fromkeys((form.kind, "float32"))))
    for name, v in (("target", at), ("out", goal)):
        if not is_dense(v.form):
            raise ShapeError(f"{name} has strides {v.form.strides} in bytes; it must be contiguous")

    def problem(starts: Mapping[str, int] | None) -> rowwise.CrossEntropyProblem:
        steps = None if starts is None else arrays.in_elements(form.shape, form.strides, form.itemsize)
        begin = {name: (starts or {name: 0})[name] // call.views[name].form.itemsize for name in call.views}
        return rowwise.cross_entropy_problem(
            form.shape, over[0], ELEMENT[form.kind], _TARGETS[at.form.kind], steps, begin["x"], begin["out"],
            target_offset=begin["target"], ignore_index=ignore_index, reduction=reduction,
            result=ELEMENT[goal.form.kind],
        )  # fmt: skip

    if form.elems:
        return rows(
            call, "cross_entropy", problem,
            lambda p, numbers: rowwise.joined_losses(p, numbers["src"], at.host.ravel()), _between,
        )  # fmt: skip
    problem(None)  # raises what has to be refused of arrays without elements too
    if reduction == "none":
        return nothing
    return functools.partial(of_nothing, "cross_entropy", goal, nan if reduction == "mean" else 0.0)


def _between(p: rowwise.CrossEntropyProblem) -> Mapping[str, int]:
    """Bytes of the losses and their sums, which are passed from launch to launch."""
    return {} if p.reduction == "none" else {"losses": 4 * p.loss_words, "sums": 8}


CROSS_ENTROPY = Operation(
    "cross_entropy", ("x", "target", "out"), ("axis", "ignore_index", "reduction"), _losses, needed=2
)
