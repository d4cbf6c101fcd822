"""The checks on access patterns agree with the analysis, and show a failure on the fewest lanes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import Access, GlobalReport, SharedReport, analyze_access, wavefronts
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, MismatchError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import check_coalesced, check_conflict_free, check_family
from layoutalg.testing.strategies import accesses

TILE = Layout((64, 64), (64, 1))
SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, TILE)


@given(st.integers(32, 80))
def test_a_conflict_of_padded_rows_is_shown_as_it_is(pitch: int) -> None:
    layout = Layout((32, 32), (pitch, 1))
    access = Access("ld.shared.b32", Layout((32, 1), (1, 0)), dtype("f32"))
    report = analyze_access(layout, access)
    assert isinstance(report, SharedReport)
    try:
        check_conflict_free(layout, access)
    except MismatchError as error:
        assert not report.conflict_free
        text = re.search(
            r"lanes (\d+) and (\d+) are enough: 2:(\d+) elements, at bytes (\d+) and (\d+)$", str(error)
        )
        assert text is not None
        a, b, step, low, high = map(int, text.groups())
        offsets: list[int | None] = [None] * 32
        offsets[a], offsets[b] = low, high
        assert wavefronts("ld.shared.b32", offsets) == 2
        assert (low, high - low) == (4 * pitch * a, 4 * step)
    else:
        assert report.conflict_free


@given(accesses(max_size=256))
def test_the_checks_say_what_the_analysis_says(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    report = analyze_access(layout, access)
    check = check_conflict_free if isinstance(report, SharedReport) else check_coalesced
    good = report.conflict_free if isinstance(report, SharedReport) else report.efficiency == 1.0
    try:
        check(layout, access)
    except MismatchError as error:
        assert not good
        if isinstance(report, SharedReport):
            assert error.index is not None
            assert " and " in str(error) and "are enough" in str(error)
    else:
        assert good


def test_several_accesses_are_all_looked_at() -> None:
    check_conflict_free(SWIZZLED, "ldmatrix.x4", "ldmatrix.x4.trans", "st.shared.b128", element="f16")
    with pytest.raises(
        MismatchError, match=r"with ld\.shared\.b32 on f32 takes 4096 wavefronts instead of 128"
    ):
        column = Access.along("ld.shared.b32", TILE, "f32", "col")
        check_conflict_free(TILE, Access.default("st.shared.b128", TILE, "f32"), column)


def test_equal_words_conflict_where_they_are_not_broadcast() -> None:
    same = Access("red.shared.u32", Layout((32, 1), (0, 0)), dtype("u32"))
    with pytest.raises(
        MismatchError, match=r"takes 32 wavefronts instead of 1; .* lanes 0 and 1 are enough: 2:0"
    ):
        check_conflict_free(Layout(32), same)
    check_conflict_free(Layout(32), Access("ld.shared.b32", Layout((32, 1), (0, 0)), dtype("u32")))


def test_the_instruction_that_conflicts_is_found_behind_those_that_do_not() -> None:
    """Rows 0 to 31 are padded, rows 32 on are not: warps read columns."""
    layout = Layout((32, 2), (33, 4096))
    access = Access("ld.shared.b32", Layout((32, 1, 2), (1, 0, 32)), dtype("f32"))
    check_conflict_free(layout, access)
    odd = Access("ld.shared.b32", Layout(((2, 32), 1), ((32, 1), 0)), dtype("f32"))
    with pytest.raises(MismatchError) as caught:
        check_conflict_free(layout, odd)
    assert caught.value.index == (0, 0, 0)


@given(st.integers(32, 80), st.floats(0, 1))
def test_coalesced_is_what_the_analysis_says(pitch: int, share: float) -> None:
    layout = Layout((32, 32), (pitch, 1))
    access = Access.default("ld.global.b32", layout, "f32")
    report = analyze_access(layout, access)
    assert isinstance(report, GlobalReport)
    try:
        check_coalesced(layout, access, min_efficiency=share)
    except MismatchError:
        assert report.efficiency < share
    else:
        assert report.efficiency >= share


def test_a_family_of_tiles_fails_at_its_smallest() -> None:
    """Columns of any row-major tile conflict as soon as two rows fall into one bank."""

    def check(rows: int) -> None:
        layout = Layout((rows, 32), (32, 1))
        check_conflict_free(layout, "ld.shared.b32@col", element="f32")

    with pytest.raises(MismatchError, match=r"^fails for 2: \(2,32\):\(32,1\) with .* 2:32 elements"):
        check_family(st.sampled_from([1, 2, 4, 8, 16, 32]), check)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"ld\.global\.b32 has no bank conflicts: ask check_coalesced"):
        check_conflict_free(TILE, "ld.global.b32", element="f32")
    with pytest.raises(UnsupportedError, match=r"ld\.shared\.b32 moves no sectors: ask check_conflict_free"):
        check_coalesced(TILE, "ld.shared.b32", element="f32")
    with pytest.raises(ArgumentTypeError, match=r"access 'ldmatrix\.x4' is a text; it needs element="):
        check_conflict_free(TILE, "ldmatrix.x4")
    with pytest.raises(ArgumentTypeError, match=r"no access of .* was given"):
        check_conflict_free(TILE)
    with pytest.raises(ShapeError, match="min_efficiency is 90; a share from 0 to 1"):
        check_coalesced(TILE, "ld.global.b32", element="f32", min_efficiency=90)
    with pytest.raises(UnknownNameError, match="unknown instruction"):
        check_conflict_free(TILE, "ldmatrix.x3", element="f16")
