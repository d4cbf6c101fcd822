"""Derivations of casts between element widths, and of columns over F2."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.explain_recast import plain_picks
from layoutalg.explanations import explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

TILE = Layout((8, 64), (64, 1))
SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, TILE)
STUCK = ComposedLayout(Layout((3, 4), (4, 1)), 0, ComposedLayout(Swizzle(1, 0, 2), 0, Layout(12)))


@pytest.mark.parametrize(
    ("call", "answer", "statements"),
    [
        (("upcast", TILE, 8), "(8,8):(8,1)", ["upcast(8:64, 8) = 8:8", "upcast(64:1, 8) = 8:1", "7 < 8"]),
        (
            ("upcast", SWIZZLED, 8),
            "Sw<3,0,3> o 0 o (8,8):(8,1)",
            ["upcast(X, 8) = Sw<3,0,3> o 0 o (8,8):(8,1)"],
        ),
        (
            ("downcast", Layout((8, 2), (2, 1)), 2),
            "(8,4):(4,1)",
            ["2 * 2 = 4", "R(E(c)) = A(c) * 2 for every c < 16"],
        ),
        (("downcast", SWIZZLED, 2), "Sw<3,4,3> o 0 o (8,128):(128,1)", ["0 * 2 = 0", "64 * 2 = 128"]),
        (("recast_layout", TILE, 16, 128), "(8,8):(8,1)", ["128 // 16 = 8"]),
        (("recast_layout", TILE, 16, 8), "(8,128):(128,1)", ["16 // 8 = 2"]),
    ],
    ids=str,
)
def test_casts(call: tuple[Any, ...], answer: str, statements: list[str]) -> None:
    said = proved(*call)
    assert set(statements) <= set(said), said
    assert explain(*call).answer == f"= {answer}"


@pytest.mark.parametrize(
    ("call", "statements"),
    [
        (("upcast", Layout((8, 4), (3, 24)), 2), ["3 % 2 = 1", "2 % 3 = 2"]),
        (("upcast", Layout((3, 4), (1, 4)), 2), ["3 % 2 = 1"]),
        (("upcast", Layout((2, 2), (2, 2)), 4), ["2 + 2 = 4 >= 4"]),
        (("upcast", TILE, 0), ["0 < 1"]),
        (("downcast", TILE, -1), ["-1 < 1"]),
        (("downcast", Layout((4, 8), (2, 8)), 2), ["2 != 1", "8 != 1"]),
        (("upcast", SWIZZLED, 3), ["3 & 2 = 2"]),
        (("downcast", SWIZZLED, 6), ["6 & 5 = 4"]),
        (("downcast", STUCK, 2), [f"normal_form(X) = {STUCK}"]),
        (("upcast", STUCK, 2), [f"normal_form(X) = {STUCK}"]),
        (("upcast", SWIZZLED, 16), ["L(1) >> 6 & 1 = 1"]),
        (("recast_layout", TILE, 6, 16), ["6 % 16 != 0", "16 % 6 != 0"]),
    ],
    ids=str,
)
def test_casts_that_are_refused(call: tuple[Any, ...], statements: list[str]) -> None:
    assert explain(*call).refusal is not None
    said = proved(*call)
    assert set(statements) <= set(said), said


def test_picks_are_the_first_of_each_run() -> None:
    assert plain_picks(Layout((8, 4)), [2, 1]) == Layout((4, 4), (2, 8))


@pytest.mark.parametrize(
    ("layout", "statement"),
    [
        (ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4))), "A(8) = 10"),
        (Layout((4, 8), (8, 1)), "8 | 16 | 1 | 2 | 4 = 8 + 16 + 1 + 2 + 4"),
        (Layout((4, 3)), "3 & 2 = 2"),
        (Layout((4, 4), (1, 2)), "3 & 2 = 2"),
        (ComposedLayout(Swizzle(2, 0, 2), 16, Layout((4, 4))), "A(0) = 16 != 0"),
    ],
    ids=str,
)
def test_columns(layout: Any, statement: str) -> None:
    assert statement in proved("to_f2", layout)
