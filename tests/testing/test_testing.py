"""The public checks: they pass where the property holds, fail where it does not, and say so in little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import errors, testing
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.notation import parse_cute as parse
from layoutalg.testing import (
    check_bijective,
    check_family,
    check_index_function,
    check_same_function,
    strategies,
)
from layoutalg.testing.strategies import composed_layouts, layouts
from tests.sweeps import each

ROOT = Path(__file__).parents[2]


def holds(check: Any, *args: Any, **options: Any) -> bool:
    try:
        check(*args, **options)
    except errors.MismatchError:
        return False
    return True


def offsets(layout: AnyLayout) -> list[int]:
    return [layout(i) for i in range(size(layout))]


def layout_of(text: str) -> AnyLayout:
    layout = parse(text)
    assert not isinstance(layout, Swizzle)
    return layout


any_layouts: st.SearchStrategy[AnyLayout] = st.one_of(
    layouts(max_size=64, negative=True), composed_layouts(max_size=64)
)


# --- bijective ------------------------------------------------------------------------------------------


@given(any_layouts)
@example(Layout(1, 5))
@example(Layout((4, 4), (1, 2)))
def test_bijective_is_its_definition(layout: AnyLayout) -> None:
    assert holds(check_bijective, layout) == (sorted(offsets(layout)) == list(range(size(layout))))


@pytest.mark.parametrize(
    ("text", "message", "index"),
    [
        (
            "(4,4):(1,2)",
            "(4,4):(1,2) is not injective: 2 = (2,0) and 4 = (0,1) share the offset 2; "
            "the smallest part that fails is (3,2):(1,2)",
            (2, 4),
        ),
        (
            "((8,4),16):((8,1),0)",
            "((8,4),16):((8,1),0) is not injective: 0 = ((0,0),0) and 32 = ((0,0),1) share the offset 0; "
            "the smallest part that fails is 2:0",
            (0, 32),
        ),
        (
            "(4,8):(16,2)",
            "(4,8):(16,2) does not fill [0,32): it never takes the offset 1; "
            "the smallest part that fails is 2:2",
            1,
        ),
        (
            "8:-1",
            "8:-1 does not fill [0,8): it never takes the offset 1; the smallest part that fails is 2:-1",
            1,
        ),
    ],
)
def test_what_is_not_bijective_is_shown_small(text: str, message: str, index: object) -> None:
    with pytest.raises(errors.MismatchError) as caught:
        check_bijective(layout_of(text))
    assert (str(caught.value), caught.value.index) == (message, index)


def test_large_layouts_are_decided_in_closed_form() -> None:
    n = 1 << 40
    check_bijective(Layout((n, n), (n, 1)))
    check_bijective(ComposedLayout(Swizzle(3, 4, 3), 0, Layout((n, n), (n, 1))))
    for wrong in (Layout((n, n), (n, 2)), Layout((n, n), (n + 1, 1)), Layout(n, -1)):
        with pytest.raises(errors.MismatchError, match=r"is not one-to-one onto \[0,"):
            check_bijective(wrong)
    check_same_function(Layout((n, n)), Layout(n * n))
    with pytest.raises(errors.MismatchError) as caught:
        check_same_function(Layout((n, n)), Layout((n, n), (1, n + 1)))
    assert caught.value.index == n


# --- the same function ----------------------------------------------------------------------------------


@given(any_layouts, any_layouts)
@example(Layout((4, 2), (1, 4)), Layout(8))
def test_same_function_is_its_definition(a: AnyLayout, b: AnyLayout) -> None:
    check_same_function(a, a)
    assert holds(check_same_function, a, b) == (offsets(a) == offsets(b))


def test_functions_that_differ_are_shown_where_they_differ_least() -> None:
    a, b = Layout((64, 64), (64, 1)), Layout((64, 64), (65, 1))
    with pytest.raises(errors.MismatchError) as caught:
        check_same_function(a, b)
    assert caught.value.index == 1
    assert str(caught.value) == (
        "(64,64):(64,1) and (64,64):(65,1) differ at 1 = (1,0): 64 and 65; "
        "the smallest parts that differ are 2:64 and 2:65"
    )


# --- index code -----------------------------------------------------------------------------------------

SWIZZLED = ComposedLayout(Swizzle(3, 0, 6), 0, Layout((64, 64), (64, 1)))


def test_wrong_index_code_is_shown_at_the_smallest_part() -> None:
    """Wrong for every row past 8, in every column: the part is the ninth row's, not the whole tile."""
    with pytest.raises(errors.MismatchError) as caught:
        check_index_function("int g(int i, int j) { return 64 * i + (j ^ i & 15); }", SWIZZLED, "g")
    assert caught.value.index == 8
    assert str(caught.value) == (
        "g is not Sw<3,0,6> o 0 o (64,64):(64,1): at 8 = (8,0) it returns 520 instead of 512; "
        "the smallest part that fails is Sw<3,0,6> o 0 o 9:64"
    )


