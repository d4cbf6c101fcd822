"""The laws of the algebra: equations between operations, over drawn layouts.

What an operation is defined by stands in its own test module; here is what follows from the definitions
when operations meet.  A law is checked wherever both sides are defined.
"""

from __future__ import annotations

from hypothesis import HealthCheck, assume, example, given, reject, settings
from hypothesis import strategies as st

from layoutalg import f2
from layoutalg.algebra import (
    blocked_product,
    complement,
    left_inverse,
    logical_divide,
    logical_product,
    raked_product,
    right_inverse,
    zipped_divide,
)
from layoutalg.compose import composition, normal_form
from layoutalg.decide import cosize, find_difference, is_bijective, is_injective, same_function
from layoutalg.errors import DivisibilityError, LayoutAlgError, NotLinearError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    coalesce,
    compatible,
    concat,
    filter,
    modes,
    rank,
    size,
)
from layoutalg.notation import parse
from layoutalg.testing import composed_layouts, layouts, swizzles
from tests.brute import table

small = layouts(max_leaves=3, max_size=48)
tiny = layouts(max_leaves=2, max_size=8, compact=True)
compact = layouts(max_leaves=3, max_size=64, compact=True)
anything = st.one_of(layouts(), composed_layouts())
patient = settings(suppress_health_check=[HealthCheck.filter_too_much])


def defined(operation: object, *operands: object) -> AnyLayout:
    """The result, or the end of this example."""
    try:
        result = operation(*operands)  # type: ignore[operator]
    except LayoutAlgError:
        reject()
    assert isinstance(result, (Layout, ComposedLayout))
    return result


# --- composition --------------------------------------------------------------------------------------


@patient
@given(small, small, st.one_of(tiny, small))
@example(Layout((4, 4), (4, 1)), Layout((2, 8)), Layout((4, 2), (2, 1)))
def test_composition_is_associative(a: Layout, b: Layout, c: Layout) -> None:
    """As long as C stays in B's domain: past it, B and A o B are extended, each by its own last mode."""
    assume(cosize(c) <= size(b))
    left = defined(composition, defined(composition, a, b), c)
    right = defined(composition, a, defined(composition, b, c))
    assert same_function(left, right)


@given(anything)
def test_identities(a: AnyLayout) -> None:
    assert same_function(composition(a, Layout(size(a))), a)
    assert same_function(composition(Layout(cosize(a)), a), a)
    assert same_function(composition(Swizzle(0, 0, 0), a), a)


@given(anything, small)
def test_composition_refines_the_right_shape(a: AnyLayout, b: Layout) -> None:
    assert compatible(b.shape, defined(composition, a, b).shape)


@given(small, small, small)
def test_composition_distributes_over_modes(a: Layout, b: Layout, c: Layout) -> None:
    """A o (B, C) = (A o B, A o C), where the left side is defined."""
    whole = defined(composition, a, concat(b, c))
    assert isinstance(whole, Layout)
    parts = (composition(a, b), composition(a, c))
    assert all(same_function(m, p) for m, p in zip(modes(whole), parts, strict=True))


@given(anything, anything)
def test_coalescing_the_operands_changes_nothing(a: AnyLayout, b: AnyLayout) -> None:
    if cosize(b) > size(a):
        a, b = b, a
    assume(cosize(b) <= size(a))
    result = defined(composition, a, b)
    assert same_function(result, defined(composition, coalesce(a), coalesce(b)))


# --- complement and inverses --------------------------------------------------------------------------


@given(small, st.integers(1, 200))
def test_a_layout_and_its_complement_are_a_bijection(a: Layout, target: int) -> None:
    a = filter(a)
    rest = defined(complement, a, target)
    assert isinstance(rest, Layout)
    whole = concat(a, rest)
    assert is_bijective(whole) and size(whole) >= target


@given(small)
def test_the_complement_of_the_complement_is_the_layout_sorted(a: Layout) -> None:
    a = filter(a)
    rest = defined(complement, a)
    assert isinstance(rest, Layout)
    again = complement(rest, cosize(concat(a, rest)))
    assert sorted(table(again)) == sorted(table(a))


