"""What a search of measured times looks at: the planner's candidates first, further ones that are as right
behind them, each of which a lock file can choose; and nothing of it where no search is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from layoutalg.kernels import FAMILIES, find_family, tuning, verify
from layoutalg.kernels.identity import data_digest
from tests.sweeps import first

MOVERS = ("permute", "transpose", "tiled_copy")

PROBLEMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("permute", {"shape": (64, 64, 3), "axes": (2, 0, 1), "dtype": "f32"}),
    ("permute", {"shape": (13, 22, 35), "axes": (2, 0, 1), "dtype": "u8"}),
    ("permute", {"shape": (48, 50), "axes": (1, 0), "dtype": "f16"}),
    ("permute", {"shape": (9, 40, 24), "axes": (0, 2, 1), "dtype": "f64"}),
    ("permute", {"shape": (30, 7, 11), "axes": (2, 0, 1), "dtype": "f32", "result": "f16"}),
    ("transpose", {"m": 200, "n": 136, "dtype": "f32"}),
    ("transpose", {"m": 200, "n": 136, "dtype": "u8"}),
    ("transpose", {"m": 67, "n": 259, "dtype": "f16"}),
    ("transpose", {"m": 64, "n": 72, "dtype": "c128"}),
    ("tiled_copy", {"m": 67, "n": 259, "dtype": "f32"}),
)

LARGE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("permute", {"shape": (93, 17, 611, 55), "axes": (3, 1, 0, 2), "dtype": "f32"}),
    ("permute", {"shape": (22, 8, 4, 11, 816, 8), "axes": (5, 1, 2, 0, 3, 4), "dtype": "f16"}),
    ("permute", {"shape": (45763591,), "axes": (0,), "dtype": "f32"}),
    ("transpose", {"m": 4096, "n": 4096, "dtype": "u8"}),
    ("transpose", {"m": 4099, "n": 3077, "dtype": "f32"}),
    ("tiled_copy", {"m": 4096, "n": 4096, "dtype": "f16"}),
)


def searched(name: str, arguments: dict[str, Any], arch: str = "sm_90") -> tuple[Any, Any, list[Any]]:
    family = find_family(name)
    problem = family.problem(**arguments)
    return family, problem, list(family.searched(problem, arch))


@pytest.mark.parametrize(
    ("arch", "name", "arguments"),
    first(8, [(arch, *one) for arch in ("sm_90", "sm_75") for one in (*LARGE, *PROBLEMS)]),
)
def test_a_search_begins_with_what_is_planned_and_goes_on(arch: str, name: str, arguments: Any) -> None:
    family, problem, found = searched(name, arguments, arch)
    planned = family.configs(problem, arch)
    assert found[0] == family.choose(problem, arch) and tuple(found[: len(planned)]) == planned
    least = 9 if (name, arch) == ("tiled_copy", "sm_75") else 16
    assert len(found) >= least, "a copy has one way on Turing"
    assert len({data_digest(c) for c in found}) == len(found)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_can_be_searched(name: str) -> None:
    family = find_family(name)
    problem = family.problem(**family.verified[0])
    found = list(islice(family.searched(problem), 4))
    assert found == list(dict.fromkeys(family.configs(problem)))[: len(found)] or name in MOVERS
    assert found[0] == family.choose(problem)


@pytest.mark.deep(
    only=(
        "permute-arguments1-0", "permute-arguments3-0", "transpose-arguments5-0",
        "transpose-arguments7-0", "transpose-arguments8-0", "transpose-arguments15-1",
    )
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "arguments", "number"),
    first(16, [(name, arguments, n) for n in range(24) for name, arguments in PROBLEMS]),
)
def test_what_is_searched_is_right(name: str, arguments: dict[str, Any], number: int) -> None:
    family, problem, found = searched(name, arguments)
    chosen = found[len(family.configs(problem)) :]
    config = chosen[number * len(chosen) // 24]
    verify(family, problem, config, target="simulator", seed=number).require()


@pytest.mark.deep(
    only=("permute-{'shape': (30, 7, 11), 'axes': (2, 0, 1), 'dtype': 'f32', 'result': 'f16'}",)
)
@pytest.mark.parametrize(("name", "arguments"), PROBLEMS[::4], ids=str)
def test_a_lock_chooses_any_of_them(name: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    family, problem, found = searched(name, arguments)
    place = tuning.model_place("sm_90")
    jobs = list(tuning.jobs_of(name, [problem], "sm_90", place, top=1000))
    assert [job.config for job in jobs] == found and [job.rank for job in jobs] == [*range(len(found))]
    for job in (jobs[0], jobs[len(family.configs(problem))], jobs[len(jobs) // 2], jobs[-1]):
        path = tmp_path / f"{job.rank}"
        kernel = tuning.build(job).kernel
        assert tuning.Store(path.with_suffix(".jsonl")).add(job.record(kernel, times_ns=(2.0,)))
        lock_file = path.with_suffix(".lock")
        lock_file.write_text(
            tuning.lock_text(tuning.lock_of(tuning.Store(path.with_suffix(".jsonl")).records().values()))
        )
        assert tuning.read_lock(lock_file).chosen(family, problem, "sm_90") == job.config


def test_a_call_runs_what_a_search_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the lock of this process, as calls on arrays, `bench` and `generate` ask for it."""
    from layoutalg.kernels.tuning import lockfile

    family, problem, _ = searched(*PROBLEMS[0])
    job = list(tuning.jobs_of(family.name, [problem], "sm_90", tuning.model_place("sm_90"), top=16))[-1]
    lock: tuning.Lock = tuning.lock_of([job.record(tuning.build(job).kernel, times_ns=(2.0,))])
    assert job.config not in family.configs(problem)
    monkeypatch.setattr(lockfile, "current_lock", lambda: lock)
    assert tuning.choose(family, problem, "sm_90") == (job.config, "lock file (model times on sm_90)")


@pytest.mark.parametrize("name", MOVERS)
def test_what_is_planned_without_a_search_makes_none_of_it(name: str) -> None:
    made = []

    def further(problem: Any, arch: Any) -> Iterator[Any]:
        made.append(problem)
        yield from find_family(name).further(problem, arch)

    family = replace(find_family(name), further=further)
    problem = family.problem(**family.verified[0])
    lock = tuning.lock_of([])
    assert lock.chosen(family, problem, "sm_90") is None
    assert tuning.choose(family, problem, "sm_90") == (family.configs(problem)[0], "cost model")
    assert len(list(islice(family.searched(problem), len(family.configs(problem))))) and not made
    assert next(islice(family.searched(problem), len(family.configs(problem)), None)) and made
