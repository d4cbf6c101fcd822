"""Compact layouts in a given order."""

from __future__ import annotations

import pytest
from hypothesis import given

from layoutalg.algebra import make_layout_like, make_ordered_layout
from layoutalg.errors import ShapeError
from layoutalg.layout import IntTuple, Layout, flatten_tree, leaves, size
from layoutalg.testing import layouts, shapes
from tests.judges.brute import table


@given(shapes())
def test_any_order_is_compact(shape: IntTuple) -> None:
    assert make_ordered_layout(shape, 0) == Layout(shape)
    for layout in (make_ordered_layout(shape, 0), make_layout_like(Layout(shape))):
        assert sorted(table(layout)) == list(range(size(layout)))


@given(layouts())
def test_like_another(layout: Layout) -> None:
    result = make_layout_like(layout)
    assert result.shape == layout.shape
    moving = [(d, e) for (s, d), (_, e) in zip(leaves(layout), leaves(result), strict=True) if s > 1 and d]
    order = sorted(moving, key=lambda pair: pair[0])
    assert [e for _, e in order] == sorted(e for _, e in order)
    assert len(set(table(result))) == max(table(result)) + 1
    still = [e for (s, d), (_, e) in zip(leaves(layout), leaves(result), strict=True) if s == 1 or d == 0]
    assert not any(still)


@pytest.mark.parametrize(
    ("shape", "order", "wanted"),
    [
        ((4, 8), (1, 0), "(4,8):(8,1)"),
        (((2, 4), 4, 5), ((3, 1), 0, 2), "((2,4),4,5):((80,4),1,16)"),
        (((2, 2), (2, 2)), (1, 0), "((2,2),(2,2)):((4,8),(1,2))"),
        ((4, 1, 8), (2, 1, 0), "(4,1,8):(8,0,1)"),
    ],
)
def test_examples(shape: IntTuple, order: IntTuple, wanted: str) -> None:
    assert str(make_ordered_layout(shape, order)) == wanted


@pytest.mark.parametrize(("shape", "order"), [((4, 8), (1,)), ((4, 8), ((1, 0), 0)), (4, (0,))])
def test_orders_that_do_not_fit(shape: IntTuple, order: IntTuple) -> None:
    with pytest.raises(ShapeError, match="does not fit the shape"):
        make_ordered_layout(shape, order)


def test_flat_order_of_leaves() -> None:
    assert flatten_tree(make_ordered_layout((2, 3, 4), (2, 1, 0)).stride) == (12, 4, 1)
