"""Derivations of single values."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.derivation import Paper
from layoutalg.explain_evaluate import explain_crd2crd, explain_crd2idx, explain_idx2crd, explain_value
from layoutalg.explanations import explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved, statements


def test_an_index_is_divided_up() -> None:
    assert proved("idx2crd", 47, ((2, 4), 8)) == [
        "47 % 2 = 1",
        "47 // 2 = 23",
        "23 % 4 = 3",
        "23 // 4 = 5",
        "idx2crd(47, ((2,4),8)) = ((1,3),5)",
    ]
    assert explain_idx2crd(Paper(), 47, ((2, 4), 8)) == ((1, 3), 5)


def test_a_flat_index_inside_a_coordinate_is_divided_up_too() -> None:
    said = proved("crd2idx", (7, 5), ((2, 4), 8))
    assert said[0] == "7 % 2 = 1"
    assert said[-1] == "crd2idx(((1,3),5), ((2,4),8), ((1,2),8)) = 1 * 1 + 3 * 2 + 5 * 8 = 47"
    assert explain_crd2idx(Paper(), (7, 5), ((2, 4), 8), ((1, 2), 9)) == 52


@pytest.mark.parametrize(
    ("call", "statement"),
    [
        (("idx2crd", -1, (4, 8)), "-1 < 0"),
        (("crd2idx", (1, -2), (4, 8)), "-2 < 0"),
        (("crd2idx", (1, 2, 3), (4, 8)), "weakly_congruent((1,2,3), (4,8)) = False"),
        (("crd2idx", (1, (2, 3)), (4, 8)), "weakly_congruent((1,(2,3)), (4,8)) = False"),
        (("crd2crd", (1, 2), (4, 8), (4, 2, 4)), "2 != 3"),
        (("crd2crd", (1, 2, 3), (4, 8), 32), "weakly_congruent((1,2,3), (4,8)) = False"),
    ],
    ids=str,
)
def test_misfits(call: tuple[Any, ...], statement: str) -> None:
    assert statement in proved(*call)


def test_coordinates_are_renamed() -> None:
    assert "idx2crd(9, 32) = 9" in proved("crd2crd", (1, 2), (4, 8), 32)
    assert (
        proved("crd2crd", (5, 1), (8, 2), ((2, 4), 2))[-1] == "crd2crd((5,1), (8,2), ((2,4),2)) = ((1,2),1)"
    )
    assert explain_crd2crd(Paper(), 9, (4, 8), (2, 16)) == (1, 4)


def test_a_swizzle_bit_by_bit() -> None:
    derivation = explain(Swizzle(2, 0, 3), 0b011010)
    assert statements(derivation)[2:5] == [
        "0b11010 & 0b11000 = 0b11000",
        "0b11000 >> 3 = 0b00011",
        "0b11010 ^ 0b00011 = 0b11001",
    ]
    assert derivation.steps[1].law == "bit by bit: bit 3 flips bit 0, bit 4 flips bit 1"
    assert derivation.result == 0b011001


def test_a_swizzle_to_the_left_and_one_of_no_bits() -> None:
    assert "0b00001 << 3 = 0b01000" in statements(explain(Swizzle(2, 0, -3), 17))
    assert statements(explain(Swizzle(0, 4, 3), 17)) == ["S = Sw<0,4,3>", "S(17) = 17"]
    assert "no bit is set" in explain(Swizzle(1, 0, 4), 3).steps[1].law


def test_a_composed_layout_from_the_inside_out() -> None:
    tile = ComposedLayout(Layout(64, 2), 1, ComposedLayout(Swizzle(1, 0, 2), 3, Layout((4, 4), (4, 1))))
    derivation = explain(tile, 2, 1)
    said = statements(derivation)
    assert [s for s in said if " + 3 = " in s or s.startswith("1") or s.endswith(f"= {tile(2, 1)}")]
    assert derivation.result == tile(2, 1) == explain_value(Paper(), 2, 1, function=tile)


def test_a_coordinate_that_does_not_fit_is_refused() -> None:
    derivation = explain(Layout((4, 8)), (1, 2, 3))
    assert "weakly_congruent((1,2,3), (4,8)) = False" in statements(derivation)
    assert derivation.refusal is not None
