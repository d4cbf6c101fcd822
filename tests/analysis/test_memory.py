"""What requests touch together: runs against sets of bytes, closed form against the list of all addresses."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.analysis import (
    Access,
    DramReport,
    Guard,
    TmaAccess,
    Units,
    analyze,
    count_units,
    dram_of,
    nested,
    reuse_of,
    touched_by,
)
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, UnknownNameError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, concat, leaf_lists, size
from layoutalg.notation import parse
from tests.sweeps import each

UNITS = (32, 64, 128)
DIGIT = st.tuples(
    st.sampled_from((1, 2, 3, 4, 5, 9, 17, 32)),
    st.sampled_from(
        (0, 1, 4, 8, 12, 16, 20, 32, 36, 40, 48, 64, 96, 100, 128, 160, 256, 300, 400, 511, 1024)
    ),
)


@given(st.integers(0, 200), st.sampled_from((1, 2, 4, 8, 16, 24, 64, 100, 300)), st.lists(DIGIT, max_size=3))
@example(16, 16, [(4, 32), (2, 16), (16, 128)])
@example(0, 64, [(17, 400), (3, 6800)])
@example(28, 8, [(9, 40)])
def test_runs_are_their_bytes(first: int, run: int, digits: list[tuple[int, int]]) -> None:
    """Digits in any order become the same bytes, and units are counted as sets of bytes say."""
    found = nested(first, run, digits)
    if found is None:
        return
    wanted = _bytes(first, run, digits)
    assert _bytes(*found) == wanted
    assert found.reach == max(wanted) - min(wanted) + 1
    for unit in UNITS:
        filled = Counter(byte // unit for byte in wanted)
        whole = sum(count == unit for count in filled.values())
        assert count_units(found, unit) == Units(len(filled), whole)


def _bytes(first: int, run: int, digits: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> set[int]:
    out = set(range(first, first + run))
    for extent, step in digits:
        out = {byte + n * step for byte in out for n in range(extent)}
    return out


def draw_requests(rng: random.Random, ops: tuple[str, ...]) -> tuple[Layout, list[Access]]:
    """A tile, its rows padded or turned, and one or two accesses of one operation that begin anywhere."""
    rows, columns = rng.choice((8, 24, 31, 64)), rng.choice((3, 8, 16, 40, 65))
    pitch = columns + rng.choice((0, 0, 1, 8, 13))
    tile = rng.choice((Layout((rows, columns), (pitch, 1)), Layout((rows, columns), (1, rows + 3))))
    element = rng.choice(("u8", "f16", "f32"))
    op = f"{rng.choice(ops)}.global.b{dtype(element).bits}"
    wanted = [
        Access.of(f"{op}@{way}", tile, element) for way in rng.choice((["row"], ["col"], ["row", "col"]))
    ]
    return tile, [replace(access, base_bytes=rng.choice((0, 4, 16, 32))) for access in wanted]


@each("seed", range(4))
def test_the_closed_form_is_the_list(seed: int) -> None:
    rng, closed = random.Random(seed), 0
    for _ in range(25):
        tile, wanted = draw_requests(rng, ("ld", "st"))
        touched = touched_by(tile, wanted, ARCHS["sm_90"])
        listed = touched_by(tile, wanted, ARCHS["sm_90"], listed=True)
        assert touched.useful_bytes == listed.useful_bytes and listed.method == "enumerated"
        for unit in UNITS:
            assert touched.units(unit) == listed.units(unit), (str(tile), [str(a.tv) for a in wanted], unit)
        closed += touched.method == "digit-classes"
    assert closed >= 10


@pytest.mark.deep
@each("seed", range(4), sample=1)
def test_sectors_that_requests_share_are_those_of_the_list(seed: int) -> None:
    rng, closed = random.Random(seed), 0
    for _ in range(40):
        tile, wanted = draw_requests(rng, ("ld",))
        shared, listed = reuse_of(tile, wanted), reuse_of(tile, wanted, method="enumerated")
        assert replace(shared, method=listed.method) == listed
        closed += shared.method == "digit-classes"
    assert closed >= 13


def test_steps_of_two_requests_fill_what_either_leaves() -> None:
    """One sector in each of 16 lines, four times: every half of a line is whole once all have been stored."""
    tv = Layout(((2, 16), 4, 4), ((4, 32), 1, 8))
    lines, once = (Access("st.global.b128", of, dtype("f32")) for of in (tv, tv(None, None, 0)))
    tile = Layout(512)
    assert touched_by(tile, [lines], ARCHS["sm_90"]).units(64) == Units(32, 32)
    assert touched_by(tile, [once], ARCHS["sm_90"]).units(64) == Units(16, 0)


def test_extents_do_not_matter() -> None:
    tile = Layout((1 << 24, 25, 7), (404, 1, 1 << 40))
    access = Access.of("ld.global.b32@row", tile, "f32")
    assert touched_by(tile, [access], ARCHS["sm_90"]).method == "digit-classes"
    large = Layout((1 << 20, 1 << 10), (1 << 10, 1))
    shared = reuse_of(large, [Access.of(f"ld.global.b32@{way}", large, "f32") for way in ("row", "col")])
    assert (shared.different, shared.method) == (size(large) // 8, "digit-classes")


def test_guards_and_swizzles_are_listed() -> None:
    tile = Layout((16, 32), (32, 1))
    swizzled = ComposedLayout(Swizzle(2, 3, 3), 0, tile)
    guarded = replace(Access.of("ld.global.b32@row", tile, "f32"), active=Guard((8, 4)))
    column = Access.of("ld.global.b32@col", swizzled, "f32")
    for layout, access, units in ((tile, guarded, Units(8, 0)), (swizzled, column, Units(32, 32))):
        touched = touched_by(layout, [access], ARCHS["sm_90"])
        assert (touched.units(64), touched.method) == (units, "enumerated")
    shared = reuse_of(swizzled, [column])
    assert (shared.different, shared.method) == (64, "enumerated")


# --- memory --------------------------------------------------------------------------------------------

DATA = Path(__file__).parents[1] / "data" / "h200_dram.jsonl"
"""Patterns of loads and stores, counted on an H200: at two spans, and the difference."""

ROWS = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]

MOST_OFF = 0.015
"""Of what memory moves: dirty lines that stay in the L2, which holds 5 % of the larger span."""


def predicted(row: dict[str, Any], span: int) -> DramReport:
    """What memory should move for the pattern of a row, which covers so many of its bytes."""
    threads, steps = (parse(row[name]) for name in ("threads", "steps"))
    assert isinstance(threads, Layout) and isinstance(steps, Layout)
    *near, groups = zip(*leaf_lists(threads), strict=True)
    fewer = (groups[0] * span // row["spans"][-1], groups[1])
    cut = Layout(*(tuple(part) for part in zip(*near, fewer, strict=True)))
    op = f"{row['op'].split('.')[0].replace('cp', 'ld')}.global.b{8 * row['width_bytes']}"
    access = Access(op, concat(cut, Layout(row["width_bytes"], 1), steps), dtype("u8"), row["first_bytes"])
    return dram_of(Layout(2 * span), access, fill_bytes=row["fill_bytes"])


@each("row", ROWS, ids=[row["pattern"] for row in ROWS])
def test_memory_moves_what_was_counted(row: dict[str, Any]) -> None:
    """Bytes read and written; where sectors are filled late, at least those, and up to a quarter more."""
    first, last = (predicted(row, span) for span in row["spans"])
    assert first.method == last.method == "digit-classes"
    read, written = last.read_bytes - first.read_bytes, last.written_bytes - first.written_bytes
    off = (row["dram__bytes_read.sum"] - read, row["dram__bytes_write.sum"] - written)
    if row["loose"]:
        assert all(-0.04 < each / (read + written) < 0.26 for each in off)
    else:
        assert all(abs(each) < MOST_OFF * (read + written) for each in off)


def test_half_lines_and_merged_sectors() -> None:
    """A sector of each line: loads bring its half line, stores write the sector, or merge half of one."""
    tile = Layout((1000, 8), (32, 1))
    load, store = (dram_of(tile, Access.of(f"{op}.global.b128@row", tile, "f32")) for op in ("ld", "st"))
    assert (load.sectors, load.halves, load.read_bytes, load.written_bytes) == (1000, 1000, 64000, 0)
    assert (store.sectors, store.partial, store.read_bytes, store.written_bytes) == (1000, 0, 0, 32000)
    narrow = Layout((1000, 4), (32, 1))
    merged = dram_of(narrow, [Access.of("st.global.b32@row", narrow, "f32")])
    assert (merged.partial, merged.read_bytes, merged.written_bytes) == (1000, 32000, 32000)
    assert [
        dram_of(tile, Access.of("ld.global.b32@col", tile, "f32"), fill_bytes=fill).read_bytes
        for fill in (32, 64, 128)
    ] == [32000, 64000, 128000]


def test_several_accesses_are_asked_together() -> None:
    """Two sectors of a line: those of one half come with each other, those of two halves do not."""
    tile = Layout((100, 8), (32, 1))
    first, second, third = (
        replace(Access.of("ld.global.b32@row", tile, "f32"), base_bytes=at) for at in (0, 32, 64)
    )
    one = dram_of(tile, first)
    assert [dram_of(tile, pair).read_bytes for pair in ([first, second], [first, third])] == [6400, 12800]
    assert (one.read_bytes, dram_of(tile, [first, second]).instructions) == (6400, 2 * one.instructions)


SQUARE = Layout((32, 32), (32, 1))
GUARDED = replace(Access.of("ld.global.b32", SQUARE, "f32"), active=Guard((8,)))


@each(
    ("accesses", "options", "error", "part"),
    [
        ([], {}, ArgumentTypeError, "one or more are needed"),
        (5, {}, ArgumentTypeError, "a list of accesses is needed"),
        ([TmaAccess((8,), 0)], {}, ArgumentTypeError, "accesses of lanes"),
        (["ld.shared.b32"], {}, ArgumentTypeError, "global memory"),
        (["ld.global.b32", "st.global.b32"], {}, ArgumentTypeError, "all load, or all store"),
        (["ld.global.b32"], {"arch": "sm_70"}, UnsupportedError, "sm_90 was"),
        (["ld.global.b32"], {"method": "gcd"}, UnsupportedError, "not 'gcd'"),
        (["ld.global.b32"], {"fill_bytes": 48}, UnsupportedError, "32, 64, 128, 256 are accepted"),
        ([GUARDED], {"method": "digit-classes"}, UnsupportedError, "lists its bytes"),
    ],
)
def test_what_memory_is_not_asked_for(
    accesses: Any, options: dict[str, Any], error: type[Exception], part: str
) -> None:
    if isinstance(accesses, list):
        accesses = [Access.of(a, SQUARE, "f32") if isinstance(a, str) else a for a in accesses]
    with pytest.raises(error, match=part):
        dram_of(SQUARE, accesses, **options)
    with pytest.raises(UnknownNameError, match="level"):
        analyze(SQUARE, "ld.global.b32", "f32", level="l2")  # type: ignore[call-overload]


@each(
    ("accesses", "method", "error", "part"),
    [
        ([], "auto", ArgumentTypeError, "one or more are needed"),
        (["ld.shared.b32@row"], "auto", ArgumentTypeError, "global memory"),
        (["ld.global.b32@row"], "gcd", UnsupportedError, "'auto' or 'enumerated'"),
    ],
)
def test_what_shares_no_sectors(accesses: list[str], method: Any, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        reuse_of(SQUARE, [Access.of(a, SQUARE, "f32") for a in accesses], method=method)
