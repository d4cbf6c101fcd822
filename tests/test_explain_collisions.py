"""Derivations of where coordinates or layouts meet."""

from __future__ import annotations

import pytest

from layoutalg.derivation import Paper
from layoutalg.explain_collisions import (
    SHOWN_CYCLE,
    explain_cycles,
    explain_find_collision,
    explain_find_overlap,
    explain_is_injective,
)
from layoutalg.explanations import explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

A = Layout((4, 8), (8, 1))
SWIZZLED = ComposedLayout(Swizzle(2, 0, 3), 0, A)


def test_strides_that_step_over_what_is_below() -> None:
    said = proved("is_injective", Layout((4, 8), (1, 5)))
    assert said[1:] == ["1 > 0", "0 + 1 * 3 = 3", "5 > 3", "3 + 5 * 7 = 38"]


def test_two_coordinates_that_meet() -> None:
    assert proved("find_collision", Layout((5, 4), (3, 4)))[-1] == "A(4) = A(15) = 12"
    assert proved("is_injective", Layout((4, 8), (1, 3)))[-2:] == ["3 <= 3", "A(3) = A(4) = 3"]
    assert proved("aliasing", Layout((4, 8), (2, 1)))[-2] == "size(A) - image_size(A) = 32 - 14 = 18"


def test_strides_that_interleave_without_meeting() -> None:
    layout = Layout((3, 2), (2, 3))
    assert "2 > 0" in proved("is_injective", layout) and "3 <= 4" in proved("is_injective", layout)
    paper = Paper()
    assert explain_find_collision(paper, layout) is None
    assert "interleave" in paper.steps[-1].law


def test_swizzles_keep_what_is_inside_apart() -> None:
    paper = Paper()
    assert explain_is_injective(paper, SWIZZLED)
    assert "swizzles and added offsets are one-to-one" in paper.steps[0].law
    carries = ComposedLayout(Layout((3, 4), (4, 1)), 0, ComposedLayout(Swizzle(1, 0, 2), 0, Layout(12)))
    assert proved("is_injective", carries)[-1] == "image_size(A) = 12"


def test_stride_zero_is_left_out_when_coordinates_have_to_move() -> None:
    assert proved("find_collision", Layout((4, 2), (1, 0)), moving=True)[1].startswith("M = ")
    assert proved("find_collision", Layout((4, 2), (1, 0)))[-1] == "A(0) = A(4) = 0"


def test_overlap() -> None:
    assert proved("overlap", Layout((4, 4), (1, 8)), Layout(4, 3))[-1].startswith("A(")
    assert proved("find_overlap", Layout(4), ComposedLayout(Swizzle(0, 0, 1), 9, Layout(4)))[-1] == "3 < 9"
    paper = Paper()
    assert (
        explain_find_overlap(paper, Layout(4, 2), ComposedLayout(Swizzle(0, 0, 1), 1, Layout(3, 2))) is None
    )
    assert "no solution" in paper.steps[-1].law


def test_functions_that_differ_and_functions_that_do_not() -> None:
    assert proved("same_function", Layout((2, 4)), Layout(8))[-1] == "A(c) = B(c) for every c < 8"
    assert proved("find_difference", A, Layout((4, 8), (8, 2)))[-1] == "A(4) = 1 != 2 = B(4)"
    assert proved("same_function", Layout(4), Layout(8))[-1] == "size(A) = 4 != 8 = size(B)"
    assert "same_function((4,8):(8,1), 32:1) = False" in proved("same_function", A, Layout(32))
    other = ComposedLayout((Swizzle(1, 0, 3), Swizzle(1, 1, 3)), 0, A)
    assert proved("same_function", SWIZZLED, other)[-1] == "A(c) = B(c) for every c < 32"


def test_cycles() -> None:
    said = proved("order", A)
    assert said[-2:] == ["1 * 2 + 5 * 6 = 32", "lcm(1, 5) = 5"]
    assert said[2:7] == ["A(1) = 8", "A(8) = 2", "A(2) = 16", "A(16) = 4", "A(4) = 1"]
    paper = Paper()
    cycles = explain_cycles(paper, Layout((3, 59), (59, 1)))
    assert cycles is not None and max(cycles)[0] > SHOWN_CYCLE
    assert len(paper.steps[0].statements) < 2 * SHOWN_CYCLE


@pytest.mark.parametrize("op", ["cycles", "order"])
def test_what_is_no_permutation_has_no_cycles(op: str) -> None:
    assert explain(op, Layout((4, 8), (1, 3))).refusal is not None
    assert proved(op, Layout((4, 8), (1, 3)))[-1] == "A(3) = A(4) = 3"
