"""The families that compute along some modes of a tensor, as records: sum, max, mean, softmax, layer_norm.

They are verified on the trials of `rowwise.trials`, whose results have bounds (`rowwise.trials`), and timed
beside PyTorch, CuPy and what memory can do: to a reduction our sum of as many bytes as one long vector
("read"), to a norm the driver's copy of as many bytes ("copy").
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod, sqrt
from typing import Any, NamedTuple

from layoutalg.arch import Arch
from layoutalg.codegen.gpu import (
    LoadedSequence,
    array_reduction,
    compile_sequence,
    device_copy,
    device_empty,
    load_sequence,
    random_normal,
    require_gpu,
)
from layoutalg.codegen.program import SCRATCH, LaunchSequence, launch_sequence
from layoutalg.dtype import DType
from layoutalg.errors import ShapeError, UnknownNameError
from layoutalg.kernels.baselines import Launch, torch_difference, torch_reduction
from layoutalg.kernels.elements import CARRIER, bits_of, numbers_of
from layoutalg.kernels.family import NEEDED, Bench, Candidate, Expected, Family, Pace
from layoutalg.kernels.limits import find_board
from layoutalg.kernels.rounding import HALF_PLACE, SMALLEST_SUM
from layoutalg.kernels.rowwise import (
    norm,
    norm_plan,
    reduce,
)
from layoutalg.kernels.rowwise.norm import NormLaunches
from layoutalg.kernels.rowwise.norm_plan import form_of, walk_of
from layoutalg.kernels.rowwise.problems import (
    FOLD,
    OPS,
    NormProblem,
    ReduceProblem,
    norm_problem,
    normed,
    reduce_problem,
    reduced,
)
from layoutalg.kernels.rowwise.reduce_plan import (
    ReducePlan,
    plan_with,
    plans,
)
from layoutalg.kernels.rowwise.trials import TENSOR_TRIALS, norm_bound, reduction_bound, tensor_numbers

UNIT_BYTES = 16
"""Buffers of a tensor are whole units."""

VERIFIED = (
    ((37, 131), (0,)), ((37, 131), (1,)), ((4, 33, 20), (0, 2)), ((5, 3001), (1,)), ((601, 5), (0,))
)  # fmt: skip
"""Shapes and axes: rows and columns, aligned and not."""


def _reduced(op: str, shape: tuple[int, ...], axes: Any, dtype: str | DType = "f32", **rest: Any) -> Any:
    return reduce_problem(shape, axes, op, dtype, **rest)


def _normed(op: str, shape: tuple[int, ...], axes: Any, dtype: str | DType = "f32", **rest: Any) -> Any:
    return norm_problem(op, shape, axes, dtype, **rest)


# --- problems that are timed --------------------------------------------------------------------------

Shape = tuple[int, ...]


class Case(NamedTuple):
    """`op` over `axes` of a dense tensor of `shape` and `dtype`."""

    op: str
    shape: Shape
    axes: Shape
    dtype: str

    def __str__(self) -> str:
        shape, axes = ("x".join(map(str, self.shape)), ",".join(map(str, self.axes)))
        return f"{self.op} {shape} over {axes} {self.dtype}"


DTYPES = ("f32", "f16", "bf16")

REDUCED: tuple[tuple[Shape, Shape], ...] = (
    ((8192, 8192), (1,)), ((8192, 8192), (0,)), ((65536, 1024), (1,)), ((65536, 1024), (0,)),
    ((1024, 65536), (1,)), ((1024, 65536), (0,)), ((64, 256, 56, 56), (0, 2, 3)), ((32, 1024, 1024), (1,)),
    ((1 << 26,), (0,)), ((8191, 8193), (1,)), ((8191, 8193), (0,)), ((256, 256), (1,)), ((256, 256), (0,)),
)  # fmt: skip
"""(shape, axes) that are summed, of every type."""

NORMED: tuple[tuple[Shape, Shape, tuple[str, ...]], ...] = (
    ((8192, 8192), (1,), ("f32", "bf16")), ((8192, 8192), (0,), ("f32", "bf16")),
    ((65536, 1024), (1,), ("f32", "bf16")), ((65536, 1024), (0,), ("f32", "bf16")),
    ((32, 1024, 1024), (1,), ("f32", "bf16")), ((64, 1000), (1,), ("f32",)), ((4096, 50257), (1,), ("f16",)),
    ((1, 1 << 24), (1,), ("f32",)), ((8191, 8193), (1,), ("f32", "bf16")),
    ((8191, 8193), (0,), ("f32", "bf16")),
)  # fmt: skip
"""(shape, axes, types) of which softmax and layer norm are made."""

DRAWN_NORMS = ("softmax", "layer_norm")
"""The norms that random cases are drawn from: another one would change what a seed draws."""

RMS_NORMED: tuple[tuple[Shape, Shape], ...] = (((8192, 8192), (1,)), ((65536, 1024), (1,)))
"""(shape, axes) of which rms norms of f32 and bf16 are made."""

CASES = tuple(
    [Case("sum", shape, axes, dtype) for shape, axes in REDUCED for dtype in DTYPES]
    + [
        Case(op, shape, axes, dtype)
        for op in DRAWN_NORMS
        for shape, axes, dtypes in NORMED
        for dtype in dtypes
    ]
    + [Case("rms_norm", shape, axes, dtype) for shape, axes in RMS_NORMED for dtype in ("f32", "bf16")]
)

SEED, DRAWN_REDUCED, DRAWN_NORMED = 2027, 12, 8
ELEMS = 1 << 25
"""Elements of a drawn tensor, about."""


def random_cases(
    seed: int = SEED, reduced: int = DRAWN_REDUCED, normed: int = DRAWN_NORMED
) -> tuple[Case, ...]:  # fmt: skip
    """Dense tensors of 2 to 5 modes with some of them reduced, the same for the same seed.

    >>> random_cases() == random_cases(), len(random_cases(1, 3, 2))
    (True, 5)
    """
    rng = random.Random(seed)
    found: list[Case] = []
    for ops, count in ((tuple(FOLD), reduced), (DRAWN_NORMS, reduced + normed)):
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


def _array_bytes(p: ReduceProblem | NormProblem) -> int:
    """Bytes of the arrays, in float64.  Raises ShapeError for a tensor that is empty, or has gaps."""
    x = p.axes
    if not prod(x.shape):
        raise ShapeError(f"{p} has no elements: there is nothing to verify")
    results = x.outputs if isinstance(p, ReduceProblem) else prod(x.shape)
    if x.src_offset or x.dst_offset or (x.source_elems, x.target_elems) != (prod(x.shape), results):
        raise ShapeError(f"{p}: tensors without gaps, from the start of their buffers on, are verified")
    return 8 * (x.source_elems + x.target_elems)


def _units(elems: int, element_bytes: int) -> int:
    """Elements of a buffer that is whole units."""
    return -(-elems * element_bytes // UNIT_BYTES) * UNIT_BYTES // element_bytes


def _buffers(p: ReduceProblem | NormProblem, trial: str, seed: int) -> dict[str, Any]:
    """The sources of a trial as bits, and a destination of set bits; in place it holds the source."""
    import numpy

    x, element = p.axes, p.axes.dtype
    numbers = {"src": tensor_numbers(trial, p.op, x.shape, x.axes, element.name, seed)}
    rng = numpy.random.default_rng([seed, len(TENSOR_TRIALS)])
    if isinstance(p, NormProblem):
        numbers |= {name: rng.standard_normal(x.count) for name in p.parameters}
    given = {
        name: bits_of(numpy.pad(v, (0, _units(v.size, element.nbytes) - v.size)), element.name)
        for name, v in numbers.items()
    }
    if isinstance(p, NormProblem) and p.in_place:
        return {**given, "dst": given["src"].copy()}
    width = _result(p).nbytes
    dst = numpy.full(_units(max(x.target_elems, 1), width) * width, 255, numpy.uint8).view(CARRIER[width])
    return {**given, "dst": dst}


def _result(p: ReduceProblem | NormProblem) -> DType:
    return p.result if isinstance(p, ReduceProblem) else p.dtype


def _expected(p: Any, given: Mapping[str, Any], exact: Any, allowed: Any) -> Expected:
    import numpy

    places = numpy.arange(exact.size).reshape(exact.shape)
    return Expected("dst", exact, allowed, _result(p).name, places)


def _reduction_expected(p: ReduceProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    import numpy

    src = numbers_of(given["src"], p.axes.dtype.name)
    additions = (plans(p)[0] if c is None else plan_with(p, c)).additions
    with numpy.errstate(all="ignore"):
        allowed = reduction_bound(p, additions, src)
    return _expected(p, given, reduced(p, src), allowed)


def _norm_expected(p: NormProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    numbers = {name: numbers_of(given[name], p.dtype.name) for name in ("src", *p.parameters)}
    x = numbers["src"][: prod(p.axes.shape)].reshape(p.axes.shape)
    extra = [numbers[y][: p.axes.count] if y in numbers else None for y in ("weight", "bias")]
    exact = normed(p, x, *extra)
    return _expected(p, given, exact, norm_bound(p, x, exact, *extra))


# --- configurations and launches -----------------------------------------------------------------------


def _reduction_candidates(p: ReduceProblem, arch: str | Arch) -> Iterator[Candidate]:
    yield from (Candidate(plan.passes[0].config) for plan in plans(p, arch))


def _norm_candidates(p: NormProblem, arch: str | Arch) -> Iterator[Candidate]:
    tried = dict.fromkeys(norm_plan.candidates(p, arch))
    yield from (Candidate(c) for c, why in tried if why is None)
    yield from (Candidate(c, why) for c, why in tried if why is not None)


def _reduction_launches(p: ReduceProblem, c: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
    return sequence_of(plan_with(p, c, arch), arch)


def sequence_of(plan: ReducePlan, arch: str | Arch | None = None) -> LaunchSequence:
    """The launches of a reduction's plan, one for each pass; with an `arch` the second starts early.

    >>> sequence_of(plans(reduce_problem((1 << 26,), 0, "sum", "f32"))[0]).buffers
    (('src', 'scratch'), ('scratch', 'dst'))
    """
    kernels = reduce.build(plan)
    names = [{}] if len(kernels) == 1 else [{"dst": SCRATCH}, {"src": SCRATCH}]
    return launch_sequence(kernels, names, scratch_bytes=4 * plan.workspace_elems, arch=arch)


def _norm_launches(p: NormProblem, c: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
    made = norm.plan(p, arch, c)
    names = {"partial": SCRATCH}
    return launch_sequence(made.kernels, names, scratch_bytes=4 * made.workspace_elems, arch=arch)


# --- bytes of memory that a norm moves ----------------------------------------------------------------

KEPT_BYTES = 24 << 20
"""What is found in L2 again."""

RESIDENT_THREADS = 1024
"""Threads of a multiprocessor, with 64 registers each."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that memory is asked to read and to write."""

    read: int
    written: int


