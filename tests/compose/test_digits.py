"""Composition of two layouts against the definition: R(c) = A(B(c)), and no refusal where an R exists."""

from __future__ import annotations

import pytest
from hypothesis import example, given

from layoutalg.compose import compose_layouts
from layoutalg.errors import DivisibilityError, ShapeError, UndecidedError
from layoutalg.layout import Layout, compatible, flatten_tree, leaves, size
from layoutalg.limits import Most
from layoutalg.testing import layouts
from tests.judges.brute import is_layout_of, table
from tests.sweeps import each


@given(layouts(), layouts(max_leaves=3, max_size=64))
@example(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
@example(Layout((2, 2, 4), (1, 3, 5)), Layout((2, 2), (3, 1)))
@example(Layout((4, 1), (1, 0)), Layout(8, 1))
@example(Layout((3, 2, 2), (4, 1, 0)), Layout(6, 5))
def test_exact_wherever_a_layout_exists(a: Layout, b: Layout) -> None:
    wanted = [a(b(c)) for c in range(size(b))]
    try:
        result = compose_layouts(a, b)
    except DivisibilityError as error:
        assert not is_layout_of(b.shape, wanted), str(error)
        assert error.witness is not None and 0 <= error.witness < size(b)
        assert f"value {a(b(error.witness))} at coordinate {error.witness}" in str(error)
        return
    assert table(result) == wanted
    assert compatible(b.shape, result.shape)
    assert all(d == 0 for s, d in leaves(result) if s == 1)


@given(layouts(negative=True), layouts(max_leaves=2, max_size=32, negative=True))
def test_negative_strides(a: Layout, b: Layout) -> None:
    """Welcome on the left; on the right they name a coordinate that `a` has not."""
    if min(table(b)) < 0:
        with pytest.raises(ShapeError) as info:
            compose_layouts(a, b)
        assert info.value.witness is not None and b(info.value.witness) == min(table(b))
        return
    try:
        assert table(compose_layouts(a, b)) == [a(b(c)) for c in range(size(b))]
    except DivisibilityError:
        assert not is_layout_of(b.shape, [a(b(c)) for c in range(size(b))])


@each(
    ("a", "b", "wanted"),
    [
        ("4:3", "8:1", "8:3"),
        ("(6,4):(4,1)", "2:9", "2:13"),
        ("(6,4):(4,1)", "12:2", "(3,4):(8,1)"),
        ("(2,2,4):(1,3,5)", "(2,2):(3,1)", "(2,2):(4,1)"),
        ("(4,8):(8,1)", "(2,(2,2)):(1,(4,2))", "(2,(2,2)):(8,(1,16))"),
        ("8:2", "()", "():()"),
        ("(4,6,8,10):(2,3,5,7)", "6:12", "(2,3):(9,5)"),
    ],
)
def test_examples(a: str, b: str, wanted: str) -> None:
    from layoutalg.notation import parse

    right = parse(f"{b}:{b}" if b == "()" else b)
    left = parse(a)
    assert isinstance(left, Layout) and isinstance(right, Layout)
    assert str(compose_layouts(left, right)) == wanted


def test_refusal_says_what_and_where() -> None:
    with pytest.raises(DivisibilityError) as info:
        compose_layouts(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    error = info.value
    assert (error.lhs, error.rhs, error.witness) == (Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)), 5)
    assert str(error) == (
        "composition((6,2):(1,7), (3,2):(2,3)): a digit of the first layout carries, so that no layout has "
        "the value 8 at coordinate 5 (index 7); the second layout's extents and strides must divide the "
        "first's extents"
    )


def test_size_does_not_matter() -> None:
    n = 1 << 40
    assert (
        str(compose_layouts(Layout((n, n), (n, 1)), Layout(n * 4, n // 2))) == f"(2,{2 * n}):({n * n // 2},1)"
    )
    with pytest.raises(DivisibilityError) as info:
        compose_layouts(Layout((n, n), (n, 1)), Layout(n, 3))
    assert info.value.witness == -(-n // 3)


def test_only_modes_that_meet_in_a_digit_are_looked_at() -> None:
    """The first two modes carry, twice and without effect; the third, however long, meets neither."""
    n = 1 << 40
    a = Layout((2, 2, n), (1, 3, 5))
    assert str(compose_layouts(a, Layout((2, 2, n), (3, 1, 4)))) == f"(2,2,{n}):(4,1,5)"


@pytest.mark.deep
def test_an_open_question_is_said_to_be_open() -> None:
    """Nine pairs of digits that carry without effect: 2^18 coordinates, too many to look at."""
    a = Layout((2,) * 27, tuple(11**k * w for k in range(9) for w in (1, 3, 5)))
    b = Layout((2,) * 18, tuple(8**k * w for k in range(9) for w in (3, 1)))
    with pytest.raises(UndecidedError) as info:
        compose_layouts(a, b)
    assert info.value.budget == Most.ONE_BY_ONE.number < size(b)
    assert table(compose_layouts(a, b[:14])) == [a(b(c)) for c in range(1 << 14)]


def test_flat_result_leaves() -> None:
    assert flatten_tree(compose_layouts(Layout((4, 4)), Layout((2, 1, 8))).shape) == (2, 1, 8)
