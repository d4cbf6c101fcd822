"""The family of cross entropies, as a record: how it is verified and timed.

Elements are those of the other reductions (`rowwise.trials`); targets are drawn from the classes, some are
ignored, and of a loss per row some name no class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy

from layoutalg.arch import Arch
from layoutalg.codegen.gpu import device_copy, device_empty, to_device
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError
from layoutalg.kernels import elements
from layoutalg.kernels.baselines import Launch, torch_cross_entropy, torch_loss_difference
from layoutalg.kernels.family import NEEDED, Bench, Candidate, Checks, Expected, Family, Pace
from layoutalg.kernels.rowwise import trials
from layoutalg.kernels.rowwise.entropy.kernels import configs, launches
from layoutalg.kernels.rowwise.entropy.problem import (
    CrossEntropyProblem,
    cross_entropy_problem,
    joined_losses,
    losses,
)
from layoutalg.kernels.rowwise.problems import ReduceProblem, reduced
from layoutalg.kernels.rowwise.reduce_plan import plan_with, refusals

VERIFIED = (((37, 131), 1, "none"), ((5, 3001), 1, "mean"), ((4, 33, 20), 1, "sum"), ((601, 5), 1, "mean"))
"""Shapes, axes and reductions: rows and columns, aligned and not."""

CASES = (((8192, 8192), 1), ((4096, 50257), 1), ((2048, 128256), 1), ((65536, 1024), 1))
"""Shapes and axes that are timed: rows of vocabularies."""


def _array_bytes(p: CrossEntropyProblem) -> int:
    """Bytes of the arrays, in float64.  Raises as `check_dense` does."""
    x = p.axes
    trials.check_dense(p, x, not p.target_offset)
    return 8 * (x.source_elems + 2 * x.outputs)


def _trials(p: CrossEntropyProblem) -> tuple[str, ...]:
    """All, but that a sum of losses near the largest float is infinite."""
    return tuple(name for name in trials.TENSOR_TRIALS if name != "extremes" or p.reduction == "none")


def _between(p: CrossEntropyProblem, empty: Any) -> dict[str, Any]:
    """The buffers between launches."""
    if p.reduction == "none":
        return {}
    return {"losses": empty(elements.in_units(p.loss_words, 4)), "sums": empty(elements.in_units(2, 4))}


def _targets(p: CrossEntropyProblem, seed: int, *, wild: bool = False) -> Any:
    """A target per row; one in eight is ignored, and among `wild` ones some are of no class."""
    rng, n = numpy.random.default_rng([seed, p.axes.count]), p.axes.outputs
    at = rng.integers(0, p.axes.count, n)
    if wild:
        at = numpy.where(rng.random(n) < 0.1, rng.choice([-1, p.axes.count], n), at)
    at = numpy.where(rng.random(n) < 0.125, p.ignore_index, at)
    return elements.whole_units(at.astype(f"i{p.target.nbytes}")).view(elements.CARRIER[p.target.nbytes])


def _buffers(p: CrossEntropyProblem, trial: str, seed: int) -> dict[str, Any]:
    numbers = trials.placed_numbers(trial, "logsumexp", p.axes, seed)
    return {
        "src": elements.whole_units(elements.words_of(numbers, p.dtype.name)),
        "target": _targets(p, seed, wild=p.reduction == "none"),
        **_between(p, lambda n: numpy.zeros(n, elements.CARRIER[4])),
        "dst": elements.set_bits(p.outputs, p.result.nbytes),
    }


def _expected(p: CrossEntropyProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    """The result, and how far it may be off: each loss as its logsumexp, and as what is taken off."""
    numbers = elements.values_of(given["src"], p.dtype.name)
    targets = given["target"].view(f"i{p.target.nbytes}")
    exact = numpy.asarray(joined_losses(p, numbers, targets))
    x = p.axes
    as_f32 = ReduceProblem("logsumexp", x, find_dtype("f32"))
    config = configs(p)[0] if c is None else c
    with numpy.errstate(all="ignore"):
        allowed = trials.reduction_bound(as_f32, plan_with(p.losses, config).additions + 2, numbers)
        largest = reduced(replace(as_f32, op="max"), numpy.abs(numbers))
        loss, counts = losses(p, numbers, targets)
        place = 2 * elements.HALF_PLACE["f32"]
        allowed = allowed + 2 * place * (numpy.nan_to_num(largest, posinf=0) + numpy.abs(loss))
        allowed = numpy.where(counts == 0, 0.0, allowed)
        if p.reduction != "none":
            every = (allowed + 64 * place * numpy.abs(loss)).sum()
            allowed = every / (counts.sum() if p.reduction == "mean" else 1)
        half = elements.HALF_PLACE[p.result.name]
        allowed = allowed * (1 + half) + half * numpy.abs(exact) + elements.SMALLEST_SUM[p.result.name]
    places = numpy.arange(exact.size).reshape(exact.shape)
    return Expected("dst", exact, numpy.asarray(allowed), p.result.name, places)


def _candidates(p: CrossEntropyProblem, arch: str | Arch) -> Iterator[Candidate]:
    yield from map(Candidate, configs(p, arch))
    yield from (Candidate(c, why) for c, why in refusals(p.losses, arch).items())


def _arrays(p: CrossEntropyProblem, n: int) -> dict[str, Any]:
    between = _between(p, lambda count: device_empty((count,), elements.CARRIER[4]))
    return trials.device_tensors(p.axes, p.outputs, p.result, n) | {
        "target": to_device(_targets(p, n)),
        **between,
    }


def _asked(p: CrossEntropyProblem, arrays: Mapping[str, Any]) -> tuple[Any, Any, int, str, int, str]:
    """The arguments of PyTorch's cross entropy."""
    x = arrays["src"][: prod(p.axes.shape)].reshape(p.axes.shape)
    at = arrays["target"].view(f"i{p.target.nbytes}")[: p.axes.outputs].reshape(p.axes.kept_shape)
    return x, at, p.axes.axes[0], p.dtype.name, p.ignore_index, p.reduction


