"""Bit matrices against enumeration of the whole space."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import f2
from layoutalg.errors import NotLinearError, ShapeError
from layoutalg.layout import Layout
from layoutalg.strategies import composed_layouts, layouts, swizzles
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle, Swizzles
from tests.brute import table

N = 5
matrices = st.lists(st.integers(0, (1 << N) - 1), max_size=N).map(tuple)
squares = st.lists(st.integers(0, (1 << N) - 1), min_size=N, max_size=N).map(tuple)


def span(vectors: tuple[int, ...]) -> set[int]:
    """Every XOR of some of the vectors."""
    found = {0}
    for v in vectors:
        found |= {x ^ v for x in found}
    return found


@given(matrices)
def test_rank_basis_kernel_and_image(m: tuple[int, ...]) -> None:
    space = span(m)
    assert 1 << f2.rank(m) == len(space)
    assert span(f2.basis(m)) == space and len(f2.basis(m)) == f2.rank(m)
    assert f2.image(m) == f2.basis(f2.basis(m))
    assert {x for x in range(1 << len(m)) if f2.apply(m, x) == 0} == span(f2.kernel(m))
    assert len(f2.kernel(m)) == len(m) - f2.rank(m)
    for y in range(1 << N):
        x = f2.solve(m, y)
        assert (x is not None) == (y in space) == f2.contains(m, y)
        assert x is None or f2.apply(m, x) == y


@given(matrices, st.integers(0, 3))
@example((3, 3, 6, 5), 1)
def test_an_echelon_grows_by_what_its_span_lacks(m: tuple[int, ...], carried: int) -> None:
    """With every vector carrying all-ones below it: what is carried adds up with the vectors."""
    low = (1 << carried) - 1
    echelon = f2.Echelon(carried=carried)
    for j, vector in enumerate(m):
        whole = vector << carried | low
        before = span(tuple(v << carried | low for v in m[:j]))
        rest = echelon.insert(whole)
        assert (rest != 0) == (whole not in before) and rest ^ whole in before
        reached = {x >> carried for x in before} | {x >> carried ^ vector for x in before}
        assert 1 << echelon.rank == len(reached)
        assert all(echelon.contains(x) == (x in reached) for x in range(1 << N))
    everything = span(tuple(v << carried | low for v in m))
    assert span(echelon.basis()) == {x >> carried for x in everything}
    assert span(echelon.kernel()) == {x for x in everything if not x >> carried}
    for x in range(1 << N):
        found = echelon.solve(x)
        assert (found is None) == all(y >> carried != x for y in everything)
        assert found is None or x << carried | found in everything


@given(matrices, matrices)
def test_a_basis_is_the_name_of_its_space(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert (f2.basis(a) == f2.basis(b)) == (span(a) == span(b))
    assert span(f2.intersection(a, b)) == span(a) & span(b)


@given(matrices, squares)
def test_products_and_transposes(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    product = f2.multiply(b, a)
    assert all(f2.apply(product, x) == f2.apply(b, f2.apply(a, x)) for x in range(1 << len(a)))
    turned = f2.transpose(a, N)
    assert len(turned) == N and f2.transpose(turned, len(a)) == a
    assert f2.rank(turned) == f2.rank(a)


@given(squares)
@example((1, 2, 4, 8, 16))
@example((3, 1, 4, 8, 24))
def test_inverse(m: tuple[int, ...]) -> None:
    if f2.rank(m) < N:
        with pytest.raises(ShapeError, match="not an invertible 5 x 5 matrix"):
            f2.invert(m)
        return
    assert f2.multiply(f2.invert(m), m) == f2.multiply(m, f2.invert(m)) == f2.identity(N)


@given(matrices, matrices)
def test_complement_completes_without_meeting(part: tuple[int, ...], whole: tuple[int, ...]) -> None:
    for rest, wanted in (
        (f2.complement(part, N), set(range(1 << N))),
        (f2.complement(part, whole), span(part + whole)),
    ):
        assert span(part + rest) == wanted
        assert span(part) & span(rest) == {0}
        assert len(rest) == f2.rank(rest)


@given(st.lists(swizzles(), min_size=1, max_size=3).map(tuple))
def test_swizzle_columns(chain: tuple[Swizzle, ...]) -> None:
    columns = f2.swizzle_columns(Swizzles(*chain), 12)
    layout = ComposedLayout(chain, 0, Layout(4096))
    assert all(f2.apply(columns, x) == layout(x) for x in range(4096))


def is_affine(values: list[int]) -> bool:
    """The definition: f(x ^ y) ^ f(0) = f(x) ^ f(y), on a domain of 2^k points."""
    n = len(values)
    if n & (n - 1):
        return False
    units = [values[1 << j] ^ values[0] for j in range(n.bit_length() - 1)]
    return all(f2.apply(units, x) ^ values[0] == values[x] for x in range(n))


@given(st.one_of(layouts(), layouts(power_of_two=True), composed_layouts(power_of_two=True)))
@example(Layout(8, 9))
@example(Layout(8, 3))
@example(Layout((32, 32), (33, 1)))
@example(Layout((4, 4), (1, 3)))
@example(ComposedLayout(Swizzle(1, 0, 1), 4, Layout((2, 2))))
def test_the_test_of_linearity_is_sound_and_complete(layout: AnyLayout) -> None:
    """Complete for layouts, and for swizzled ones without an offset; sound for all."""
    values = table(layout)
    try:
        constant, columns = f2.affine_f2(layout)
    except NotLinearError:
        if isinstance(layout, Layout) or layout.offset == 0:
            assert not is_affine(values)
        return
    assert [constant ^ f2.apply(columns, x) for x in range(len(values))] == values
    assert f2.is_linear(layout) == (constant == 0)
    if constant:
        with pytest.raises(NotLinearError, match="affine over F2, not linear"):
            f2.to_f2(layout)
    else:
        assert f2.to_f2(layout) == columns


@pytest.mark.parametrize("text", ["8:9", "32:33", "128:129", "4:5", "2:3", "8:36"])
def test_strides_that_are_no_powers_of_two_and_linear(text: str) -> None:
    from layoutalg.notation import parse

    layout = parse(text)
    assert isinstance(layout, Layout) and f2.is_linear(layout) and is_affine(table(layout))


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (Layout(8, 3), "3 \\+ 6 = 9 carries, the XOR is 5"),
        (Layout(8, 5), "5 \\+ 20 = 25 carries"),
        (Layout(32, 36), "carries"),
        (Layout(6), "extent 6 is no power of two"),
        (Layout(4, -1), "stride -1 is negative"),
        (ComposedLayout(Layout((6, 2)), 0, Layout(8)), "neither is its outer layout \\(6,2\\)"),
        (ComposedLayout(Layout((4, 2), (3, 1)), 0, Layout(8)), "3 \\+ 6 = 9 carries"),
    ],
)
def test_refusals_show_the_carry(layout: AnyLayout, words: str) -> None:
    with pytest.raises(NotLinearError, match=words):
        f2.to_f2(layout)


def test_vectors_fit() -> None:
    with pytest.raises(ShapeError, match="vector 4 has more bits than the 2 columns"):
        f2.apply((1, 2), 4)
    with pytest.raises(ShapeError):
        f2.apply((1, 2), -1)


@given(composed_layouts(power_of_two=True), layouts(power_of_two=True), st.sampled_from((0, 0, 8, 64)))
def test_a_layout_outside_is_a_matrix_too(inner: ComposedLayout, outer: Layout, offset: int) -> None:
    whole = ComposedLayout(outer, offset, inner)
    try:
        constant, columns = f2.affine_f2(whole)
    except NotLinearError:
        return
    assert [constant ^ f2.apply(columns, c) for c in range(1 << len(columns))] == table(whole)
