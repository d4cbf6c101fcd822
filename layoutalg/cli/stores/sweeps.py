"""What `layoutalg verify --random` does: random cases of a family, by many processes, into a store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layoutalg.cli.output import count, progress, table
from layoutalg.cli.stores.actions import Found, unfit_words

if TYPE_CHECKING:
    from layoutalg.kernels.tuning import Job, Place, Record


@dataclass(frozen=True)
class Sweep:
    """The options of a sweep."""

    cases: int
    seed: int = 0
    workers: int = 1
    scheduler: str | None = None
    store: Path = Path("layoutalg-verified.jsonl")
    on_gpu: bool = False


def sweep(family: str, asked: Sweep, *, quiet: bool) -> tuple[bool, Found]:
    """Verify what the store lacks; whether all cases of the sweep have passed, and what is said."""
    from layoutalg.kernels.registry import find_family
    from layoutalg.kernels.tuning import (
        SIMULATOR,
        VERIFIED,
        Store,
        cases_of,
        cluster_engine,
        first_of,
        gpu_place,
        local_engine,
        tune,
    )

    find_family(family)
    store, arch = Store(asked.store), "sm_90"
    place: Place = SIMULATOR
    engine = (
        local_engine(asked.workers, on_gpus=asked.on_gpu)
        if asked.scheduler is None
        else cluster_engine(asked.scheduler, on_gpus=asked.on_gpu)
    )
    with engine as opened, progress(f"verifying {family}", asked.cases, quiet=quiet) as step:
        if asked.on_gpu:
            found, arch = first_of(opened, gpu_place)
            place = (VERIFIED, *found[1:])
        seeds: dict[tuple[str, str, str], int] = {}

        def drawn() -> Iterator[Job]:
            cases = cases_of(
                family, asked.cases, seed=asked.seed, place=place, arch=arch, store=store.path.resolve()
            )
            for job in cases:
                seeds[job.name] = job.seed or 0
                yield job

        summary = tune(drawn(), opened, store, heard=lambda record: step())
    own = [r for r in store.records().values() if r.key.place == place and _name(r) in seeds]
    failures = [r for r in own if r.failure]
    passed = not failures and not summary.left
    said: list[Any] = [*unfit_words(summary)]
    if failures:
        said.append(
            table("Failures", ("problem", "configuration", "what was said"), map(_row, failures), left=3)
        )
        first = min(seeds[_name(r)] for r in failures)
        target = " --target gpu" if asked.on_gpu else ""
        said.append(
            f"The first again: layoutalg verify {family} --random 1 --seed {first}{target} --store NEW"
        )
    said.append(
        f"{count(asked.cases)} cases of {family} from seed {asked.seed} on the {place[1]}: "
        f"{count(len(own) - len(failures))} passed, {count(len(failures))} failed; "
        f"{count(summary.known)} were in {asked.store} before."
    )
    numbers = {
        "cases": asked.cases, "seed": asked.seed, "passed": len(own) - len(failures), "failed": len(failures),
        "known": summary.known, "store": str(asked.store),
    }  # fmt: skip
    reports = [
        {
            "problem": f"{r.problem}, {r.config}", "target": "gpu" if asked.on_gpu else "simulator",
            "passed": False, "checks": [{"name": "verified", "passed": False, "detail": r.failure}],
        }
        for r in failures
    ]  # fmt: skip
    return passed, (said, {"random": numbers, "reports": reports})


def _name(record: Record) -> tuple[str, str, str]:
    return record.key.family, record.key.problem, record.key.config


def _row(record: Record) -> tuple[str, str, str]:
    return record.problem, record.config, record.failure
