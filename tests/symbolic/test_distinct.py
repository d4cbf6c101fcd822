"""Values at which no two elements share an address: the closed form, and `is_injective` value by value."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.arch import find_arch
from layoutalg.decide import is_injective
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UndecidedError
from layoutalg.layout import Layout, Swizzle
from layoutalg.symbolic import (
    Condition,
    ResidueSet,
    SymbolicLayout,
    shared_ranges,
    solve_conflict_free,
    solve_distinct,
    solve_sectors,
    symbolic_access,
)
from tests.sweeps import each

S = sympy.Symbol("s")
LD = sympy.Symbol("ld", positive=True)


@st.composite
def layouts(draw: st.DrawFn) -> SymbolicLayout:
    """A few modes with strides slope * s + constant, some without s; constants may be negative."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))

    def stride() -> Any:
        slope, constant = draw(st.sampled_from((0, 0, 1, 1, 2, 3))), draw(st.integers(-4, 24))
        return slope * S + constant if slope else draw(st.sampled_from((1, 1, 2, 4, 8, 16, constant)))

    swizzles = draw(st.sampled_from(((), (Swizzle(2, 1, 3),))))
    return SymbolicLayout(shape, tuple(stride() for _ in shape), swizzles, draw(st.sampled_from((0, 5))))


VALUES = st.lists(st.integers(0, 400), max_size=20)


@given(layouts(), st.integers(0, 9), VALUES)
@example(SymbolicLayout((8, 4), (S, 16)), 0, [48, 49])
@example(SymbolicLayout((4, 4, 4), (S, 4 * S, 1)), 0, [])
@example(SymbolicLayout((4, 4, 4), (S, S, 1)), 0, [])
@example(SymbolicLayout((3, 3), (S, S + 2)), 0, [])
def test_the_closed_form_is_the_definition(layout: SymbolicLayout, least: int, values: list[int]) -> None:
    found = solve_distinct(layout, S, least=least)
    ranges = shared_ranges(layout, S, least)
    for value in (*range(least, 32), *(least + value for value in values)):
        apart = is_injective(SymbolicLayout(layout.shape, layout.stride).at({S: value}))
        assert found.holds(value) == apart, value
        assert any(a <= value and (b is None or value <= b) for a, b in ranges) == (not apart), value


@each(
    ("shape", "stride", "text", "ranges"),
    [
        ((128, 8), (1, LD), "every ld from ld = 128 on", [(1, 127)]),
        ((64, 8192), (LD, 1), "every ld from ld = 8192 on", [(1, 8191)]),
        ((64, 1 << 40), (LD, 1), f"every ld from ld = {1 << 40} on", [(1, (1 << 40) - 1)]),
        ((32, 4), (LD, 0), "no ld", [(1, None)]),
        ((32, 4), (LD, LD), "no ld", [(1, None)]),
        ((1, 4), (LD, 1), "every ld", []),
        ((2, 2), (LD, 5), "every ld, but not ld = 5", [(5, 5)]),
        ((8, 4), (2 * LD + 3, 1), "every ld", []),
    ],
)
def test_known_sets(shape: Any, stride: Any, text: str, ranges: list[Any]) -> None:
    assert str(solve_distinct((shape, stride), LD)) == text
    assert shared_ranges((shape, stride), LD, 1) == ranges


@st.composite
def stored(draw: st.DrawFn) -> tuple[SymbolicLayout, list[str]]:
    """A tile with some strides in s, and some accesses to it, of which at least one stores."""
    shape = draw(st.sampled_from(((16, 4), (4, 16), (8, 8), (32, 2))))
    slope, pad = draw(st.sampled_from((1, 1, 2, 4))), draw(st.sampled_from((0, 0, 4, 8)))
    stride = draw(st.sampled_from(((1, slope * S + pad), (slope * S + pad, 1), (slope * S, 2 * S + 1))))
    other = ["ld.shared.b32@row", "ld.shared.b32@col", "st.shared.b32@col"]
    if 1 in stride:
        other.append("st.shared.b64@row")
    more = draw(st.lists(st.sampled_from(other), max_size=1))
    return SymbolicLayout(shape, stride), ["st.shared.b32@row", *more]


