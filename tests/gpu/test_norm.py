"""Softmax and layer norm on a GPU: random problems against NumPy, counters, the sanitizer."""

from __future__ import annotations

import pytest

from tests.gpu.tools import counters, needs_gpu, sanitize

pytestmark = needs_gpu


def test_600_random_norms_are_within_the_bound() -> None:
    from tests.gpu.norm_cases import wrong_cases

    assert list(wrong_cases(range(600))) == []


@pytest.mark.parametrize("kind", ["memcheck", "racecheck", "synccheck"])
def test_the_sanitizer_is_silent(kind: str) -> None:
    assert "launches correct" in sanitize(kind, "tests.gpu.norm_cases", "plain")


def test_predicted_sectors_equal_the_hardware_counters() -> None:
    counters()
    from tests.gpu.row_counters import SMALL, measure

    assert [str(row) for row in measure(SMALL["norms"]) if row.refuted] == []
