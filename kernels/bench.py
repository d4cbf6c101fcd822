"""bench: any family timed beside the libraries that its users would call otherwise, all in the same run.

Contenders of a problem share their buffers and run in turn, round by round; the figure is the median.  Small
problems rotate over several sets of buffers, four times the L2 cache together, so that no launch reads from
cache.  The calls of libraries are data of the family (`checks.Bench`); a result of ours that differs from
theirs is an error before anything is timed.  All cores make the kernels before the first is timed.

    rows = benchmark([Timed("softmax", p) for p in problems])             the best way of each
    rows = benchmark_ways("gemm-sm80", p, {"step 1": c, "step 2": d})     several ways, in turn

A row has the conditions of its measurement (`Run`): clocks, power, temperature and what held clocks back,
read while the GPU worked; whether its data was cold; with `Method.energy`, the energy of a launch.  Clocks
are read and never set.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import geometric_mean
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from layoutalg.codegen import gpu as device
from layoutalg.errors import MismatchError, UnknownNameError, UnsupportedError
from layoutalg.kernels.checks import Bench, Launch, bench_of, l2_bytes, rowwise_cases
from layoutalg.kernels.gemm import GemmProblem, drawn_sizes, group_begins
from layoutalg.kernels.registry import FAMILIES, LADDERS, find_family
from layoutalg.kernels.tuning import choose
from layoutalg.optional import import_trouble

PER_MS = {"GB/s": 1e6, "TFLOP/s": 1e9}
"""The work per millisecond at a rate of 1, by its unit."""

OURS = "ours"


class Timed(NamedTuple):
    """The subject of a timing: a problem of a family, under a name; its configuration, the best where it is
    None; and numbers of the call in place of the family's own, such as the starts of groups."""

    family: str
    problem: Any
    name: str = ""
    config: Any = None
    given: tuple[tuple[str, int], ...] = ()


ROUNDS: Literal["rounds"] = "rounds"
LATER_HALF: Literal["later half"] = "later half"

ENERGY_MS = 1000.0
"""The time that a contender runs to measure its energy: the counter moves every few tens of milliseconds."""


class Method(NamedTuple):
    """The method by which launches are timed.

    `rule` is "rounds", contenders in turn and the median of each; or "later half", one contender after
    another, `launch_count` launches and the mean of their later half, for matrix products.  With `cold`,
    buffers rotate through four times the L2 cache, independent of the family's pace.  With `energy`, each
    contender then runs alone for `ENERGY_MS`, between two readings of the GPU's counter of energy.
    """

    rule: Literal["rounds", "later half"] = ROUNDS
    cold: bool = False
    energy: bool = False


def launch_count(size: float) -> int:
    """Launches of a matrix product of a size, as a published benchmark has it: fewer of larger ones.

    >>> [launch_count(n) for n in (1024, 4096, 12800)]
    [1000, 371, 22]
    """
    return max(2, int(1000 * math.exp((1024 - size) / 3100)))


class Run(NamedTuple):
    """The conditions under which a row was measured.

    `conditions` are by contender, empty where nothing was read, and `unread` says why; `cold` where its
    buffers rotated through four times the L2 cache; `launches` is their number by the rule of the later half,
    0 by rounds; `joules` are those of a launch by contender, None where the counter cannot be read.
    """

    conditions: Mapping[str, device.Conditions] = MappingProxyType({})
    unread: str = ""
    cold: bool = False
    launches: int = 0
    joules: Mapping[str, float | None] = MappingProxyType({})


REDUCE = "reduce"
"""The name of the table of all families of reductions and norms together."""


def timed_problems(
    name: str, dtypes: Sequence[str] | None = None, sizes: Sequence[int] | None = None, **asked: Any
) -> list[Timed]:
    """The problems of a family's table, or of "reduce", for some element types and sizes or by default; of
    products with more that is `asked` of each.

    Raises UnknownNameError for another name, and what the family's problem raises.

    >>> [timed.name for timed in timed_problems("transpose", ["f16"], [4096])]
    ['4096 x 4096 f16, ld 4096 -> 4096']
    """
    if name == REDUCE:
        return [Timed(family, p, case) for family, case, p in rowwise_cases(dtypes)]
    if name not in FAMILIES:
        raise UnknownNameError("kernel family", name, (*FAMILIES, REDUCE))
    return [Timed(name, p, case) for case, p in bench_of(FAMILIES[name]).cases(dtypes, sizes, **asked)]


