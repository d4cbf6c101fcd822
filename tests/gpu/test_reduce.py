"""Reductions on a GPU: random problems against NumPy, predictions against counters, the sanitizer."""

from __future__ import annotations

import pytest

from tests.gpu.tools import counters, needs_gpu, sanitize

pytestmark = needs_gpu


def test_600_random_reductions_are_within_the_bound() -> None:
    from tests.gpu.reduce_cases import wrong_cases

    assert list(wrong_cases(range(600))) == []


@pytest.mark.parametrize("kind", ["memcheck", "racecheck", "synccheck"])
def test_the_sanitizer_is_silent(kind: str) -> None:
    assert "launches correct" in sanitize(kind, "tests.gpu.reduce_cases", "plain")


def test_predicted_sectors_equal_the_hardware_counters() -> None:
    counters()
    from tests.gpu.row_counters import SMALL, measure

    assert [str(row) for row in measure(SMALL["reductions"]) if row.refuted] == []


def test_300_random_calls_of_each_fold_are_their_definition() -> None:
    """On views of CuPy and PyTorch arrays: any strides and starts, NaN and infinities, ties, no elements."""
    from tests.draws.views import FOLDS
    from tests.gpu.views import main

    assert main(["--cases", str(300 * len(FOLDS)), "--functions", *FOLDS]) == 0
