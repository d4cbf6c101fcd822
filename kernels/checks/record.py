"""Checks and Bench: the data that a family is verified on, and timed on beside other libraries, as records.

    checks_of(family)       its trials, and what results the definition requires
    bench_of(family)        its problems that are timed, its contenders, how results are compared

A family states its problem and its ways alone; a module of this room has the records of each of its rooms.

`verify` runs one configuration of any family on data that makes every instruction of it matter.

The idea.  A family gives the arguments of a problem in each of its trials, and the results required by the
definition, to the bit or within a bound for each element.  Nothing outside of the results may change: gaps
between rows, units past the end.  Checked are

    result           in the simulator with all warps of a block in step, then with one warp at a time, of the
                     first trial; in step of the others.  On the GPU of every trial.
    accesses         what each launch's accesses cost, traced, beside the traffic read off its program
    machine code     that every kernel compiles for the H100 and H200, with its registers and spills

The simulator refuses what another schedule could see otherwise: hazards are errors, not results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeAlias

from layoutalg.arch import DEFAULT_ARCH, find_arch
from layoutalg.codegen import gpu as device
from layoutalg.codegen.costs import Cost, Prediction, sequence_traffic, total_costs
from layoutalg.codegen.gpu import median_times_ms
from layoutalg.codegen.program import Kernel, LaunchSequence, printed_sequence
from layoutalg.codegen.sim import MemTrace, simulate_sequence
from layoutalg.errors import MismatchError, ShapeError, UnsupportedError
from layoutalg.kernels.checks.baselines import Launch
from layoutalg.kernels.elements import agrees, largest_share, numbers_of
from layoutalg.kernels.family import Family
from layoutalg.kernels.registry import room_of
from layoutalg.layout import whole_number
from layoutalg.limits import Most


def _module(room: str) -> Any:
    """The module of this room that has the records of another one's families."""
    return import_module(f"layoutalg.kernels.checks.{room}")


def checks_of(family: Family, alpha: float | None = None, beta: float | None = None) -> Checks:
    """The data that a family is verified on; of products with these factors, where they are given.

    Raises UnsupportedError for factors of a family that has none, and as `scalar_words` does.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> checks_of(FAMILIES["transpose"]).verified[0]
    {'m': 200, 'n': 136}
    """
    checks: Checks
    if alpha is None and beta is None:
        checks = _module(room_of(family.name)).checks(family)
    else:
        checks = _module("gemm").with_factors(family, alpha, beta)
    return checks


def bench_of(family: Family) -> Bench:
    """The benchmark of a family.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> [*bench_of(FAMILIES["softmax"]).contenders]
    ['copy', 'torch', 'cupy']
    """
    bench: Bench = _module(room_of(family.name)).bench(family)
    return bench


def rowwise_cases(dtypes: Sequence[str] | None = None) -> Iterator[tuple[str, str, Any]]:
    """The family, name and problem of every reduction and norm that is timed, in the order of a table.

    Raises UnknownNameError for another element type than those of reductions.

    >>> next(rowwise_cases(["f16"]))[:2]
    ('sum', 'sum 8192x8192 over 1 f16')
    """
    cases: Iterator[tuple[str, str, Any]] = _module("rowwise").every_case(dtypes)
    return cases


@dataclass(frozen=True, slots=True)
class Expected:
    """The required contents of a buffer after the launches; outside of `places` it has to be unchanged.

    `values` are the bits of elements where `allowed` is None, and have to be equal; otherwise numbers of type
    `element`, of which each may be off by what is `allowed` for it.  `places` are their flat places in the
    buffer, the whole buffer where it is None.  `beside` is another buffer that is written.
    """

    buffer: str
    values: Any
    allowed: Any = None
    element: str = ""
    places: Any = None
    beside: Expected | None = None


