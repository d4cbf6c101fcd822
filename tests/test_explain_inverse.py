"""Derivations of complements and inverses."""

from __future__ import annotations

import pytest

from layoutalg.derivation import Paper
from layoutalg.errors import NotInjectiveError
from layoutalg.explain_inverse import (
    explain_collision,
    explain_complement,
    explain_sorting,
    explain_undone,
    sorted_modes,
)
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

A = Layout((4, 8), (8, 1))


def test_modes_by_stride() -> None:
    assert sorted_modes(Layout((4, 1, (2, 8)), (-3, 5, (16, 2)))) == [(-3, 4, 1), (2, 8, 8), (16, 2, 4)]
    paper = Paper()
    explain_sorting(paper, Layout(1))
    assert paper.steps[0].law.startswith("sorted by stride, the modes are none")


@pytest.mark.parametrize(
    ("layout", "target", "answer", "statements"),
    [
        (Layout(4), 24, "6:4", ["1 * 4 = 4", "ceil_div(24, 4) = 6"]),
        (Layout(6, 4), 24, "4:1", ["4 // 1 = 4", "ceil_div(24, 24) = 1"]),
        (Layout((4, 6)), 24, "1:0", ["4 * 6 = 24", "ceil_div(24, 24) = 1"]),
        (Layout(4, 2), 24, "(2,3):(1,8)", ["2 // 1 = 2", "2 * 4 = 8", "ceil_div(24, 8) = 3"]),
        (Layout((2, 2), (1, 6)), 24, "(3,2):(2,12)", ["6 // 2 = 3", "6 * 2 = 12", "ceil_div(24, 12) = 2"]),
        (Layout((4, 8), (1, 0)), 10, "3:4", ["ceil_div(10, 4) = 3"]),
    ],
)
def test_complement(layout: Layout, target: int, answer: str, statements: list[str]) -> None:
    said = proved("complement", layout, target)
    assert set(statements) <= set(said), said
    assert str(explain_complement(Paper(), layout, target)) == answer


@pytest.mark.parametrize(
    ("layout", "statement"),
    [
        (Layout((4, 4), (1, 3)), "A(3) = A(4) = 3"),
        (Layout((4, 2), (2, 5)), "5 % 8 = 5"),
        (Layout((2, 2), (2, 3)), "3 % 4 = 3"),
    ],
)
def test_no_complement(layout: Layout, statement: str) -> None:
    said = proved("complement", layout, 24)
    assert said[-1] == statement, said


def test_right_inverse() -> None:
    said = proved("right_inverse", A)
    assert said[-1] == "A(R(i)) = i for every i < 32" and "R = (8,4):(4,1)" in said
    said = proved("right_inverse", Layout((4, 8), (1, 5)))
    assert said[-2:] == ["R = 4:1", "A(R(i)) = i for every i < 4"]
    assert "1 + 0 = 1" not in proved("right_inverse", ComposedLayout(Swizzle(1, 0, 2), 0, A))


def test_left_inverse() -> None:
    said = proved("left_inverse", Layout((4, 8), (1, 5)))
    assert [s for s in said if ">=" in s] == ["1 // 1 = 1 >= 1", "5 // 1 = 5 >= 4"]
    assert said[-1] == "L(A(i)) = i for every i < 32"
    assert proved("left_inverse", Layout((4, 8), (1, 3)))[-1].startswith("A(3) = A(4)")


def test_a_collision_is_shown_when_it_is_named() -> None:
    paper = Paper()
    assert not explain_collision(paper, A, NotInjectiveError("somewhere"))
    assert explain_collision(paper, Layout(4, 0), NotInjectiveError("here", a=0, b=3))
    assert paper.steps[-1].statements == ("A = 4:0", "A(0) = A(3) = 0")


def test_swizzles_are_undone_on_single_bits() -> None:
    assert proved("swizzle_inverse", Swizzle(2, 0, 3)) == ["S = Sw<2,0,3>", "swizzle_inverse(S) = Sw<2,0,3>"]
    said = proved("swizzle_inverse", (Swizzle(1, 0, 2), Swizzle(2, 2, 2)))
    assert "swizzle_inverse(S) = Sw<2,2,2> o Sw<1,0,2>" in said
    assert "T(S(16)) = T(21) = 16" in said
    assert len([s for s in proved("swizzle_inverse", Swizzle(3, 0, 1)) if s.startswith("T(S(")]) == 4
    paper = Paper()
    explain_undone(paper, ComposedLayout(Layout(9, 1), 0, Layout(4)))
    assert paper.steps == []


def test_what_layouts_have_in_common() -> None:
    said = proved("max_common_vector", A, Layout((4, 16), (16, 1)))
    assert "A(V(i)) = B(V(i)) = i for every i < 8" in said and said[-1] == "size(V) = 8"
    assert proved("max_common_layout", A, Layout(32))[-1] == "max_common_layout(A, B) = V"


def test_alignment_and_nullspace() -> None:
    assert proved("max_alignment", Layout((8, 4), (1, 12)))[-1] == "gcd(8, 12) = 4"
    assert proved("nullspace", Layout((4, 2, 8), (1, 0, 4)))[-1] == "A(N(i)) = 0 for every i < 2"
