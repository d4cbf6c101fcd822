"""Layouts as bit matrices against enumeration of their domains."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import f2
from layoutalg.errors import NotLinearError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each


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
    if constant:
        with pytest.raises(NotLinearError, match="affine over F2, not linear"):
            f2.to_f2(layout)
    else:
        assert f2.to_f2(layout) == columns


@each("text", ["8:9", "32:33", "128:129", "4:5", "2:3", "8:36"])
def test_strides_that_are_no_powers_of_two_and_linear(text: str) -> None:
    from layoutalg.notation import parse

    layout = parse(text)
    assert isinstance(layout, Layout) and f2.to_f2(layout) and is_affine(table(layout))


@each(
    ("layout", "words"),
    [
        (Layout(8, 3), "3 \\+ 6 = 9 carries, the XOR is 5"),
        (Layout(8, 5), "5 \\+ 20 = 25 carries"),
        (Layout(32, 36), "carries"),
        (Layout(6), "extent 6 is not a power of two"),
        (Layout(4, -1), "stride -1 is negative"),
        (ComposedLayout(Layout((6, 2)), 0, Layout(8)), "neither is its outer layout \\(6,2\\)"),
        (ComposedLayout(Layout((4, 2), (3, 1)), 0, Layout(8)), "3 \\+ 6 = 9 carries"),
    ],
)
def test_refusals_show_the_carry(layout: AnyLayout, words: str) -> None:
    with pytest.raises(NotLinearError, match=words):
        f2.to_f2(layout)


@given(composed_layouts(power_of_two=True), layouts(power_of_two=True), st.sampled_from((0, 0, 8, 64)))
def test_a_layout_outside_is_a_matrix_too(inner: ComposedLayout, outer: Layout, offset: int) -> None:
    whole = ComposedLayout(outer, offset, inner)
    try:
        constant, columns = f2.affine_f2(whole)
    except NotLinearError:
        return
    assert [constant ^ f2.apply(columns, c) for c in range(1 << len(columns))] == table(whole)
