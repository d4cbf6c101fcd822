"""Register re-layouts on a GPU: random pairs of layouts, every plan, against the definition."""

from __future__ import annotations

from tests.gpu.tools import needs_gpu

pytestmark = needs_gpu


def test_200_random_pairs_of_layouts() -> None:
    from tests.gpu.relayouts import wrong_cases

    assert list(wrong_cases(range(200))) == []
