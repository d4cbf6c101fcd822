"""The fit of gemm-sm90's tiles: numbers come out of times that they made; rows that cannot be are kept."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from layoutalg.kernels.gemm.choice.sm90_time import expected_sm90_ns
from layoutalg.kernels.gemm.choice.tables import SM90_SUMS, SM90_TILES
from layoutalg.kernels.gemm.family import way
from layoutalg.kernels.gemm.problem import gemm_problem
from tests.gpu.fit_wgmma import STAGES, fitted, numbers_of, table, text_of, timed, with_numbers
from tests.gpu.tune_wgmma import shares

DATA = Path(__file__).parents[1] / "data" / "gemm_choice_sm90.json"
RNG = random.Random(20261123)


def made(problems: int) -> list[dict[str, Any]]:
    """Problems whose times are those that the table expects, of tiles without parts of k."""
    rows = []
    for _ in range(problems):
        m, n, k = (64 * RNG.randint(4, 100) for _ in range(3))
        p = gemm_problem(m, n, k, "bf16")
        us = {way(t.config): expected_sm90_ns(p, t.config, t, SM90_SUMS, 132) / 1e3 for t in SM90_TILES}
        rows.append({"m": m, "n": n, "k": k, "choices": us})
    return rows


def test_numbers_come_out_of_the_times_that_they_made() -> None:
    times, rows = timed(made(40)), 0
    for tile in SM90_TILES:
        own = times[way(tile.config)]
        assert all(one.parts.ns(*numbers_of(tile)) == pytest.approx(one.ns) for one in own)
        if len(own) > 12:
            step, block, start = numbers_of(tile)
            found = fitted(own, (1.3 * step, 0.5 * block + 500, start + 700))
            assert found == pytest.approx((step, block, start), rel=0.02, abs=30)
            rows += 1
    assert rows > 10


def test_the_data_of_the_repository_make_a_table_that_chooses_as_well() -> None:
    measured = json.loads(DATA.read_text(encoding="utf-8"))
    found = table(measured["fitted"])
    choice = with_numbers(found)
    for part in ("fitted", "fresh"):
        now = geometric_mean(shares(row)[0] for row in measured[part])
        assert geometric_mean(shares(row, choice)[0] for row in measured[part]) > now - 0.003
    kept = {name: why for name, (_, why) in found.items() if why}
    assert {name: why for name, why in kept.items() if "stages" in why} == {
        name: f"timed with {stages} stages" for name, stages in STAGES.items()
    }
    for tile in SM90_TILES:
        numbers, why = found[way(tile.config)]
        assert not why or numbers == numbers_of(tile)
        row: dict[str, Any] = {}
        exec(
            "from layoutalg.kernels.gemm.choice.tables import *\n"
            f"row = [{text_of(tile.config, numbers, why)}\n]",
            row,
        )
        assert row["row"][0].config == tile.config and numbers_of(row["row"][0]) == numbers


def test_a_tile_without_times_keeps_its_row() -> None:
    found = table([])
    assert {why for _, why in found.values()} == {"0 times"}
    assert [numbers for numbers, _ in found.values()] == [numbers_of(tile) for tile in SM90_TILES]
