"""The families that compute along some modes of a tensor, as records: reductions, softmax, norms, losses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.program import SCRATCH, LaunchSequence, launch_sequence
from layoutalg.errors import ShapeError
from layoutalg.kernels.family import NEEDED, Candidate, Family, Traffic
from layoutalg.kernels.norms import NORMS
from layoutalg.kernels.rowwise import entropy, norms, reductions
from layoutalg.kernels.rowwise.memory import norm_traffic, reduce_traffic
from layoutalg.kernels.rowwise.programs import build_reduction, norm_launches
from layoutalg.kernels.rowwise.tensors import normalise
from layoutalg.kernels.rowwise.times import loss_clock, norm_clock, reduction_clock
from layoutalg.kernels.rowwise.ways import ReducePlan, norm_candidates, plan_with, plans, refusals

Shape: TypeAlias = tuple[int, ...]

Problem: TypeAlias = reductions.ReduceProblem | norms.NormProblem


def _candidates(p: Problem | entropy.CrossEntropyProblem, arch: str | Arch) -> Iterator[Candidate]:
    """The candidates that fit, best first, then those that were dropped; of losses, those that make them."""
    if isinstance(p, entropy.CrossEntropyProblem):
        p = p.losses
    if isinstance(p, reductions.ReduceProblem):
        yield from (Candidate(plan.passes[0].config) for plan in plans(p, arch))
        yield from (Candidate(c, why) for c, why in refusals(p, arch).items())
        return
    tried = dict.fromkeys(norm_candidates(p, arch))
    yield from (Candidate(c, why) for c, why in sorted(tried, key=lambda one: one[1] is not None))


def _launches(
    p: Problem, c: Any, arch: str | Arch = DEFAULT_ARCH, *, any_rows: bool = False
) -> LaunchSequence:
    """The launches of a configuration; with `any_rows` of any number, where one kernel has them whole."""
    if isinstance(p, reductions.ReduceProblem):
        plan = plan_with(p, c, arch)
        made = sequence_of(plan.for_any_rows() if any_rows else plan, arch)
    else:
        norm = norm_launches(p, arch, c, free=any_rows)
        scratch = 4 * norm.workspace_elems
        made = launch_sequence(norm.kernels, {"partial": SCRATCH}, scratch_bytes=scratch, arch=arch)
    rows = [(x.name, normalise(p.axes).kept[-1].extent) for x in made.kernels[0].integers]
    return replace(made, scalars=tuple(rows))


def sequence_of(plan: ReducePlan, arch: str | Arch | None = None) -> LaunchSequence:
    """The launches of a reduction's plan, one for each pass; with an `arch` the second starts early.

    >>> sequence_of(plans(reductions.reduce_problem((1 << 26,), 0, "sum", "f32"))[0]).buffers
    (('src', 'scratch'), ('scratch', 'dst'))
    """
    kernels = build_reduction(plan)
    names = [{}] if len(kernels) == 1 else [{"dst": SCRATCH}, {"src": SCRATCH}]
    return launch_sequence(kernels, names, scratch_bytes=4 * plan.workspace_elems, arch=arch)


def _memory(p: Problem, c: Any, arch: str | Arch = DEFAULT_ARCH) -> Traffic:
    if isinstance(p, reductions.ReduceProblem):
        return reduce_traffic(plan_with(p, c, arch), arch)
    return norm_traffic(norm_launches(p, arch, c), arch)


def _problem(op: str, shape: Shape, axes: Any, dtype: Any = "f32", **rest: Any) -> Problem:
    if op in reductions.FOLD:
        return reductions.reduce_problem(shape, axes, op, dtype, **rest)
    return norms.norm_problem(op, shape, axes, dtype, **rest)


def _losses(
    shape: Shape, axes: Any = -1, dtype: Any = "f32", reduction: str = "mean", **rest: Any
) -> entropy.CrossEntropyProblem:
    several = axes if isinstance(axes, tuple) else (axes,)
    if len(several) != 1:
        raise ShapeError(f"cross entropy over the axes {axes}: classes lie along one")
    return entropy.cross_entropy_problem(shape, several[0], dtype, reduction=reduction, **rest)


def _family(op: str) -> Family:
    return Family(
        op,
        f"{'the ' if op in reductions.FOLD else ''}{op} over some axes",
        partial(_problem, op),
        _candidates,
        _launches,
        ASKS,
        any_sizes=partial(_launches, any_rows=True),
        memory=_memory,
        clock=reduction_clock if op in reductions.FOLD else norm_clock,
    )


ASKS = {"shape": NEEDED, "axes": (-1,)}

CROSS_ENTROPY = Family(
    "cross_entropy",
    "the cross entropy of logits along an axis and integer targets",
    _losses,
    _candidates,
    entropy.launches,
    ASKS,
    clock=loss_clock,
)

ROWWISE_FAMILIES = (*map(_family, (*reductions.FOLD, *NORMS)), CROSS_ENTROPY)
"""The families of this room."""
