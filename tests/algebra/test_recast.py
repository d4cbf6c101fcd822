"""upcast and downcast against floor(offset / n), and swizzles that survive them."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.algebra import downcast, recast_layout, upcast
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    flatten_tree,
    innermost,
    leaves,
    make_identity_layout,
    size,
    with_assumptions,
)
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table

factors = st.sampled_from([1, 2, 3, 4, 8])
powers = st.sampled_from([1, 2, 4, 8, 16])


def joined(layout: Layout, wider: Layout) -> list[int]:
    """For every coordinate of `layout`, the coordinate of `wider` it has become part of."""
    out: list[int] = []
    for i in range(size(layout)):
        total, base = 0, 1
        for (s, _), (t, _) in zip(leaves(layout), leaves(wider), strict=True):
            i, digit = divmod(i, s)
            total += digit // (s // t) * base
            base *= t
        out.append(total)
    return out


@given(st.one_of(layouts(), layouts(power_of_two=True), layouts(negative=True)), factors)
@example(Layout(8, 3), 2)
@example(Layout((2, 2), (1, 1)), 2)
@example(Layout((6, 4), (1, 12)), 4)
def test_upcast_is_the_floor_of_the_offsets(layout: Layout, n: int) -> None:
    try:
        wider = upcast(layout, n)
    except DivisibilityError as error:
        assert error.witness is not None and 0 <= error.witness < size(layout)
        return
    assert [wider(c) for c in joined(layout, wider)] == [x // n for x in table(layout)]


@given(
    st.one_of(
        st.tuples(st.one_of(layouts(), layouts(compact=True)), factors),
        st.tuples(composed_layouts(power_of_two=True, max_size=64), powers),
    )
)
def test_downcast_is_every_part_of_every_element(pair: tuple[AnyLayout, int]) -> None:
    layout, n = pair
    try:
        narrower = downcast(layout, n)
    except DivisibilityError:
        assert n > 1 and not any(s == 1 or d == 1 for s, d in leaves(innermost(layout)))
        return
    assert sorted(table(narrower)) == sorted(x * n + j for x in table(layout) for j in range(n))
    assert table(upcast(narrower, n)) == table(layout)
    assert recast_layout(layout, 8 * n, 8) == narrower
    assert recast_layout(narrower, 8, 8 * n) == upcast(narrower, n)


@given(composed_layouts(power_of_two=True, max_size=64), powers)
@example(ComposedLayout(Swizzle(3, 0, 3), 0, Layout(32)), 4)
@example(ComposedLayout(Swizzle(3, 1, 3), 0, Layout((2, 2))), 8)
@example(ComposedLayout(Swizzle(1, 0, -2), 0, Layout(8)), 2)
def test_upcast_under_swizzles(layout: ComposedLayout, n: int) -> None:
    try:
        wider = upcast(layout, n)
    except DivisibilityError as error:
        assert error.witness is not None and 0 <= error.witness < size(layout)
        return
    except UnsupportedError:
        assert not layout.swizzles
        return
    assert isinstance(layout.inner, Layout)
    inner = wider.inner if isinstance(wider, ComposedLayout) else wider
    assert isinstance(inner, Layout)
    assert [wider(c) for c in joined(layout.inner, inner)] == [x // n for x in table(layout)]


def test_refusals() -> None:
    with pytest.raises(DivisibilityError, match=r"upcast\(8:3, 2\): offset 3 at coordinate 1") as info:
        upcast(Layout(8, 3), 2)
    assert info.value.witness == 1
    swizzled = ComposedLayout(Swizzle(3, 0, 3), 0, Layout(32))
    with pytest.raises(DivisibilityError, match="moves parts of an element of 4 at coordinate 8") as info:
        upcast(swizzled, 4)
    assert info.value.witness == 8 and swizzled(8) % 4 != 0
    with pytest.raises(DivisibilityError, match="no mode has stride 1"):
        downcast(Layout(8, 2), 2)
    with pytest.raises(ShapeError, match="one width must divide the other"):
        recast_layout(Layout(8), 16, 24)
    for bad in (0, -2, (2,)):
        with pytest.raises(ShapeError, match="positive integer"):
            upcast(Layout(8), bad)  # type: ignore[arg-type]
    bad_operands: list[tuple[Any, Any]] = [(Layout(8), 2.0), ("8:1", 2)]
    for operands in bad_operands:
        with pytest.raises(ArgumentTypeError, match="upcast"):
            upcast(*operands)
        with pytest.raises(ArgumentTypeError, match="downcast"):
            downcast(*operands)
    with pytest.raises(UnsupportedError, match="powers of two"):
        upcast(swizzled, 3)


def test_an_offset_alone_takes_any_factor() -> None:
    layout = ComposedLayout(Swizzles(), 6, Layout((4, 3), (3, 12)))
    assert table(upcast(layout, 3)) == [offset // 3 for offset in table(layout)]
    row = ComposedLayout(Swizzles(), 6, Layout(4))
    assert table(downcast(row, 3)) == list(range(18, 30))
    assert table(upcast(downcast(row, 3), 3)) == table(row)


def test_extents_stay_in_their_modes() -> None:
    assert flatten_tree(upcast(Layout(((2, 4), 8), ((1, 2), 8)), 4).shape) == (1, 2, 8)


def test_recasts_of_symbols() -> None:
    """A thread's question: elements of 16 bits as elements of 32, of an extent that is known at run time."""
    n, ld = sympy.symbols("n ld", integer=True, positive=True)
    assert str(recast_layout(Layout(2 * n, 1), 16, 32)) == "n:1"
    assert str(recast_layout(Layout(n, 1), 32, 16)) == "2*n:1"
    assert str(recast_layout(Layout((64, n), (1, 64)), 16, 128)) == "(8,n):(1,8)"
    assert str(recast_layout(Layout((n, 64), (8 * ld, 1)), 16, 128)) == "(n,8):(ld,1)"
    with pytest.raises(UndecidedError, match=r"Eq\(Mod\(n, 2\), 0\)") as caught:
        recast_layout(Layout(n, 1), 16, 32)
    assert caught.value.condition == sympy.Eq(sympy.Mod(n, 2), 0)
    with pytest.raises(UndecidedError, match=r"Eq\(Mod\(ld, 8\), 0\)"):
        recast_layout(Layout((n, 64), (ld, 1)), 16, 128)
    with pytest.raises(UndecidedError, match=r"Eq\(ld, 1\)"):
        downcast(Layout(8, ld), 2)
    with pytest.raises(UnsupportedError, match="reach past an element of 2"):
        upcast(Layout((2 * n, 2 * n), (1, 1)), 2)
    with pytest.raises(UnsupportedError, match=r"upcast of .* its strides move along modes"):
        upcast(make_identity_layout((n, 8)), 2)
    result, conditions = with_assumptions(recast_layout, Layout(n, 1), 16, 32)
    assert conditions == (sympy.Eq(sympy.Mod(n, 2), 0),) and str(result) == "floor(n/2):1"
