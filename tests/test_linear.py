"""LinearLayout: named dimensions, composition, inversion, and the way to CuTe's layouts and back."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, DivisibilityError, NotLinearError, ShapeError
from layoutalg.layout import Layout, modes
from layoutalg.linear import (
    LinearLayout,
    compose,
    from_columns,
    from_layout,
    invert,
    invert_and_compose,
    to_layout,
    unpack,
)
from layoutalg.measure import rank, size
from layoutalg.strategies import composed_layouts, layouts
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle
from tests.brute import table

linear_layouts = st.one_of(layouts(power_of_two=True), composed_layouts(power_of_two=True))
bijections = st.permutations(range(4)).flatmap(
    lambda order: st.tuples(*(st.integers(0, (1 << i) - 1) for i in range(4))).map(
        lambda low: tuple(
            (1 << order[i]) ^ sum((low[i] >> j & 1) << order[j] for j in range(i)) for i in range(4)
        )
    )
)


@given(linear_layouts)
@example(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))))
@example(Layout(()))
def test_there_and_back(layout: AnyLayout) -> None:
    try:
        linear = from_layout(layout)
    except NotLinearError:
        return
    assert [linear(index=i)["offset"] for i in range(size(layout))] == table(layout)
    back = to_layout(linear)
    assert table(back) == table(layout)
    assert from_layout(back).columns == linear.columns


@given(linear_layouts)
def test_modes_get_names(layout: AnyLayout) -> None:
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    assert isinstance(inner, Layout)
    names = tuple(f"mode{i}" for i in range(rank(layout)))
    try:
        linear = from_layout(layout, names)
    except NotLinearError:
        return
    for crd in itertools.product(*(range(size(mode)) for mode in modes(inner))):
        assert linear(**dict(zip(names, crd, strict=True)))["offset"] == layout(*crd)


def test_a_thread_value_layout() -> None:
    tv = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    linear = from_layout(tv, ("lane", "register"))
    assert linear.in_bits == {"lane": 5, "register": 2} and linear.out_bits == {"offset": 7}
    assert str(linear) == (
        "lane=1     -> 32\nlane=2     -> 64\nlane=4     -> 1\nlane=8     -> 2\nlane=16    -> 4\n"
        "register=1 -> 16\nregister=2 -> 8\nouts: offset (7 bits)"
    )
    assert to_layout(linear) == Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    where = invert(linear)
    assert all(
        where(**linear(lane=t, register=v)) == {"lane": t, "register": v} for t in range(32) for v in range(4)
    )


@given(bijections, bijections)
def test_compose_and_invert(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    first = from_columns(a, {"lane": 3, "register": 1}, {"row": 4, "col": 4})
    second = from_columns(b, {"col": 2, "row": 2}, {"offset": 16})
    both = compose(second, first)
    for lane in range(8):
        for register in range(2):
            assert both(lane=lane, register=register) == second(**first(lane=lane, register=register))
    back = invert(both)
    assert compose(back, both).columns == (1, 2, 4, 8) == compose(both, back).columns
    assert dict(back.outs) == {"lane": 8, "register": 2}
    conversion = invert_and_compose(both, from_columns(a, {"thread": 4}, {"offset": 16}))
    assert [both(**conversion(thread=t))["offset"] for t in range(16)] == [
        from_columns(a, {"thread": 4}, {"offset": 16})(thread=t)["offset"] for t in range(16)
    ]


def test_out_dimensions_are_packed_first_lowest() -> None:
    linear = LinearLayout({"lane": [(1, 0), (0, 1)], "warp": [(0, 2)]}, {"row": 2, "col": 4})
    assert linear.columns == (1, 2, 4)
    assert linear(lane=3, warp=1) == {"row": 1, "col": 3} == unpack(7, linear.outs)
    assert linear(warp=1) == {"row": 0, "col": 2}


def test_it_is_a_value() -> None:
    linear = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    assert linear == LinearLayout([("lane", [(1,), (2,)])], [("offset", 4)]) == copy.deepcopy(linear)
    assert pickle.loads(pickle.dumps(linear)) == linear and hash(linear) == hash(copy.copy(linear))
    assert repr(linear) == "LinearLayout({'lane': ((1,), (2,))}, {'offset': 4})"
    assert linear != LinearLayout({"lane": [2, 1]}, {"offset": 4}) and linear != 3
    with pytest.raises(AttributeError, match="immutable"):
        linear.ins = ()
    assert str(LinearLayout({"block": []}, {"offset": 1})) == "block: size 1\nouts: offset (0 bits)"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LinearLayout({"lane": [1]}, {"offset": 6}), "size 6; a power of two is needed"),
        (lambda: LinearLayout({"lane": [4]}, {"offset": 4}), r"basis \(4,\) of 'lane' does not fit"),
        (lambda: LinearLayout({"lane": [(1, 1)]}, {"offset": 4}), "does not fit"),
        (lambda: LinearLayout([("a", [1]), ("a", [1])], {"offset": 4}), "repeat a name"),
        (lambda: LinearLayout({"lane": [1]}, {"offset": 4})(warp=1), "there is no in dimension 'warp'"),
        (lambda: LinearLayout({"lane": [1]}, {"offset": 4})(lane=2), r"lane=2 is outside \[0, 2\)"),
        (lambda: from_columns((1,), {"lane": 2}, {"offset": 4}), "fewer than the bits"),
        (lambda: from_columns((1, 2, 2), {"lane": 2}, {"offset": 4}), "more than the bits"),
        (lambda: from_columns((9,), {"lane": 1}, {"offset": 4}), "do not fit the out dimensions"),
        (lambda: invert(LinearLayout({"lane": [1, 1]}, {"offset": 4})), "1 of the out bits reached"),
        (lambda: from_layout(Layout((2, 2)), ("a", "b", "c")), "3 names for the 2 modes"),
        (
            lambda: compose(LinearLayout({"row": [1]}, {"x": 2}), LinearLayout({"lane": [1]}, {"offset": 4})),
            "inner has the out dimensions",
        ),
        (
            lambda: invert_and_compose(
                LinearLayout({"a": [1]}, {"x": 2}), LinearLayout({"a": [1]}, {"y": 2})
            ),
            "differ",
        ),
    ],
)
def test_what_does_not_fit(make: object, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        make()  # type: ignore[operator]


def test_numpy_integers_are_integers() -> None:
    bases: Any = {"lane": [numpy.int64(1), numpy.uint8(2)]}
    sizes: Any = {"offset": numpy.int32(4)}
    lane: Any = numpy.int64(3)
    linear = LinearLayout(bases, sizes)
    assert repr(linear) == "LinearLayout({'lane': ((1,), (2,))}, {'offset': 4})"
    assert linear(lane=lane) == {"offset": 3}


@pytest.mark.parametrize("bad", [True, 1.0, "1", (1.0,), None])
def test_bases_and_sizes_are_integers(bad: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="a basis of 'lane'"):
        LinearLayout({"lane": [bad]}, {"offset": 4})
    with pytest.raises(ArgumentTypeError, match="out dimension 'offset'"):
        LinearLayout({"lane": [1]}, {"offset": bad})
    with pytest.raises(ArgumentTypeError, match="lane"):
        LinearLayout({"lane": [1]}, {"offset": 2})(lane=bad)
    with pytest.raises(ArgumentTypeError, match="pairs with a name"):
        LinearLayout(bad, {"offset": 4})


def test_what_is_not_reached_or_not_linear() -> None:
    short = LinearLayout({"lane": [1]}, {"offset": 4})
    long = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    with pytest.raises(DivisibilityError, match=r"does not reach \{'offset': 2\}") as info:
        invert_and_compose(short, long)
    assert info.value.witness == 2
    for layout in (Layout(6), Layout(8, 3), ComposedLayout(Swizzle(1, 0, 1), 4, Layout(4))):
        with pytest.raises(NotLinearError):
            from_layout(layout)


@given(st.lists(st.integers(0, 63), max_size=7), st.integers(0, 7))
@example([1, 2, 3], 2)
@example([3, 3, 0, 5], 1)
def test_every_matrix_is_a_layout(columns: list[int], cut: int) -> None:
    """Dependent columns, too: swizzles over a layout over swizzles of the index."""
    cut = min(cut, len(columns))
    bits = {"lane": cut, "register": len(columns) - cut}
    linear = from_columns(columns, bits, {"offset": 64})
    layout = to_layout(linear)
    assert rank(layout) == 2
    for lane in range(1 << cut):
        for register in range(1 << len(columns) - cut):
            assert layout(lane, register) == linear(lane=lane, register=register)["offset"]
    assert from_layout(layout).columns == tuple(columns)
