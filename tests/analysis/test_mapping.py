"""Mappings of whole tiles: every element once, vectors contiguous, whatever the layout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import vector_elems
from layoutalg.analysis.access import MAPPINGS, tile_tv
from layoutalg.arch import INSTRUCTIONS
from layoutalg.dtype import dtype
from layoutalg.errors import UnsupportedError
from layoutalg.layout import Layout, size

LANE_OPS = ("ld.shared.b32", "st.shared.b64", "ld.global.b128")
MATRIX_OPS = ("ldmatrix.x1", "ldmatrix.x2", "stmatrix.x4")


@st.composite
def tiles(draw: st.DrawFn, rows: tuple[int, ...], columns: tuple[int, ...], most: int = 2) -> Layout:
    """Two or three modes in any order, one of them contiguous, pitches padded by whole vectors."""
    contiguous = draw(st.sampled_from(columns))
    others = [draw(st.sampled_from(rows)) for _ in range(draw(st.integers(1, most)))]
    order = draw(st.permutations(range(len(others) + 1)))
    extents = [contiguous, *others]
    strides, current = [], 1
    for extent in extents:
        strides.append(current)
        current = current * extent + 16 * draw(st.integers(0, 2))
    return Layout(tuple(extents[i] for i in order), tuple(strides[i] for i in order))


@given(tiles((1, 2, 3, 8), (4, 8, 12)), st.sampled_from(LANE_OPS), st.sampled_from(MAPPINGS))
def test_lanes_cover_the_tile_once(tile: Layout, op: str, mapping: str) -> None:
    check_cover(tile, op, mapping, "f32")


@given(tiles((16, 32), (16, 32), most=1), st.sampled_from(MATRIX_OPS))
def test_matrices_cover_the_tile(tile: Layout, op: str) -> None:
    check_cover(tile, op, "default", "f16")


def check_cover(tile: Layout, op: str, mapping: str, element: str) -> None:
    rule = INSTRUCTIONS[op]
    tv = tile_tv(rule, tile, dtype(element), mapping)
    elems = vector_elems(rule, dtype(element))
    assert isinstance(tv.shape, tuple) and tv.shape[1] == elems
    threads, iterations = size(tv[0]), size(tv[2]) if len(tv.shape) == 3 else 1
    seen: list[int] = []
    for i in range(iterations):
        for t in range(threads):
            if rule.matrices and t % 32 >= rule.lanes:
                continue
            vector = [tv(t, v, i) if len(tv.shape) == 3 else tv(t, v) for v in range(elems)]
            assert [tile(index) - tile(vector[0]) for index in vector] == list(range(elems))
            seen += vector
    assert sorted(seen) == list(range(size(tile)))


def test_an_element_must_fit_a_lane() -> None:
    with pytest.raises(UnsupportedError, match=r"ld\.shared\.b32 moves 4 bytes per lane, f64 has 64 bits"):
        vector_elems(INSTRUCTIONS["ld.shared.b32"], dtype("f64"))
    assert vector_elems(INSTRUCTIONS["ld.shared.b32"], dtype("s4")) == 8
