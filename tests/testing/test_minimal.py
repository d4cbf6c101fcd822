"""Shrinking: what is left still fails, and nothing simpler does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.layout import AnyLayout, Layout, Swizzle, size
from layoutalg.notation import parse_cute as parse
from layoutalg.testing.minimal import part_up_to, shrink, shrink_lanes
from layoutalg.testing.strategies import composed_layouts, layouts
from tests.sweeps import each

any_layouts: st.SearchStrategy[AnyLayout] = st.one_of(
    layouts(max_size=64, negative=True), composed_layouts(max_size=64)
)


def layout_of(text: str) -> AnyLayout:
    layout = parse(text)
    assert not isinstance(layout, Swizzle)
    return layout


def offsets(layout: AnyLayout) -> list[int]:
    return [layout(i) for i in range(size(layout))]


@given(any_layouts, st.integers(0, 40))
def test_what_is_left_still_fails_and_no_step_further_does(layout: AnyLayout, value: int) -> None:
    def takes(part: AnyLayout) -> bool:
        return value in offsets(part)

    part = shrink(layout, takes)
    assert takes(part) == takes(layout)
    if takes(part):
        assert size(part) <= size(layout)
        assert shrink(part, takes) == part
    else:
        assert part == layout


def test_a_swizzle_that_plays_no_part_goes() -> None:
    layout = layout_of("Sw<3,4,3> o 64 o (8,64):(64,1)")
    assert str(shrink(layout, lambda part: size(part) > 10)) == "11:1"
    assert str(shrink(layout, lambda part: part(1) == 128 + 16)) == "Sw<1,4,3> o 64 o 2:64"


@each("n", [2, 3, 31, 32, 33, 64, 69])
def test_an_extent_is_cut_to_the_least_that_fails(n: int) -> None:
    assert shrink(Layout(70, 5), lambda part: size(part) >= n) == Layout(n, 5)


@given(any_layouts, st.data())
def test_a_part_ends_at_its_index(layout: AnyLayout, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size(layout) - 1))
    part = part_up_to(layout, index)
    assert part(size(part) - 1) == layout(index)
    assert set(offsets(part)) <= set(offsets(layout))


@given(st.lists(st.none() | st.integers(0, 9), max_size=32), st.integers(0, 30))
def test_the_lanes_that_are_left_are_all_needed(lanes: list[int | None], total: int) -> None:
    def fails(some: object) -> bool:
        assert isinstance(some, list)
        return sum(x or 0 for x in some) >= total

    if fails(lanes):
        left = shrink_lanes(lanes, fails)
        assert fails(left)
        for lane, value in enumerate(left):
            assert value in (None, lanes[lane])
            assert value is None or not fails([*left[:lane], None, *left[lane + 1 :]])