def with_drawn_rows(timed: Timed) -> Timed:
    """Groups of rows that differ by up to a factor of ten, the same for the same problem, in place of equal
    ones.  Raises UnsupportedError for a product without groups.

    >>> p = find_family("gemm-sm90").problem(512, 64, 64, groups=4)
    >>> with_drawn_rows(Timed("gemm-sm90", p)).given
    (('begin0', 0), ('begin1', 62), ('begin2', 227), ('begin3', 355), ('begin4', 512))
    """
    p = timed.problem
    if not (isinstance(p, GemmProblem) and p.grouped):
        raise UnsupportedError(f"{timed.name or p} has no groups, whose rows could be drawn")
    sizes = drawn_sizes(p.m, p.products, random.Random(p.m))
    name = f"{timed.name or p}, drawn rows"
    return timed._replace(name=name, given=tuple(group_begins(sizes).items()))


@dataclass(frozen=True, slots=True)
class BenchRow:
    """A problem, computed in one way: `rates` in `unit` by contender, None if it is not installed or cannot.

    `limit` names the contender that says what memory can do; `registers` are those of a thread of the kernel
    that takes most; `notes` are what was predicted.  `work` are the operations, or bytes, of a launch.
    """

    family: str
    problem: str
    way: str
    unit: str
    rates: Mapping[str, float | None]
    limit: str
    registers: int
    notes: Mapping[str, Any]
    work: int = 0
    run: Run = field(default_factory=Run)

    @property
    def ours(self) -> float:
        """Our rate."""
        return self.rates[OURS] or 0.0

    def ratio(self, contender: str) -> float | None:
        """Our rate over that of a contender, None where it has none."""
        other = self.rates.get(contender)
        return None if other is None else self.ours / other

    @property
    def share(self) -> float | None:
        """Our rate as a share of the limit's."""
        return self.ratio(self.limit)

    def per_joule(self, contender: str) -> float | None:
        """Operations, or bytes, per joule of a contender, None where its energy was not measured."""
        joules = self.run.joules.get(contender)
        return self.work / joules if joules else None


def mean_of(ratios: Iterable[float | None]) -> float | None:
    """The geometric mean of those that are not None; None if there are none.

    >>> mean_of([2.0, None, 8.0])
    4.0
    """
    known = [x for x in ratios if x is not None]
    return geometric_mean(known) if known else None


@dataclass(frozen=True, slots=True)
class Made:
    """A way to compute a problem whose kernels are compiled, and its predictions."""

    timed: Timed
    compiled: device.CompiledSequence
    way: str
    notes: Mapping[str, Any]
    config: Any


def make(asked: tuple[Timed, str], gpu: str = "") -> Made:
    """Choose, predict, print and compile for an architecture, by a lock or rates that are of `gpu`.

    >>> p = find_family("sum").problem((64, 96), (1,), "f16")
    >>> made = make((Timed("sum", p), "sm_90a"))
    >>> made.notes["moved bytes"], made.notes["memory bytes"]
    (12416, 12416)
    """
    timed, arch = asked
    family, p = find_family(timed.family), timed.problem
    config, source = choose(family, p, arch, gpu) if timed.config is None else (timed.config, "")
    sequence = family.launches(p, config, arch)
    notes = dict(bench_of(family).notes(p, config, arch))
    way = family.way(config)
    way = f"{way}, by the {source}" if source not in ("", "cost model") else way
    return Made(timed, device.compile_sequence(sequence, arch), way, notes, config)


def benchmark(problems: Iterable[Timed], method: Method | None = None) -> Iterator[BenchRow]:
    """Measure every problem, in their order, each in turn with its contenders.

    Raises UnsupportedError without a GPU and for a method that is not for a problem, MismatchError where our
    result is not the libraries'.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     row = next(benchmark([Timed("sum", find_family("sum").problem((512, 512), 1, "f32"))]))
    """
    status, subjects, method = device.require_gpu(), list(problems), method or Method()
    arch, made_here = status.arch, functools.partial(make, gpu=status.name)
    for timed in subjects:
        check_method(method, timed)
    with device.watching() as monitor, ThreadPoolExecutor(1) as beside:
        beside.submit(import_trouble, "torch", "")  # takes seconds, in which processes make the kernels
        for made in device.in_processes(made_here, [(timed, arch) for timed in subjects]):
            yield from _rows({made.way: made}, arch, method, monitor)


def benchmark_ways(
    family: str, problem: Any, ways: Mapping[str, Any], method: Method | None = None
) -> list[BenchRow]:
    """Measure several configurations of one problem by name, all in turn with the contenders.

    Raises what `benchmark` raises.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     rows = benchmark_ways("gemm-simt", find_family("gemm-simt").problem(256), {})
    """
    arch, method = device.require_gpu().arch, method or Method()
    work = [(Timed(family, problem, config=config), arch) for config in ways.values()]
    check_method(method, Timed(family, problem))
    with device.watching() as monitor:
        return _rows(dict(zip(ways, device.in_processes(make, work), strict=True)), arch, method, monitor)


