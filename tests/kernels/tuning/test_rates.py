"""Rates in a file rank as their numbers say where the environment names them, and are refused by name."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import LayoutAlgError, MismatchError, ParseError
from layoutalg.kernels import find_family, tuning
from layoutalg.kernels.bench import Timed, make
from layoutalg.kernels.plan_cache import ready_sequence
from layoutalg.kernels.tuning.jobs import counters_of
from layoutalg.kernels.tuning.rates import MOST_RANKED
from tests.command import run
from tests.sweeps import each

FAMILY = find_family("permute")
PROBLEM = FAMILY.problem((40, 30, 50), (2, 0, 1), "f32")


def rates(**ns: float) -> tuning.Rates:
    return tuning.Rates(
        "permute", "model", "sm_90", tuning.library_version(), dict.fromkeys(tuning.RATES, 0.0) | ns, 0.25
    )


@functools.cache
def counters(config: Any) -> dict[str, float]:
    sequence = tuning.called_sequence(FAMILY, PROBLEM, config, "sm_90")
    return counters_of(sequence, FAMILY.bench.scalars(PROBLEM), "sm_90")


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[tuning.Rates], Path]:
    def used(given: tuning.Rates) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(tuning.rates_text(given))
        monkeypatch.setenv("LAYOUTALG_RATES", str(path))
        return path

    return used


@pytest.mark.deep
@pytest.mark.parametrize("name", ["sectors", "wavefronts"])
def test_candidates_are_ranked_as_the_numbers_of_the_file_say(name: str, use: Any) -> None:
    use(rates(**{name: 1.0}))
    every = FAMILY.configs(PROBLEM)
    by_definition = min(every, key=lambda c: (counters(c)[name], every.index(c)))
    config, source = tuning.choose(FAMILY, PROBLEM, "sm_90")
    assert config == by_definition and source == "fitted rates (model times on sm_90, median error 25.0%)"
    searched = list(FAMILY.searched(PROBLEM))[:MOST_RANKED]
    jobs = list(tuning.jobs_of("permute", [PROBLEM], "sm_90", tuning.model_place("sm_90"), top=len(searched)))
    assert [counters(job.config)[name] for job in jobs] == sorted(counters(c)[name] for c in searched)
    assert "by the fitted rates" in make((Timed("permute", PROBLEM), "sm_90a")).way


def test_sectors_and_wavefronts_choose_differently_and_the_environment_alone_brings_them(
    use: Callable[[tuning.Rates], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = []
    for name in ("sectors", "wavefronts"):
        use(rates(**{name: 1.0}))
        chosen.append(tuning.choose(FAMILY, PROBLEM, "sm_90")[0].way)
    assert chosen == ["staged", "direct"]
    words = ("generate", "permute", "--shape", "40,30,50", "--axes", "2,0,1")
    assert "by the fitted rates (model times on sm_90" in run(*words).output
    other = find_family("sum")
    assert tuning.choose(other, other.problem((64, 96), (1,), "f16"), "sm_90")[1] == "cost model"
    monkeypatch.delenv("LAYOUTALG_RATES")
    assert tuning.choose(FAMILY, PROBLEM, "sm_90") == (FAMILY.choose(PROBLEM), "cost model")


@each(
    ("change", "said"),
    [
        ({"gpu": "sm_80"}, "are of sm_80, this is sm_90"),
        ({"timing": "gpu", "gpu": "NVIDIA A100"}, "are of NVIDIA A100, this is NVIDIA H200"),
        ({"library": "0.0.9"}, "fitted with layoutalg 0.0.9"),
    ],
)
def test_rates_of_another_gpu_or_version_are_refused_by_name(change: Any, said: str, use: Any) -> None:
    path = use(replace(rates(sectors=1.0), **change))
    with pytest.raises(MismatchError, match=said) as caught:
        tuning.choose(FAMILY, PROBLEM, "sm_90", "NVIDIA H200")
    assert str(path) in str(caught.value)


def test_rates_of_another_gpu_are_refused_where_a_plan_by_them_is_kept(tmp_path: Path, use: Any) -> None:
    """Hosts with GPUs of one architecture share a folder of plans."""
    use(replace(rates(sectors=1.0), timing="gpu", gpu="NVIDIA H100"))
    folder = tmp_path / "cubins"
    first = ready_sequence("permute", PROBLEM, "sm_90", folder, gpu="NVIDIA H100")
    assert ready_sequence("permute", PROBLEM, "sm_90", folder, gpu="NVIDIA H100") == first
    with pytest.raises(MismatchError, match="of NVIDIA H100"):
        ready_sequence("permute", PROBLEM, "sm_90", folder, gpu="NVIDIA H200")


def test_what_holds_no_rates_is_refused(use: Callable[[tuning.Rates], Path]) -> None:
    path = use(rates(sectors=1.0))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(ParseError, match=str(path)):
        tuning.choose(FAMILY, PROBLEM, "sm_90")
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(LayoutAlgError):
        tuning.read_rates(path)