def test_one_wrong_point_in_a_large_domain_is_found() -> None:
    """The whole domain, in chunks: a sample would miss it."""
    n = 3 << 20
    with pytest.raises(errors.MismatchError) as caught:
        check_index_function(f"int f(int i) {{ return i == {n - 7} ? 0 : i; }}", Layout(n))
    assert caught.value.index == n - 7


def test_64_bit_offsets_are_compared_as_such() -> None:
    wide = Layout((1024, 8), (1 << 22, 1 << 33))
    check_index_function("long long f(int i, int j) { return (1LL << 22) * i + (1LL << 33) * j; }", wide)
    with pytest.raises(errors.MismatchError, match=r"at 1024 = \(0,1\) it returns 0 instead of 8589934592"):
        check_index_function("int f(int i, int j) { return (1u << 22) * i + (1LL << 33) * j; }", wide)


def test_offsets_past_63_bits_are_refused() -> None:
    with pytest.raises(errors.UnsupportedError, match="past 63 bits"):
        check_same_function(Layout(4, 1 << 62), Layout(4, 1 << 62))
    with pytest.raises(errors.UnsupportedError, match="past 63 bits"):
        check_bijective(ComposedLayout(Layout((2, 2), (0, 1 << 40)), 0, Layout(2, 1 << 30)))


# --- families -------------------------------------------------------------------------------------------


def test_a_family_is_reported_at_its_smallest_member() -> None:
    def small(layout: Layout) -> None:
        if layout(size(layout) - 1) > 10:
            raise errors.MismatchError(f"{layout} reaches too far")

    with pytest.raises(errors.MismatchError, match=r"^fails for (.*): \1 reaches too far$") as caught:
        check_family(layouts(), small)
    member = caught.value.index
    assert isinstance(member, Layout)
    assert size(member) <= 4
    assert 10 < member(size(member) - 1) < 20


def test_other_errors_of_a_check_are_passed_on() -> None:
    def refuse(layout: Layout) -> None:
        raise errors.DivisibilityError(f"{layout} does not divide")

    with pytest.raises(errors.DivisibilityError, match="does not divide"):
        check_family(layouts(), refuse)


# --- the module -----------------------------------------------------------------------------------------


@each("name", testing._STRATEGIES)
def test_the_strategies_are_here(name: str) -> None:
    assert getattr(testing, name) is getattr(strategies, name)
    assert name in testing.__all__


def test_the_checks_need_no_hypothesis_and_the_strategies_say_what_they_need() -> None:
    code = """
import sys
sys.modules["hypothesis"] = None
from layoutalg import testing
from layoutalg.errors import UnsupportedError
from layoutalg.layout import Layout
testing.check_bijective(Layout((4, 8), (8, 1)))
try:
    testing.layouts
except UnsupportedError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "layoutalg.testing.layouts needs hypothesis: pip install 'layoutalg[testing]'\n"