def _by_torch(p: CrossEntropyProblem, arrays: Mapping[str, Any]) -> Launch | None:
    return torch_cross_entropy(*_asked(p, arrays))


def _read(p: CrossEntropyProblem, arrays: Mapping[str, Any]) -> Launch:
    """The driver's copy of half as many bytes: it reads them and writes them."""
    half = arrays["src"].size // 2
    return device_copy(arrays["src"][half : 2 * half], arrays["src"][:half])


def _check(p: CrossEntropyProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """Results may differ by 2^-12 of the largest and one last place of their type."""
    if _by_torch(p, arrays) is None:
        return ""
    ours()
    found = arrays["dst"][: p.outputs]
    seen, largest = torch_loss_difference(*_asked(p, arrays), found, p.result.name)
    allowed = largest * (2.0**-12 + 2 * elements.HALF_PLACE[p.result.name])
    return "" if seen <= allowed else f"{seen} from the definition, more than the {allowed} of rounding"


def _cases(
    dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, CrossEntropyProblem]]:
    for shape, axis in CASES:
        for dtype in dtypes or ("bf16", "f32"):
            p = cross_entropy_problem(shape, axis, dtype)
            yield f"cross_entropy {'x'.join(map(str, shape))} over {axis} {dtype}", p


def _problem(
    shape: tuple[int, ...], axes: Any = -1, dtype: Any = "f32", reduction: str = "mean", **rest: Any
) -> CrossEntropyProblem:
    several = axes if isinstance(axes, tuple) else (axes,)
    if len(several) != 1:
        raise ShapeError(f"cross entropy over the axes {axes}: classes lie along one")
    return cross_entropy_problem(shape, several[0], dtype, reduction=reduction, **rest)


CROSS_ENTROPY = Family(
    "cross_entropy",
    "the cross entropy of logits along an axis and integer targets",
    _problem,
    _candidates,
    launches=launches,
    checks=Checks(
        _buffers,
        _expected,
        _array_bytes,
        verified=tuple({"shape": s, "axes": (axis,), "reduction": of} for s, axis, of in VERIFIED),
        trials=_trials,
    ),
    asks={"shape": NEEDED, "axes": (-1,)},
    bench=Bench(
        arrays=_arrays,
        contenders={"copy": _read, "torch": _by_torch, "cupy": lambda p, arrays: None},
        check=_check,
        cases=_cases,
        limit="copy",
        pace=lambda p: Pace(9, 16, 1.5, 32),
        record="reduced_rate",
        notes=lambda p, c, arch: {"moved bytes": p.moved_bytes, "memory bytes": p.moved_bytes},
    ),
)
"""The family of this room."""
