"""The operations that reduce data: reduce, softmax and norms over any axes of arrays on a GPU or the CPU.

The idea.  As in api, an array is an address, a shape and strides, and a problem's kernels are planned
for it, compiled once and kept.

    layoutalg.ops.reduce(x, "sum", (0, 2, 3))                     a value per channel of NCHW
    layoutalg.ops.softmax(x, 0)                                   over columns as fast as over rows
    layoutalg.ops.layer_norm(x, -1, weight, bias)

Elements are float32, float16 or bfloat16, results of the same type; intermediate values are float32 on a GPU
and in the simulator, which simulate=True selects, and float64 for arrays on the CPU, rounded once.
Integers are reduced exactly, in 64 bits: sums and products modulo 2^64.

Notes.  Sums are made in a fixed order: equal calls give equal bits.  A maximum, a softmax and a layer norm of
NaN are NaN.  A sum of nothing is 0, a mean of nothing NaN with a RuntimeWarning, a maximum of nothing is
refused, all as in NumPy.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isnan, prod
from typing import Any, SupportsIndex, TypeAlias

from layoutalg.codegen.gpu import LoadedSequence
from layoutalg.codegen.program import LaunchSequence, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    ShapeError,
    UnsupportedError,
    check_choice,
    shown,
)
from layoutalg.kernels.calls.arrays import (
    KEPT_FORMS,
    Form,
    View,
    check_fellows,
    destination,
    fill,
    in_simulator,
    launching,
    lie_alike,
    new_array,
    of_library,
    overlapping,
    unit_base,
    view,
)
from layoutalg.kernels.calls.repeated import Call, Prepared, launched, nothing, repeated
from layoutalg.kernels.elements import CARRIER, ELEMENT, INTEGERS, kind_of, values_of, whole_units, words_of
from layoutalg.kernels.plan_cache import LOADED_PLANS, sequence_on_gpu
from layoutalg.kernels.registry import FAMILIES
from layoutalg.kernels.rowwise import (
    FOLD,
    OF_INTEGERS,
    OPS,
    NormProblem,
    ReduceProblem,
    checked_eps,
    find_axes,
    norm_problem,
    normed,
    reduce_problem,
    reduced,
    results_of,
)

Axes: TypeAlias = "SupportsIndex | Iterable[SupportsIndex] | None"
"""An axis, several, or None for all; negative ones count from the last."""

Shape: TypeAlias = "tuple[int, ...]"

Place: TypeAlias = "tuple[Shape, Shape, int, int] | tuple[()]"
"""Strides of source and destination, and their offsets, in elements; (): dense arrays."""

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
    if simulate is False:
        found = repeated("reduce", axes, (op, keepdims, dtype, ddof), (x, out))
        if found is not None:
            return found
    return prepare_reduce(x, op, axes, keepdims, out, dtype, ddof=ddof, simulate=simulate)()


def prepare_reduce(
    x: Any, op: str, axes: Axes = None, keepdims: bool = False, out: Any = None, dtype: Any = None, *,
    ddof: int = 0, simulate: bool = False,
) -> Prepared:  # fmt: skip
    """A prepared `reduce`.  Raises as `reduce` does.

    >>> import numpy
    >>> x = numpy.ones((2, 3), "f4")
    >>> total = prepare_reduce(x, "sum", 1)
    >>> x[1] = 5
    >>> total().tolist()
    [3.0, 15.0]
    """
    check_choice("reduction", op, FOLD)
    source = view(x)
    form = source.form
    _element(form, op)
    simulated = in_simulator(simulate, source)
    asked = axes
    if not form.shape and op not in ("mean", "var", "logsumexp") and type(axes) is int and axes in (0, -1):
        asked = ()  # NumPy reduces a number along its "last" axis, but for a mean
    over, kept, shape = whole_axes(asked, form.shape)
    if keepdims is not True and keepdims is not False:
        raise ArgumentTypeError(f"keepdims is {shown(keepdims)}: True or False is needed")
    kinds = _results(op, form.kind, dtype)
    shape = kept if keepdims else shape
    if out is None:
        target = new_array(source, shape, kind="" if kinds[0] == form.kind else kinds[0])
    else:
        target = destination(source, shape, out, kinds=kinds)
    if isinstance(ddof, bool) or not isinstance(ddof, int):
        raise ArgumentTypeError(f"ddof is {shown(ddof)}: an int is needed")
    ask = _ask(op, form, over, target.form, ddof=ddof)
    run: Callable[[], object] = nothing
    if form.elems:
        if out is not None:
            _check_apart(source, target)
        call = Call("reduce", axes, (op, keepdims, dtype, ddof), (x, out))
        run = _computing(call, ask, source, target, {}, simulated=simulated)
    else:
        p = ask.dense
        if isinstance(p, ReduceProblem) and p.of_nothing is not None:
            check_whole(target, "out")
            ask.placed(0, unit_base(target)[1])  # raises where `out` aliases
            run = functools.partial(_of_nothing, op, target, p.of_nothing)
    return Prepared(run, functools.partial(of_library, x, target) if out is None else lambda: out)


def _of_nothing(op: str, target: View, value: float) -> None:
    if isnan(value):
        warnings.warn(f"{op} of nothing: the result is NaN", RuntimeWarning, stacklevel=4)
    fill(target, value)


def softmax(x: Any, axes: Axes = -1, out: Any = None, *, simulate: bool = False) -> Any:
    """e^x over its sum along some axes, the last by default; safe for any magnitude.  `out` may be x itself.

    Raises as `reduce` does.

    >>> import numpy
    >>> softmax(numpy.zeros((2, 4), "f4")).tolist()
    [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """
    if simulate is False:
        found = repeated("softmax", axes, (), (x, None, None, out))
        if found is not None:
            return found
    return prepare_norm("softmax", x, axes, out=out, simulate=simulate)()


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
    if simulate is False:
        found = repeated("layer_norm", axes, (eps,), (x, weight, bias, out))
        if found is not None:
            return found
    return prepare_norm("layer_norm", x, axes, weight, bias, eps, out, simulate=simulate)()


def rms_norm(
    x: Any, axes: Axes = -1, weight: Any = None, eps: float = 1e-5, out: Any = None, *, simulate: bool = False
) -> Any:
    """x / sqrt(mean x^2 + eps) * weight, the mean over some axes; all else as in `layer_norm`.

    >>> import numpy
    >>> rms_norm(numpy.array([[1, 7], [5, 5]], "f4"), eps=0).tolist()
    [[0.20000000298023224, 1.399999976158142], [1.0, 1.0]]
    """
    if simulate is False:
        found = repeated("rms_norm", axes, (eps,), (x, weight, None, out))
        if found is not None:
            return found
    return prepare_norm("rms_norm", x, axes, weight, None, eps, out, simulate=simulate)()


def prepare_norm(
    op: str, x: Any, axes: Axes = -1, weight: Any = None, bias: Any = None, eps: float | None = None,
    out: Any = None, *, simulate: bool = False,
) -> Prepared:  # fmt: skip
    """A norm by its name that is worked out; a softmax has no eps.  Raises as the norm does.

    >>> import numpy
    >>> x = numpy.zeros((1, 4), "f4")
    >>> prepare_norm("softmax", x, out=x)().tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    options = () if eps is None else (eps,)
    call = Call(op, axes, options, (x, weight, bias, out))
    eps = 0.0 if eps is None else checked_eps(op, eps)
    given = {name: view(v) for name, v in (("weight", weight), ("bias", bias)) if v is not None}
    source = view(x)
    form, simulated = source.form, in_simulator(simulate, source)
    _element(form, op)
    over = whole_axes(axes, form.shape)[0]
    for name, v in given.items():
        _check_parameter(source, tuple(form.shape[k] for k in over), name, v)
    target = destination(source, form.shape, out, kinds=(form.kind,))
    in_place = source.address == target.address and lie_alike(form, target.form)
    if out is not None:
        for v in (*given.values(), *(() if in_place else (source,))):
            _check_apart(v, target)
    ask = _ask(op, form, over, target.form, eps, "weight" in given, "bias" in given, in_place)
    run: Callable[[], object] = nothing
    if form.elems:
        for name, v in given.items():
            check_whole(v, name)
        run = _computing(call, ask, source, target, given, simulated=simulated)
    else:
        _ = ask.dense  # raises what has to be refused of arrays without elements too
    return Prepared(run, functools.partial(of_library, x, target) if out is None else lambda: out)


# --- arguments -----------------------------------------------------------------------------------------


def _element(form: Form, op: str) -> str:
    accepted = (*REDUCED, *(INTEGERS.values() if op in OF_INTEGERS else ()))
    if form.kind not in accepted:
        raise UnsupportedError(f"{op} of {form.kind} elements: {', '.join(accepted)} are accepted")
    return ELEMENT[form.kind]


def _results(op: str, kind: str, dtype: Any) -> tuple[str, ...]:
    """The types that results may have, or the requested one."""
    accepted = tuple(_KINDS[name] for name in results_of(op, ELEMENT[kind]))
    if dtype is None:
        return accepted
    asked = kind_of(dtype)
    if asked not in accepted:
        are = "are" if len(accepted) > 1 else "is"
        raise UnsupportedError(f"results of {kind} as {asked}: {' and '.join(accepted)} {are} accepted")
    return (asked,)


_KINDS = {short: long for long, short in ELEMENT.items()}


def whole_axes(axes: Axes, shape: Shape) -> tuple[Shape, Shape, Shape]:
    """Axes from 0 on, and the shape with them of extent 1, and without them."""
    several: Any = (axes,) if hasattr(axes, "__index__") else axes
    try:
        given = None if axes is None else tuple(several)
        asked = None if given is None else tuple(map(operator.index, given))
    except TypeError as error:
        raise ArgumentTypeError(f"axes {axes!r}: an int, several, or None for all are needed") from error
    if given is not None and bool in map(type, given):
        raise ArgumentTypeError(f"axes {axes!r}: an int, several, or None for all are needed, not a bool")
    return _reduced(asked, shape)


@functools.lru_cache(KEPT_FORMS)
def _reduced(asked: Shape | None, shape: Shape) -> tuple[Shape, Shape, Shape]:
    axes = find_axes(asked, len(shape))
    kept = tuple(1 if k in axes else n for k, n in enumerate(shape))
    return axes, kept, tuple(n for k, n in enumerate(shape) if k not in axes)


def _check_apart(source: View, target: View) -> None:
    if overlapping(source, target):
        raise ArgumentTypeError("an input and out overlap: results would be written over what is still read")


def _check_parameter(x: View, shape: tuple[int, ...], name: str, v: View) -> None:
    """Raise unless a weight or bias is contiguous, of a shape, and of x's type, library and device."""
    check_fellows(x, v, name)
    if v.form.kind != x.form.kind:
        raise ArgumentTypeError(f"{name} holds {v.form.kind}, x {x.form.kind}: both must be of one type")
    if v.form.shape != shape:
        raise ShapeError(f"{name} has shape {v.form.shape}; the axes have {shape}")
    if not is_dense(v.form):
        raise ShapeError(f"{name} has strides {v.form.strides} in bytes; it must be contiguous")


@functools.lru_cache(KEPT_FORMS)
def is_dense(form: Form) -> bool:
    """Whether elements follow each other in row-major order."""
    steps = (form.itemsize * prod(form.shape[k + 1 :]) for k in range(len(form.shape)))
    modes = zip(form.shape, form.strides, steps, strict=True)
    return not form.elems or all(n == 1 or d == s for n, d, s in modes)


# --- computing -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Ask:
    """The request for arrays of some forms, whatever their addresses; equal ones are the same object."""

    op: str
    source: Form
    axes: Shape
    target: Form
    eps: float
    weight: bool
    bias: bool
    in_place: bool
    ddof: int

    @property
    def element(self) -> str:
        """The type of the elements."""
        return ELEMENT[self.source.kind]

    @property
    def result(self) -> str:
        """The type of the results."""
        return ELEMENT[self.target.kind]

    @functools.cached_property
    def dense(self) -> ReduceProblem | NormProblem:
        """The same of dense arrays, not in place."""
        return self._problem((), in_place=False)

    def placed(
        self, src_at: int, dst_at: int, weight_at: int = 0, bias_at: int = 0
    ) -> ReduceProblem | NormProblem:
        """The problem of arrays that start at these bytes of their 16-byte units."""
        src, dst = _in_elems(self.source), _in_elems(self.target)
        if len(dst) < len(src):
            steps = iter(dst)
            dst = tuple(0 if k in self.axes else next(steps) for k in range(len(src)))
        at, to = src_at // self.source.itemsize, dst_at // self.target.itemsize
        size = self.source.itemsize
        return self._problem(
            (src, dst, at, to), weight_at // size, bias_at // size, in_place=self.in_place
        )  # fmt: skip

    def _problem(
        self, place: Place, weight_at: int = 0, bias_at: int = 0, *, in_place: bool
    ) -> ReduceProblem | NormProblem:
        shape, element = self.source.shape, self.element
        if self.op not in OPS:
            src, dst, at, to = place or (None, None, 0, 0)
            return reduce_problem(
                shape, self.axes, self.op, element, src, dst, at, to, self.result, self.ddof
            )
        return norm_problem(
            self.op, shape, self.axes, element, *place,
            eps=self.eps, weight=self.weight, bias=self.bias, in_place=in_place,
            weight_offset=weight_at, bias_offset=bias_at,
        )  # fmt: skip


@functools.lru_cache(KEPT_FORMS, typed=True)
def _ask(
    op: str, source: Form, axes: Shape, target: Form, eps: float = 0.0,
    weight: bool = False, bias: bool = False, in_place: bool = False, ddof: int = 0,
) -> _Ask:  # fmt: skip
    return _Ask(op, source, axes, target, eps, weight, bias, in_place, ddof)


def _computing(
    call: Call, ask: _Ask, source: View, target: View, given: Mapping[str, View], *, simulated: bool
) -> Callable[[], object]:
    """Return the function that computes the request on these arrays."""
    check_whole(source, "x")
    check_whole(target, "out")
    views = {"src": source, "weight": given.get("weight"), "bias": given.get("bias"), "dst": target}
    if len(call.arrays) == 2:
        del views["weight"], views["bias"]
    bases = {name: unit_base(v) for name, v in views.items() if v is not None}
    at = {name: bases[name][1] if name in bases else 0 for name in ("src", "dst", "weight", "bias")}
    if source.form.device is None:
        ask.placed(at["src"], at["dst"])  # raises where `out` aliases
        return functools.partial(_compute_here, ask, source, target, given, simulated=simulated)
    pointers = {
        name: (n, bases[name][0] - v.address) for n, (name, v) in enumerate(views.items(), 1) if v is not None
    }
    with launching(source):
        run = _loaded(ask, at["src"], at["dst"], at["weight"], at["bias"])
        return launched(call, source, tuple(views.values())[1:-1], target, [(run, {})], pointers)


@functools.lru_cache(LOADED_PLANS)
def _loaded(ask: _Ask, src_at: int, dst_at: int, weight_at: int, bias_at: int) -> LoadedSequence:
    """The launches of a problem, loaded on the current GPU."""
    return sequence_on_gpu(ask.op, ask.placed(src_at, dst_at, weight_at, bias_at), ask.source.device)


def check_whole(v: View, name: str) -> None:
    """Raise AlignmentError unless all elements start at multiples of their width."""
    size = v.form.itemsize
    if v.address % size or v.form.unit % size:
        raise AlignmentError(
            f"{name} starts at {v.address:#x} with strides {v.form.strides} in bytes: its elements must "
            f"start at multiples of {size}",
            offset=v.address,
            required_bytes=size,
        )


def _in_elems(form: Form) -> Shape:
    """Strides in elements, of modes that have more than one."""
    return tuple(d // form.itemsize if n > 1 else 0 for n, d in zip(form.shape, form.strides, strict=True))


def _compute_here(
    ask: _Ask, source: View, target: View, given: Mapping[str, View], *, simulated: bool
) -> None:
    """The same on the CPU, of dense copies: by the definition, or in the simulator."""
    import numpy

    p = ask.dense
    word, result = CARRIER[source.form.itemsize], CARRIER[target.form.itemsize]
    dense = {name: v.host.view(word).ravel() for name, v in {"src": source, **given}.items()}
    bits = target.host.view(result)
    if simulated:
        dst = numpy.zeros(bits.size, result)
        buffers = {name: whole_units(array) for name, array in {**dense, "dst": dst}.items()}
        simulate_sequence(_sequence(ask.op, p), buffers, trace=False)
        bits[...] = buffers["dst"][: bits.size].reshape(bits.shape)
        return
    numbers = {name: values_of(array, ask.element) for name, array in dense.items()}
    if isinstance(p, ReduceProblem):
        exact = reduced(p, numbers["src"])
    else:
        x = numbers["src"].reshape(ask.source.shape)
        exact = normed(p, x, numbers.get("weight"), numbers.get("bias"))
    bits[...] = words_of(exact, ask.result).reshape(bits.shape)


@functools.lru_cache(LOADED_PLANS)
def _sequence(op: str, p: ReduceProblem | NormProblem) -> LaunchSequence:
    """The launches that the simulator runs: the same that are printed."""
    family = FAMILIES[op]
    return printed_sequence(family.launches(p, family.choose(p), "sm_90"))
