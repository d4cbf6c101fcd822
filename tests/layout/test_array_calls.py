"""Offsets of arrays are those of their elements, one by one in Python's integers, or are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg import ComposedLayout, Layout, Swizzle
from layoutalg.errors import ResourceError, ShapeError

DTYPES = ("int8", "uint8", "int32", "uint64", "int64", ">i4")
EXTENTS = st.sampled_from((1, 2, 3, 8, 100, 1 << 40))
STRIDES = st.one_of(
    st.sampled_from((0, 1, -1, 8, 1 << 30, 1 << 62, -(1 << 62), (1 << 63) - 1, 1 << 63, 1 << 70)),
    st.integers(-(1 << 63), 1 << 63),
)


@st.composite
def called(draw: st.DrawFn) -> tuple[Any, list[Any], Any]:
    """A layout, the coordinates of elements, and the same as arrays."""
    modes = draw(st.lists(st.tuples(EXTENTS, STRIDES), min_size=1, max_size=3))
    layout: Any = Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))
    for _ in range(draw(st.integers(0, 2))):
        swizzle = Swizzle(
            draw(st.integers(0, 3)), draw(st.integers(0, 40)), draw(st.sampled_from((3, -3, 20)))
        )
        offset = draw(st.sampled_from((0, 0, 5, 1 << 62, 1 << 63)))
        layout = ComposedLayout(swizzle, offset, layout)
    elements = st.one_of(st.integers(0, 127), st.sampled_from((0, 1, 126)))
    if draw(st.booleans()):
        column = draw(st.lists(elements, min_size=1, max_size=4))
        return layout, list(column), np.array(column, dtype=draw(st.sampled_from(DTYPES)))
    rows = draw(st.lists(st.tuples(*[elements] * len(modes)), min_size=1, max_size=4))
    scalar = draw(st.integers(-1, len(modes) - 1))  # one mode is the same number for all
    rows = [tuple(rows[0][i] if i == scalar else x for i, x in enumerate(row)) for row in rows]
    arrays = tuple(
        rows[0][i] if i == scalar else np.array(column, dtype=draw(st.sampled_from(DTYPES)))
        for i, column in enumerate(zip(*rows, strict=True))
    )
    return layout, list(rows), arrays


@given(called())
def test_an_array_of_coordinates_gives_the_offsets_of_each(case: tuple[Any, list[Any], Any]) -> None:
    layout, coordinates, arrays = case
    wanted = [layout(c) for c in coordinates]
    if not any(isinstance(a, np.ndarray) for a in (arrays if isinstance(arrays, tuple) else (arrays,))):
        assert layout(arrays) == wanted[0]
        return
    try:
        found = layout(arrays)
    except (ResourceError, ShapeError):
        assert any(not -(1 << 63) <= x < 1 << 63 for x in wanted)
        return
    assert found.dtype == np.int64
    assert found.tolist() == wanted


def test_numbers_of_numpy_give_numbers_of_numpy() -> None:
    layout = Layout((4, 8), (8, -1))
    for coordinate in (np.int32(9), np.array(9), (np.uint8(1), 2), (1, np.int64(2))):
        found: Any = layout(coordinate)
        assert type(found) is np.int64 and int(found) == layout(1, 2)
    with pytest.raises(ShapeError, match="negative"):
        layout(np.int64(-1))
    with pytest.raises(ShapeError, match="negative"):
        layout(np.array([3, -1]))