@pytest.mark.deep
@given(stored(), st.integers(0, 90))
def test_a_store_has_no_conflicts_and_no_two_elements_at_one_address(
    drawn: tuple[SymbolicLayout, list[str]], least: int
) -> None:
    """The solution of several accesses is what `analyze` and `is_injective` say at each value."""
    layout, specs = drawn
    accesses = [symbolic_access(spec, layout, "f32") for spec in specs]
    found: ResidueSet | None = None
    for access in accesses:
        one = solve_conflict_free(layout, access, S, least=least)
        assert isinstance(one, ResidueSet)
        found = one if found is None else found & one
    assert found is not None
    members = []
    values = range(least, least + 8)
    for value in values:
        tile = layout.at({S: value})
        assert isinstance(tile, Layout)
        if is_injective(tile) and all(_free(tile, access) for access in accesses):
            members.append(value)
    assert [value for value in values if found.holds(value)] == members
    assert not members or found.smallest == members[0]


def _free(tile: Layout, access: Access) -> bool:
    try:
        report = analyze(tile, access)
    except AlignmentError:
        return False
    assert isinstance(report, SharedReport)
    return report.conflict_free


STORE = Access("st.shared.b32", Layout((32, 1, 32), (1, 0, 32)), dtype("f32"))


def test_the_least_leading_dimension_of_a_store_is_named() -> None:
    found = solve_conflict_free(
        ((128, 8), (1, LD)), Access.of("st.shared.b32@row", Layout((128, 8)), "f32"), LD
    )
    assert isinstance(found, ResidueSet)
    assert (str(found), found.smallest) == ("ld mod 8 = 4 from ld = 132 on", 132)
    assert not any(found.holds(value) for value in (1, 4, 12, 124)) and found.holds(140)
    assert str(found.condition()) == "(ld >= 132) & Eq(Mod(ld, 8), 4)"


def test_distinct_addresses_are_asked_of_stores_and_of_others_where_wanted() -> None:
    row = Access("ld.shared.b32", STORE.tv, dtype("f32"))
    for what, default in ((STORE, True), (row, False)):
        found = [solve_conflict_free(((32, 32), (LD, 1)), what, LD, distinct=x) for x in (None, True, False)]
        assert all(isinstance(one, ResidueSet) for one in found)
        assert [one.smallest for one in found] == [33 if default else 1, 33, 1]  # type: ignore[union-attr]
        assert found[0] == found[1 if default else 2]
    wide = Access.of("st.global.b32@row", Layout((64, 64), (64, 1)), "f32")
    assert solve_sectors(((64, 64), (LD, 1)), wide, LD).smallest == 64  # type: ignore[union-attr]
    with pytest.raises(ArgumentTypeError, match="distinct 1 is a int"):
        solve_conflict_free(((32, 32), (LD, 1)), row, LD, distinct=1)  # type: ignore[arg-type]


def test_an_open_condition_of_a_store_asks_for_distinct_addresses() -> None:
    k = sympy.Symbol("k")
    found = solve_conflict_free(((32, 32), (LD * k, 1)), STORE, LD)
    assert isinstance(found, Condition) and "no two elements at one address (open: k" in str(found)
    assert found.holds({LD: 11, k: 3}) and not found.holds({LD: 1, k: 1}) and not found.holds({LD: 11, k: 4})
    assert "shared_addresses" in str(found.condition())
    never = solve_conflict_free(((32, 32), (LD, 0)), STORE, LD)
    assert isinstance(never, ResidueSet) and never.smallest is None


def test_which_instructions_store() -> None:
    names = {name for name, rule in find_arch("sm_90").instructions.items() if rule.stores}
    assert {"st.shared.b32", "st.global.b128", "stmatrix.x4", "cp.async.16"} <= names
    assert not any(name.startswith(("ld", "red")) or name.endswith(":global") for name in names)


def test_too_many_differences_and_bad_questions() -> None:
    many = ((1 << 20, 1 << 20, 8), (S, 3 * S + 1, 1))
    with pytest.raises(UndecidedError, match="for which s do elements of"):
        solve_distinct(many, S)
    with pytest.raises(UndecidedError, match="times s"):
        solve_distinct(((4, 4), (S**2, 1)), S)
    with pytest.raises(ArgumentTypeError, match="a sympy Symbol is needed"):
        solve_distinct(((4, 4), (S, 1)), "s")
    with pytest.raises(ShapeError, match="least is -1"):
        solve_distinct(((4, 4), (S, 1)), S, least=-1)
