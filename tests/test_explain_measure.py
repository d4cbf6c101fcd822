"""Derivations of size, rank, depth, coalesce and filter."""

from __future__ import annotations

from layoutalg.derivation import Paper
from layoutalg.explain_measure import explain_inside, explain_outside, innermost
from layoutalg.layout import Layout
from layoutalg.measure import coalesce
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

NESTED = ComposedLayout(
    Layout(64, 2), 7, ComposedLayout((Swizzle(2, 3, 1), Swizzle(1, 0, 3)), 3, Layout((4, 8)))
)


def test_size_rank_depth() -> None:
    tree = Layout((4, (2, 3)))
    assert proved("size", tree)[-1] == "size(A) = 4 * 2 * 3 = 24"
    assert proved("rank", tree)[1:] == ["rank(A) = 2", "A[0] = 4:1", "A[1] = (2,3):(4,8)"]
    assert proved("depth", tree)[-1] == "depth(A) = 1 + max(0, 1) = 2"
    assert proved("depth", Layout(4))[-1] == "depth(A) = 0"
    assert proved("depth", Layout(()))[-1] == "depth(A) = 1"
    assert proved("size", NESTED)[-1] == "size(A) = 4 * 8 = 32"


def test_coalesce_merges_from_left_to_right() -> None:
    assert (
        proved("coalesce", Layout((2, 4, 3), (1, 2, 8)))
        == [
            "A = (2,4,3):(1,2,8)",
            "2 * 1 = 2",
            "coalesce((2,4,3):(1,2,8)) = coalesce((8,3):(1,8))",
            "8 * 1 = 8",
            "coalesce((8,3):(1,8)) = coalesce(24:1)",
            "coalesce(24:1) = 24:1",
        ]
        or proved("coalesce", Layout((2, 4, 3), (1, 2, 8)))[0] == "2 * 1 = 2"
    )


def test_coalesce_says_why_it_stops() -> None:
    said = proved("coalesce", Layout((4, 8), (8, 1)))
    assert said[-2:] == ["4 * 8 != 1", "coalesce((4,8):(8,1)) = (4,8):(8,1)"]


def test_coalesce_by_a_profile() -> None:
    said = proved("coalesce", Layout(((2, 4), (3, 5)), ((1, 2), (40, 8))), (1, 1))
    assert said[-1] == "coalesce(A, (1,1)) = R" and "coalesce((2,4):(1,2)) = coalesce(8:1)" in said
    assert "weakly_congruent((1,1,1), (4,8)) = False" in proved("coalesce", Layout((4, 8)), (1, 1, 1))
    assert "weakly_congruent((1), 5) = False" in proved("coalesce", Layout(5), (1,))


def test_the_last_mode_has_no_end() -> None:
    assert "A(i) = R(i) for every i < 16" in proved("coalesce_x", Layout((2, 2, 1), (1, 2, 7)))


def test_filter() -> None:
    said = proved("filter", Layout((4, (2, 8)), (1, (0, 4))))
    assert said[1:3] == ["filter_zeros(2:0) = 1:0", "filter_zeros(A) = (4,(1,8)):(1,(0,4))"]
    assert said[-1] == "coalesce(32:1) = 32:1"


def test_outer_functions_stay() -> None:
    assert innermost(NESTED) == Layout((4, 8))
    paper = Paper()
    assert explain_inside(paper, "coalesce", NESTED) == Layout((4, 8))
    assert len(paper.steps) == 1
    explain_outside(paper, NESTED, coalesce(NESTED))
    assert paper.steps[-1].statements[-1] == f"64:2 o 7 o Sw<2,3,1> o Sw<1,0,3> o 3 o R = {coalesce(NESTED)}"
    assert proved("coalesce", NESTED)[-1] == paper.steps[-1].statements[-1]


def test_plain_layouts_have_nothing_outside() -> None:
    paper = Paper()
    assert explain_inside(paper, "coalesce", Layout(4)) == Layout(4)
    explain_outside(paper, Layout(4), Layout(4))
    explain_outside(paper, NESTED, None)
    assert paper.steps == []
