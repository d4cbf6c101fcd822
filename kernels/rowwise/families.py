"""The families that compute along some modes of a tensor, as records: reductions, softmax and norms.

They are verified on the data of `rowwise.trials`, whose results have bounds, and timed on `CASES` of the
literature, odd ones and small ones, and on `random_cases`, beside PyTorch, CuPy and what memory can do: to a
reduction our sum of as many bytes as one long vector ("read"), to a norm the driver's copy of as many bytes
("copy").

What memory moves for them is predicted by `rowwise.memory`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy

from layoutalg.arch import Arch
from layoutalg.codegen import gpu as device
from layoutalg.codegen.program import SCRATCH, LaunchSequence, launch_sequence
from layoutalg.errors import check_choice
from layoutalg.kernels import elements
from layoutalg.kernels.baselines import (
    Launch,
    torch_difference,
    torch_map,
    torch_reduction,
    torch_wrong_indices,
)
from layoutalg.kernels.family import NEEDED, Bench, Candidate, Checks, Expected, Family, Law, Pace, Traffic
from layoutalg.kernels.modes import places
from layoutalg.kernels.norms import NORMS
from layoutalg.kernels.rowwise import norm_plan, problems, trials
from layoutalg.kernels.rowwise.memory import norm_traffic, reduce_traffic
from layoutalg.kernels.rowwise.programs import build_reduction, norm_launches
from layoutalg.kernels.rowwise.reduce_plan import ReducePlan, plan_with, plans, refusals

Shape: TypeAlias = tuple[int, ...]

Problem: TypeAlias = problems.ReduceProblem | problems.NormProblem

DTYPES = problems.ELEMENTS
"""Element types that are timed."""

VERIFIED = (
    ((37, 131), (0,)), ((37, 131), (1,)), ((4, 33, 20), (0, 2)), ((5, 3001), (1,)), ((601, 5), (0,))
)  # fmt: skip
"""Shapes and axes: rows and columns, aligned and not."""


# --- problems that are timed ---------------------------------------------------------------------------


class Case(NamedTuple):
    """`op` over `axes` of a dense tensor of `shape` and `dtype`."""

    op: str
    shape: Shape
    axes: Shape
    dtype: str

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
    found: list[Case] = []
    for ops, count in ((DRAWN_SUMS, reduced), (DRAWN_NORMS, reduced + normed)):
        while len(found) < count:
            rank = rng.randint(2, 5)
            cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
            shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
            grain = rng.choice((1, 1, 8, 32))
            shape = tuple(max(1, round(ELEMS**share / grain)) * grain for share in shares)
            axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, rank - 1))))
            case = Case(rng.choice(ops), shape, axes, rng.choice(DTYPES))
            if ELEMS // 2 < prod(shape) < 2 * ELEMS:
                found.append(case)
    return tuple(found)


# --- data, and results by definition -------------------------------------------------------------------


def _array_bytes(p: Problem) -> int:
    """Bytes of the arrays, in float64.  Raises as `check_dense` does."""
    x = p.axes
    results = x.outputs if isinstance(p, problems.ReduceProblem) else prod(x.shape)
    trials.check_dense(p, x, x.target_elems == results)
    return 8 * (x.source_elems + x.target_elems)


def _buffers(p: Problem, trial: str, seed: int) -> dict[str, Any]:
    """The sources of a trial as bits, and a destination of set bits; in place it holds the source."""
    x, element = p.axes, p.dtype.name
    numbers = {"src": trials.placed_numbers(trial, p.op, x, seed)}
    rng = numpy.random.default_rng([seed, len(trials.TENSOR_TRIALS)])
    numbers |= {name: rng.standard_normal(x.count) for name in p.parameters}
    numbers |= {name: rng.standard_normal(x.source_elems) for name in p.read[1:]}
    given = {name: elements.whole_units(elements.words_of(v, element)) for name, v in numbers.items()}
    dst = given["src"].copy() if p.in_place else elements.set_bits(x.target_elems, p.result.nbytes)
    return {**given, "dst": dst}


def _expected(p: Problem, c: Any, given: Mapping[str, Any]) -> Expected:

    numbers = {name: elements.values_of(given[name], p.dtype.name) for name in ("src", *p.parameters)}
    if isinstance(p, problems.ReduceProblem):
        plan, exact = plans(p)[0] if c is None else plan_with(p, c), problems.reduced(p, numbers["src"])
        if p.result.name in problems.INTEGERS:
            whole = given["dst"].copy()
            whole[trials.result_places(p.axes)] = elements.words_of(exact, p.result.name)
            return Expected("dst", whole)
        allowed = trials.reduction_bound(p, plan.additions, numbers["src"])
    else:
        at, beside = places(p.axes.shape, p.axes.src), None
        x = numbers["src"][at]
        if p.norm.adds:
            x = problems.added(p, x, elements.values_of(given["residual"], p.dtype.name)[at])
            beside = Expected("residual", x, 0 * at, p.dtype.name, at)
        extra = [numbers[y][: p.axes.count] if y in numbers else None for y in ("weight", "bias")]
        exact = problems.normed(p, x, *extra)
        allowed = trials.norm_bound(p, x, exact, *extra)
        return Expected("dst", exact, allowed, p.result.name, trials.result_places(p.axes), beside)
    return Expected("dst", exact, allowed, p.result.name, trials.result_places(p.axes))


CHECKS = Checks(
    _buffers,
    _expected,
    _array_bytes,
    verified=tuple({"shape": shape, "axes": axes} for shape, axes in VERIFIED),
    trials=lambda p: tuple(trials.TENSOR_TRIALS),
)

# --- configurations and launches -----------------------------------------------------------------------


def _candidates(p: Problem, arch: str | Arch) -> Iterator[Candidate]:
    """The candidates that fit, best first, then those that were dropped."""
    if isinstance(p, problems.ReduceProblem):
        yield from (Candidate(plan.passes[0].config) for plan in plans(p, arch))
        yield from (Candidate(c, why) for c, why in refusals(p, arch).items())
        return
    tried = dict.fromkeys(norm_plan.candidates(p, arch))
    yield from (Candidate(c, why) for c, why in sorted(tried, key=lambda one: one[1] is not None))


def _law_ns(p: problems.ReduceProblem, c: Any, arch: str | Arch) -> float:
    """Nanoseconds that the model of reductions gives all passes."""
    return 1e3 * plan_with(p, c, arch).predicted_us


def _launches(p: Problem, c: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
    if isinstance(p, problems.ReduceProblem):
        return sequence_of(plan_with(p, c, arch), arch)
    made = norm_launches(p, arch, c)
    names = {"partial": SCRATCH}
    return launch_sequence(made.kernels, names, scratch_bytes=4 * made.workspace_elems, arch=arch)


def sequence_of(plan: ReducePlan, arch: str | Arch | None = None) -> LaunchSequence:
    """The launches of a reduction's plan, one for each pass; with an `arch` the second starts early.

    >>> sequence_of(plans(problems.reduce_problem((1 << 26,), 0, "sum", "f32"))[0]).buffers
    (('src', 'scratch'), ('scratch', 'dst'))
    """
    kernels = build_reduction(plan)
    names = [{}] if len(kernels) == 1 else [{"dst": SCRATCH}, {"src": SCRATCH}]
    return launch_sequence(kernels, names, scratch_bytes=4 * plan.workspace_elems, arch=arch)


# --- bytes of memory -----------------------------------------------------------------------------------


def _memory(p: Problem, c: Any, arch: str | Arch = "sm_90") -> Traffic:
    if isinstance(p, problems.ReduceProblem):
        return reduce_traffic(plan_with(p, c, arch))
    return norm_traffic(norm_launches(p, arch, c), arch)


def _notes(p: Problem, c: Any, arch: str) -> dict[str, Any]:
    """Bytes that have to be moved, and bytes that memory is expected to move."""
    return {"moved bytes": p.moved_bytes, "memory bytes": sum(_memory(p, c, arch))}


# --- the bench -----------------------------------------------------------------------------------------


def _arrays(p: Problem, n: int) -> dict[str, Any]:
    arrays = trials.device_tensors(p.axes, p.axes.target_elems, p.result, n)
    further = {name: trials.device_tensors(p.axes, 0, p.result, n + 1)["src"] for name in p.read[1:]}
    return arrays | further


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
def _long_sum(words: int, device_arch: str) -> device.LoadedSequence:
    p = problems.reduce_problem((words,), (0,), "sum", "f32")
    compiled = device.compile_sequence(sequence_of(plans(p, device_arch)[0], device_arch), device_arch)
    return device.load_sequence(compiled.ready())


def _read(p: problems.ReduceProblem, arrays: Mapping[str, Any]) -> Launch:
    """Our sum of as many bytes as one long vector."""
    words = p.axes.source_elems * p.dtype.nbytes // 4
    run = _long_sum(words, device.require_gpu().arch)
    return run.on_arrays({"src": arrays["src"], "dst": device.device_empty((4,), "float32")})


def _copied(p: problems.NormProblem, arrays: Mapping[str, Any]) -> Launch:
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
    if p.result.name in problems.INTEGERS:
        found = arrays["dst"][: p.axes.target_elems]
        wrong = torch_wrong_indices(p.op, x, p.axes.axes, element, found)
        return f"{wrong} indices are not those of the definition" if wrong else ""
    seen, largest = torch_difference(p.formula, x, p.axes.axes, element, arrays["dst"][: p.axes.target_elems])
    spread = sqrt(p.axes.count)
    usual = {"sum": spread, "mean": 1 / spread}.get(p.op, 0.0)
    last_place = max(max(largest, usual) * 2 * elements.HALF_PLACE[element], elements.SMALLEST_SUM[element])
    allowed = 0.0 if p.op in ("max", "min") else max(largest, usual) * 2.0**-16 + last_place
    return "" if seen <= allowed else f"{seen} from the definition, more than the {allowed} of rounding"


def rowwise_cases(dtypes: Sequence[str] | None = None) -> Iterator[tuple[str, str, Problem]]:
    """The family, name and problem of every case that is timed, in the order of a table.

    Raises UnknownNameError for another element type than those of reductions.

    >>> next(rowwise_cases(["f16"]))[:2]
    ('sum', 'sum 8192x8192 over 1 f16')
    """
    for dtype in dtypes or ():
        check_choice("element type of reductions", dtype, DTYPES)
    for case in (*CASES, *random_cases()):
        if case.dtype in (dtypes or DTYPES):
            yield case.op, str(case), _problem(*case)


def _cases(
    op: str, dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, Problem]]:
    found = [(name, p) for of, name, p in rowwise_cases(dtypes) if of == op]
    more = (Case(op, shape, axes, dtype) for shape, axes, every in REDUCED[:6] for dtype in every)
    yield from found or ((str(c), _problem(*c)) for c in more if c.dtype in (dtypes or DTYPES))


# --- the records ---------------------------------------------------------------------------------------


def _problem(op: str, shape: Shape, axes: Any, dtype: Any = "f32", **rest: Any) -> Problem:
    if op in problems.FOLD:
        return problems.reduce_problem(shape, axes, op, dtype, **rest)
    return problems.norm_problem(op, shape, axes, dtype, **rest)


def _family(op: str, limit: str, reach: Callable[[Any, Mapping[str, Any]], Launch]) -> Family:
    return Family(
        op,
        f"{'the ' if op in problems.FOLD else ''}{op} over some axes",
        partial(_problem, op),
        _candidates,
        launches=_launches,
        checks=CHECKS,
        asks={"shape": NEEDED, "axes": (-1,)},
        bench=Bench(
            arrays=_arrays,
            contenders={limit: reach, "torch": _by_torch, "cupy": _by_cupy},
            check=_check,
            cases=partial(_cases, op),
            limit=limit,
            pace=lambda p: Pace(9, 16, 1.5, 32),
            record="reduced_rate",
            notes=_notes,
        ),
        memory=_memory,
        law=Law("H200-SXM", _law_ns) if op in problems.FOLD else None,
    )


ROWWISE_FAMILIES = (
    *(_family(op, "read", _read) for op in problems.FOLD),
    *(_family(op, "copy", _copied) for op in NORMS),
)
"""The families of this room."""