def check_method(method: Method, timed: Timed) -> None:
    """Raise UnsupportedError for the rule of the later half and a problem that is no matrix product.

    >>> check_method(Method(), Timed("sum", find_family("sum").problem((512, 512), 1, "f32")))
    """
    if method.rule == LATER_HALF and not isinstance(timed.problem, GemmProblem):
        raise UnsupportedError(
            f"{timed.family} is no family of matrix products, of which the number of launches by size is a "
            f"rule: {', '.join(LADDERS)} have it"
        )


def _rows(ways: Mapping[str, Made], arch: str, method: Method, monitor: device.Monitor) -> list[BenchRow]:
    """The rows of some ways to compute one problem."""
    if not ways:
        return []
    timed = next(iter(ways.values())).timed
    family, p, name = find_family(timed.family), timed.problem, timed.name or str(timed.problem)
    bench = bench_of(family)
    numbers = [family.numbers(p, made.config, dict(timed.given)) for made in ways.values()]
    loaded = [
        device.load_sequence(made.compiled.ready(own))
        for made, own in zip(ways.values(), numbers, strict=True)
    ]
    sets = bench.sets(p, arch, cold=method.cold)
    ours: list[list[Launch]] = [[sequence.on_arrays(arrays) for arrays in sets] for sequence in loaded]
    for way, (launch, *_) in zip(ways, ours, strict=True):
        if reason := bench.check(p, {**sets[0], **numbers[0]}, launch):
            raise MismatchError(f"{name} as {way}: {reason}" if way else f"{name}: {reason}")
    launches = [*ours, *bench.others(p, sets, numbers[0]).values()]
    measured = _timings(launches, bench, p, method, monitor)
    beside = dict(zip(bench.contenders, measured[len(ways) :], strict=True))
    cold = 0 < 4 * l2_bytes(arch) <= sum(x.nbytes for arrays in sets for x in arrays.values())
    number = launch_count(_side(p)) if method.rule == LATER_HALF else 0

    def row(way: str, made: Made, own: _Timing) -> BenchRow:
        seen = {OURS: own, **beside}
        ran = {x: timing for x, timing in seen.items() if timing.rate}
        run = Run(
            {} if monitor.reason else {x: device.conditions(timing.readings) for x, timing in ran.items()},
            monitor.reason, cold, number,
            {x: timing.joules for x, timing in ran.items()} if method.energy else {},
        )  # fmt: skip
        rates = {x: timing.rate for x, timing in seen.items()}
        return BenchRow(
            family.name, name, way, bench.unit, rates, bench.limit, made.compiled.registers, made.notes,
            bench.work(p), run,
        )  # fmt: skip

    return [row(way, made, own) for (way, made), own in zip(ways.items(), measured, strict=False)]


class _Timing(NamedTuple):
    """A contender's rate, None for one without launches, the readings meanwhile, and its energy."""

    rate: float | None = None
    readings: Sequence[device.Reading] = ()
    joules: float | None = None


def _timings(
    launches: Sequence[Sequence[Launch]], bench: Bench, p: Any, method: Method, monitor: device.Monitor
) -> list[_Timing]:
    """The timing of each contender."""
    running = [own for own in launches if own]
    readings: list[list[device.Reading]] = [[] for _ in running]

    def look(number: int) -> None:
        readings[number].append(monitor.read())

    if method.rule == LATER_HALF:
        times = device.later_half_times_ms(running, launch_count(_side(p)), look)
    else:
        times = bench.pace(p).times_ms(running, look)
    work = bench.work(p) / PER_MS[bench.unit]
    timings = iter(
        _Timing(work / ms, seen, _joules(own, ms, monitor) if method.energy else None)
        for own, ms, seen in zip(running, times, readings, strict=True)
    )
    return [next(timings) if own else _Timing() for own in launches]


def _joules(contender: Sequence[Launch], ms: float, monitor: device.Monitor) -> float | None:
    """The energy of a launch: of as many as take ENERGY_MS, behind a quarter as many."""
    count = math.ceil(ENERGY_MS / ms)
    device.repeat_for(contender, math.ceil(count / 4))
    before = monitor.joules()
    device.repeat_for(contender, count)
    after = monitor.joules()
    return None if before is None or after is None or after <= before else (after - before) / count


def _side(p: GemmProblem) -> float:
    """The side of the cube with as many multiplications."""
    return round(math.cbrt(p.m * p.n * p.k), 6)
