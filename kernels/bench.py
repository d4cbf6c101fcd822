"""bench: any family timed beside the libraries that its users would call otherwise, all in one run.

Contenders of a problem share their buffers and run in turn, round by round; the figure is the median.  Small
problems rotate over several sets of buffers, four times the L2 cache together, so that nobody reads from
cache.  What the libraries do is data of the family (`family.Bench`); a result of ours that is not theirs is
an error before anything is timed.  All cores make the kernels before the first is timed.

    rows = benchmark([Timed("softmax", p) for p in problems])             the best way of each
    rows = benchmark_ways("gemm-sm80", p, {"step 1": c, "step 2": d})     several ways, in turn
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any, NamedTuple

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import (
    CompiledSequence,
    compile_sequence,
    in_processes,
    load_sequence,
    median_times_ms,
    require_gpu,
)
from layoutalg.errors import MismatchError, UnknownNameError
from layoutalg.kernels.baselines import Launch
from layoutalg.kernels.family import Bench
from layoutalg.kernels.registry import FAMILIES, find_family
from layoutalg.kernels.rowwise import rowwise_cases

PER_MS = {"GB/s": 1e6, "TFLOP/s": 1e9}
"""What a rate of one of a unit does in a millisecond."""

OURS = "ours"


class Timed(NamedTuple):
    """What is timed: a problem of a family, under a name; its configuration, the best where it is None."""

    family: str
    problem: Any
    name: str = ""
    config: Any = None


REDUCE = "reduce"
"""All families of reductions and norms together: a table of their own."""


def timed_problems(
    name: str, dtypes: Sequence[str] | None = None, sizes: Sequence[int] | None = None
) -> list[Timed]:
    """The problems of a family's table, or of "reduce", for some element types and sizes or by default.

    Raises UnknownNameError for another name, and what the family's problem raises.

    >>> [timed.name for timed in timed_problems("transpose", ["f16"], [4096])]
    ['4096 x 4096 f16, ld 4096 -> 4096']
    """
    if name == REDUCE:
        return [Timed(family, p, case) for family, case, p in rowwise_cases(dtypes)]
    if name not in FAMILIES:
        raise UnknownNameError("kernel family", str(name), (*FAMILIES, REDUCE))
    return [Timed(name, p, case) for case, p in FAMILIES[name].bench.cases(dtypes, sizes)]


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One problem, computed one way: `rates` in `unit` by contender; None: not installed, or it cannot.

    `limit` names the contender that says what memory can do; `registers` are those of a thread of the kernel
    that takes most; `notes` are what was predicted.
    """

    family: str
    problem: str
    way: str
    unit: str
    rates: Mapping[str, float | None]
    limit: str
    registers: int
    notes: Mapping[str, Any]

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


def mean_of(ratios: Iterable[float | None]) -> float | None:
    """The geometric mean of those that are there; None of none.

    >>> mean_of([2.0, None, 8.0])
    4.0
    """
    known = [x for x in ratios if x is not None]
    return geometric_mean(known) if known else None


@dataclass(frozen=True, slots=True)
class Made:
    """A way to compute a problem whose kernels are compiled, and what is predicted of it."""

    timed: Timed
    compiled: CompiledSequence
    way: str
    notes: Mapping[str, Any]


def make(asked: tuple[Timed, str]) -> Made:
    """Choose, predict, print and compile for an architecture.

    >>> p = find_family("sum").problem((64, 96), (1,), "f16")
    >>> made = make((Timed("sum", p), "sm_90a"))
    >>> made.notes["moved bytes"], made.notes["memory bytes"]
    (12416, 12416)
    """
    timed, arch = asked
    family, p = find_family(timed.family), timed.problem
    config = family.choose(p, arch) if timed.config is None else timed.config
    sequence = (family.shared or family.launches)(p, config, arch)
    notes = dict(family.bench.notes(p, config, arch))
    return Made(timed, compile_sequence(sequence, arch), family.way(config), notes)


def benchmark(problems: Iterable[Timed]) -> Iterator[BenchRow]:
    """Measure every problem, in their order, each in turn with its contenders.

    Raises UnsupportedError without a GPU, MismatchError where our result is not the libraries'.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     row = next(benchmark([Timed("sum", find_family("sum").problem((512, 512), 1, "f32"))]))
    """
    arch = require_gpu().arch
    for made in in_processes(make, [(timed, arch) for timed in problems]):
        yield from _rows({made.way: made}, arch)


def benchmark_ways(family: str, problem: Any, ways: Mapping[str, Any]) -> list[BenchRow]:
    """Measure several configurations of one problem by name, all in turn with the contenders.

    Raises what `benchmark` raises.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     rows = benchmark_ways("gemm-simt", find_family("gemm-simt").problem(256), {})
    """
    arch = require_gpu().arch
    asked = [(Timed(family, problem, config=config), arch) for config in ways.values()]
    return _rows(dict(zip(ways, in_processes(make, asked), strict=True)), arch)


def set_count(bench: Bench, problem: Any, nbytes: int, arch: str) -> int:
    """Sets of buffers to rotate over: four times the L2 cache together, as many as the family's pace allows.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(1024, 1024, "f32")
    >>> set_count(family.bench, p, p.moved_bytes, "sm_90")
    30
    """
    board = find_arch(arch).board
    return min(bench.pace(problem).sets, 1 + 4 * (board.l2_bytes if board else 0) // (nbytes + 1))


def _rows(ways: Mapping[str, Made], arch: str) -> list[BenchRow]:
    """The rows of some ways to compute one problem."""
    if not ways:
        return []
    timed = next(iter(ways.values())).timed
    family, p, name = find_family(timed.family), timed.problem, timed.name or str(timed.problem)
    bench, scalars = family.bench, family.bench.scalars(p)
    loaded = [load_sequence(made.compiled.ready(scalars)) for made in ways.values()]
    launches: list[list[Launch]] = [[] for _ in range(len(ways) + len(bench.contenders))]
    first = bench.arrays(p, 0)
    count = set_count(bench, p, sum(x.nbytes for x in first.values()), arch)
    for n in range(count):
        arrays = bench.arrays(p, n) if n else first
        ours: list[Callable[[], object]] = [one.on_arrays(arrays) for one in loaded]
        if n == 0:
            for way, launch in zip(ways, ours, strict=True):
                if reason := bench.check(p, arrays, launch):
                    raise MismatchError(f"{name} as {way}: {reason}" if way else f"{name}: {reason}")
        others = [contender(p, arrays) for contender in bench.contenders.values()]
        for own, one in zip(launches, [*ours, *others], strict=True):
            if one is not None:
                own.append(one)
    rates = _rates(launches, bench, p)
    beside = dict(zip(bench.contenders, rates[len(ways) :], strict=True))
    return [
        BenchRow(
            family.name, name, way, bench.unit, {OURS: rate, **beside}, bench.limit, made.compiled.registers,
            made.notes,
        )
        for (way, made), rate in zip(ways.items(), rates, strict=False)
    ]  # fmt: skip


def _rates(launches: Sequence[Sequence[Launch]], bench: Bench, p: Any) -> list[float | None]:
    """The rate of each contender, None of one without launches."""
    pace, running = bench.pace(p), [own for own in launches if own]
    found = iter(median_times_ms(running, rounds=pace.rounds, inner=pace.inner, sample_ms=pace.sample_ms))
    work = bench.work(p) / PER_MS[bench.unit]
    return [work / next(found) if own else None for own in launches]