@dataclass(frozen=True, slots=True)
class Checks:
    """The data that a family is verified on, and the results that the definition requires.

    `trials` names the sets of data that a problem is computed for.  `array_bytes` is the size of the arrays
    of a problem that is verified; it raises ShapeError for one that cannot be.  `verified` are arguments of
    the family's `problem`, checked by default.  `with_extent` is the problem with another extent of its
    outermost mode, and the number of rows that a launch gives then.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["relu"]
    >>> checks_of(family).trials(family.problem((4, 4)))
    ('normal', 'wide', 'special')
    """

    buffers: Callable[[Any, str, int], dict[str, Any]]
    expected: Callable[[Any, Any, Mapping[str, Any]], Expected]
    array_bytes: Callable[[Any], int]
    verified: tuple[Mapping[str, Any], ...]
    trials: Callable[[Any], tuple[str, ...]] = lambda problem: ("bits",)
    with_extent: Callable[[Any, int], tuple[Any, int]] | None = None


class Pace(NamedTuple):
    """The pace of timing: rounds, launches of a sample and about how long it takes, sets of buffers.

    >>> Pace(9, sample_ms=3.0).inner
    8
    """

    rounds: int = 15
    inner: int = 8
    sample_ms: float = math.inf
    sets: int = 64

    def times_ms(self, launches: Sequence[Sequence[Launch]], look: Callable[[int], object]) -> list[float]:
        """The median time of each contender, all in turn; `look` is called with a number meanwhile."""
        return median_times_ms(
            launches, rounds=self.rounds, inner=self.inner, sample_ms=self.sample_ms, meanwhile=look
        )


@dataclass(frozen=True, slots=True)
class Bench:
    """The benchmark of a family beside the libraries that its users would call otherwise.

    `arrays` makes set number n of buffers on the GPU, by the names of the family's buffers.  A contender
    makes a launch on such a set, with the call's numbers beside the arrays, or None where its library is
    missing or cannot; `limit` names the one that says what memory can do.  `check` runs ours, as a launch, on
    a set, and says how the result differs from another one, empty where it does not.  `work` is what a rate
    counts: bytes that have to be moved, or operations, 1e9 or 1e12 of them per second in the `unit` GB/s or
    TFLOP/s.  `cases` are the problems of a table with their names, for element types and sizes or by default,
    for products with further options, some drawn with a `seed`; `notes` are the predictions beside;
    `steps_size` is the size of the problem on which steps are compared.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> bench_of(FAMILIES["gemm-sm80"]).unit
    'TFLOP/s'
    """

    arrays: Callable[[Any, int], dict[str, Any]]
    contenders: Mapping[str, Callable[[Any, Mapping[str, Any]], Launch | None]]
    check: Callable[[Any, Mapping[str, Any], Launch], str]
    cases: Callable[..., Iterator[tuple[str, Any]]]
    unit: str = "GB/s"
    work: Callable[[Any], int] = lambda problem: problem.moved_bytes
    limit: str = ""
    seed: int = 0
    steps_size: int = 0
    pace: Callable[[Any], Pace] = lambda problem: Pace()
    notes: Callable[[Any, Any, str], Mapping[str, Any]] = lambda problem, config, arch: {}

    def sets(self, problem: Any, arch: str, *, cold: bool = False) -> list[dict[str, Any]]:
        """The sets of buffers that launches rotate over, see `set_count`."""
        first = self.arrays(problem, 0)
        count = set_count(self, problem, sum(x.nbytes for x in first.values()), arch, cold=cold)
        return [first, *(self.arrays(problem, n) for n in range(1, count))]

    def others(
        self, problem: Any, sets: Iterable[Mapping[str, Any]], numbers: Mapping[str, int]
    ) -> dict[str, list[Launch]]:
        """The launches of each contender on sets of buffers, none where it cannot."""
        given = [{**arrays, **numbers} for arrays in sets]
        return {
            name: [launch for arguments in given if (launch := contender(problem, arguments)) is not None]
            for name, contender in self.contenders.items()
        }


def square_cases(
    problem: Callable[..., Any], dtypes: Sequence[str | None], sizes: Sequence[int]
) -> Callable[..., Iterator[tuple[str, Any]]]:
    """The cases of a table of square problems, of a side and a type of elements, by default those given."""

    def cases(
        asked: Sequence[str] | None, sides: Sequence[int] | None, **more: Any
    ) -> Iterator[tuple[str, Any]]:
        for dtype in asked or dtypes:
            for side in sides or sizes:
                p = problem(side, dtype, **more)
                yield str(p), p

    return cases


MOST_SETS = 64
"""The most sets of buffers that cold data is spread over; if each is less than a sixteenth of the L2, they
are not cold, and are not labelled so."""


