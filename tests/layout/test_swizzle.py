"""Swizzles are bijections with a period; chains of them reduce and invert."""

from __future__ import annotations

import random
from itertools import product as pairs_of
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Var, evaluate
from layoutalg.compose import composition
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, Swizzles, size, swizzle_inverse
from layoutalg.notation import parse
from layoutalg.testing import composed_layouts, swizzles
from tests.sweeps import each

chains = st.lists(swizzles(), max_size=4).map(lambda chain: Swizzles(*chain))


def apply(chain: Swizzles, x: int) -> int:
    """The definition of a chain."""
    for swizzle in chain.factors[::-1]:
        x = swizzle(x)
    return x


@given(swizzles(), st.integers(-(1 << 70), 1 << 70))
def test_bits_below_the_period_only(swizzle: Swizzle, x: int) -> None:
    assert swizzle(x + swizzle.period) == swizzle(x) + swizzle.period
    assert swizzle(x) ^ x == (swizzle(x) ^ x) & swizzle.zzz_mask
    assert swizzle(x & ~swizzle.yyy_mask) == x & ~swizzle.yyy_mask


@given(swizzles())
@example(Swizzle(3, 0, 2))
@example(Swizzle(0, 4, 0))
def test_a_bijection_and_an_involution_when_it_says_so(swizzle: Swizzle) -> None:
    image = [swizzle(x) for x in range(swizzle.period)]
    assert sorted(image) == list(range(swizzle.period))
    assert swizzle.is_involution == all(swizzle(y) == x for x, y in enumerate(image))


@given(chains, st.integers(-(1 << 70), 1 << 70))
@example(Swizzles(Swizzle(3, 0, 1)), 0b1111)
@example(Swizzles(Swizzle(3, 0, -1)), 0b1111)
@example(Swizzles(), 5)
def test_inverse_and_reduction(chain: Swizzles, x: int) -> None:
    assert chain(x) == apply(chain, x)
    assert apply(chain.inverse(), apply(chain, x)) == x
    assert chain.inverse() == swizzle_inverse(chain) == swizzle_inverse(chain.factors)
    assert apply(chain.reduced(), x) == apply(chain, x)
    assert all(factor.bits for factor in chain.reduced())
    assert Swizzles(chain, chain.inverse()).reduced()(x) == x


@given(chains, st.lists(st.integers(-4096, 4096), min_size=1, max_size=20))
def test_a_chain_is_a_function_of_arrays_and_expressions_too(chain: Swizzles, offsets: list[int]) -> None:
    wanted = [apply(chain, x) for x in offsets]
    assert chain(np.array(offsets)).tolist() == wanted
    lane = Var("lane", 4096)
    moved = chain(lane)
    for x, y in zip(offsets, wanted, strict=True):
        assert chain(x + chain.period) == y + chain.period
        assert abs(y) <= chain.most_offset(4096, signed=True)
        index = min(abs(x), 4095)
        assert evaluate(moved, {lane: index}) == apply(chain, index) <= chain.most_offset(4095)
    assert Swizzles.from_bit_pairs(chain.bit_pairs())(offsets[0]) == wanted[0]


def test_a_chain_is_a_sequence_and_a_value() -> None:
    a, b, c = Swizzle(1, 0, 2), Swizzle(2, 2, 2), Swizzle(0, 0, 0)
    chain = Swizzles(a, Swizzles(b, c))
    assert list(chain) == [a, b, c] == [chain[0], chain[1], chain[-1]] and len(chain) == 3
    assert chain[1:] == Swizzles(b, c) and list(reversed(chain)) == [c, b, a] and b in chain
    assert bool(Swizzles(c)) and not Swizzles() and Swizzles().period == 1
    assert str(chain) == "Sw<1,0,2> o Sw<2,2,2> o Sw<0,0,0>" and str(Swizzles()) == "Sw<0,0,0>"
    assert repr(chain[:2]) == "Swizzles(Swizzle(1, 0, 2), Swizzle(2, 2, 2))"
    assert repr(Swizzles()) == "Swizzles()"
    assert chain == Swizzles(a, b, c) != Swizzles(b, a, c)
    others: list[object] = [(a, b, c), Swizzles(a, b)]
    assert chain not in others and Swizzles(a) not in [a]
    for parts in ((a, 3), ((a, b),), ("Sw<1,0,2>",)):
        with pytest.raises(ArgumentTypeError, match="a swizzle is needed"):
            Swizzles(*parts)
    with pytest.raises(ArgumentTypeError, match=r"swizzle_inverse of 3: a swizzle is needed"):
        swizzle_inverse((a, 3))  # type: ignore[arg-type]


