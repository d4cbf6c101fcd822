"""Packed elements stay together: every unit of the destination is a unit of the source, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.f2 import LinearLayout
from layoutalg.registers import words
from layoutalg.registers.place_map import Packing, as_they_are, pack, permutes, place_map
from tests.draws.fragments import at, conversions
from tests.sweeps import each


def _check(places: LinearLayout, packing: Packing) -> None:
    """The orders are permutations, and through them the map of units is the map of places."""
    assert sorted(packing.before) == list(range(1 << places.out_bits["register"]))
    assert sorted(packing.after) == list(range(1 << places.in_bits["register"]))
    low = (1 << packing.bits) - 1
    for w in range(1 << places.in_bits["warp"]):
        for n in range(1 << places.in_bits["lane"]):
            for r in range(1 << places.in_bits["register"]):
                unit, lane, warp = at(packing.units, packing.after[r] >> packing.bits, n, w)
                register = packing.before[unit << packing.bits | packing.after[r] & low]
                # Another register may be named where the source holds the element twice; C is one choice.
                assert (register, lane, warp) == at(places, r, n, w)


@given(conversions(in_warp=True), st.integers(0, 3))
def test_units_carry_their_elements(pair: tuple[LinearLayout, LinearLayout], most: int) -> None:
    places = place_map(*pair)
    natural, packed = as_they_are(places, most), pack(places, most)
    _check(places, natural)
    _check(places, packed)
    assert natural.bits <= packed.bits <= most


@given(conversions(in_warp=True))
def test_what_could_stay_together_does(pair: tuple[LinearLayout, LinearLayout]) -> None:
    """One more pair exists exactly if some register move keeps lane and warp and is nobody else's."""
    places = place_map(*pair)
    bits = pack(places, 3).bits
    added = {0}
    for column in places.sublayout(["lane", "warp"], ["register"]).columns:
        added |= {x ^ column for x in added}
    images = [at(places, u, 0, 0) for u in range(1 << places.in_bits["register"])]
    stay = {register for register, lane, warp in images if (lane, warp) == (0, 0)}
    # |stay + added| / |added| counts the cosets that differ in what stays together.
    cosets = len({a ^ b for a in stay for b in added}) // len(added)
    assert 1 << bits == min(cosets, 8)


def test_words_hold_as_many_as_fit() -> None:
    assert words(range(6), 8) == [(0, 1, 2, 3), (4, 5)]
    assert words(range(3), 32) == words(range(3), 128) == [(0,), (1,), (2,)]


PAIRS, FOURS = [(0, 1), (2, 3)], [tuple(range(n, n + 4)) for n in (0, 4, 8, 12)]


@each(
    ("held", "wanted", "count"),
    [
        (PAIRS, [(0, 1), (2, 3)], 0),
        (PAIRS, [(2, 3), (2, 3)], 0),
        (PAIRS, [(1, 0)], 1),
        (PAIRS, [(0, 2)], 1),
        (PAIRS, [(0,), (2,)], 0),
        (PAIRS, [(1,), (3,)], 2),
        (PAIRS, [(0, 2), (1, 3)], 2),
        (FOURS, [(0, 4, 8, 12)], 3),
        (FOURS, [(0, 4, 1, 5)], 1),
        (FOURS, [(0, 4, 8, 1)], 2),
    ],
)
def test_permutes(held: list[tuple[int, ...]], wanted: list[tuple[int, ...]], count: int) -> None:
    assert permutes(wanted, held) == count
