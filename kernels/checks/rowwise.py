"""Reductions, norms and losses: the data on which they are verified, and the problems that are timed.

They are verified on the data of `checks.rows`, whose results have bounds, and timed on `CASES` of the
literature, odd ones and small ones, and on `random_cases`, beside PyTorch, CuPy and what memory can do: to a
reduction our sum of as many bytes as one long vector ("read"), to a norm the driver's copy of as many bytes
("copy").

Targets of a cross entropy are drawn from the classes, some are ignored, and of a loss per row some name no
class.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy

from layoutalg.codegen import gpu as device
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import check_choice
from layoutalg.kernels import elements, rowwise
from layoutalg.kernels.checks import rows
from layoutalg.kernels.checks.baselines import (
    Launch,
    torch_cross_entropy,
    torch_difference,
    torch_loss_difference,
    torch_map,
    torch_reduction,
    torch_wrong_indices,
)
from layoutalg.kernels.checks.record import Bench, Checks, Expected, Pace, memory_notes
from layoutalg.kernels.family import Family
from layoutalg.kernels.modes import places
from layoutalg.kernels.norms import NORMS
from layoutalg.kernels.registry import FAMILIES
from layoutalg.kernels.sizes import outermost

Shape: TypeAlias = tuple[int, ...]

Problem: TypeAlias = rowwise.ReduceProblem | rowwise.NormProblem

DTYPES = rowwise.ELEMENTS
"""Element types that are timed."""


VERIFIED = tuple(
    {"shape": shape, "axes": axes}
    for shape, axes in (
        ((37, 131), (0,)), ((37, 131), (1,)), ((4, 33, 20), (0, 2)), ((5, 3001), (1,)), ((601, 5), (0,)),
    )
)  # fmt: skip
"""Shapes and axes: rows and columns, aligned and not."""

# --- problems that are timed ---------------------------------------------------------------------------


class Case(NamedTuple):
    """`op` over `axes` of a dense tensor of `shape` and `dtype`."""

    op: str
    shape: Shape
    axes: Shape
    dtype: str

    @property
    def problem(self) -> Any:
        """The problem of its family."""
        return FAMILIES[self.op].problem(self.shape, self.axes, self.dtype)

    def __str__(self) -> str:
        shape, axes = ("x".join(map(str, self.shape)), ",".join(map(str, self.axes)))
        return f"{self.op} {shape} over {axes} {self.dtype}"


REDUCED: tuple[tuple[Shape, Shape, tuple[str, ...]], ...] = tuple((*one, DTYPES) for one in (
    ((8192, 8192), (1,)), ((8192, 8192), (0,)), ((65536, 1024), (1,)), ((65536, 1024), (0,)),
    ((1024, 65536), (1,)), ((1024, 65536), (0,)), ((64, 256, 56, 56), (0, 2, 3)), ((32, 1024, 1024), (1,)),
    ((1 << 26,), (0,)), ((8191, 8193), (1,)), ((8191, 8193), (0,)), ((256, 256), (1,)), ((256, 256), (0,)),
))  # fmt: skip
"""(shape, axes, types) that are summed."""


NORMED: tuple[tuple[Shape, Shape, tuple[str, ...]], ...] = (
    ((8192, 8192), (1,), ("f32", "bf16")), ((8192, 8192), (0,), ("f32", "bf16")),
    ((65536, 1024), (1,), ("f32", "bf16")), ((65536, 1024), (0,), ("f32", "bf16")),
    ((32, 1024, 1024), (1,), ("f32", "bf16")), ((64, 1000), (1,), ("f32",)), ((4096, 50257), (1,), ("f16",)),
    ((1, 1 << 24), (1,), ("f32",)), ((8191, 8193), (1,), ("f32", "bf16")),
    ((8191, 8193), (0,), ("f32", "bf16")),
)  # fmt: skip
"""(shape, axes, types) of the cases of softmax and layer norm."""


DRAWN_SUMS, DRAWN_NORMS = ("sum", "mean", "max"), ("softmax", "layer_norm")
"""The operations that random cases are drawn from: another one would change what a seed draws."""


RMS_NORMED: tuple[tuple[Shape, Shape, tuple[str, ...]], ...] = tuple((*one, ("f32", "bf16")) for one in (
    ((8192, 8192), (1,)), ((65536, 1024), (1,)), ((65536, 1024), (0,)), ((1, 1 << 24), (1,)),
    ((8191, 8193), (1,)), ((8191, 8193), (0,)),
))  # fmt: skip
"""(shape, axes, types) of the cases of rms norms."""


ADDING = tuple(op for op, norm in NORMS.items() if norm.adds)


HELD = tuple(case for case in RMS_NORMED if case[1] == (1,) and case[0][0] > 1)
"""The norms that add a residual, and the cases of such: rows that are held."""


CASES = tuple(
    Case(op, shape, axes, dtype)
    for ops, asked in (
        (("sum",), REDUCED), (DRAWN_NORMS, NORMED), (("rms_norm",), RMS_NORMED), (ADDING, HELD),
    )
    for op in ops
    for shape, axes, dtypes in asked
    for dtype in dtypes
)  # fmt: skip


SEED, DRAWN_REDUCED, DRAWN_NORMED = 2027, 12, 8


ELEMS = 1 << 25
"""The approximate number of elements of a drawn tensor."""


def random_cases(
    seed: int = SEED, reduced: int = DRAWN_REDUCED, normed: int = DRAWN_NORMED
) -> tuple[Case, ...]:  # fmt: skip
    """Dense tensors of 2 to 5 modes with some of them reduced, the same for the same seed.

    >>> random_cases() == random_cases(), len(random_cases(1, 3, 2))
    (True, 5)
    """
    rng = random.Random(seed)
    cases: list[Case] = []
    for ops, count in ((DRAWN_SUMS, reduced), (DRAWN_NORMS, reduced + normed)):
        while len(cases) < count:
            rank = rng.randint(2, 5)
            cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
            shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
            grain = rng.choice((1, 1, 8, 32))
            shape = tuple(max(1, round(ELEMS**share / grain)) * grain for share in shares)
            axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank - 1))))
            case = Case(rng.choice(ops), shape, axes, rng.choice(DTYPES))
            if ELEMS // 2 < prod(shape) < 2 * ELEMS:
                cases.append(case)
    return tuple(cases)


def every_case(dtypes: Sequence[str] | None = None) -> Iterator[tuple[str, str, Problem]]:
    """The cases of `rowwise_cases`."""
    for dtype in dtypes or ():
        check_choice("element type of reductions", dtype, DTYPES)
    for case in (*CASES, *random_cases()):
        if case.dtype in (dtypes or DTYPES):
            yield case.op, str(case), case.problem


def _cases(
    op: str, dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, Problem]]:
    cases = [(name, p) for of, name, p in every_case(dtypes) if of == op]
    more = (Case(op, shape, axes, dtype) for shape, axes, every in REDUCED[:6] for dtype in every)
    yield from cases or ((str(c), c.problem) for c in more if c.dtype in (dtypes or DTYPES))


# --- data, and results by definition -------------------------------------------------------------------


def _array_bytes(p: Problem) -> int:
    """Bytes of the arrays, in float64.  Raises as `check_dense` does."""
    x = p.axes
    results = x.outputs if isinstance(p, rowwise.ReduceProblem) else prod(x.shape)
    rows.check_dense(p, x, x.target_elems == results)
    return 8 * (x.source_elems + x.target_elems)


def _buffers(p: Problem, trial: str, seed: int) -> dict[str, Any]:
    """The sources of a trial as bits, and a destination of set bits; in place it holds the source."""
    x, element = p.axes, p.dtype.name
    numbers = {"src": rows.placed_numbers(trial, p.op, x, seed)}
    rng = numpy.random.default_rng([seed, len(rows.TENSOR_TRIALS)])
    numbers |= {name: rng.standard_normal(x.count) for name in p.parameters}
    numbers |= {name: rng.standard_normal(x.source_elems) for name in p.read[1:]}
    given = {name: elements.whole_units(elements.words_of(v, element)) for name, v in numbers.items()}
    dst = given["src"].copy() if p.in_place else elements.set_bits(x.target_elems, p.result.nbytes)
    return {**given, "dst": dst}


def _expected(p: Problem, c: Any, given: Mapping[str, Any]) -> Expected:
    numbers = {name: elements.values_of(given[name], p.dtype.name) for name in ("src", *p.parameters)}
    if isinstance(p, rowwise.ReduceProblem):
        plan = rowwise.plans(p)[0] if c is None else rowwise.plan_with(p, c)
        exact = rowwise.reduced(p, numbers["src"])
        if p.result.name in elements.INTEGERS:
            buffer = given["dst"].copy()
            buffer[rows.result_places(p.axes)] = elements.words_of(exact, p.result.name)
            return Expected("dst", buffer)
        allowed = rows.reduction_bound(p, plan.additions, numbers["src"])
    else:
        at, beside = places(p.axes.shape, p.axes.src), None
        x = numbers["src"][at]
        if p.norm.adds:
            x = rowwise.added(p, x, elements.values_of(given["residual"], p.dtype.name)[at])
            beside = Expected("residual", x, 0 * at, p.dtype.name, at)
        extra = [numbers[y][: p.axes.count] if y in numbers else None for y in ("weight", "bias")]
        exact = rowwise.normed(p, x, *extra)
        allowed = rows.norm_bound(p, x, exact, *extra)
        return Expected("dst", exact, allowed, p.result.name, rows.result_places(p.axes), beside)
    return Expected("dst", exact, allowed, p.result.name, rows.result_places(p.axes))


def _with_extent(p: Problem, n: int) -> tuple[Problem, int]:
    """The problem with another extent of its outermost kept mode, and its rows."""
    x, (mode, count) = p.axes, outermost(p.axes)
    more = n - x.shape[mode]
    wide = replace(
        x, shape=(*x.shape[:mode], n, *x.shape[mode + 1 :]),
        source_elems=x.source_elems + more * x.src[mode], target_elems=x.target_elems + more * x.dst[mode],
    )  # fmt: skip
    return replace(p, axes=wide), count // x.shape[mode] * n


# --- the bench -----------------------------------------------------------------------------------------


def _arrays(p: Problem, n: int) -> dict[str, Any]:
    arrays = rows.device_tensors(p.axes, p.axes.target_elems, p.result, n)
    residuals = {name: rows.device_tensors(p.axes, 0, p.result, n + 1)["src"] for name in p.read[1:]}
    return arrays | residuals


def _source(p: Problem, arrays: Mapping[str, Any]) -> Any:
    """The source, or what a residual has become."""
    return arrays[p.read[-1]][: prod(p.axes.shape)].reshape(p.axes.shape)


def _by_torch(p: Problem, arrays: Mapping[str, Any]) -> Launch | None:
    launch = torch_reduction(p.formula, _source(p, arrays), p.axes.axes, p.dtype.name)
    adds = [torch_map("add", arrays[x], (arrays[x], arrays["src"]), p.dtype.name) for x in p.read[1:]]
    return None if launch is None else in_turn(*adds, launch)


def _by_cupy(p: Problem, arrays: Mapping[str, Any]) -> Launch | None:
    return device.array_reduction(p.op, _source(p, arrays), p.axes.axes)


@functools.lru_cache(32)
def _long_sum(words: int, arch: str) -> device.LoadedSequence:
    family = FAMILIES["sum"]
    p = family.problem((words,), (0,))
    compiled = device.compile_sequence(family.launches(p, family.choose(p, arch), arch), arch)
    return device.load_sequence(compiled.ready())


def _read(p: rowwise.ReduceProblem, arrays: Mapping[str, Any]) -> Launch:
    """Our sum of as many bytes as one long vector."""
    words = p.axes.source_elems * p.dtype.nbytes // 4
    run = _long_sum(words, device.require_gpu().arch)
    return run.on_arrays({"src": arrays["src"], "dst": device.device_empty((4,), "float32")})


def _copied(p: rowwise.NormProblem, arrays: Mapping[str, Any]) -> Launch:
    copies = [device.device_copy(arrays[to], arrays["src"]) for to in ("dst", *p.read[1:])]
    return in_turn(*copies)


def in_turn(*launches: Launch | None) -> Launch:
    """Several launches as one."""
    first, *others = filter(None, launches)
    return (lambda: [launch() for launch in (first, *others)]) if others else first


def _check(p: Problem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """Results may differ by 2^-16 of the largest and one last place of their type; maxima may not.

    The largest of few sums may happen to be near 0: it counts as what sums of normal numbers usually are.
    """
    if _by_torch(p, arrays) is None:
        return ""
    ours()
    x, element = _source(p, arrays), p.dtype.name
    if p.result.name in elements.INTEGERS:
        indices = arrays["dst"][: p.axes.target_elems]
        wrong = torch_wrong_indices(p.op, x, p.axes.axes, element, indices)
        return f"{wrong} indices are not those of the definition" if wrong else ""
    seen, largest = torch_difference(p.formula, x, p.axes.axes, element, arrays["dst"][: p.axes.target_elems])
    spread = sqrt(p.axes.count)
    usual = {"sum": spread, "mean": 1 / spread}.get(p.op, 0.0)
    last_place = max(max(largest, usual) * 2 * elements.HALF_PLACE[element], elements.SMALLEST_SUM[element])
    allowed = 0.0 if p.op in ("max", "min") else max(largest, usual) * 2.0**-16 + last_place
    return "" if seen <= allowed else f"{seen} from the definition, more than the {allowed} of rounding"


# --- losses --------------------------------------------------------------------------------------------

LOSSES = tuple(
    {"shape": shape, "axes": (axis,), "reduction": reduction}
    for shape, axis, reduction in (
        ((23, 131), 1, "none"), ((5, 3001), 1, "mean"), ((4, 33, 20), 1, "sum"), ((601, 5), 1, "mean"),
    )
)  # fmt: skip
"""Shapes, axes and reductions: rows and columns, aligned and not."""

LOSS_CASES = (((8192, 8192), 1), ((4096, 50257), 1), ((2048, 128256), 1), ((65536, 1024), 1))
"""Shapes and axes that are timed: rows of vocabularies."""


def _loss_bytes(p: rowwise.CrossEntropyProblem) -> int:
    """Bytes of the arrays, in float64.  Raises as `check_dense` does."""
    x = p.axes
    rows.check_dense(p, x, not p.target_offset)
    return 8 * (x.source_elems + 2 * x.outputs)


def _loss_trials(p: rowwise.CrossEntropyProblem) -> tuple[str, ...]:
    """All, but that a sum of losses near the largest float is infinite."""
    return tuple(name for name in rows.TENSOR_TRIALS if name != "extremes" or p.reduction == "none")


def _between(p: rowwise.CrossEntropyProblem, empty: Any) -> dict[str, Any]:
    """The buffers between launches."""
    if p.reduction == "none":
        return {}
    return {"losses": empty(elements.in_units(p.loss_words, 4)), "sums": empty(elements.in_units(2, 4))}


def _targets(p: rowwise.CrossEntropyProblem, seed: int, *, wild: bool = False) -> Any:
    """A target per row; one in eight is ignored, and among `wild` ones some are of no class."""
    rng, n = numpy.random.default_rng([seed, p.axes.count]), p.axes.outputs
    at = rng.integers(0, p.axes.count, n)
    if wild:
        at = numpy.where(rng.random(n) < 0.1, rng.choice([-1, p.axes.count], n), at)
    at = numpy.where(rng.random(n) < 0.125, p.ignore_index, at)
    return elements.whole_units(at.astype(f"i{p.target.nbytes}")).view(elements.CARRIER[p.target.nbytes])


def _loss_buffers(p: rowwise.CrossEntropyProblem, trial: str, seed: int) -> dict[str, Any]:
    numbers = rows.placed_numbers(trial, "logsumexp", p.axes, seed)
    return {
        "src": elements.whole_units(elements.words_of(numbers, p.dtype.name)),
        "target": _targets(p, seed, wild=p.reduction == "none"),
        **_between(p, lambda n: numpy.zeros(n, elements.CARRIER[4])),
        "dst": elements.set_bits(p.outputs, p.result.nbytes),
    }


def _expected_losses(p: rowwise.CrossEntropyProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    """The result, and how far it may be off: each loss as its logsumexp, and as what is taken off."""
    numbers = elements.values_of(given["src"], p.dtype.name)
    targets = given["target"].view(f"i{p.target.nbytes}")
    exact = numpy.asarray(rowwise.joined_losses(p, numbers, targets))
    as_f32 = rowwise.ReduceProblem("logsumexp", p.axes, find_dtype("f32"))
    config = rowwise.loss_configs(p)[0] if c is None else c
    with numpy.errstate(all="ignore"):
        allowed = rows.reduction_bound(as_f32, rowwise.plan_with(p.losses, config).additions + 2, numbers)
        largest = rowwise.reduced(replace(as_f32, op="max"), numpy.abs(numbers))
        loss, counts = rowwise.losses(p, numbers, targets)
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


def _loss_arrays(p: rowwise.CrossEntropyProblem, n: int) -> dict[str, Any]:
    between = _between(p, lambda count: device.device_empty((count,), elements.CARRIER[4]))
    return rows.device_tensors(p.axes, p.outputs, p.result, n) | {
        "target": device.to_device(_targets(p, n)),
        **between,
    }


def _asked(p: rowwise.CrossEntropyProblem, arrays: Mapping[str, Any]) -> tuple[Any, Any, int, str, int, str]:
    """The arguments of PyTorch's cross entropy."""
    x = arrays["src"][: prod(p.axes.shape)].reshape(p.axes.shape)
    at = arrays["target"].view(f"i{p.target.nbytes}")[: p.axes.outputs].reshape(p.axes.kept_shape)
    return x, at, p.axes.axes[0], p.dtype.name, p.ignore_index, p.reduction


