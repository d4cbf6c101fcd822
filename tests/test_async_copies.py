"""Sectors of asynchronous copies: the rule against what an H200 counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.analysis.async_copies import copied_sectors
from layoutalg.analysis.coalescing import sectors
from layoutalg.errors import ShapeError, UnsupportedError

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "h200_copies.jsonl").read_text().splitlines()
]
"""One warp, one copy a launch: byte addresses by lane (null where a lane copies nothing), and counts."""


def _counted(row: dict[str, Any]) -> int:
    source, target = ([0 if a is None else a for a in row[side]] for side in ("source", "target"))
    active = [a is not None for a in row["source"]]
    return int(copied_sectors([source], [target], [active])[0])


@pytest.mark.parametrize("pattern", sorted({row["pattern"] for row in ROWS}))
def test_copies_of_16_bytes_are_merged_by_pairs(pattern: str) -> None:
    rows = [row for row in ROWS if row["op"] == "cp.async.16" and row["pattern"] == pattern]
    assert [_counted(row) for row in rows] == [row["sectors"] for row in rows]


def test_narrower_copies_are_merged_like_loads() -> None:
    narrow = [row for row in ROWS if row["op"] != "cp.async.16"]
    assert len(narrow) == 128
    for row in narrow:
        assert sectors(f"{row['op']}:global", row["source"]) == row["sectors"]


def test_pairs_by_hand() -> None:
    lanes = 16 * np.arange(32)[None]
    on = np.ones((1, 32), bool)
    swapped = lanes ^ 16
    assert copied_sectors(swapped, lanes, on) == copied_sectors(lanes, swapped, on) == 16
    assert copied_sectors(lanes * 0, lanes, on) == 32  # the same 16 bytes for all: nobody merges
    assert copied_sectors(lanes, lanes * 2, on) == 32  # halves that lie apart in shared memory
    assert copied_sectors(lanes, lanes, on & (lanes // 16 % 2 == 0)) == 16
    assert copied_sectors(lanes, lanes, on & False) == 0


def test_what_was_not_counted_is_refused() -> None:
    lanes = 16 * np.arange(32)[None]
    with pytest.raises(UnsupportedError, match="not counted"):
        copied_sectors(lanes, lanes + 16, lanes >= 0)
    assert copied_sectors(lanes + 16, lanes + 16, lanes >= 0) == 32  # no pair has a sector of its own


@pytest.mark.parametrize("shapes", [((1, 32), (1, 32), (1, 16)), ((32,), (32,), (32,)), ((1, 3),) * 3])
def test_arrays_that_do_not_fit_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ShapeError, match="even number of lanes"):
        copied_sectors(*(np.ones(shape, int) for shape in shapes))
