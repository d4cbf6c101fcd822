"""The sweeps of `layoutalg verify --random`: random cases of a family or of the algebra's laws, by many
processes, into a store; verified, or counted by Nsight Compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from layoutalg.answers import Count, Positive
from layoutalg.cli.output import Table, count, progress
from layoutalg.cli.reports import CheckedProperty, Verified, unfit_words
from layoutalg.errors import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.kernels.tuning import Engine, Job, Number, Place, Record
    from layoutalg.testing import Scope

MOST_SHOWN = 20
"""Cases that are listed whose counters are not those predicted."""


@dataclass(frozen=True)
class Sweep:
    """The options of a sweep."""

    cases: int
    seed: int = 0
    workers: int = 1
    scheduler: str | None = None
    store: Path = Path("layoutalg-verified.jsonl")
    target: str = "simulator"
    counters: bool = False
    budget_s: float = float("inf")

    @property
    def on_gpu(self) -> bool:
        """Whether its cases need one."""
        return self.counters or self.target == "gpu"


@dataclass(frozen=True)
class RandomCases:
    """Cases that were drawn, and those that were in the store before."""

    cases: Positive
    seed: Count
    passed: Count
    failed: Count
    known: Count
    compared: Count | None
    """Numbers of --counters, or cases of algebra in which a law was compared."""
    equal: Count | None
    """The equal ones of the compared."""
    missing: Count | None
    """Numbers of --counters that the profiler's report does not have."""
    left: Count
    store: str


def sweep(family: str, asked: Sweep) -> tuple[bool, list[Any], RandomCases, tuple[Verified, ...]]:
    """Verify or count what the store lacks: whether cases of the sweep are done and none has failed, what is
    said, what was drawn, and the reports of failures."""
    from layoutalg.kernels.tuning import ALGEBRA, Store, cluster_engine, local_engine, tune
    from layoutalg.testing import verdict

    store = Store(asked.store)
    _check(family, asked)
    engine = (
        local_engine(asked.workers, on_gpus=asked.on_gpu)
        if asked.scheduler is None
        else cluster_engine(asked.scheduler, on_gpus=asked.on_gpu)
    )
    blocks: dict[tuple[str, str, str], tuple[int, int]] = {}
    heard: list[Record] = []
    with engine as opened, progress(f"verifying {family}", asked.cases) as step:
        place, jobs = _jobs(family, asked, opened)

        def drawn() -> Iterator[Job]:
            for job in jobs:
                blocks[job.name] = (
                    (job.config.first, job.config.count) if family == ALGEBRA else (job.seed or 0, 1)
                )
                yield job

        def hear(record: Record) -> None:
            heard.append(record)
            for _ in range(blocks[_name(record)][1]):
                step()

        summary = tune(drawn(), opened, store, budget_s=asked.budget_s, heard=hear)
    own = [r for r in store.records().values() if r.key.place == place and _name(r) in blocks]
    failures = [r for r in own if r.failure]
    right = sum(blocks[_name(r)][1] for r in own if not r.failure)
    failed = sum(blocks[_name(r)][1] for r in failures)
    known = right + failed - sum(blocks[_name(r)][1] for r in heard)
    left = asked.cases - right - failed
    parts: list[Any] = [*unfit_words(summary)]
    if failures:
        parts.append(
            Table("Failures", ("problem", "configuration", "what was said"), map(_row, failures), left=3)
        )
        first, many = min(blocks[_name(r)] for r in failures)
        options = (" --target gpu" if asked.target == "gpu" else "") + (
            " --counters" if asked.counters else ""
        )
        parts.append(
            f"The first again: layoutalg verify {family} --random {many} --seed {first}{options} --store NEW"
        )
    findings = _laws(own) if family == ALGEBRA else _counters(own) if asked.counters else _runs(own)
    parts += findings.said
    done = "counted" if asked.counters else "passed"
    of_block = " (whole blocks of cases, of which at least one fails each)" if family == ALGEBRA else ""
    parts.append(
        f"{count(asked.cases)} cases of {family} from seed {asked.seed} on the {place[1]}: "
        f"{count(right)} {done}, {count(failed)} failed"
        f"{of_block if failures else ''}; {count(known)} were in {asked.store} before."
    )
    if left:
        parts.append(f"{count(left)} are left: the same command goes on with them.")
    target: Literal["gpu", "host", "simulator"] = (
        "gpu" if asked.on_gpu else "host" if family == ALGEBRA else "simulator"
    )
    reports = [
        Verified(f"{r.problem}, {r.config}", target, False, (CheckedProperty(done, False, r.failure),))
        for r in failures
    ]
    reports += findings.reports
    # Cases that are left count against the verdict, unless only their time was limited.
    waived = asked.budget_s < float("inf") and not summary.unfit
    missed = (f"{count(left)} cases were not run",) if left and not waived else ()
    scope = replace(findings.scope, gaps=(*missed, *findings.scope.gaps))
    passed = verdict(scope, broken=bool(reports)) == "passed"
    so_far = " so far" if left else ""
    parts.append(f"Passed{so_far}." if passed else "FAILED." if reports else f"Not passed: {scope.gap}.")
    counts = findings.compared, findings.equal, findings.missing
    cases = RandomCases(asked.cases, asked.seed, right, failed, known, *counts, left, str(asked.store))
    return passed, parts, cases, tuple(reports)


