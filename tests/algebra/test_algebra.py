"""The algebra as a whole: one address for every operation, one contract, and operands of every kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import LayoutAlgError, ShapeError
from layoutalg.layout import AnyLayout, Layout, concat
from layoutalg.testing import composed_layouts, layouts
from tests.judges.exports import PUBLIC as algebra
from tests.sweeps import each

UNARY = ("coalesce", "complement", "cosize", "depth", "image_size", "is_bijective", "is_injective",
         "is_surjective", "left_inverse", "normal_form", "rank", "right_inverse", "size")  # fmt: skip
BINARY = ("blocked_product", "composition", "find_difference", "flat_divide", "flat_product",
          "logical_divide", "logical_product", "raked_product", "same_function", "tiled_divide",
          "tiled_product", "zipped_divide", "zipped_product")  # fmt: skip


@given(st.one_of(layouts(negative=True), composed_layouts()), layouts(max_leaves=2, max_size=16))
def test_an_answer_or_a_named_error(a: AnyLayout, b: Layout) -> None:
    """Whatever is asked: no other exception, and nothing that is no layout."""
    for name in UNARY:
        try:
            getattr(algebra, name)(a)
        except LayoutAlgError as error:
            assert name in str(error) or str(a) in str(error)
    for name in BINARY:
        try:
            getattr(algebra, name)(a, b)
        except LayoutAlgError as error:
            assert str(error)


@each("name", BINARY)
def test_deep_operands(name: str) -> None:
    """As deep as a shape may be."""
    shape: object = 2
    for _ in range(64):
        shape = (shape,)
    deep = Layout(shape)  # type: ignore[arg-type]
    try:
        result = getattr(algebra, name)(deep, deep)
    except LayoutAlgError:
        return
    assert str(result)


@given(layouts(compact=True))
def test_results_of_results(a: Layout) -> None:
    """Operations accept what operations return, however nested it has become."""
    tiled = algebra.zipped_divide(a, 1)
    again = algebra.logical_divide(algebra.logical_product(tiled, Layout(2)), Layout(algebra.size(a)))
    assert algebra.same_function(again[0], a)


def test_nesting_that_never_ends_is_refused_by_name() -> None:
    nests: tuple[Callable[[Layout], Layout], ...] = (
        lambda a: algebra.logical_product(a, Layout(1)),
        lambda a: algebra.zipped_divide(a, (None,)),
        lambda a: concat(a),
        lambda a: algebra.blocked_product(concat(a), Layout((1,))),
    )
    for nest in nests:
        grown = Layout(2)
        with pytest.raises(ShapeError, match="nested deeper than 64 levels"):
            for _ in range(1000):
                grown = nest(grown)
        assert algebra.size(grown) == 2 and str(grown)
