"""LinearLayouts put together and taken apart: every operation against what defines it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg import f2
from layoutalg.errors import DivisibilityError, ShapeError
from layoutalg.linear import LinearLayout, compose, from_columns, invert
from layoutalg.linear_parts import (
    concat_ins,
    concat_outs,
    divide_left,
    divide_right,
    free_variable_masks,
    is_trivial_over,
    product,
    pseudoinvert,
    quotient,
    sublayout,
    transpose_ins,
    transpose_outs,
)

INS, OUTS = ("register", "lane", "warp"), ("row", "col")


@st.composite
def linears(draw: st.DrawFn, max_bits: int = 3, ins: Any = INS, outs: Any = OUTS) -> LinearLayout:
    """Any matrix over some in and out dimensions, ranks and zero columns included."""
    in_bits = {n: draw(st.integers(0, max_bits)) for n in ins if draw(st.booleans()) or n == ins[0]}
    out_bits = {n: draw(st.integers(0, max_bits)) for n in outs if draw(st.booleans()) or n == outs[0]}
    total = sum(out_bits.values())
    count = sum(in_bits.values())
    columns = draw(st.lists(st.integers(0, (1 << total) - 1), min_size=count, max_size=count))
    return from_columns(columns, in_bits, {n: 1 << b for n, b in out_bits.items()})


def coordinates(bits: dict[str, int]) -> list[dict[str, int]]:
    return [
        dict(zip(bits, digits, strict=True))
        for digits in itertools.product(*(range(1 << b) for b in bits.values()))
    ]


@given(linears(max_bits=2), linears(max_bits=2))
def test_a_product_acts_on_low_and_high_bits(a: LinearLayout, b: LinearLayout) -> None:
    both = product(a, b)
    low, outs = a.in_bits, dict(a.outs)
    for crd in coordinates(both.in_bits)[:64]:
        first = {n: x % (1 << low[n]) for n, x in crd.items() if n in low}
        second = {n: x >> low.get(n, 0) for n, x in crd.items() if n in b.in_bits}
        left, right = a(**first), b(**second)
        assert both(**crd) == {n: left.get(n, 0) + right.get(n, 0) * outs.get(n, 1) for n in both.out_bits}


@given(linears(max_bits=2), linears(max_bits=2))
def test_dividing_a_product_gives_the_factor(a: LinearLayout, b: LinearLayout) -> None:
    both = product(a, b)
    right, left = divide_left(both, a), divide_right(both, b)
    assert product(a, right) == both
    names = [n for n, _ in both.ins], [n for n, _ in both.outs]
    again = transpose_outs(transpose_ins(product(left, b), names[0]), names[1])
    assert again == both


@given(linears(max_bits=2), linears(max_bits=2))
def test_what_does_not_divide_is_refused_with_a_bit(a: LinearLayout, b: LinearLayout) -> None:
    """A divisor is one exactly when some layout of the right sizes is the other factor."""
    for divide, left in ((divide_left, True), (divide_right, False)):
        try:
            rest = divide(a, b)
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
            for x, (out, size) in zip(basis, a.outs, strict=True):
                inner = dict(b.outs).get(out, 1)
                low, high = (x % inner, x // inner) if left else (x // (size // inner), x % (size // inner))
                if 0 <= k < len(mine):
                    place = [n for n, _ in b.outs].index(out) if out in dict(b.outs) else None
                    if high or low != (0 if place is None else mine[k][place]):
                        return False
                elif low:
                    return False
    return True


@given(linears())
def test_the_pseudoinverse(layout: LinearLayout) -> None:
    back = pseudoinvert(layout)
    assert compose(compose(layout, back), layout) == layout
    masks = free_variable_masks(layout)
    for crd in coordinates(layout.in_bits)[:64]:
        reached = layout(**crd)
        found = back(**reached)
        assert layout(**found) == reached
        assert all(found[n] & masks[n] == 0 for n in found)
    columns = layout.columns
    if f2.rank(columns) == len(columns) == sum(layout.out_bits.values()):
        assert back == invert(layout)


@given(linears())
def test_free_bits_add_nothing(layout: LinearLayout) -> None:
    masks = free_variable_masks(layout)
    bits = [(n, j) for n, b in layout.in_bits.items() for j in range(b)]
    bound = [c for c, (n, j) in zip(layout.columns, bits, strict=True) if not masks[n] >> j & 1]
    assert f2.rank(bound) == len(bound) == f2.rank(layout.columns)


@given(linears())
def test_a_sublayout_is_a_block(layout: LinearLayout) -> None:
    ins, outs = [n for n, _ in layout.ins][:1], [n for n, _ in layout.outs][-1:]
    block = sublayout(layout, ins, outs)
    for x in range(1 << layout.in_bits[ins[0]]):
        assert block(**{ins[0]: x}) == {outs[0]: layout(**{ins[0]: x})[outs[0]]}


@given(linears(max_bits=2, outs=("register", "lane")), st.integers(0, 2))
def test_a_quotient_is_what_an_identity_was_put_beside(rest: LinearLayout, bits: int) -> None:
    block = LinearLayout({"block": [1 << j for j in range(bits)]}, {"block": 1 << bits})
    both = product(rest, block)
    assert is_trivial_over(both, ["block"]) and quotient(both, ["block"]) == rest
    names = [n for n in ("register", "lane") if n in rest.in_bits and n in rest.out_bits]
    zeros: dict[str, int] = dict.fromkeys(names, 0)
    by_table = all(
        rest(**crd)[n] == crd.get(n, 0) for crd in coordinates(rest.in_bits) for n in names
    ) and all(
        rest(**crd | zeros)[m] == rest(**crd)[m]
        for crd in coordinates(rest.in_bits)
        for m in rest.out_bits
        if m not in names
    )
    same = all(rest.in_bits[n] == rest.out_bits[n] for n in names)
    assert is_trivial_over(rest, names) == (by_table and same)


@given(linears())
def test_concatenating_takes_apart_again(layout: LinearLayout) -> None:
    ins, outs = [n for n, _ in layout.ins], [n for n, _ in layout.outs]
    parts = sublayout(layout, ins[:1], outs), sublayout(layout, ins[1:], outs)
    assert concat_ins(*parts) == layout
    halves = sublayout(layout, ins, outs[:1]), sublayout(layout, ins, outs[1:])
    assert concat_outs(*halves) == layout
    assert transpose_ins(transpose_ins(layout, ins[::-1]), ins) == layout
    assert transpose_outs(transpose_outs(layout, outs[::-1]), outs) == layout


def test_refusals_name_what_is_wrong() -> None:
    tile = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    with pytest.raises(DivisibilityError, match="in bit 0 differs") as info:
        divide_left(tile, LinearLayout({"lane": [0]}, {"offset": 2}))
    assert info.value.witness == 1
    with pytest.raises(DivisibilityError, match="none of that name"):
        divide_left(tile, LinearLayout({"warp": [1]}, {"offset": 2}))
    with pytest.raises(ShapeError, match="there is no out dimension 'lane'"):
        is_trivial_over(tile, ["lane"])
    with pytest.raises(ShapeError, match="is no order of the in dimensions"):
        transpose_ins(tile, ["warp"])
    with pytest.raises(ShapeError, match="differ"):
        concat_ins(tile, LinearLayout({"warp": [1]}, {"offset": 2}))
    with pytest.raises(ShapeError, match="differ"):
        concat_outs(tile, LinearLayout({"warp": [1]}, {"row": 2}))
    with pytest.raises(DivisibilityError, match="not the identity"):
        quotient(LinearLayout({"lane": [2, 1]}, {"lane": 4}), ["lane"])