def set_count(bench: Bench, problem: Any, nbytes: int, arch: str, *, cold: bool = False) -> int:
    """Sets of buffers to rotate over: four times the L2 cache together, as many as the family's pace allows,
    or MOST_SETS for `cold` data.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(1024, 1024, "f32")
    >>> set_count(bench_of(family), p, p.moved_bytes, "sm_90")
    30
    """
    return min(MOST_SETS if cold else bench.pace(problem).sets, 1 + 4 * l2_bytes(arch) // (nbytes + 1))


def l2_bytes(arch: str) -> int:
    """Bytes of the L2 cache of the board of an architecture, 0 where none is known.

    >>> l2_bytes("sm_90") >> 20
    60
    """
    board = find_arch(arch).board
    return (board.l2_bytes or 0) if board else 0


def memory_notes(family: Family, p: Any, c: Any, arch: str) -> dict[str, Any]:
    """Bytes that have to be moved, and bytes that memory is expected to move."""
    expected = p.moved_bytes if family.memory is None else sum(family.memory(p, c, arch))
    return {"moved bytes": p.moved_bytes, "memory bytes": expected}


def not_defined(off: Any) -> str:
    """A sentence about the results that are `off`; empty where there are none."""
    return f"{int(off.sum())} of {off.size} results are not those of the definition" if off.any() else ""


Target: TypeAlias = Literal["simulator", "gpu"]

GROUPS: tuple[Literal["block", "warp"], ...] = ("block", "warp")
"""The groups of threads that the simulator advances together: all warps of a block, or a warp."""


@dataclass(frozen=True, slots=True)
class Check:
    """A property that was checked: its name, whether it holds, and what was observed."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The checks of a configuration.

    >>> VerifyReport("transpose", "8 x 24 f32", "simulator", ()).passed
    False
    """

    family: str
    problem: str
    target: Target
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True when there are checks and every one of them holds."""
        from layoutalg.testing import all_pass  # not with the kernels: a call needs no gate

        return all_pass("checks", (c.passed for c in self.checks))

    def require(self) -> None:
        """Raise MismatchError with the first check that fails, and where nothing was checked."""
        for c in self.checks:
            if not c.passed:
                where = f"{self.family} of {self.problem} on the {self.target}"
                raise MismatchError(f"{where}: {c.name}: {c.detail}")
        if not self.passed:
            raise MismatchError(f"{self.family} of {self.problem} on the {self.target}: nothing was checked")


def verify(
    family: Family, problem: Any, config: Any = None, *, target: Target = "simulator", seed: int = 0,
    checks: Checks | None = None,
) -> VerifyReport:  # fmt: skip
    """Run one configuration (the best when None) on every trial's data and compare with the definition.

    `checks` take the place of the family's own.

    Raises UnsupportedError for target "gpu" without one, ShapeError for a problem that cannot be verified and
    for a seed below 0, ResourceError for arrays past Most.BULK, on a GPU Most.ARRAYS, SimulationError for a
    hazard, CompileError.

    >>> from layoutalg.kernels import FAMILIES
    >>> verify(FAMILIES["transpose"], FAMILIES["transpose"].problem(8, 24, "f32")).passed
    True
    """
    check_run(family, problem, target, seed)
    arch = device.require_gpu().arch if target == "gpu" else DEFAULT_ARCH
    chosen = family.choose(problem, arch) if config is None else config
    way = family.way(chosen)
    shown = f"{problem}, {way}" if way else str(problem)
    results = tuple(each_check(family, problem, chosen, target=target, seed=seed, checks=checks))
    return VerifyReport(family.name, shown, target, results)


def each_check(
    family: Family, problem: Any, config: Any, *, target: Target = "simulator", seed: int = 0,
    checks: Checks | None = None,
) -> Iterator[Check]:  # fmt: skip
    """The checks of `verify`, one after the other as they are made.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> next(each_check(family, p, family.choose(p))).name
    'result, one block at a time'
    """
    checks = checks or checks_of(family)
    first, *others = checks.trials(problem)
    if target == "gpu":
        yield from _checks_on_gpu(family, checks, problem, config, seed)
        return
    sequence = family.launches(problem, config, "sm_90")
    ran, given = printed_sequence(sequence), given_to(family, problem, config, first, seed, checks)
    expected, traces = checks.expected(problem, config, given), list[MemTrace]()
    for group in GROUPS:
        mine = copied(given)
        traces = [run.trace for run in simulate_sequence(ran, mine, group=group, seed=seed)]
        yield compare(f"result, one {group} at a time", given, expected, mine)
    scalars = {name: x for name, x in given.items() if isinstance(x, int)}
    yield from access_checks(sequence_traffic(sequence, scalars), traces)
    for trial in others:
        given = given_to(family, problem, config, trial, seed, checks)
        simulate_sequence(ran, mine := copied(given), seed=seed, trace=False)
        yield compare(f"result, {trial}", given, checks.expected(problem, config, given), mine)
    free = family.any_sizes(problem, config, "sm_90") if family.any_sizes and checks.with_extent else sequence
    for n in _other_extents(problem, free, checks):
        other, count = checks.with_extent(problem, n) if checks.with_extent else (problem, n)
        given = given_to(family, other, config, first, seed, checks)
        mine = copied(given) | {"rows": count}
        simulate_sequence(printed_sequence(free), mine, seed=seed, trace=False)
        yield compare(f"result, {count} rows", given, checks.expected(other, None, given), mine)
    yield from machine_code_checks(free.kernels)


def _other_extents(problem: Any, free: LaunchSequence, checks: Checks) -> tuple[int, ...]:
    """Some extents of the outermost mode, few and half as many; none where a launch gives no rows."""
    rows = dict(free.scalars).get("rows")
    if rows is None or checks.with_extent is None:
        return ()
    by = free.kernels[0].integers[0].multiple
    whole = rows * by // checks.with_extent(problem, by)[1]
    return 2 * by, (whole // (2 * by) + 1) * by


def given_to(
    family: Family, problem: Any, config: Any, trial: str, seed: int, checks: Checks | None = None
) -> dict[str, Any]:
    """Return the arguments of a configuration in a trial: buffers, and the numbers that depend on both.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> sorted(given_to(family, p, family.choose(p), *checks_of(family).trials(p), 0))
    ['dst', 'src']
    """
    given = (checks or checks_of(family)).buffers(problem, trial, seed)
    return given | dict(family.words(problem, config, given))


def _checks_on_gpu(family: Family, checks: Checks, problem: Any, config: Any, seed: int) -> Iterator[Check]:
    arch = device.require_gpu().arch
    launches = family.any_sizes or family.launches
    compiled = device.compile_sequence(launches(problem, config, arch), arch)
    for n, trial in enumerate(checks.trials(problem)):
        given = given_to(family, problem, config, trial, seed, checks)
        mine = run_on_gpu(compiled, given)
        expected = checks.expected(problem, config, given)
        written = (expected.buffer, *(x.buffer for x in (expected.beside,) if x is not None))
        got = {buffer: device.to_host(mine[buffer]) for buffer in written}
        yield compare(f"result, {trial}" if n else "result", given, expected, got)


def run_on_gpu(compiled: device.CompiledSequence, given: Mapping[str, Any]) -> dict[str, Any]:
    """Launch a sequence once on the GPU; its buffers afterwards.  Raises UnsupportedError without one.

    >>> from layoutalg.codegen.gpu import compile_sequence, gpu_status
    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> if gpu_status().available:
    ...     sequence = family.launches(p, family.choose(p), "sm_90")
    ...     got = run_on_gpu(compile_sequence(sequence, "sm_90"), checks_of(family).buffers(p, "bits", 0))
    """
    scalars = {name: x for name, x in given.items() if isinstance(x, int)}
    arrays = {name: device.to_device(x) for name, x in given.items() if name not in scalars}
    device.load_sequence(compiled.ready(scalars)).on_arrays(arrays)()
    return arrays


def check_run(family: Family, problem: Any, target: Target, seed: int) -> None:
    """Refuse what cannot be verified before any array is made.  Raises ResourceError or ShapeError.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> check_run(family, family.problem(8, 24, "f32"), "simulator", 0)
    """
    if whole_number(seed, "seed") < 0:
        raise ShapeError(f"the seed is {seed}; seeds count from 0")
    limit = Most.BULK if target == "simulator" else Most.ARRAYS
    limit.guard(
        checks_of(family).array_bytes(problem), f"bytes of arrays of {problem}, verified on the {target}"
    )


def copied(given: Mapping[str, Any]) -> dict[str, Any]:
    """Buffers that a launch may write, and scalars.

    >>> copied({"alpha": 1})
    {'alpha': 1}
    """
    return {name: x if isinstance(x, int) else x.copy() for name, x in given.items()}


def compare(name: str, given: Mapping[str, Any], expected: Expected, got: Mapping[str, Any]) -> Check:
    """Whether a buffer holds the expected values, and elsewhere its values from before the launches.

    >>> import numpy
    >>> before, after = numpy.zeros(3, "u1"), numpy.array([0, 7, 0], "u1")
    >>> compare("result", {"dst": before}, Expected("dst", after), {"dst": before}).detail
    '1 bytes differ, the first in element 1'
    """
    import numpy

    if expected.beside is not None and not (other := compare(name, given, expected.beside, got)).passed:
        return other
    old, new = given[expected.buffer], got[expected.buffer]
    if expected.allowed is None:
        return _same_bits(name, expected.values, new, "bytes differ")
    places, untouched = expected.places, numpy.ones(len(new), bool)
    untouched[places.ravel()] = False
    rest = _same_bits(name, old[untouched], new[untouched], "bytes outside of the result were written")
    if not rest.passed:
        return rest
    numbers = numbers_of(new, expected.element)[places]
    bad = numpy.argwhere(~agrees(numbers, expected.values, expected.allowed, expected.element))
    if len(bad):
        at = tuple(map(int, bad[0]))
        exact, bound = expected.values[at], expected.allowed[at]
        seen = f"{expected.buffer}{list(at)} = {numbers[at]:.9g}, by definition {exact:.9g} +- {bound:.2g}"
        return Check(name, False, f"{len(bad)} elements are wrong: {seen}")
    share = largest_share(numbers, expected.values, expected.allowed)
    return Check(name, True, f"{numbers.size} elements, errors up to {share:.2f} of the bound")


def _same_bits(name: str, expected: Any, got: Any, wrong: str) -> Check:
    import numpy

    different = numpy.flatnonzero(expected.view("u1") != got.view("u1"))
    if not len(different):
        return Check(name, True, f"{len(got)} elements equal")
    at = different[0] // got.itemsize
    return Check(name, False, f"{len(different)} {wrong}, the first in element {at}")


def access_checks(predictions: tuple[Prediction, ...], traces: Iterable[MemTrace]) -> Iterator[Check]:
    """Each predicted cost beside the traced one, and whether anything else was executed, launch by launch.

    >>> list(access_checks((), []))
    []
    """
    for prediction, trace in zip(predictions, traces, strict=True):
        ran = traced_costs([trace])
        for op, cost in prediction.items():
            traced = ran.get(op, Cost(0, 0, 0))
            seen = f"predicted {cost.total}, traced {traced.total} ({cost.instructions} instructions)"
            yield Check(f"accesses, {op}", traced == cost, seen)
        yield Check("no other accesses", set(ran) <= set(prediction), f"executed: {', '.join(sorted(ran))}")


def traced_costs(traces: Iterable[MemTrace]) -> dict[str, Cost]:
    """Return the total cost of all accesses of some launches, by instruction; only those executed.

    >>> traced_costs([])
    {}
    """
    return dict(
        total_costs(
            {op: Cost(*trace.total(op)) for op in {site.op for site in trace.sites} if trace.total(op)[0]}
            for trace in traces
        )
    )


def machine_code_checks(kernels: Iterable[Kernel]) -> Iterator[Check]:
    """Check that kernels compile for the H100 and H200, with registers and spills; no checks without NVRTC.

    Raises CompileError.

    >>> list(machine_code_checks([]))
    []
    """
    try:
        device.version()
    except UnsupportedError:
        return
    for kernel in kernels:
        cubin = device.prepare(kernel, "sm_90a").cubin
        spills = f"{cubin.spill_bytes} bytes of spills" if cubin.spill_bytes else "no spills"
        yield Check(f"machine code, {cubin.name}", True, f"{cubin.registers} registers per thread, {spills}")
