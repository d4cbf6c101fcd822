"""What `layoutalg verify --random` does: random cases of a family or of the algebra's laws, by many
processes, into a store; verified, or counted by Nsight Compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layoutalg.cli.output import count, progress, table
from layoutalg.cli.stores.actions import Found, unfit_words
from layoutalg.errors import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.kernels.tuning import Engine, Job, Place, Record
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


def sweep(family: str, asked: Sweep, *, quiet: bool) -> tuple[bool, Found]:
    """Verify or count what the store lacks; whether cases of the sweep are done and none has failed, and what
    is said."""
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
    with engine as opened, progress(f"verifying {family}", asked.cases, quiet=quiet) as step:
        place, jobs = _jobs(family, asked, opened)

        def drawn() -> Iterator[Job]:
            for job in jobs:
                blocks[job.name] = (
                    (job.config.first, job.config.count) if family == ALGEBRA else (job.seed or 0, 1)
                )
                yield job

        def told(record: Record) -> None:
            heard.append(record)
            for _ in range(blocks[_name(record)][1]):
                step()

        summary = tune(drawn(), opened, store, budget_s=asked.budget_s, heard=told)
    own = [r for r in store.records().values() if r.key.place == place and _name(r) in blocks]
    failures = [r for r in own if r.failure]
    numbers = {
        "cases": asked.cases, "seed": asked.seed,
        "passed": sum(blocks[_name(r)][1] for r in own if not r.failure),
        "failed": sum(blocks[_name(r)][1] for r in failures),
        "known": sum(blocks[_name(r)][1] for r in own) - sum(blocks[_name(r)][1] for r in heard),
    }  # fmt: skip
    left = asked.cases - numbers["passed"] - numbers["failed"]
    said: list[Any] = [*unfit_words(summary)]
    if failures:
        said.append(
            table("Failures", ("problem", "configuration", "what was said"), map(_row, failures), left=3)
        )
        first, many = min(blocks[_name(r)] for r in failures)
        options = (" --target gpu" if asked.target == "gpu" else "") + (
            " --counters" if asked.counters else ""
        )
        said.append(
            f"The first again: layoutalg verify {family} --random {many} --seed {first}{options} --store NEW"
        )
    said += _law_words(own) if family == ALGEBRA else _counter_parts(own) if asked.counters else []
    done = "counted" if asked.counters else "passed"
    of_block = " (whole blocks of cases, of which at least one fails each)" if family == ALGEBRA else ""
    said.append(
        f"{count(asked.cases)} cases of {family} from seed {asked.seed} on the {place[1]}: "
        f"{count(numbers['passed'])} {done}, {count(numbers['failed'])} failed"
        f"{of_block if failures else ''}; {count(numbers['known'])} were in {asked.store} before."
    )
    if left:
        said.append(f"{count(left)} are left: the same command goes on with them.")
    reports = [
        {
            "problem": f"{r.problem}, {r.config}",
            "target": "gpu" if asked.on_gpu else "host" if family == ALGEBRA else "simulator",
            "passed": False, "checks": [{"name": done, "passed": False, "detail": r.failure}],
        }
        for r in failures
    ]  # fmt: skip
    scope = _scope(family, asked, own, left, bool(summary.unfit))
    passed = verdict(scope, broken=bool(failures)) == "passed"
    so_far = " so far" if left else ""
    said.append(f"Passed{so_far}." if passed else "FAILED." if failures else f"Not passed: {scope.gap}.")
    return passed, (said, {"random": numbers | {"left": left, "store": str(asked.store)}, "reports": reports})


def _scope(family: str, asked: Sweep, own: Sequence[Record], left: int, unfit: bool) -> Scope:
    """Cases that say something; those that are left count against it, unless only their time was limited."""
    from layoutalg.kernels.tuning import ALGEBRA
    from layoutalg.testing import Scope

    waived = asked.budget_s < float("inf") and not unfit
    gaps = (f"{count(left)} cases were not run",) if left and not waived else ()
    if family == ALGEBRA:
        held = int(sum(r.counters.get("held", 0) for r in own))
        return Scope("cases in which a law says something", held, gaps)
    return Scope("cases that were run", len(own), gaps)


def _check(family: str, asked: Sweep) -> None:
    """Refuse what cannot be swept before any process is started."""
    from layoutalg.kernels.registry import find_family
    from layoutalg.kernels.tuning import ALGEBRA, profiler

    if family == ALGEBRA:
        if asked.on_gpu:
            raise UnsupportedError(
                "the laws of the algebra are checked on the host: no --target gpu, no --counters"
            )
        return
    find_family(family)
    if asked.seed < 0:
        raise ShapeError(f"the seed is {asked.seed}; seeds count from 0")
    if asked.counters and asked.scheduler is None:
        from layoutalg.codegen.gpu import require_gpu

        require_gpu()
        profiler()


def _jobs(family: str, asked: Sweep, opened: Engine) -> tuple[Place, Iterator[Job]]:
    """Where the cases run, and the cases."""
    from layoutalg.kernels.tuning import (
        ALGEBRA,
        HOST,
        SIMULATOR,
        VERIFIED,
        cases_of,
        counted_cases,
        first_of,
        gpu_place,
        laws_of,
    )

    path = asked.store.resolve()
    if family == ALGEBRA:
        return HOST, laws_of(asked.cases, seed=asked.seed, store=path)
    if not asked.on_gpu:
        return SIMULATOR, cases_of(family, asked.cases, seed=asked.seed, store=path)
    found, arch = first_of(opened, gpu_place)
    place: Place = (VERIFIED, *found[1:])
    jobs = counted_cases if asked.counters else cases_of
    return place, jobs(family, asked.cases, seed=asked.seed, place=place, arch=arch, store=path)


def _law_words(records: Sequence[Record]) -> list[str]:
    held, silent = (int(sum(r.counters.get(name, 0) for r in records)) for name in ("held", "undefined"))
    return [f"A law held in {count(held)} cases; in {count(silent)} an operation refused the operands."]


def _counter_parts(records: Sequence[Record]) -> list[Any]:
    """What is predicted beside what was counted: of all cases together, and of those that differ."""
    from layoutalg.kernels.tuning import COUNTED, METRICS, PREDICTED

    rows, apart = [], []
    for name in METRICS:
        pairs = [
            (r, r.counters[PREDICTED + name], r.counters[COUNTED + name])
            for r in records
            if {PREDICTED + name, COUNTED + name} <= r.counters.keys()
        ]
        equal = sum(predicted == counted for _, predicted, counted in pairs)
        sums = (sum(x for _, x, _ in pairs), sum(y for _, _, y in pairs))
        rows.append((name, count(len(pairs)), count(equal), *(count(int(x)) for x in sums)))
        apart += [(r, name, x, y) for r, x, y in pairs if x != y and not name.startswith("bytes")]
    said: list[Any] = [table("Counters", ("what", "cases", "equal", "predicted", "counted"), rows)]
    if apart:
        cells = (
            (r.problem, r.config, name, count(int(x)), count(int(y))) for r, name, x, y in apart[:MOST_SHOWN]
        )
        columns = ("problem", "configuration", "what", "predicted", "counted")
        said.append(table("Counters that are not those predicted", columns, cells, left=3))
    if len(apart) > MOST_SHOWN:
        said.append(f"{MOST_SHOWN} of {count(len(apart))} are listed.")
    return said


def _name(record: Record) -> tuple[str, str, str]:
    return record.key.family, record.key.problem, record.key.config


def _row(record: Record) -> tuple[str, str, str]:
    return record.problem, record.config, record.failure