@given(st.one_of(compact, composed_layouts(power_of_two=True)))
def test_inverses_of_a_bijection(a: AnyLayout) -> None:
    assume(is_bijective(a))
    left, right = left_inverse(a), right_inverse(a)
    identity = Layout(size(a))
    assert same_function(composition(left, a), identity)
    assert same_function(composition(a, right), identity)
    assert same_function(composition(left, identity), right)
    assert same_function(right_inverse(right), a)


@given(anything)
def test_a_left_inverse_proves_injectivity(a: AnyLayout) -> None:
    defined(left_inverse, a)
    assert is_injective(a)


@given(anything)
def test_a_right_inverse_is_injective(a: AnyLayout) -> None:
    assert is_injective(defined(right_inverse, a))


# --- divide and product -------------------------------------------------------------------------------


@patient
@given(compact, st.one_of(tiny, small))
def test_dividing_rearranges(a: Layout, tile: Layout) -> None:
    """Where the tile divides, the divide is the layout behind a permutation of its indices."""
    divided = defined(logical_divide, a, tile)
    assume(size(divided) == size(a) and is_injective(tile))
    order = zipped_divide(Layout(size(a)), tile)
    assert is_bijective(order)
    assert same_function(divided, composition(a, order))
    assert same_function(composition(divided, right_inverse(order)), a)


@given(compact, tiny)
def test_dividing_a_product_gives_the_parts(tile: Layout, copies: Layout) -> None:
    """(A x B) / (A's own indices) = (A, B's copies)."""
    product = defined(logical_product, tile, copies)
    back = logical_divide(product, Layout(size(tile)))
    assert isinstance(product, Layout) and isinstance(back, Layout)
    assert same_function(back[0], tile) and same_function(back[1], product[1])


@given(compact, tiny)
def test_products_of_compact_layouts_are_compact(tile: Layout, copies: Layout) -> None:
    assert is_bijective(defined(logical_product, tile, copies))
    if rank(tile) == rank(copies):
        assert is_bijective(blocked_product(tile, copies)) and is_bijective(raked_product(tile, copies))


# --- functions and texts ------------------------------------------------------------------------------


@given(anything, anything)
def test_same_function_is_equality_of_tables(a: AnyLayout, b: AnyLayout) -> None:
    assert same_function(a, b) == (table(a) == table(b))
    assert same_function(a, b) == same_function(b, a)


@given(anything)
def test_other_spellings_of_one_function(a: AnyLayout) -> None:
    for b in (coalesce(a), normal_form(a), composition(a, Layout(size(a)))):
        assert same_function(a, b) and find_difference(a, b) is None


@given(st.one_of(anything, swizzles()))
def test_text_and_value(value: object) -> None:
    assert parse(str(value)) == value


# --- linear layouts -----------------------------------------------------------------------------------

linear = st.one_of(layouts(power_of_two=True), composed_layouts(power_of_two=True))


@given(linear)
def test_a_linear_layout_comes_back(a: AnyLayout) -> None:
    matrix = defined_matrix(a)
    try:
        back = matrix.to_layout()
    except DivisibilityError:
        assert f2.rank(matrix.columns) < sum(map(bool, matrix.columns))
        return
    assert same_function(back, a)


def defined_matrix(a: AnyLayout) -> LinearLayout:
    try:
        return LinearLayout.from_layout(a)
    except NotLinearError:
        reject()


@patient
@given(layouts(power_of_two=True, compact=True), composed_layouts(power_of_two=True, max_size=32))
def test_composition_is_the_product_of_matrices(a: Layout, b: ComposedLayout) -> None:
    """A is made long enough to have a column for every bit that b reaches."""
    inner = defined_matrix(b)
    bits = sum(inner.out_bits.values())
    assume(size(a) >> bits)
    outer = LinearLayout.from_layout(composition(a, Layout(1 << bits)), ("offset",), "offset")
    assert inner.compose(outer).columns == f2.multiply(f2.to_f2(a)[:bits], inner.columns)
    result = composition(a, b)
    assert table(result) == [f2.apply(inner.compose(outer).columns, i) for i in range(size(b))]


@given(st.one_of(layouts(power_of_two=True, compact=True), composed_layouts(power_of_two=True)))
def test_inverses_agree(a: AnyLayout) -> None:
    assume(is_bijective(a))
    matrix = defined_matrix(a)
    back = matrix.invert()
    assert table(left_inverse(a))[: size(a)] == [back(offset=x)["index"] for x in range(size(a))]
