"""Swizzles are bijections with a period; chains of them reduce and invert."""

from __future__ import annotations

import copy
import pickle
import random
from itertools import product as pairs_of
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import Layout
from layoutalg.strategies import composed_layouts, swizzles
from layoutalg.swizzle import (
    ComposedLayout,
    Swizzle,
    from_bit_pairs,
    reduce_swizzles,
    swizzle_inverse,
)

chains = st.lists(swizzles(), min_size=1, max_size=4).map(tuple)


def apply(chain: tuple[Swizzle, ...], x: int) -> int:
    for swizzle in reversed(chain):
        x = swizzle(x)
    return x


@given(swizzles(), st.integers(0, 1 << 20))
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


@given(chains, st.integers(0, 4095))
@example((Swizzle(3, 0, 1),), 0b1111)
@example((Swizzle(3, 0, -1),), 0b1111)
def test_inverse_and_reduction(chain: tuple[Swizzle, ...], x: int) -> None:
    assert apply(swizzle_inverse(chain), apply(chain, x)) == x
    assert apply(reduce_swizzles(chain), x) == apply(chain, x)
    assert reduce_swizzles(chain), "never empty"


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda p: p[0] != p[1]), max_size=8))
def test_bit_pairs_are_applied_first_to_last(pairs: list[tuple[int, int]]) -> None:
    chain = from_bit_pairs(pairs)
    for x in range(256):
        wanted = x
        for y, z in pairs:
            wanted ^= (wanted >> y & 1) << z
        assert apply(chain, x) == wanted
    assert len(chain) <= len(pairs)


@given(swizzles())
def test_bit_pairs_of_one_swizzle_give_it_back(swizzle: Swizzle) -> None:
    assert from_bit_pairs(swizzle.bit_pairs()) == ((swizzle,) if swizzle.bits else ())


def test_two_alike_vanish_and_two_of_one_shift_join() -> None:
    assert reduce_swizzles((Swizzle(3, 4, 3), Swizzle(3, 4, 3))) == (Swizzle(0, 0, 0),)
    assert reduce_swizzles((Swizzle(1, 4, 3), Swizzle(2, 5, 3))) == (Swizzle(3, 4, 3),)
    assert swizzle_inverse(Swizzle(3, 4, 3)) == (Swizzle(3, 4, 3),)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((3, 4, 0), "clears bits"),
        ((-1, 4, 3), "must not be negative"),
        ((3, -1, 3), "must not be negative"),
        ((40, 40, 3), "past bit 64"),
        ((0, 0, 1 << 40), "past bit 64"),
    ],
)
def test_what_is_no_swizzle(parts: tuple[int, int, int], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        Swizzle(*parts)


@pytest.mark.parametrize("parts", [(3.0, 4, 3), (True, 4, 3), ((3,), 4, 3), ("3", 4, 3)])
def test_parts_are_integers(parts: tuple[int, int, int]) -> None:
    with pytest.raises(ArgumentTypeError):
        Swizzle(*parts)


def test_values() -> None:
    swizzle = Swizzle(3, 4, 3)
    tile = ComposedLayout(swizzle, 2, Layout((8, 64), (64, 1)))
    for value in (swizzle, tile, ComposedLayout((swizzle, Swizzle(1, 0, 2)), 0, tile)):
        assert value == copy.deepcopy(value) == pickle.loads(pickle.dumps(value))
        assert hash(value) == hash(copy.copy(value))
        with pytest.raises(AttributeError, match="immutable"):
            value.bits = 3
    assert repr(tile) == "ComposedLayout(Swizzle(3, 4, 3), 2, Layout((8, 64), (64, 1)))"
    assert swizzle != Swizzle(3, 4, -3) and swizzle != (3, 4, 3)
    assert str(ComposedLayout((swizzle, Swizzle(1, 0, 2)), 0, Layout(4))) == "Sw<3,4,3> o Sw<1,0,2> o 0 o 4:1"
    assert ComposedLayout((swizzle,), 0, Layout(4)) == ComposedLayout(swizzle, 0, Layout(4))


@given(composed_layouts())
def test_a_composed_layout_is_what_it_says(layout: ComposedLayout) -> None:
    import numpy as np

    size = np.prod([1, *np.ravel([s for s, _ in _leaves(layout.inner)])])
    wanted = [apply(layout.swizzles, layout.offset + layout.inner(i)) for i in range(size)]
    assert [layout(i) for i in range(size)] == wanted
    assert layout(np.arange(size)).tolist() == wanted


def _leaves(layout: object) -> tuple[tuple[int, int], ...]:
    from layoutalg.layout import leaves

    assert isinstance(layout, Layout)
    return leaves(layout)


def test_bad_composed_layouts() -> None:
    good = Layout(4)
    for outer in ("Sw<3,4,3>", (), (good,), None):
        with pytest.raises(ArgumentTypeError, match="is not a Swizzle"):
            ComposedLayout(outer, 0, good)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="inner"):
        ComposedLayout(good, 0, Swizzle(1, 0, 1))  # type: ignore[arg-type]
    for offset in (-1, (1,)):
        with pytest.raises(ShapeError, match="offset"):
            ComposedLayout(good, offset, good)  # type: ignore[arg-type]


def test_a_symbol_has_no_bits() -> None:
    import sympy

    with pytest.raises(UnsupportedError, match=r"layoutalg\.analysis\.symbolic"):
        Swizzle(3, 4, 3)(sympy.Symbol("n"))


def test_every_small_swizzle_has_its_period_and_no_smaller() -> None:
    for bits, base, shift in pairs_of(range(1, 4), range(3), (-3, -2, -1, 1, 2, 3)):
        swizzle = Swizzle(bits, base, shift)
        half = swizzle.period // 2
        assert any(swizzle(x + half) != swizzle(x) + half for x in range(swizzle.period))


@given(swizzles(), swizzles(), swizzles())
def test_a_reduced_chain_has_the_same_effect(a: Swizzle, b: Swizzle, c: Swizzle) -> None:
    chain = reduce_swizzles((a, b, c))
    undone = reduce_swizzles((*chain, *swizzle_inverse(chain)))
    for x in (0, *(1 << i for i in range(16)), 0xBEEF):
        value, undo = c(x), x
        for swizzle in (b, a):
            value = swizzle(value)
        again = x
        for swizzle in reversed(chain):
            again = swizzle(again)
        for swizzle in reversed(undone):
            undo = swizzle(undo)
        assert again == value and undo == x


@given(swizzles())
def test_a_chain_that_is_one_swizzle_becomes_it(a: Swizzle) -> None:
    """Sw<B,M,S> twice is Sw<B-|S|,M,2S>, and nothing where the fields do not overlap."""
    twice = reduce_swizzles((a, a))
    assert len(twice) == 1
    left = max(0, a.bits - abs(a.shift))
    assert twice[0].bits == left and (not left or twice[0].shift == 2 * a.shift)


DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("dtype", DTYPES)
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


@given(swizzles(), st.integers(-(1 << 70), 1 << 70))
def test_a_bijection_on_all_integers(swizzle: Swizzle, x: int) -> None:
    assert swizzle(x + swizzle.period) == swizzle(x) + swizzle.period
    assert swizzle(apply(swizzle_inverse(swizzle), x)) == x