def _half_copied(p: rowwise.CrossEntropyProblem, arrays: Mapping[str, Any]) -> Launch:
    """The driver's copy of half as many bytes: it reads them and writes them."""
    half = arrays["src"].size // 2
    return device.device_copy(arrays["src"][half : 2 * half], arrays["src"][:half])


def _check_losses(p: rowwise.CrossEntropyProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """Results may differ by 2^-12 of the largest and one last place of their type."""
    if torch_cross_entropy(*_asked(p, arrays)) is None:
        return ""
    ours()
    results = arrays["dst"][: p.outputs]
    seen, largest = torch_loss_difference(*_asked(p, arrays), results, p.result.name)
    allowed = largest * (2.0**-12 + 2 * elements.HALF_PLACE[p.result.name])
    return "" if seen <= allowed else f"{seen} from the definition, more than the {allowed} of rounding"


def _loss_cases(
    dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, rowwise.CrossEntropyProblem]]:
    for shape, axis in LOSS_CASES:
        for dtype in dtypes or ("bf16", "f32"):
            p = rowwise.cross_entropy_problem(shape, axis, dtype)
            yield f"cross_entropy {'x'.join(map(str, shape))} over {axis} {dtype}", p


# --- the records ---------------------------------------------------------------------------------------


def checks(family: Family) -> Checks:
    """The checks of a family of this room."""
    if family.name == "cross_entropy":
        return Checks(_loss_buffers, _expected_losses, _loss_bytes, LOSSES, _loss_trials)
    trials = tuple(rows.TENSOR_TRIALS)
    return Checks(_buffers, _expected, _array_bytes, VERIFIED, lambda p: trials, _with_extent)


def bench(family: Family) -> Bench:
    """The benchmark of a family of this room."""
    made = partial(Bench, pace=lambda p: Pace(9, 16, 1.5, 32), notes=partial(memory_notes, family))
    if family.name == "cross_entropy":
        return made(
            _loss_arrays,
            {
                "copy": _half_copied,
                "torch": lambda p, arrays: torch_cross_entropy(*_asked(p, arrays)),
                "cupy": lambda p, arrays: None,
            },
            _check_losses,
            _loss_cases,
            limit="copy",
        )
    limit, reach = ("copy", _copied) if family.name in NORMS else ("read", _read)
    contenders = {limit: reach, "torch": _by_torch, "cupy": _by_cupy}
    return made(_arrays, contenders, _check, partial(_cases, family.name), limit=limit, seed=SEED)