def _check(family: str, options: Sweep) -> None:
    """Refuse what cannot be swept before any process is started."""
    from layoutalg.kernels.registry import find_family
    from layoutalg.kernels.tuning import ALGEBRA, profiler

    if family == ALGEBRA:
        if options.on_gpu:
            raise UnsupportedError(
                "the laws of the algebra are checked on the host: no --target gpu, no --counters"
            )
        return
    find_family(family)
    if options.seed < 0:
        raise ShapeError(f"the seed is {options.seed}; seeds count from 0")
    if options.counters and options.scheduler is None:
        from layoutalg.codegen.gpu import require_gpu

        require_gpu()
        profiler()


def _jobs(family: str, options: Sweep, opened: Engine) -> tuple[Place, Iterator[Job]]:
    """The place where the cases run, and the cases."""
    from layoutalg.kernels import tuning

    path = options.store.resolve()
    if family == tuning.ALGEBRA:
        return tuning.HOST, tuning.laws_of(options.cases, seed=options.seed, store=path)
    if not options.on_gpu:
        return tuning.SIMULATOR, tuning.cases_of(family, options.cases, seed=options.seed, store=path)
    gpu, arch = tuning.first_of(opened, tuning.gpu_place)
    place: Place = (tuning.VERIFIED, *gpu[1:])
    jobs = tuning.counted_cases if options.counters else tuning.cases_of
    return place, jobs(family, options.cases, seed=options.seed, place=place, arch=arch, store=path)


@dataclass(frozen=True)
class _Findings:
    """Findings of records beside their failures: what was looked at, sentences, tables, numbers that were
    compared, and a report for each case with a number that differs."""

    scope: Scope
    said: list[Any] = field(default_factory=list)
    compared: int | None = None
    equal: int | None = None
    missing: int | None = None
    reports: list[Verified] = field(default_factory=list)


def _runs(records: Sequence[Record]) -> _Findings:
    from layoutalg.testing import Scope

    return _Findings(Scope("cases that were run", len(records)))


def _laws(records: Sequence[Record]) -> _Findings:
    from layoutalg.testing import Scope

    held, silent = (int(sum(r.counters.get(name, 0) for r in records)) for name in ("held", "undefined"))
    sentence = f"A law held in {count(held)} cases; in {count(silent)} an operation refused the operands."
    scope = Scope("cases in which a law says something", held)
    return _Findings(scope, [sentence], held, held)


def _counters(records: Sequence[Record]) -> _Findings:
    """Predictions beside counters: of all cases together, and of those that differ."""
    from layoutalg.kernels.tuning import numbers_of
    from layoutalg.testing import Scope

    numbers = numbers_of(r for r in records if not r.failure)
    exact = [row for row in numbers if row.compared]
    apart = [row for row in exact if not row.equal]
    parts: list[Any] = [_counter_table(numbers)]
    if apart:
        cells = (
            (row.record.problem, row.record.config, row.name, count(int(row.predicted)), _counted(row))
            for row in apart[:MOST_SHOWN]
        )
        columns = ("problem", "configuration", "what", "predicted", "counted")
        parts.append(Table("Counters that are not those predicted", columns, cells, left=3))
    if len(apart) > MOST_SHOWN:
        parts.append(f"{MOST_SHOWN} of {count(len(apart))} are listed.")
    equal = len(exact) - len(apart)
    parts.append(f"{count(equal)} of {count(len(exact))} numbers equal.")
    missing = [row for row in numbers if row.counted is None]
    if missing:
        names = ", ".join(dict.fromkeys(row.name for row in missing))
        parts.append(f"{count(len(missing))} numbers are not in the profiler's report: {names}.")
    if any(not row.exact and row.counted is not None for row in numbers):
        parts.append(_ESTIMATES)
    reports: list[Verified] = []
    for record in dict.fromkeys(row.record.key for row in apart):
        own = [row for row in exact if row.record.key == record]
        checks = tuple(
            CheckedProperty(row.name, row.equal, f"predicted {row.predicted:.0f}, counted {row.counted:.0f}")
            for row in own
        )
        reports.append(Verified(f"{own[0].record.problem}, {own[0].record.config}", "gpu", False, checks))
    unseen = sum(row.exact for row in missing)
    gaps = (f"{count(unseen)} predicted numbers were not counted",) if unseen else ()
    scope = Scope("numbers to compare", len(exact), gaps)
    return _Findings(scope, parts, len(exact), equal, len(missing), reports)


_ESTIMATES = (
    "Estimates are not compared: bytes of memory depend on what the L2 holds, and cp.async is counted by the "
    "L1's tags and by pieces."
)


def _counter_table(numbers: Sequence[Number]) -> Table:
    """Sums over cases by name; "estimate" stands for the number of equal ones where none is compared."""
    rows = []
    for name, exact in dict.fromkeys((row.name, row.exact) for row in numbers):
        counted = [
            row for row in numbers if (row.name, row.exact) == (name, exact) and row.counted is not None
        ]
        equal = count(sum(row.equal for row in counted)) if exact else "estimate"
        sums = (sum(row.predicted for row in counted), sum(row.counted or 0 for row in counted))
        rows.append((name, count(len(counted)), equal, *(count(int(x)) for x in sums)))
    return Table("Counters", ("what", "cases", "equal", "predicted", "counted"), rows)


def _counted(number: Number) -> str:
    return count(int(number.counted or 0))


def _name(record: Record) -> tuple[str, str, str]:
    return record.key.family, record.key.problem, record.key.config


def _row(record: Record) -> tuple[str, str, str]:
    return record.problem, record.config, record.failure
