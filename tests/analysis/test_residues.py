"""Convolution counts what a walk over all digits counts."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import Residues
from layoutalg.analysis.classes.residues import ResidueDigit, ResidueFamily


@st.composite
def families(draw: st.DrawFn) -> ResidueFamily:
    digits = []
    place = 1
    for _ in range(draw(st.integers(0, 3))):
        extent = draw(st.integers(1, 12))
        kind = draw(st.integers(0, 2))
        moves = (place * (kind == 0), place * (kind == 1), place * (kind == 2))
        digits.append(ResidueDigit(draw(st.integers(0, 2)), extent, draw(st.integers(-9, 9)), moves))
        place *= extent + 2
    return ResidueFamily(draw(st.integers(-9, 9)), (draw(st.integers(-7, 7)), 0, 0), tuple(digits))


def members(family: ResidueFamily) -> list[tuple[int, tuple[int, int, int]]]:
    """(offset, place) of every choice of digits."""
    out = []
    for values in itertools.product(*(range(d.first, d.first + d.extent) for d in family.digits)):
        offset, place = family.offset, list(family.place)
        for value, digit in zip(values, family.digits, strict=True):
            offset += value * digit.stride
            place = [p + value * m for p, m in zip(place, digit.moves, strict=True)]
        out.append((offset, (place[0], place[1], place[2])))
    return out


@given(families(), st.sampled_from((1, 2, 8, 16)), st.sampled_from((1, 4, 8)))
def test_starts_and_members(family: ResidueFamily, modulus: int, lanes: int) -> None:
    table = Residues(modulus, lanes)
    expected = [0] * modulus
    places: list[set[tuple[int, int, int]]] = [set() for _ in range(modulus)]
    for offset, place in members(family):
        if place[0] % lanes == 0:
            expected[offset % modulus] += 1
            places[offset % modulus].add(place)
    assert table.starts(family) == expected
    for residue, number in enumerate(expected):
        if number:
            assert table.member(family, residue) in places[residue]


def test_long_digits_cost_no_more_than_short_ones() -> None:
    table = Residues(64, 32)
    digits = (ResidueDigit(0, 1 << 50, 3, (0, 1, 0)), ResidueDigit(0, 1 << 10, 1, (1, 0, 0)))
    assert [table.column(digits, lane) for lane in range(32)] == [[1 << 49] * 64] * 32


def test_counts_past_machine_words_are_exact() -> None:
    table = Residues(4, 1)
    many = ResidueDigit(0, 1 << 70, 1, (0, 0, 0))
    assert table.column((many,), 0) == [1 << 68] * 4
    halves = (ResidueDigit(0, 1 << 40, 1, (0, 0, 0)), ResidueDigit(0, 1 << 41, 2, (0, 0, 0)))
    assert table.column(halves, 0) == [1 << 79] * 4


def test_fields_grow_with_what_they_count() -> None:
    table = Residues(3, 4)
    few = (ResidueDigit(0, 5, 1, (1, 0, 0)), ResidueDigit(1, 7, 2, (3, 0, 0)))
    many = (ResidueDigit(0, 3 << 70, 0, (0, 1, 0)), *few)
    for lane in range(4):
        assert table.column(many, lane) == [n * (3 << 70) for n in table.column(few, lane)]
    assert table.threads(many) == table.threads(few) == [0, 1, 2, 3]
