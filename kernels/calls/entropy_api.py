"""The loss functions: the cross entropy of logits and integer targets, in arrays on a GPU or the CPU.

    layoutalg.ops.cross_entropy(x, target)                              the mean over the rows of x
    layoutalg.ops.cross_entropy(x, target, 1, reduction="none")         a loss per position of (n, c, h, w)

A row is read once, independent of its length.  Intermediate values are float32 on a GPU and in the simulator,
and float64 for arrays on the CPU, rounded once.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from layoutalg.codegen.gpu import LoadedSequence
from layoutalg.codegen.program import printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import ArgumentTypeError, ShapeError, UnknownNameError, UnsupportedError, shown
from layoutalg.kernels.calls.arrays import (
    KEPT_FORMS,
    Form,
    View,
    check_fellows,
    destination,
    fill,
    in_simulator,
    launching,
    new_array,
    of_library,
    overlapping,
    unit_base,
    view,
)
from layoutalg.kernels.calls.reduce_api import REDUCED, check_whole, is_dense, whole_axes
from layoutalg.kernels.calls.repeated import Call, Prepared, launched, nothing, repeated
from layoutalg.kernels.elements import CARRIER, ELEMENT, values_of, whole_units, words_of
from layoutalg.kernels.plan_cache import LOADED_PLANS, configured_on_gpu, gpu_arch
from layoutalg.kernels.registry import FAMILIES
from layoutalg.kernels.rowwise import (
    IGNORE_INDEX,
    REDUCTIONS,
    CrossEntropyProblem,
    cross_entropy_problem,
    joined_losses,
    room,
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
    if simulate is False:
        found = repeated("cross_entropy", axis, (ignore_index, reduction), (x, target, out))
        if found is not None:
            return found
    return prepare_cross_entropy(x, target, axis, ignore_index, reduction, out, simulate=simulate)()


def prepare_cross_entropy(
    x: Any, target: Any, axis: int = -1, ignore_index: int = IGNORE_INDEX, reduction: str = "mean",
    out: Any = None, *, simulate: bool = False,
) -> Prepared:  # fmt: skip
    """A prepared cross entropy.  Raises as `cross_entropy` does.

    >>> import numpy
    >>> x, target = numpy.zeros((2, 4), "f4"), numpy.array([1, 2])
    >>> loss = prepare_cross_entropy(x, target)
    >>> x[:] = [9, 0, 0, 0]
    >>> round(float(loss()), 4)
    9.0004
    """
    if not isinstance(reduction, str) or reduction not in REDUCTIONS:
        given = reduction if isinstance(reduction, str) else shown(reduction)
        raise UnknownNameError("reduction of losses", given, REDUCTIONS)
    source, at = view(x), view(target)
    simulated = in_simulator(simulate, source)
    if source.form.kind not in REDUCED:
        raise UnsupportedError(
            f"cross_entropy of {source.form.kind} elements: {', '.join(REDUCED)} are accepted"
        )
    if at.form.kind not in _TARGETS:
        raise UnsupportedError(f"targets of {at.form.kind}: {' and '.join(_TARGETS)} are accepted")
    over, _, shape = whole_axes(axis, source.form.shape)
    if len(over) != 1:
        raise ShapeError(f"cross_entropy along the axes {shown(axis)}: classes lie along one")
    check_fellows(source, at, "target")
    if at.form.shape != shape:
        raise ShapeError(f"target has shape {at.form.shape}; x without its axis of classes has {shape}")
    made = shape if reduction == "none" else ()
    kinds = dict.fromkeys((source.form.kind, "float32"))
    goal = new_array(source, made) if out is None else destination(source, made, out, kinds=kinds)
    for name, v in (("target", at), ("out", goal)):
        if not is_dense(v.form):
            raise ShapeError(f"{name} has strides {v.form.strides} in bytes; it must be contiguous")
    if out is not None and (overlapping(source, goal) or overlapping(at, goal)):
        raise ArgumentTypeError("an input and out overlap: results would be written over what is still read")
    ask = _ask(source.form, over[0], at.form.kind, goal.form.kind, ignore_index, reduction)
    run: Callable[[], object] = nothing
    if source.form.elems:
        call = Call("cross_entropy", axis, (ignore_index, reduction), (x, target, out))
        run = _computing(call, ask, source, at, goal, simulated=simulated)
    else:
        _ = ask.placed()  # raises what has to be refused of arrays without elements too
        if reduction != "none":
            run = functools.partial(_of_nothing, goal, nan if reduction == "mean" else 0.0)
    return Prepared(run, functools.partial(of_library, x, goal) if out is None else lambda: out)


def _of_nothing(goal: View, value: float) -> None:
    if value:
        warnings.warn("cross_entropy of nothing: the mean is NaN", RuntimeWarning, stacklevel=4)
    fill(goal, value)


@dataclass(frozen=True, eq=False)
class _Ask:
    """The request for arrays of some forms, whatever their addresses; equal ones are the same object."""

    source: Form
    axis: int
    target: str
    result: str
    ignore_index: int
    reduction: str

    def placed(
        self, src_at: int = 0, target_at: int = 0, dst_at: int = 0, *, dense: bool = True
    ) -> CrossEntropyProblem:
        """The problem of arrays that start at these bytes of their 16-byte units."""
        form, result = self.source, ELEMENT[self.result]
        modes = zip(form.shape, form.strides, strict=True)
        steps = None if dense else tuple(d // form.itemsize if n > 1 else 0 for n, d in modes)
        target = _TARGETS[self.target]
        return cross_entropy_problem(
            form.shape, self.axis, ELEMENT[form.kind], target, steps, src_at // form.itemsize,
            dst_at // (4 if result == "f32" else 2), target_offset=target_at // int(target[1:]) * 8,
            ignore_index=self.ignore_index, reduction=self.reduction, result=result,
        )  # fmt: skip


@functools.lru_cache(KEPT_FORMS, typed=True)
def _ask(source: Form, axis: int, target: str, result: str, ignore_index: int, reduction: str) -> _Ask:
    return _Ask(source, axis, target, result, ignore_index, reduction)


def _computing(
    call: Call, ask: _Ask, source: View, at: View, goal: View, *, simulated: bool
) -> Callable[[], object]:
    """Return the function that computes the request on these arrays."""
    for name, v in (("x", source), ("target", at), ("out", goal)):
        check_whole(v, name)
    if source.form.device is None:
        _ = ask.placed()
        return functools.partial(_compute_here, ask, source, at, goal, simulated=simulated)
    views = {"src": source, "target": at, "dst": goal}
    bases = {name: unit_base(v) for name, v in views.items()}
    pointers = {name: (n, bases[name][0] - v.address) for n, (name, v) in enumerate(views.items(), 1)}
    with launching(source):
        run, losses, sums = _loaded(ask, *(bases[name][1] for name in views))
        scratch = len(views) + 1
        pointers |= {"losses": (scratch, losses), "sums": (scratch, sums)}
        return launched(call, source, (at,), goal, [(run, {})], pointers)


@functools.lru_cache(LOADED_PLANS)
def _loaded(ask: _Ask, src_at: int, target_at: int, dst_at: int) -> tuple[LoadedSequence, int, int]:
    """The launches of a problem, loaded on the current GPU, and where losses and sums lie in scratch."""
    p = ask.placed(src_at, target_at, dst_at, dense=False)
    run, config = configured_on_gpu("cross_entropy", p, ask.source.device)
    has = room(p, config, gpu_arch())
    return replace(run, scratch_bytes=has.end), has.losses, has.sums


def _compute_here(ask: _Ask, source: View, at: View, goal: View, *, simulated: bool) -> None:
    """The same on the CPU, of dense copies: by the definition, or in the simulator."""
    import numpy

    p = ask.placed()
    word, result = CARRIER[source.form.itemsize], CARRIER[goal.form.itemsize]
    src = source.host.view(word).ravel()
    targets, bits = at.host.ravel(), goal.host.view(result)
    if not simulated:
        exact = joined_losses(p, values_of(src, p.dtype.name), targets)
        bits[...] = words_of(numpy.asarray(exact), p.result.name).reshape(bits.shape)
        return
    given = {
        "src": src,
        "target": targets.view(CARRIER[p.target.nbytes]),
        "dst": numpy.zeros(bits.size, result),
    }
    given |= {"losses": numpy.zeros(p.loss_words, CARRIER[4]), "sums": numpy.zeros(2, CARRIER[4])}
    buffers = {name: whole_units(array) for name, array in given.items()}
    family = FAMILIES["cross_entropy"]
    sequence = printed_sequence(family.launches(p, family.choose(p), "sm_90"))
    simulate_sequence(sequence, buffers, trace=False)
    bits[...] = buffers["dst"][: bits.size].reshape(bits.shape)
