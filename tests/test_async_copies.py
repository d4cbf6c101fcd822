"""Sectors of asynchronous copies: the rule against what an H200 counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.analysis.async_copies import copied_sectors, copied_wavefronts
from layoutalg.analysis.coalescing import sectors
from layoutalg.errors import ShapeError, UnsupportedError

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "h200_copies.jsonl").read_text().splitlines()
]
"""One warp, one copy a launch: byte addresses by lane (null where a lane copies nothing), and counts."""


WORDS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "h200_word_copies.jsonl").read_text().splitlines()
]
"""Copies of 4 and 8 bytes, lines and pieces of lines to rows, pitches and random places, in wavefronts."""


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


def _wavefronts(row: dict[str, Any]) -> int | None:
    """By the rule, None where it refuses."""
    nbytes = int(row["op"].removeprefix("cp.async."))
    try:
        return int(copied_wavefronts([row["source"]], [row["target"]], np.ones((1, 32)), nbytes)[0])
    except UnsupportedError:
        return None


def test_words_are_read_from_banks_and_written_to_banks() -> None:
    """All that the rule decides is as counted; it decides all conflicts of one side, and most of two."""
    words = [*WORDS, *(row for row in ROWS if row["op"] != "cp.async.16")]
    found = [(_wavefronts(row), row) for row in words]
    assert len(found) == 332 and sum(count is not None for count, _ in found) == 243
    assert [(row["pattern"], count) for count, row in found if count not in (None, row["wavefronts"])] == []
    both = [row for count, row in found if count is not None and row["wavefronts"] > _worse_side(row)]
    assert len(both) >= 20


def _worse_side(row: dict[str, Any]) -> int:
    """Wavefronts if only the worse of the two sides were served in banks."""
    nbytes = int(row["op"].removeprefix("cp.async."))
    lanes = nbytes * np.arange(32)[None]
    sides = ((row["source"], lanes[0]), (lanes[0], row["target"]))
    return max(int(copied_wavefronts([x], [y], np.ones((1, 32)), nbytes)[0]) for x, y in sides)


def test_conflicts_of_both_sides_pass_in_step() -> None:
    lane = np.arange(32)[None]
    rows, turns, apart = lane // 8 * 1024 + lane % 8 * 4, lane % 4 * 1024 + lane // 4 * 4, 16 * lane
    on = lane >= 0
    counts = [copied_wavefronts(x, y, on, 4) for x in (4 * lane, rows, turns) for y in (4 * lane, apart)]
    assert [int(n[0]) for n in counts] == [1, 4, 4, 4, 4, 7]
    assert copied_wavefronts(8 * lane, 8 * lane, on, 8) == 2  # half a warp at a time
    assert copied_wavefronts(turns, apart, lane < 4, 4) == 4 and copied_wavefronts(turns, apart, ~on, 4) == 0


def test_lanes_of_a_bank_out_of_order_are_refused() -> None:
    lane = np.arange(32)[None]
    with pytest.raises(UnsupportedError, match=r"cp\.async\.4, instruction 0: conflicts on both sides"):
        copied_wavefronts(128 * lane, lane % 4 * 272 + lane // 4 * 4, lane >= 0, 4)


@pytest.mark.parametrize(("shape", "nbytes"), [((1, 32), 16), ((1, 16), 4), ((32,), 8)])
def test_copies_of_other_widths_or_warps_are_refused(shape: tuple[int, ...], nbytes: int) -> None:
    with pytest.raises(ShapeError, match="4 or 8 bytes and one shape"):
        copied_wavefronts(np.ones(shape), np.ones(shape), np.ones(shape), nbytes)