def test_what_is_composed_with_a_chain() -> None:
    """A tuple of swizzles is taken for the chain it spells; a chain of one factor is that swizzle."""
    a, b, plain = Swizzle(1, 0, 2), Swizzle(2, 2, 3), Layout((4, 8), (8, 1))
    whole = ComposedLayout(Swizzles(a, b), 3, plain)
    assert whole == ComposedLayout((a, b), 3, plain) and whole.outer == whole.swizzles == Swizzles(a, b)
    assert parse(str(whole)) == whole and repr(whole).startswith("ComposedLayout(Swizzles(Swizzle(1, 0, 2), ")
    one: Any
    for one in (a, (a,), Swizzles(a)):
        made = ComposedLayout(one, 0, plain)
        assert made.outer == a and made.swizzles == Swizzles(a)
    assert ComposedLayout(Swizzles(), 2, plain).outer == Swizzle(0, 0, 0)
    assert ComposedLayout(plain, 0, plain).swizzles == Swizzles()
    assert composition(a, b) == composition((a,), Swizzles(b)) == Swizzles(a, b)
    assert composition(a, a) == Swizzle(0, 0, 0)
    assert (
        composition((a, b), plain) == composition(Swizzles(a, b), plain) == ComposedLayout((a, b), 0, plain)
    )
    assert composition(plain, (a, b)) == composition(plain, Swizzles(a, b))


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda p: p[0] != p[1]), max_size=8))
def test_bit_pairs_are_applied_first_to_last(pairs: list[tuple[int, int]]) -> None:
    chain = Swizzles.from_bit_pairs(pairs)
    for x in range(256):
        wanted = x
        for y, z in pairs:
            wanted ^= (wanted >> y & 1) << z
        assert apply(chain, x) == wanted
    assert len(chain) <= len(pairs)


@given(swizzles())
def test_bit_pairs_of_one_swizzle_give_it_back(swizzle: Swizzle) -> None:
    assert Swizzles.from_bit_pairs(swizzle.bit_pairs()) == Swizzles(*[swizzle] if swizzle.bits else [])


@each(
    ("parts", "error", "word"),
    [
        ((3, 4, 0), ShapeError, "clears bits"),
        ((-1, 4, 3), ShapeError, "negative"),
        ((3, -1, 3), ShapeError, "negative"),
        ((40, 40, 3), ShapeError, "past bit 64"),
        ((0, 0, 1 << 40), ShapeError, "past bit 64"),
        *(
            (parts, ArgumentTypeError, "swizzle (bits|3)")
            for parts in ((3.0, 4, 3), (True, 4, 3), ((3,), 4, 3), ("3", 4, 3))
        ),
    ],
)
def test_what_is_no_swizzle(parts: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        Swizzle(*parts)


@given(composed_layouts())
def test_a_composed_layout_is_what_it_says(layout: ComposedLayout) -> None:
    wanted = [apply(layout.swizzles, layout.offset + layout.inner(i)) for i in range(size(layout))]
    assert [layout(i) for i in range(size(layout))] == wanted
    assert layout(np.arange(size(layout))).tolist() == wanted


@each(
    ("parts", "error", "word"),
    [
        *(
            ((outer, 0, Layout(4)), ArgumentTypeError, "outer")
            for outer in ("Sw<3,4,3>", (), (Layout(4),), None)
        ),
        ((Layout(4), 0, Swizzle(1, 0, 1)), ArgumentTypeError, "inner"),
        *(((Layout(4), offset, Layout(4)), ShapeError, "offset") for offset in (-1, (1,))),
    ],
)
def test_bad_composed_layouts(parts: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word):
        ComposedLayout(*parts)


def test_a_symbol_has_no_bits() -> None:
    import sympy

    with pytest.raises(UnsupportedError, match=r"layoutalg\.symbolic"):
        Swizzle(3, 4, 3)(sympy.Symbol("n"))


def test_every_small_swizzle_has_its_period_and_no_smaller() -> None:
    for bits, base, shift in pairs_of(range(1, 4), range(3), (-3, -2, -1, 1, 2, 3)):
        swizzle = Swizzle(bits, base, shift)
        half = swizzle.period // 2
        assert any(swizzle(x + half) != swizzle(x) + half for x in range(swizzle.period))


@given(swizzles())
def test_a_chain_that_is_one_swizzle_becomes_it(a: Swizzle) -> None:
    """Sw<B,M,S> twice is Sw<B-|S|,M,2S>, and nothing where the fields do not overlap."""
    twice = Swizzles(a, a).reduced()
    left = max(0, a.bits - abs(a.shift))
    assert len(twice) == (left > 0)
    assert not left or (twice[0].bits == left and twice[0].shift == 2 * a.shift)


DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@each("dtype", DTYPES)
def test_arrays_of_any_integers_are_swizzled_as_integers_are(dtype: Any) -> None:
    """Negative ones too, in two's complement; what int64 does not hold is refused."""
    rng, limits, refused = random.Random(7), np.iinfo(dtype), 0
    for _ in range(300):
        bits, shift = rng.randrange(7), rng.choice([-1, 1]) * rng.randrange(1, 41)
        swizzle = Swizzle(bits, rng.randrange(65 - bits - abs(shift)), shift)
        low, high = (int(limits.min), int(limits.max)) if rng.random() < 0.5 else (-100, 100)
        offsets = [rng.randint(max(low, int(limits.min)), min(high, int(limits.max))) for _ in range(4)]
        wanted = [swizzle(x) for x in offsets]
        mask, out = swizzle.yyy_mask, []
        for x in offsets:
            moved = (x & mask) >> shift if shift > 0 else (x & mask) << -shift
            out.append(x ^ moved)
        assert out == wanted
        try:
            got = swizzle(np.array(offsets, dtype))
        except ShapeError:
            refused += 1
            assert any(not -(1 << 63) <= y < 1 << 63 for y in wanted)
        else:
            assert got.tolist() == wanted and swizzle(np.array(offsets, dtype)[:1][0]) == wanted[0]
    assert refused < 30
