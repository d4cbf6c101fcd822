"""The sweeps of `layoutalg verify --random`: random cases of a family or of the algebra's laws, by many
processes, into a store; verified, or counted by Nsight Compute."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from layoutalg.answers import Count, Positive
from layoutalg.cli.output import Table, count, progress
from layoutalg.cli.reports import CheckedProperty, Verified, unfit_words
from layoutalg.errors import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.kernels.tuning import Counted, Engine, Job, Place, Record
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
    store: Path | None = None
    target: str = "simulator"
    counters: bool = False
    budget_s: float = float("inf")

    @property
    def on_gpu(self) -> bool:
        """Whether its cases need one."""
        return self.counters or self.target == "gpu"

    @property
    def path(self) -> Path:
        """The store of what is not counted."""
        return Path("layoutalg-verified.jsonl") if self.store is None else self.store


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
    """Verify what the store lacks: whether cases of the sweep are done and none has failed, what is
    said, what was drawn, and the reports of failures."""
    from layoutalg.kernels.tuning import ALGEBRA, Store, cluster_engine, local_engine, tune
    from layoutalg.testing import Scope, verdict

    store = Store(asked.path)
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
        options = " --target gpu" if asked.target == "gpu" else ""
        parts.append(
            f"The first again: layoutalg verify {family} --random {many} --seed {first}{options} --store NEW"
        )
    findings = _laws(own) if family == ALGEBRA else _Findings(Scope("cases that were run", len(own)))
    parts += findings.said
    of_block = " (whole blocks of cases, of which at least one fails each)" if family == ALGEBRA else ""
    parts.append(
        f"{count(asked.cases)} cases of {family} from seed {asked.seed} on the {place[1]}: "
        f"{count(right)} passed, {count(failed)} failed"
        f"{of_block if failures else ''}; {count(known)} were in {asked.path} before."
    )
    if left:
        parts.append(f"{count(left)} are left: the same command goes on with them.")
    target: Literal["gpu", "host", "simulator"] = (
        "gpu" if asked.on_gpu else "host" if family == ALGEBRA else "simulator"
    )
    reports = [
        Verified(f"{r.problem}, {r.config}", target, False, (CheckedProperty("passed", False, r.failure),))
        for r in failures
    ]
    # Cases that are left count against the verdict, unless only their time was limited.
    waived = asked.budget_s < float("inf") and not summary.unfit
    missed = (f"{count(left)} cases were not run",) if left and not waived else ()
    scope = replace(findings.scope, gaps=(*missed, *findings.scope.gaps))
    passed = verdict(scope, broken=bool(reports)) == "passed"
    so_far = " so far" if left else ""
    parts.append(f"Passed{so_far}." if passed else "FAILED." if reports else f"Not passed: {scope.gap}.")
    held = findings.held
    cases = RandomCases(
        asked.cases, asked.seed, right, failed, known, held, held, None, left, str(asked.path)
    )
    return passed, parts, cases, tuple(reports)


def _check(family: str, options: Sweep) -> None:
    """Refuse what cannot be swept before any process is started."""
    from layoutalg.kernels.registry import find_family
    from layoutalg.kernels.tuning import ALGEBRA

    if family == ALGEBRA:
        if options.on_gpu:
            raise UnsupportedError(
                "the laws of the algebra are checked on the host: no --target gpu, no --counters"
            )
        return
    find_family(family)
    if options.seed < 0:
        raise ShapeError(f"the seed is {options.seed}; seeds count from 0")


def _jobs(family: str, options: Sweep, opened: Engine) -> tuple[Place, Iterator[Job]]:
    """The place where the cases run, and the cases."""
    from layoutalg.kernels import tuning

    path = options.path.resolve()
    if family == tuning.ALGEBRA:
        return tuning.HOST, tuning.laws_of(options.cases, seed=options.seed, store=path)
    if not options.on_gpu:
        return tuning.SIMULATOR, tuning.cases_of(family, options.cases, seed=options.seed, store=path)
    gpu, arch = tuning.first_of(opened, tuning.gpu_place)
    place: Place = (tuning.VERIFIED, *gpu[1:])
    cases = tuning.cases_of(family, options.cases, seed=options.seed, place=place, arch=arch, store=path)
    return place, cases


@dataclass(frozen=True)
class _Findings:
    """Findings of records beside their failures: what was looked at, sentences, cases in which a law held."""

    scope: Scope
    said: list[Any] = field(default_factory=list)
    held: int | None = None


def _laws(records: Sequence[Record]) -> _Findings:
    from layoutalg.testing import Scope

    held, silent = (int(sum(r.counters.get(name, 0) for r in records)) for name in ("held", "undefined"))
    sentence = f"A law held in {count(held)} cases; in {count(silent)} an operation refused the operands."
    scope = Scope("cases in which a law says something", held)
    return _Findings(scope, [sentence], held)


def count_sweep(family: str, asked: Sweep) -> tuple[bool, list[Any], RandomCases, tuple[Verified, ...]]:
    """Count cases by Nsight Compute: as `sweep`, and every case that differs is a failure."""
    from layoutalg.codegen.gpu import profiler, require_gpu
    from layoutalg.kernels.tuning import count as count_cases
    from layoutalg.kernels.tuning import seeds, smallest
    from layoutalg.testing import Scope, verdict

    _check(family, asked)
    if asked.scheduler is not None or asked.store is not None:
        raise UnsupportedError("--counters takes this machine's GPU and keeps no store")
    numbers, arch = seeds(asked.seed, asked.cases), require_gpu().arch
    profiler()
    cases: list[Counted] = []
    begun = time.monotonic()
    with progress(f"counting {family}", asked.cases) as step:
        for case in count_cases([(family, number) for number in numbers], arch):
            cases.append(case)
            step()
            if time.monotonic() - begun > asked.budget_s:
                break
    apart, failures = [c for c in cases if c.found.apart], [c for c in cases if c.failure]
    parts: list[Any] = [_counter_table(cases)]
    if apart:
        cells = [
            (case.name, name, count(case.found.predicted[name]), count(case.found.counted[name]))
            for case in apart
            for name in case.found.apart
        ]
        columns = ("case", "what", "predicted", "counted")
        parts.append(Table("Counters that are not those predicted", columns, cells[:MOST_SHOWN], left=2))
        parts += [f"{MOST_SHOWN} of {count(len(cells))} are listed."] if len(cells) > MOST_SHOWN else []
        if (least := smallest(apart, arch)) is not None:
            found = least.found
            said = ", ".join(f"{x} {found.predicted[x]}, counted {found.counted[x]}" for x in found.apart)
            parts.append(f"The smallest problem found that differs: {least.name}: {said}.")
    if failures:
        rows = ((case.name, case.failure) for case in failures)
        parts.append(Table("Failures", ("case", "what was said"), rows, left=2))
    differing = sum(len(c.found.apart) for c in cases)
    replayed = sum(len(c.found.replayed) for c in cases)
    missing = [x for c in cases for x in c.found.missing]
    compared = sum(len(c.found.predicted) for c in cases) - len(missing)
    equal = compared - differing - replayed
    parts.append(
        f"{count(equal)} of {count(compared)} numbers equal, {count(differing)} differ"
        + (f", {count(replayed)} and replays of wavefronts beside other traffic." if replayed else ".")
    )
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        parts.append(f"{count(len(missing))} numbers are not in the profiler's report: {names}.")
    left = asked.cases - len(cases)
    parts.append(
        f"{count(asked.cases)} cases of {family} from seed {asked.seed}: {count(len(cases))} counted, "
        f"{count(len(failures))} failed, {count(left)} left."
    )
    reports = tuple(
        Verified(case.name, "gpu", False, tuple(_counter_checks(case))) for case in (*apart, *failures)
    )
    gaps = (f"{count(len(missing))} predicted numbers were not counted",) if missing else ()
    scope = Scope("numbers to compare", compared, gaps)
    passed = verdict(scope, broken=bool(reports)) == "passed"
    parts.append("Passed." if passed else "FAILED." if reports else f"Not passed: {scope.gap}.")
    right = len(cases) - len(failures)
    numbers_of = compared, equal, len(missing), left, ""
    return passed, parts, RandomCases(asked.cases, asked.seed, right, len(failures), 0, *numbers_of), reports


def _counter_checks(case: Counted) -> Iterator[CheckedProperty]:
    if case.failure:
        yield CheckedProperty("counted", False, case.failure)
    predicted, counted = case.found.predicted, case.found.counted
    for name in predicted.keys() & counted.keys():
        said = f"predicted {predicted[name]}, counted {counted[name]}"
        yield CheckedProperty(name, name not in case.found.apart, said)


def _counter_table(cases: Sequence[Counted]) -> Table:
    """Sums over cases by name."""
    rows = []
    every = [case.found for case in cases]
    for name in dict.fromkeys(name for found in every for name in found.counted):
        own = [(found.predicted[name], found.counted[name]) for found in every if name in found.counted]
        sums = (sum(each) for each in zip(*own, strict=True))
        rows.append((name, *map(count, (len(own), sum(a == b for a, b in own), *sums))))
    return Table("Counters", ("what", "cases", "equal", "predicted", "counted"), rows)


def _name(record: Record) -> tuple[str, str, str]:
    return record.key.family, record.key.problem, record.key.config


def _row(record: Record) -> tuple[str, str, str]:
    return record.problem, record.config, record.failure
