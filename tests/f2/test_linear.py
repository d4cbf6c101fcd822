"""LinearLayout: every operation against what defines it, and the way to CuTe's layouts and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import f2
from layoutalg.errors import ArgumentTypeError, DivisibilityError, NotLinearError, ShapeError
from layoutalg.f2 import LinearLayout, unpack
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, modes, rank, size
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.sweeps import each

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
        linear = LinearLayout.from_layout(layout)
    except NotLinearError:
        return
    assert [linear(index=i)["offset"] for i in range(size(layout))] == table(layout)
    back = linear.to_layout()
    assert table(back) == table(layout)
    assert LinearLayout.from_layout(back).columns == linear.columns


@given(linear_layouts)
def test_modes_get_names(layout: AnyLayout) -> None:
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    assert isinstance(inner, Layout)
    names = tuple(f"mode{i}" for i in range(rank(layout)))
    try:
        linear = LinearLayout.from_layout(layout, names)
    except NotLinearError:
        return
    for crd in itertools.product(*(range(size(mode)) for mode in modes(inner))):
        assert linear(**dict(zip(names, crd, strict=True)))["offset"] == layout(*crd)


def test_a_thread_value_layout() -> None:
    tv = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    linear = LinearLayout.from_layout(tv, ("lane", "register"))
    assert linear.in_bits == {"lane": 5, "register": 2} and linear.out_bits == {"offset": 7}
    assert str(linear) == (
        "lane=1     -> 32\nlane=2     -> 64\nlane=4     -> 1\nlane=8     -> 2\nlane=16    -> 4\n"
        "register=1 -> 16\nregister=2 -> 8\nouts: offset (size 128)"
    )
    assert linear.to_layout() == Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    where = linear.invert()
    assert all(
        where(**linear(lane=t, register=v)) == {"lane": t, "register": v} for t in range(32) for v in range(4)
    )


@given(bijections, bijections)
def test_compose_and_invert(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    first = LinearLayout.from_columns(a, {"lane": 3, "register": 1}, {"row": 4, "col": 4})
    second = LinearLayout.from_columns(b, {"col": 2, "row": 2}, {"offset": 16})
    both = first.compose(second)
    for lane in range(8):
        for register in range(2):
            assert both(lane=lane, register=register) == second(**first(lane=lane, register=register))
    back = both.invert()
    assert both.compose(back).columns == (1, 2, 4, 8) == back.compose(both).columns
    assert dict(back.outs) == {"lane": 8, "register": 2}
    threads = LinearLayout.from_columns(a, {"thread": 4}, {"offset": 16})
    conversion = threads.invert_and_compose(both)
    assert all(both(**conversion(thread=t)) == threads(thread=t) for t in range(16))


def test_out_dimensions_are_packed_first_lowest() -> None:
    linear = LinearLayout({"lane": [(1, 0), (0, 1)], "warp": [(0, 2)]}, {"row": 2, "col": 4})
    assert linear.columns == (1, 2, 4)
    assert linear(lane=3, warp=1) == {"row": 1, "col": 3} == unpack(7, linear.outs)
    assert linear(warp=1) == {"row": 0, "col": 2}


def test_bases_may_be_numbers_pairs_and_numpy_integers() -> None:
    linear = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    bases: Any = {"lane": [numpy.int64(1), numpy.uint8(2)]}
    sizes: Any = {"offset": numpy.int32(4)}
    lane: Any = numpy.int64(3)
    assert linear == LinearLayout([("lane", [(1,), (2,)])], [("offset", 4)]) == LinearLayout(bases, sizes)
    assert linear != LinearLayout({"lane": [2, 1]}, {"offset": 4}) and linear(lane=lane) == {"offset": 3}
    assert str(LinearLayout({"block": []}, {"offset": 1})) == "block: size 1\nouts: offset (size 1)"


@each(
    ("make", "words"),
    [
        (lambda: LinearLayout({"lane": [1]}, {"offset": 6}), "size 6; a power of two is needed"),
        (lambda: LinearLayout({"lane": [4]}, {"offset": 4}), r"basis \(4,\) of 'lane' does not fit"),
        (lambda: LinearLayout({"lane": [(1, 1)]}, {"offset": 4}), "does not fit"),
        (lambda: LinearLayout([("a", [1]), ("a", [1])], {"offset": 4}), "repeat a name"),
        (lambda: LinearLayout({"lane": [1]}, {"offset": 4})(warp=1), "there is no in dimension 'warp'"),
        (lambda: LinearLayout({"lane": [1]}, {"offset": 4})(lane=2), r"lane=2 is outside \[0, 2\)"),
        (lambda: LinearLayout.from_columns((1,), {"lane": 2}, {"offset": 4}), "fewer than the bits"),
        (lambda: LinearLayout.from_columns((1, 2, 2), {"lane": 2}, {"offset": 4}), "more than the bits"),
        (
            lambda: LinearLayout.from_columns((9,), {"lane": 1}, {"offset": 4}),
            "do not fit the out dimensions",
        ),
        (lambda: LinearLayout({"lane": [1, 1]}, {"offset": 4}).invert(), "1 of the out bits reached"),
        (lambda: LinearLayout.from_layout(Layout((2, 2)), ("a", "b", "c")), "3 names for the 2 modes"),
        (
            lambda: LinearLayout({"lane": [1]}, {"offset": 4}).compose(LinearLayout({"row": [1]}, {"x": 2})),
            "inner has the out dimensions",
        ),
        (
            lambda: LinearLayout({"a": [1]}, {"y": 2}).invert_and_compose(LinearLayout({"a": [1]}, {"x": 2})),
            "differ",
        ),
    ],
)
def test_what_does_not_fit(make: object, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        make()  # type: ignore[operator]


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
        long.invert_and_compose(short)
    assert info.value.witness == 2
    for layout in (Layout(6), Layout(8, 3), ComposedLayout(Swizzle(1, 0, 1), 4, Layout(4))):
        with pytest.raises(NotLinearError):
            LinearLayout.from_layout(layout)


@given(st.lists(st.integers(0, 63), max_size=7), st.integers(0, 7))
@example([1, 2, 3], 2)
@example([3, 3, 0, 5], 1)
def test_every_matrix_is_a_layout(columns: list[int], cut: int) -> None:
    """Dependent columns, too: swizzles over a layout over swizzles of the index."""
    cut = min(cut, len(columns))
    bits = {"lane": cut, "register": len(columns) - cut}
    linear = LinearLayout.from_columns(columns, bits, {"offset": 64})
    layout = linear.to_layout()
    assert rank(layout) == 2
    for lane in range(1 << cut):
        for register in range(1 << len(columns) - cut):
            assert layout(lane, register) == linear(lane=lane, register=register)["offset"]
    assert LinearLayout.from_layout(layout).columns == tuple(columns)


INS, OUTS = ("register", "lane", "warp"), ("row", "col")


@st.composite
def linears(draw: st.DrawFn, max_bits: int = 3, ins: Any = INS, outs: Any = OUTS) -> LinearLayout:
    """Any matrix over some in and out dimensions, ranks and zero columns included."""
    in_bits = {n: draw(st.integers(0, max_bits)) for n in ins if draw(st.booleans()) or n == ins[0]}
    out_bits = {n: draw(st.integers(0, max_bits)) for n in outs if draw(st.booleans()) or n == outs[0]}
    total = sum(out_bits.values())
    count = sum(in_bits.values())
    columns = draw(st.lists(st.integers(0, (1 << total) - 1), min_size=count, max_size=count))
    return LinearLayout.from_columns(columns, in_bits, {n: 1 << b for n, b in out_bits.items()})


def coordinates(bits: dict[str, int]) -> list[dict[str, int]]:
    return [
        dict(zip(bits, digits, strict=True))
        for digits in itertools.product(*(range(1 << b) for b in bits.values()))
    ]


@given(linears(max_bits=2), linears(max_bits=2))
def test_a_product_acts_on_low_and_high_bits(a: LinearLayout, b: LinearLayout) -> None:
    both = a * b
    low, outs = a.in_bits, dict(a.outs)
    for crd in coordinates(both.in_bits)[:64]:
        first = {n: x % (1 << low[n]) for n, x in crd.items() if n in low}
        second = {n: x >> low.get(n, 0) for n, x in crd.items() if n in b.in_bits}
        left, right = a(**first), b(**second)
        assert both(**crd) == {n: left.get(n, 0) + right.get(n, 0) * outs.get(n, 1) for n in both.out_bits}


@given(linears(max_bits=2), linears(max_bits=2))
def test_dividing_a_product_gives_the_factor(a: LinearLayout, b: LinearLayout) -> None:
    both = a * b
    right, left = both.divide_left(a), both.divide_right(b)
    assert a * right == both
    names = [n for n, _ in both.ins], [n for n, _ in both.outs]
    again = (left * b).transpose_ins(names[0]).transpose_outs(names[1])
    assert again == both


@given(linears(max_bits=2), linears(max_bits=2))
def test_what_does_not_divide_is_refused_with_a_bit(a: LinearLayout, b: LinearLayout) -> None:
    """A divisor is one exactly when some layout of the right sizes is the other factor."""
    for divide, left in ((a.divide_left, True), (a.divide_right, False)):
        try:
            rest = divide(b)
        except DivisibilityError:
            fits = all(b.in_bits[n] <= a.in_bits.get(n, -1) for n in b.in_bits)
            fits = fits and all(b.out_bits[n] <= a.out_bits.get(n, -1) for n in b.out_bits)
            assert not fits or not _blocks(a, b, left=left)
        else:
            assert _blocks(a, b, left=left)
            assert {n: rest.in_bits[n] + b.in_bits.get(n, 0) for n in rest.in_bits} == a.in_bits


def _blocks(a: LinearLayout, b: LinearLayout, *, left: bool) -> bool:
    """Each basis of `a` lies in its own block, and those of `b`'s bits are `b`'s."""
    for name, bases in a.ins:
        mine = dict(b.ins).get(name, ())
        for j, basis in enumerate(bases):
            k = j if left else j - (len(bases) - len(mine))
            for x, (out, extent) in zip(basis, a.outs, strict=True):
                inner = dict(b.outs).get(out, 1)
                outer = extent // inner
                low, high = (x % inner, x // inner) if left else (x // outer, x % outer)
                if 0 <= k < len(mine):
                    place = [n for n, _ in b.outs].index(out) if out in dict(b.outs) else None
                    if high or low != (0 if place is None else mine[k][place]):
                        return False
                elif low:
                    return False
    return True


@given(linears())
def test_the_pseudoinverse(layout: LinearLayout) -> None:
    back = layout.pseudoinvert()
    assert layout.compose(back).compose(layout) == layout
    masks = layout.free_variable_masks()
    for crd in coordinates(layout.in_bits)[:64]:
        reached = layout(**crd)
        found = back(**reached)
        assert layout(**found) == reached
        assert all(found[n] & masks[n] == 0 for n in found)
    columns = layout.columns
    if f2.rank(columns) == len(columns) == sum(layout.out_bits.values()):
        assert back == layout.invert()


@given(linears())
def test_free_bits_add_nothing(layout: LinearLayout) -> None:
    masks = layout.free_variable_masks()
    bits = [(n, j) for n, b in layout.in_bits.items() for j in range(b)]
    bound = [c for c, (n, j) in zip(layout.columns, bits, strict=True) if not masks[n] >> j & 1]
    assert f2.rank(bound) == len(bound) == f2.rank(layout.columns)


@given(linears())
def test_a_sublayout_is_a_block(layout: LinearLayout) -> None:
    ins, outs = [n for n, _ in layout.ins][:1], [n for n, _ in layout.outs][-1:]
    block = layout.sublayout(ins, outs)
    for x in range(1 << layout.in_bits[ins[0]]):
        assert block(**{ins[0]: x}) == {outs[0]: layout(**{ins[0]: x})[outs[0]]}


@given(linears())
def test_concatenating_takes_apart_again(layout: LinearLayout) -> None:
    ins, outs = [n for n, _ in layout.ins], [n for n, _ in layout.outs]
    parts = layout.sublayout(ins[:1], outs), layout.sublayout(ins[1:], outs)
    assert parts[0].concat_ins(parts[1]) == layout
    halves = layout.sublayout(ins, outs[:1]), layout.sublayout(ins, outs[1:])
    assert halves[0].concat_outs(halves[1]) == layout
    assert layout.transpose_ins(ins[::-1]).transpose_ins(ins) == layout
    assert layout.transpose_outs(outs[::-1]).transpose_outs(outs) == layout


def test_a_factor_that_is_none_is_refused_with_a_bit() -> None:
    tile = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    with pytest.raises(DivisibilityError, match="in bit 0 differs") as info:
        tile.divide_left(LinearLayout({"lane": [0]}, {"offset": 2}))
    assert info.value.witness == 1
    with pytest.raises(DivisibilityError, match="none of that name"):
        tile.divide_left(LinearLayout({"warp": [1]}, {"offset": 2}))


@given(linears(max_bits=2))
def test_what_is_reached_and_how_often(layout: LinearLayout) -> None:
    images = [tuple(layout(**crd).values()) for crd in coordinates(layout.in_bits)]
    assert layout.is_injective() == (len(set(images)) == len(images))
    assert layout.is_surjective() == (len(set(images)) == len(coordinates(layout.out_bits)))
    assert layout.is_invertible() == (layout.is_injective() and layout.is_surjective())


@given(linears(max_bits=2))
def test_flattened_and_reshaped_dimensions_are_packed_first_lowest(layout: LinearLayout) -> None:
    flat = layout.reshape_ins({"index": sum(layout.in_bits.values())}).flatten_outs()
    assert flat.columns == layout.columns
    for i, crd in enumerate(coordinates(dict(reversed(layout.in_bits.items())))):
        assert unpack(flat(index=i)["offset"], layout.outs) == layout(**crd)
    assert flat.reshape_ins(layout.in_bits).reshape_outs(layout.outs) == layout


@given(linears(max_bits=2))
def test_columns_of_a_dimension_are_those_of_its_bits(layout: LinearLayout) -> None:
    flat = layout.flatten_outs()
    for name, bits in layout.in_bits.items():
        assert layout.columns_of(name) == tuple(flat(**{name: 1 << j})["offset"] for j in range(bits))
    names = list(layout.in_bits)
    assert layout.columns_of(*names) == layout.columns == layout.transpose_ins(names[::-1]).columns_of(*names)
    for ins in (names[:1], names):
        for out in layout.out_bits:
            zero = not any(layout(**crd)[out] for crd in coordinates({n: layout.in_bits[n] for n in ins}))
            assert layout.sublayout_is_zero(ins, [out]) == zero


def test_an_identity_is_the_neutral_factor() -> None:
    tile = LinearLayout({"lane": [2, 1]}, {"offset": 4})
    assert LinearLayout.identity(2, "offset") == tile.invert().compose(tile)
    assert LinearLayout.identity(0, "lane", "offset") * tile == tile
    assert LinearLayout.identity(1, "lane") * LinearLayout.identity(2, "lane") == LinearLayout.identity(
        3, "lane"
    )
    with pytest.raises(TypeError):
        tile * 2  # type: ignore[operator]


@each(
    ("make", "words"),
    [
        (lambda tile: tile.sublayout(["lane"], ["lane"]), "no out dimension 'lane'"),
        (lambda tile: tile.transpose_ins(["warp"]), "is not an order"),
        (lambda tile: tile.concat_ins(LinearLayout({"warp": [1]}, {"offset": 2})), "differ"),
        (lambda tile: tile.concat_outs(LinearLayout({"warp": [1]}, {"row": 2})), "differ"),
        (lambda tile: tile.columns_of("warp"), "there is no in dimension 'warp'; there are lane"),
        (lambda tile: tile.reshape_ins({"lane": 1}), "more than the bits"),
        (lambda tile: tile.reshape_outs({"row": 2}), "are not as large as"),
        (
            lambda tile: LinearLayout.from_columns((1,), {"lane": 1}, {"offset": 0}),
            "a power of two is needed",
        ),
        (lambda tile: LinearLayout.from_columns((-1,), {"lane": 1}, {"offset": 2}), "do not fit"),
        (lambda tile: LinearLayout.from_columns((1,), [("a", 1), ("a", 0)], {"offset": 2}), "repeat a name"),
        (lambda tile: LinearLayout.identity(-1, "lane"), "an identity of -1 bits"),
        (lambda tile: tile.concat_ins(tile), "repeat a name"),
        (lambda tile: tile.concat_outs(tile), "repeat a name"),
    ],
)
def test_dimensions_that_do_not_fit(make: Callable[[LinearLayout], object], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        make(LinearLayout({"lane": [1, 2]}, {"offset": 4}))
