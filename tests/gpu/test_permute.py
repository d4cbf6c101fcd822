"""Permutes on a GPU: random problems against NumPy, predictions against counters, the sanitizer."""

from __future__ import annotations

import pytest

from tests.gpu.tools import counters, needs_gpu, sanitize

pytestmark = needs_gpu


def test_2000_random_permutes_equal_numpy() -> None:
    from tests.gpu.permute_cases import wrong_cases

    assert list(wrong_cases(range(2000))) == []


def test_arrays_of_two_libraries_on_their_streams() -> None:
    pytest.importorskip("torch")
    from tests.gpu.array_cases import wrong_permutes, wrong_reductions, wrong_refusals, wrong_streams

    assert [*wrong_permutes(), *wrong_reductions(), *wrong_streams(), *wrong_refusals()] == []


def test_formats_of_relayout() -> None:
    import cupy

    import layoutalg
    from layoutalg import Layout

    nhwc = Layout((16, 56, 56, (32, 4)), (401408, 7168, 128, (1, 32)))
    blocked = Layout((16, 56, 56, (32, 4)), (401408, 1792, 32, (1, 100352)))
    x = cupy.random.randint(0, 127, 16 * 56 * 56 * 128).astype("i1")
    expected = x.reshape(16, 56, 56, 4, 32).transpose(0, 3, 1, 2, 4).ravel()
    y = layoutalg.relayout(x, nhwc, blocked)
    assert bool((y == expected).all()) and bool((layoutalg.relayout(y, blocked, nhwc) == x).all())


@pytest.mark.parametrize("kind", ["memcheck", "racecheck", "synccheck"])
def test_the_sanitizer_is_silent(kind: str) -> None:
    assert "launches correct" in sanitize(kind, "tests.gpu.permute_cases", "plain")


def test_predictions_equal_the_hardware_counters() -> None:
    counters()
    from tests.gpu.permute_counters import SMALL, measure

    assert [str(row) for row in measure(SMALL) if row.refuted] == []
