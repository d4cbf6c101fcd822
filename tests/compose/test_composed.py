"""Composition with swizzles, composed layouts and tilers: R(c) = A(B(c)) whatever the operands are."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg.compose import composition, normal_form, tiler_text
from layoutalg.errors import ArgumentTypeError, DivisibilityError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.notation import parse_cute as parse
from layoutalg.notation import parse_tiler
from layoutalg.testing import composed_layouts, layouts, swizzles
from tests.judges.brute import table
from tests.sweeps import each

anything = st.one_of(layouts(max_size=64), composed_layouts(max_size=64))


def in_normal_form(layout: AnyLayout) -> bool:
    return isinstance(layout, Layout) or (bool(layout.swizzles) and isinstance(layout.inner, Layout))


@given(anything, anything)
def test_pointwise(a: AnyLayout, b: AnyLayout) -> None:
    try:
        result = composition(a, b)
    except DivisibilityError as error:
        assert not isinstance(b, ComposedLayout), "a swizzled right side always has an answer"
        assert error.witness is not None
        return
    assert table(result) == [a(b(c)) for c in range(size(b))]


@given(swizzles(), anything)
def test_a_swizzle_waits_outside(swizzle: Swizzle, b: AnyLayout) -> None:
    result = composition(swizzle, b)
    assert table(result) == [swizzle(x) for x in table(b)]
    assert in_normal_form(result)


@given(layouts(power_of_two=True, compact=True), swizzles())
def test_a_permutation_of_bits_moves_the_swizzle_out(a: Layout, swizzle: Swizzle) -> None:
    assume(swizzle.shift >= 0)  # moving bits up leaves the part of `a` that is a permutation
    b = ComposedLayout(swizzle, 0, Layout(size(a)))
    result = composition(a, b)
    assert table(result) == [a(b(c)) for c in range(size(b))]
    assert in_normal_form(result)


@given(layouts(max_size=64), swizzles())
def test_a_swizzle_on_the_right_is_one_of_the_flat_index(a: Layout, swizzle: Swizzle) -> None:
    result = composition(a, swizzle)
    assert table(result) == [a(swizzle(c)) for c in range(size(a))]
    assert result.shape == a.shape


@each(
    ("a", "b", "wanted"),
    [
        ("(4,4):(4,1)", "Sw<2,0,2> o 0 o 16:1", "Sw<2,0,-2> o 0 o (4,4):(4,1)"),
        ("64:8", "Sw<3,0,3> o 0 o (8,8):(8,1)", "Sw<3,3,3> o 0 o (8,8):(64,8)"),
        ("64:8", "Sw<3,0,3> o 5 o (8,8):(8,1)", "Sw<3,3,3> o 40 o (8,8):(64,8)"),
        ("64:3", "Sw<3,0,3> o 0 o (8,8):(8,1)", "64:3 o 0 o Sw<3,0,3> o 0 o (8,8):(8,1)"),
        ("Sw<3,0,3> o 0 o 64:1", "Sw<3,0,3> o 0 o 64:1", "64:1"),
        ("Sw<1,0,3> o 0 o 64:1", "Sw<2,1,3> o 0 o 64:1", "Sw<3,0,3> o 0 o 64:1"),
        ("Sw<1,0,1> o 2 o 64:1", "Sw<1,0,1> o 0 o 8:1", "Sw<1,0,1> o 2 o Sw<1,0,1> o 0 o 8:1"),
        ("8:1 o 2 o 4:1", "4:1", "Sw<0,0,0> o 2 o 4:1"),
    ],
)
def test_examples(a: str, b: str, wanted: str) -> None:
    left, right = parse(a), parse(b)
    assert not isinstance(left, Swizzle) and not isinstance(right, Swizzle)
    result = composition(left, right)
    assert table(result) == [left(right(c)) for c in range(size(right))]
    assert table(result) == table(parse(wanted))  # type: ignore[arg-type]
    assert str(normal_form(result)) == wanted


@given(composed_layouts(max_size=64))
@example(ComposedLayout(Layout(64, 2), 3, ComposedLayout(Swizzle(1, 0, 1), 0, Layout(8))))
@example(ComposedLayout(Swizzle(1, 0, 1), 4, ComposedLayout(Swizzle(1, 0, 1), 0, Layout(8))))
def test_normal_form_is_the_same_function(layout: ComposedLayout) -> None:
    for nested in (
        layout,
        ComposedLayout(Swizzle(2, 0, 2), 16, layout),
        ComposedLayout(Layout(512), 0, layout),
    ):
        assert table(normal_form(nested)) == table(nested)


# --- tilers -------------------------------------------------------------------------------------------


@each(
    ("a", "tiler", "wanted"),
    [
        ("(8,8):(8,1)", "(4,2:4)", "(4,2):(8,4)"),
        ("(8,8):(8,1)", "(_,4)", "(8,4):(8,1)"),
        ("(8,8):(8,1)", "4", "4:8"),
        ("(8,8):(8,1)", "_", "(8,8):(8,1)"),
        ("(8,8):(8,1)", "(4)", "(4):(8)"),
        ("((4,2),8):((1,32),4)", "((2,2),4)", "((2,2),4):((1,32),4)"),
        ("Sw<2,0,3> o 0 o (8,8):(8,1)", "(4,2:4)", "Sw<2,0,3> o 0 o (4,2):(8,4)"),
    ],
)
def test_mode_by_mode(a: str, tiler: str, wanted: str) -> None:
    left = parse(a)
    assert not isinstance(left, Swizzle)
    assert str(composition(left, parse_tiler(tiler))) == wanted


def test_tiler_text() -> None:
    assert tiler_text(parse_tiler("(4:1,_,(2,8))")) == "(4:1,_,(2,8))"


def test_what_does_not_compose() -> None:
    a = Layout((8, 8))
    with pytest.raises(ShapeError, match=r"composition\(\(8,8\):\(1,8\), \(2,2,2\)\): the tiler has 3 modes"):
        composition(a, (2, 2, 2))
    with pytest.raises(UnsupportedError, match="swizzle the whole layout instead"):
        composition(a, (ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4)), 8))
    for left, right in ((a, "4:1"), (a, 2.0), ("8:1", a), (Swizzle(1, 0, 1), (4, 4))):
        with pytest.raises(ArgumentTypeError):
            composition(left, right)  # type: ignore[arg-type]
    with pytest.raises(ShapeError):
        composition(a, 0)


@given(swizzles(), swizzles(), anything)
def test_two_swizzles_compose_to_one_or_to_a_chain(a: Swizzle, b: Swizzle, layout: AnyLayout) -> None:
    both = composition(a, b)
    assert table(composition(both, layout)) == [a(b(x)) for x in table(layout)]
    assert table(composition(layout, both)) == [layout(a(b(c))) for c in range(size(layout))]
    assert table(composition(composition(both, a), layout)) == [a(b(a(x))) for x in table(layout)]
