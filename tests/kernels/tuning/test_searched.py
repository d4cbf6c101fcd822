"""What a search of measured times looks at: the planner's candidates first, further ones that are as right
behind them, each of which a lock file can choose; and nothing of it where no search is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from layoutalg.kernels import FAMILIES, find_family, tuning, verify
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.identity import data_digest
from layoutalg.kernels.tuning import lockfile
from tests.sweeps import each

MOVERS = ("permute", "transpose", "tiled_copy")

PROBLEMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("permute", {"shape": (64, 64, 3), "axes": (2, 0, 1), "dtype": "f32"}),
    ("permute", {"shape": (13, 22, 35), "axes": (2, 0, 1), "dtype": "u8"}),
    ("permute", {"shape": (9, 40, 24), "axes": (0, 2, 1), "dtype": "f64"}),
    ("permute", {"shape": (30, 7, 11), "axes": (2, 0, 1), "dtype": "f32", "result": "f16"}),
    ("transpose", {"m": 200, "n": 136, "dtype": "u8"}), ("transpose", {"m": 64, "n": 72, "dtype": "c128"}),
    ("tiled_copy", {"m": 67, "n": 259, "dtype": "f32"}),
)  # fmt: skip

LARGE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("permute", {"shape": (93, 17, 611, 55), "axes": (3, 1, 0, 2), "dtype": "f32"}),
    ("permute", {"shape": (45763591,), "axes": (0,), "dtype": "f32"}),
    ("transpose", {"m": 4099, "n": 3077, "dtype": "f32"}),
    ("tiled_copy", {"m": 4096, "n": 4096, "dtype": "f16"}),
)


def searched(name: str, arguments: dict[str, Any], arch: str = "sm_90") -> tuple[Any, Any, list[Any]]:
    family = find_family(name)
    problem = family.problem(**arguments)
    return family, problem, list(family.searched(problem, arch))


@pytest.mark.deep
@each("arch", ["sm_90", "sm_75"], sample=1)
@each(("name", "arguments"), [*LARGE, *PROBLEMS], sample=6)
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
    problem = family.problem(**checks_of(family).verified[0])
    found = list(islice(family.searched(problem), 4))
    assert found == list(dict.fromkeys(family.configs(problem)))[: len(found)] or name in MOVERS
    assert found[0] == family.choose(problem)


@pytest.mark.deep
@each("number", range(24), sample=1)
@each(("name", "arguments"), PROBLEMS, sample=2)
def test_what_is_searched_is_right(name: str, arguments: dict[str, Any], number: int) -> None:
    family, problem, found = searched(name, arguments)
    chosen = found[len(family.configs(problem)) :]
    config = chosen[number * len(chosen) // 24]
    verify(family, problem, config, target="simulator", seed=number).require()


@pytest.mark.deep
@each(("name", "arguments"), PROBLEMS[::2], sample=1)
def test_a_lock_chooses_any_of_them(
    name: str, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the lock of this process, as calls on arrays, `bench` and `generate` ask for it."""
    family, problem, found = searched(name, arguments)
    jobs = list(tuning.jobs_of(name, [problem], "sm_90", tuning.model_place("sm_90"), top=1000))
    assert [job.config for job in jobs] == found and [job.rank for job in jobs] == [*range(len(found))]
    for job in (jobs[0], jobs[len(family.configs(problem))], jobs[-1]):
        lock = tuning.lock_of([job.record(tuning.jobs.build(job).kernel, times_ns=(2.0,))])
        assert lock.chosen(family, problem, "sm_90") == job.config
        monkeypatch.setattr(lockfile, "current_lock", lambda lock=lock: lock)
        assert tuning.choose(family, problem, "sm_90") == (job.config, "lock file (model times on sm_90)")


@pytest.mark.parametrize("name", MOVERS)
def test_what_is_planned_without_a_search_makes_none_of_it(name: str) -> None:
    made = []

    def further(problem: Any, arch: Any) -> Iterator[Any]:
        made.append(problem)
        yield from find_family(name).further(problem, arch)

    family = replace(find_family(name), further=further)
    problem = family.problem(**checks_of(family).verified[0])
    lock = tuning.lock_of([])
    assert lock.chosen(family, problem, "sm_90") is None
    assert tuning.choose(family, problem, "sm_90") == (family.configs(problem)[0], "cost model")
    assert len(list(islice(family.searched(problem), len(family.configs(problem))))) and not made
    assert next(islice(family.searched(problem), len(family.configs(problem)), None)) and made
