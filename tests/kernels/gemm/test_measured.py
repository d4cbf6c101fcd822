"""The selectors against exhaustive choice: the first choice is near the best one that was measured.

tests/data/gemm_choice_*.json holds the times of every choice, and of cuBLAS, as tests/gpu/tune_gemm.py
measured them on an H200: on problems to which the model's numbers were fitted, and on fresh ones; those of
wgmma are in test_fit.  Choices by stream-K were offered later and are
left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.family import way
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem

DATA = Path(__file__).parents[2] / "data"
FAMILIES: dict[str, tuple[Callable[[int, int, int], GemmProblem], Any]] = {
    "simt": (lambda m, n, k: gemm_problem(m, n, k, "f32", b_major="mn"), SIMT),
    "sm80": (lambda m, n, k: gemm_problem(m, n, k, "f16"), SM80),
}


def usual(choice: Any, p: GemmProblem) -> list[str]:
    """The choices without stream-K, in their order."""
    return [way(c) for c in choice.configs(p) if c.schedule != "streamk"]


def losses(family: str, part: str) -> list[float]:
    """How much longer the first choice takes than the best one measured, problem by problem."""
    make, module = FAMILIES[family]
    measured = json.loads((DATA / f"gemm_choice_{family}.json").read_text(encoding="utf-8"))
    found = []
    for row in measured[part]:
        times = row["choices"]
        choices = usual(module, make(row["m"], row["n"], row["k"]))
        assert set(choices) == set(times), "every choice was measured"
        found.append(times[choices[0]] / min(times.values()) - 1)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_choice_is_within_3_percent_of_exhaustive_choice(family: str) -> None:
    found = losses(family, "fitted")
    assert len(found) >= 20 and max(found) <= 0.03 and fmean(found) <= 0.01


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_choice_is_good_on_problems_it_was_not_fitted_to(family: str) -> None:
    found = losses(family, "fresh")
    assert len(found) == 10 and fmean(found) <= 0.01 and max(found) <= 0.05
