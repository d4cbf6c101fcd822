"""Sectors of asynchronous copies: the rule against what an H200 counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.analysis import sectors
from layoutalg.errors import ShapeError
from layoutalg.model import copied_sectors, copied_wavefronts, tag_sectors
from tests.sweeps import each


def rows_of(name: str) -> list[dict[str, Any]]:
    lines = (Path(__file__).parents[1] / "data" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


ROWS = rows_of("h200_copies.jsonl")
"""One warp, one copy a launch: byte addresses by lane (null where a lane copies nothing), and counts."""
WORDS = rows_of("h200_word_copies.jsonl")
"""Copies of 4 and 8 bytes, lines and pieces of lines to rows, pitches and random places, in wavefronts."""


def lanes_of(row: dict[str, Any]) -> tuple[Any, Any, Any]:
    source, target = ([[0 if a is None else a for a in row[side]]] for side in ("source", "target"))
    return source, target, [[a is not None for a in row["source"]]]


@each("pattern", sorted({row["pattern"] for row in ROWS}))
def test_copies_of_16_bytes_are_merged_by_sector_and_block(pattern: str) -> None:
    rows = [row for row in ROWS if row["op"] == "cp.async.16" and row["pattern"] == pattern]
    assert [int(copied_sectors(*lanes_of(row))[0]) for row in rows] == [row["sectors"] for row in rows]


def test_tags_count_blocks_of_shared_memory_by_line() -> None:
    tagged = [row for row in ROWS if "tags" in row]
    assert len(tagged) == 92
    assert [int(tag_sectors(*lanes_of(row))[0]) for row in tagged] == [row["tags"] for row in tagged]
    assert len({(row["tags"] > row["sectors"], row["tags"] < row["sectors"]) for row in tagged}) >= 2


def test_narrower_copies_are_merged_like_loads() -> None:
    narrow = [row for row in ROWS if row["op"] != "cp.async.16"]
    assert len(narrow) == 128
    for row in narrow:
        assert sectors(f"{row['op']}:global", row["source"]) == row["sectors"]


@pytest.mark.parametrize("shapes", [((1, 32), (1, 32), (1, 16)), ((32,), (32,), (32,))])
def test_arrays_that_do_not_fit_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ShapeError, match="one shape"):
        copied_sectors(*(np.ones(shape, int) for shape in shapes))


def bounds(source: Any, target: Any, active: Any, nbytes: int = 4) -> tuple[int, int]:
    """The least and the most by the rule."""
    least, most = copied_wavefronts(source, target, active, nbytes)
    return int(least[0]), int(most[0])


def test_words_are_read_from_banks_and_written_to_banks() -> None:
    """One number where one side conflicts, and it is the one counted; else counts fill what is allowed."""
    words = [*WORDS, *(row for row in ROWS if row["op"] != "cp.async.16")]
    widths = [int(row["op"].removeprefix("cp.async.")) for row in words]
    found = [(*bounds(*lanes_of(r), n), r["wavefronts"]) for r, n in zip(words, widths, strict=True)]
    assert len(found) == 646 and sum(least == most for least, most, _ in found) == 296
    assert all(least <= n <= most for least, most, n in found)
    open_ = [row for row in found if row[0] < row[1]]
    assert sum(n == least for least, _, n in open_) == 85 and sum(n == most for _, most, n in open_) == 215


def test_conflicts_of_both_sides_pass_in_step() -> None:
    lane = np.arange(32)[None]
    rows, turns, apart = lane // 8 * 1024 + lane % 8 * 4, lane % 4 * 1024 + lane // 4 * 4, 16 * lane
    on = lane >= 0
    found = [bounds(x, y, on) for x in (4 * lane, rows, turns) for y in (4 * lane, apart)]
    assert found == [(1, 1), (4, 4), (4, 4), (4, 7), (4, 4), (4, 7)]
    assert bounds(8 * lane, 8 * lane, on, 8) == (2, 2)  # half a warp at a time
    assert bounds(turns, 128 * lane, lane < 3) == (3, 3)  # no more than there are lanes
    assert bounds(turns, apart, ~on) == (0, 0)


@pytest.mark.parametrize(("shape", "nbytes"), [((1, 32), 16), ((1, 16), 4), ((32,), 8)])
def test_copies_of_other_widths_or_warps_are_refused(shape: tuple[int, ...], nbytes: int) -> None:
    with pytest.raises(ShapeError, match="4 or 8 bytes and one shape"):
        copied_wavefronts(np.ones(shape), np.ones(shape), np.ones(shape), nbytes)
