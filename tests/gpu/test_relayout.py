"""Register re-layouts on a GPU: random pairs of layouts, every plan, against the definition."""

from __future__ import annotations

import pytest

from layoutalg.codegen.gpu import gpu_status

STATUS = gpu_status()
pytestmark = pytest.mark.skipif(not STATUS.available, reason=f"needs a GPU: {STATUS.reason}")


def test_200_random_pairs_of_layouts() -> None:
    from tests.gpu.relayouts import wrong_cases

    assert list(wrong_cases(range(200))) == []