def traffic(launches: NormLaunches, arch: str | Arch = "sm_90") -> Traffic:
    """Bytes of memory read and written by all launches; see the module's notes.

    Raises UnsupportedError for an architecture without a board.

    >>> from layoutalg.kernels.rowwise.norm import plan
    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> traffic(plan(norm_problem("softmax", (65536, 1024), 1, "bf16")))
    Traffic(read=134217728, written=134217728)
    """
    p, c = launches.problem, launches.config
    w, size = walk_of(form_of(p), p.dtype, c), p.dtype.nbytes
    elements = p.axes.read_elems * size
    between = 0
    if c.splits > 1:
        between = elements
    elif c.hold == "global":
        resident = min(w.blocks, find_board(arch).sms * max(1, RESIDENT_THREADS // c.threads))
        between = resident * (elements // w.blocks)
    read = elements * (2 if between > KEPT_BYTES else 1)
    read += (p.weight + p.bias) * w.form.count * size
    scratch = launches.workspace_elems * 4
    return Traffic(read + (scratch if scratch > KEPT_BYTES else 0), prod(p.axes.shape) * size + scratch)


# --- the bench -----------------------------------------------------------------------------------------


def _memory_bytes(plan: ReducePlan) -> int:
    """Bytes that memory moves: every element that exists and every output once, the workspace twice."""
    p = plan.problem
    return p.read_bytes + p.written_bytes + 2 * 4 * plan.workspace_elems


def _moved_bytes(p: ReduceProblem | NormProblem) -> int:
    return p.moved_bytes if isinstance(p, NormProblem) else p.read_bytes + p.written_bytes


def _arrays(p: ReduceProblem | NormProblem, n: int) -> dict[str, Any]:
    element = p.axes.dtype
    src = random_normal(_units(prod(p.axes.shape), element.nbytes), n, element.name)
    dst = device_empty((_units(p.axes.target_elems, _result(p).nbytes),), src.dtype)
    return {"src": src, "dst": dst}


def _source(p: ReduceProblem | NormProblem, arrays: Mapping[str, Any]) -> Any:
    return arrays["src"][: prod(p.axes.shape)].reshape(p.axes.shape)


def _by_torch(p: ReduceProblem | NormProblem, arrays: Mapping[str, Any]) -> Launch | None:
    return torch_reduction(p.op, _source(p, arrays), p.axes.axes, p.axes.dtype.name)


def _by_cupy(p: ReduceProblem | NormProblem, arrays: Mapping[str, Any]) -> Launch | None:
    return array_reduction(p.op, _source(p, arrays), p.axes.axes)


@functools.lru_cache(32)
def _long_sum(words: int, device_arch: str) -> LoadedSequence:
    p = reduce_problem((words,), (0,), "sum", "f32")
    compiled = compile_sequence(sequence_of(plans(p, device_arch)[0], device_arch), device_arch)
    return load_sequence(compiled.ready())


def _read(p: ReduceProblem, arrays: Mapping[str, Any]) -> Launch:
    """Our sum of as many bytes as one long vector."""
    words = p.axes.source_elems * p.axes.dtype.nbytes // 4
    run = _long_sum(words, require_gpu().arch)
    return run.on_arrays({"src": arrays["src"], "dst": device_empty((4,), "float32")})


def _check(p: ReduceProblem | NormProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """Results may differ by 2^-16 of the largest and one last place of their type; maxima may not.

    The largest of few sums may happen to be near 0: it counts as what sums of normal numbers usually are.
    """
    if _by_torch(p, arrays) is None:
        return ""
    ours()
    x, element = _source(p, arrays), p.axes.dtype.name
    seen, largest = torch_difference(p.op, x, p.axes.axes, element, arrays["dst"][: p.axes.target_elems])
    spread = sqrt(p.axes.count)
    usual = {"sum": spread, "mean": 1 / spread}.get(p.op, 0.0)
    last_place = max(max(largest, usual) * 2 * HALF_PLACE[element], SMALLEST_SUM[element])
    allowed = 0.0 if p.op == "max" else max(largest, usual) * 2.0**-16 + last_place
    return "" if seen <= allowed else f"{seen} from the definition, more than the {allowed} of rounding"


def _notes(p: ReduceProblem | NormProblem, c: Any, arch: str) -> dict[str, Any]:
    """Bytes that have to be moved, and bytes that memory is expected to move."""
    if isinstance(p, NormProblem):
        expected = traffic(norm.plan(p, arch, c), arch)
        memory = expected.read + expected.written
    else:
        memory = _memory_bytes(plan_with(p, c, arch))
    return {"moved bytes": _moved_bytes(p), "memory bytes": memory}


def rowwise_cases(
    dtypes: Sequence[str] | None = None,
) -> Iterator[tuple[str, str, ReduceProblem | NormProblem]]:
    """The family, name and problem of every case that is timed, in the order of a table.

    Raises UnknownNameError for another element type than those of reductions.

    >>> next(rowwise_cases(["f16"]))[:2]
    ('sum', 'sum 8192x8192 over 1 f16')
    """
    for dtype in dtypes or ():
        if dtype not in DTYPES:
            raise UnknownNameError("element type of reductions", dtype, DTYPES)
    for case in (*CASES, *random_cases()):
        if case.dtype in (dtypes or DTYPES):
            yield case.op, str(case), problem_of(case)


def _cases(
    op: str, dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, ReduceProblem | NormProblem]]:
    yield from ((name, p) for of, name, p in rowwise_cases(dtypes) if of == op)


def problem_of(case: Case) -> ReduceProblem | NormProblem:
    """The problem of a case that is timed.

    >>> print(problem_of(Case("max", (4, 6), (1,), "f16")))
    max of (4,6) over (1) f16, src (6,1) -> dst (1,0)
    """
    made: Callable[..., Any] = _reduced if case.op in FOLD else _normed
    return made(case.op, case.shape, case.axes, case.dtype)  # type: ignore[no-any-return]


def _bench(op: str) -> Bench:
    limit: tuple[str, Any] = ("read", _read) if op in FOLD else ("copy", _copied)
    return Bench(
        unit="GB/s",
        work=_moved_bytes,
        arrays=_arrays,
        contenders=dict([limit, ("torch", _by_torch), ("cupy", _by_cupy)]),
        check=_check,
        cases=partial(_cases, op),
        limit=limit[0],
        pace=lambda p: Pace(9, 16, 1.5, 32),
        record="reduced_rate",
        notes=_notes,
    )


def _copied(p: NormProblem, arrays: Mapping[str, Any]) -> Launch:
    return device_copy(arrays["dst"], arrays["src"])


ROWWISE_FAMILIES = tuple(
    Family(
        op,
        f"the {op} over some axes",
        partial(_reduced, op),
        _reduction_candidates,
        launches=_reduction_launches,
        trials=lambda p: tuple(TENSOR_TRIALS),
        buffers=_buffers,
        expected=_reduction_expected,
        array_bytes=_array_bytes,
        verified=tuple({"shape": shape, "axes": axes} for shape, axes in VERIFIED),
        asks={"shape": NEEDED, "axes": (-1,)},
        bench=_bench(op),
    )
    for op in FOLD
) + tuple(
    Family(
        op,
        f"{op} over some axes",
        partial(_normed, op),
        _norm_candidates,
        launches=_norm_launches,
        trials=lambda p: tuple(TENSOR_TRIALS),
        buffers=_buffers,
        expected=_norm_expected,
        array_bytes=_array_bytes,
        verified=tuple({"shape": shape, "axes": axes} for shape, axes in VERIFIED),
        asks={"shape": NEEDED, "axes": (-1,)},
        bench=_bench(op),
    )
    for op in OPS
)
"""The families of this room."""
