"""Derivations of what a layout reaches."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.derivation import Paper
from layoutalg.explain_reach import explain_extremes, explain_image_size
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

A = Layout((4, 8), (8, 1))
SWIZZLED = ComposedLayout(Swizzle(2, 0, 3), 0, A)


@pytest.mark.parametrize(
    ("call", "statements"),
    [
        (("cosize", Layout((4, 8), (8, 2))), ["A(31) = 3 * 8 + 7 * 2 = 38", "A(0) = 0", "38 - 0 + 1 = 39"]),
        (("cosize", Layout(8, -1)), ["A(7) = 7 * -1 = -7", "0 - -7 + 1 = 8"]),
        (("extremes", Layout((4, 8), (-1, 10))), ["A(28) = 7 * 10 = 70", "A(3) = 3 * -1 = -3"]),
        (("image_size", Layout((4, 8), (1, 2))), ["image_size((4,8):(1,2)) = 18"]),
        (("image_size", Layout((4, 8), (0, 3))), ["A = 8:3", "size(A) = 8"]),
        (("is_contiguous", Layout((4, 8), (9, 1))), ["34 - 0 + 1 = 35 != 32 = size(A)"]),
        (("is_contiguous", A), ["31 - 0 + 1 = 32 = 32 = size(A)", "8 > 7"]),
        (("gaps", Layout((4, 8), (1, 6))), ["6 - 3 - 1 = 2", "2 * 7 = 45 - 0 + 1 - 32"]),
        (("is_surjective", Layout((4, 8), (1, 5))), ["size(A) = 32 < 39"]),
        (("is_surjective", Layout((4, 8), (1, 3))), ["3 <= 4", "4 + 3 * 7 = 25", "image_size(A) >= 25"]),
        (("is_surjective", Layout((4, 8), (2, 4)), 9), ["2 > 1", "find_coordinate(A, 1) = None"]),
        (("is_bijective", A), ["cosize(A) = 32 = 32 = size(A)"]),
        (("is_bijective", Layout(8, -1)), ["-7 < 0"]),
        (("is_bijective", Layout((4, 8), (1, 5))), ["cosize(A) = 39 != 32 = size(A)"]),
        (("find_coordinate", A, 19), ["A(14) = 19"]),
        (("find_coordinate", A, 99), ["99 > 31"]),
        (("find_coordinate", A, -1), ["-1 < 0"]),
        (("find_coordinate", Layout((4, 8), (8, 2)), 3), ["gcd(8, 2) = 2", "3 % 2 = 1"]),
        (("find_coordinate", Layout((2, 2), (3, 5)), 7), ["A(c) != 7 for every c < 4"]),
        (("find_offset_bit", A, 3), ["A(1) = 8", "8 >> 3 & 1 = 1"]),
        (("find_offset_bit", Layout((4, 8), (8, 16)), 2), ["A(c) >> 2 & 1 = 0 for every c < 32"]),
    ],
    ids=str,
)
def test_reach(call: tuple[Any, ...], statements: list[str]) -> None:
    said = proved(*call)
    assert set(statements) <= set(said), said


def test_swizzled_extremes_are_bounds_for_all_coordinates() -> None:
    said = proved("extremes", SWIZZLED)
    assert said[-2:] == ["A(c) >= 0 for every c < 32", "A(c) <= 31 for every c < 32"]


@pytest.mark.parametrize(
    ("layout", "law"),
    [
        (SWIZZLED, "whole periods"),
        (ComposedLayout(Swizzle(0, 0, 1), 5, A), "nothing is swizzled"),
        (ComposedLayout(Swizzle(2, 0, 3), 0, Layout(40)), "period of 32"),
        (
            ComposedLayout(Layout((3, 4), (4, 1)), 0, ComposedLayout(Swizzle(1, 0, 2), 0, Layout(12))),
            "one by one",
        ),
    ],
    ids=str,
)
def test_laws_of_extremes(layout: Any, law: str) -> None:
    paper = Paper()
    explain_extremes(paper, layout)
    assert law in paper.steps[0].law


def test_offsets_that_are_counted_one_by_one() -> None:
    layout = ComposedLayout(Layout((3, 4), (4, 1)), 0, ComposedLayout(Swizzle(1, 0, 2), 0, Layout(12)))
    paper = Paper()
    explain_image_size(paper, layout)
    assert "one by one" in paper.steps[0].law
    assert proved("image_size", layout)[-1].startswith("image_size(A) = ")


def test_a_footprint_says_all_its_numbers() -> None:
    assert {"A(28) = 7 * 3 = 21", "size(B) = 8", "size(A) = 32"} <= set(
        proved("footprint", Layout((4, 8), (0, 3)))
    )
