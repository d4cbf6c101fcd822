"""Derivations of composition and normal_form: digits that are filled, carries that cancel or refuse."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.derivation import Paper
from layoutalg.explain_compose import explain_composition, explain_normal_form, explain_radix
from layoutalg.explanations import explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved


@pytest.mark.parametrize(
    ("a", "b", "statements"),
    [
        (Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)), ["A o 4:3 = (2,2):(24,2)", "3 + 2 = 5 < 6"]),
        (Layout(20, 2), Layout((5, 4), (4, 1)), ["A o 5:4 = 5:8", "A(4 * x) = 8 * x for every x < 5"]),
        (Layout((10, 2), (16, 4)), Layout((5, 4)), ["A o 5:1 = 5:16", "A o 4:5 = (2,2):(80,4)"]),
        (Layout((8, 8), (8, 1)), (4, Layout(2, 4)), ["A[0] = A0", "A[1] = A1", "concat(R, C) = (4,2):(8,4)"]),
        (Layout((4, 8)), Swizzle(1, 0, 2), ["X = (4,8):(1,4) o 0 o Sw<1,0,2> o 0 o (4,8):(1,4)"]),
        (Swizzle(1, 0, 2), Swizzle(1, 0, 2), ["R = Sw<0,0,0>"]),
        (ComposedLayout(Swizzle(1, 0, 2), 0, Layout(8)), 4, ["M o 4:1 = 4:1", "A o 4 = Sw<1,0,2> o 0 o 4:1"]),
        (Layout(8, 2), None, []),
    ],
    ids=str,
)
def test_composition(a: Any, b: Any, statements: list[str]) -> None:
    said = proved("composition", a, b) if b is not None else []
    for statement in statements:
        assert statement in said, said
    assert explain_composition(Paper(), a, b) == explain("composition", a, b).result


def test_a_sum_that_carries_is_refused_with_its_coordinate() -> None:
    said = proved("composition", Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    assert said[-3:] == [
        "B(5) = B(2) + B(3) = 7",
        "A(B(2)) + A(B(3)) = 4 + 3 = 7",
        "A(B(5)) = A(7) = 8 != 7",
    ]


def test_a_mode_that_breaks_is_refused_with_the_place() -> None:
    said = proved("composition", Layout((4, 3), (1, 100)), Layout(6))
    assert said[-3:] == [
        "A(1 * x) = 1 * x for every x < 4",
        "A(1 * 4) = 100 != 1 * 4",
        "6 % 4 = 2",
    ]


def test_negative_coordinates_are_refused() -> None:
    assert "B(1) = -2 < 0" in proved("composition", Layout((4, 3), (1, 100)), Layout(2, -2))


def test_carries_that_cancel() -> None:
    """2 + 2 fills the digit of 4, but the next one goes on where it ends."""
    derivation = explain("composition", Layout((4, 4), (1, 4)), Layout((2, 2), (2, 2)))
    assert derivation.answer == "= (2,2):(2,2)"
    proved("composition", Layout((4, 4), (1, 4)), Layout((2, 2), (2, 2)))


def test_too_few_modes() -> None:
    assert "rank(A) < 3" in proved("composition", Layout((4, 8)), (1, 2, 3))


def test_digits_of_an_index() -> None:
    paper = Paper()
    explain_radix(paper, Layout((4, 2, 3), (2, 1, 8)))
    assert paper.steps[0].statements[-1] == "A(i) = i % 4 * 2 + i // 4 % 2 * 1 + i // 8 * 8 for every i < 24"
    assert "share a digit" not in paper.steps[0].law


def test_a_layout_moves_the_bits_of_a_swizzle() -> None:
    layout = ComposedLayout(Layout(64, 2), 0, ComposedLayout(Swizzle(2, 0, 3), 0, Layout((4, 8), (8, 1))))
    said = proved("normal_form", layout)
    assert [s for s in said if s.startswith("A(")] == [
        "A(0) = 0",
        "A(1) = 2",
        "A(2) = 4",
        "A(8) = 16",
        "A(16) = 32",
    ]
    assert "R = Sw<2,1,3> o 0 o (4,8):(16,2)" in said


def test_a_layout_that_carries_stays_outside() -> None:
    layout = ComposedLayout(Layout((3, 4), (4, 1)), 0, ComposedLayout(Swizzle(1, 0, 2), 0, Layout(12)))
    paper = Paper()
    assert explain_normal_form(paper, layout) == layout
    assert "stays outside" in paper.steps[-1].law
