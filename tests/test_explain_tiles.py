"""Derivations of divides, products and orders."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.explanations import explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

TILE = Layout((2, 5), (5, 1))
NINE = Layout((9, (4, 8)), (59, (13, 1)))
BY_MODE = (Layout(3, 3), Layout((2, 4), (1, 8)))


@pytest.mark.parametrize(
    ("call", "answer", "statements"),
    [
        (
            ("logical_divide", Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)),
            "((2,2),(2,3)):((4,1),(2,8))",
            ["complement(T, 24) = C", "B = (4,(2,3)):(2,(1,8))", "A o B = R"],
        ),
        (
            ("logical_divide", NINE, BY_MODE),
            "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))",
            ["A[0] = A0", "A[1] = A1", "concat(R, G) = H"],
        ),
        (
            ("zipped_divide", NINE, BY_MODE),
            "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))",
            ["Z[0] = concat(H[0][0], H[1][0])", "Z[1] = concat(H[0][1], H[1][1])"],
        ),
        (
            ("tiled_divide", Layout((8, 32)), (4, 8)),
            "((4,8),2,4):((1,8),4,64)",
            ["G[0] = Z[0]", "G[2] = Z[1][1]"],
        ),
        (
            ("flat_divide", Layout((8, 32)), (4, 8)),
            "(4,8,2,4):(1,8,4,64)",
            ["G[1] = Z[0][1]", "G[2] = Z[1][0]"],
        ),
        (
            ("logical_product", Layout((2, 2), (4, 1)), Layout(6)),
            "((2,2),(2,3)):((4,1),(2,8))",
            ["4 * 6 = 24", "complement(A, 24) = C"],
        ),
        (
            ("blocked_product", TILE, Layout((3, 4))),
            "((2,3),(5,4)):((5,10),(1,30))",
            ["D[0] = concat(P[0][0], P[1][0])"],
        ),
        (
            ("raked_product", TILE, Layout((3, 4))),
            "((3,2),(4,5)):((10,5),(30,1))",
            ["D[0] = concat(P[1][0], P[0][0])"],
        ),
        (
            ("tile_to_shape", Layout((4, 3)), (8, 9), (1, 0)),
            "((4,2),(3,3)):((1,36),(4,12))",
            ["ceil_div(8, 4) = 2"],
        ),
        (("make_ordered_layout", (4, 8), (1, 0)), "(4,8):(8,1)", ["R(4) = 1", "R(1) = 8"]),
        (("make_layout_like", Layout((4, 2, 8), (16, 0, 1))), "(4,2,8):(8,0,1)", ["1 * 8 = 8"]),
    ],
    ids=str,
)
def test_tiles(call: tuple[Any, ...], answer: str, statements: list[str]) -> None:
    said = proved(*call)
    assert set(statements) <= set(said), said
    assert explain(*call).answer == f"= {answer}"


def test_tiling_a_swizzle_keeps_it_outside() -> None:
    atom = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    said = proved("tile_to_shape", atom, (128, 64))
    assert said[-1] == "Sw<3,3,3> o 0 o D = Sw<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0))"
    assert "ceil_div(128, 8) = 16" in said


@pytest.mark.parametrize(
    ("call", "statement"),
    [
        (("logical_divide", Layout((4, 8)), (1, 2, 3)), "rank(A) < 3"),
        (("tile_to_shape", Layout((4, 3, 2)), (8, 9)), "rank(A) > 2"),
        (("logical_product", Layout((4, 4), (1, 3)), Layout(2)), "A(3) = A(4) = 3"),
        (("logical_divide", Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3))), "3 % 6 = 3"),
    ],
    ids=str,
)
def test_tiles_that_are_refused(call: tuple[Any, ...], statement: str) -> None:
    assert explain(*call).refusal is not None
    said = proved(*call)
    assert statement in said, said
