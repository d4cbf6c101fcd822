"""What memory moves, and cross entropies, on a GPU: predictions against counters, calls against PyTorch's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.tools import counters, needs_gpu

pytestmark = needs_gpu


def test_memory_moves_what_is_predicted(tmp_path: Path) -> None:
    counters()
    from tests.gpu.dram_probe import main

    assert main(["counters", str(tmp_path / "dram.jsonl")]) == 0


def test_random_cross_entropies_are_pytorchs() -> None:
    pytest.importorskip("torch")
    from tests.gpu.cross_entropies import right

    assert right(100) == 0
