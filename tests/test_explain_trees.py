"""Derivations on trees of modes."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.explain_trees import MOVES
from layoutalg.explanations import EXPLAINERS, explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

A = Layout((4, 8), (8, 1))
SWIZZLED = ComposedLayout(Swizzle(2, 0, 3), 0, A)


@pytest.mark.parametrize(
    ("call", "answer", "statements"),
    [
        (("product", ((2, 4), 8)), "64", ["product(((2,4),8)) = 2 * 4 * 8 = 64"]),
        (("product", ()), "1", ["product(()) = 1 = 1"]),
        (
            ("congruent", (1, (2, 3)), (9, (9, 9))),
            "True",
            ["congruent(1, 9) = True", "congruent((2,3), (9,9)) = True"],
        ),
        (("congruent", (1, 2), (1, 2, 3)), "False", ["2 != 3"]),
        (("weakly_congruent", (1, 2), 3), "False", ["weakly_congruent((1,2), 3) = False"]),
        (("compatible", 24, (4, 6)), "True", ["product((4,6)) = 24"]),
        (
            ("compatible", (4, 6), ((2, 2), 7)),
            "False",
            ["product(7) != 6", "compatible((4,6), ((2,2),7)) = False"],
        ),
        (("ceil_div", (10, 4), (4, 3)), "(3,2)", ["ceil_div(10, 4) = 3", "ceil_div((10,4), (4,3)) = (3,2)"]),
        (("ceil_div", 7, 2), "4", ["7 <= 4 * 2", "(4 - 1) * 2 < 7"]),
        (("shape_div", (2, (2, 3)), 4), "(1,(1,3))", ["ceil_div(4, 2) = 2", "shape_div((2,3), 2) = (1,3)"]),
        (("flatten", ((2, (4, 3)), 8)), "(2,4,3,8)", ["flatten(((2,(4,3)),8)) = flatten((2,(4,3),8))"]),
        (("flatten", 5), "(5)", ["flatten(5) = (5)"]),
        (("flatten", Layout(((2, 4), 8))), "(2,4,8):(1,2,8)", ["same_function(A, (2,4,8):(1,2,8)) = True"]),
        (("unflatten", (2, 3, 5), ((0, 0), 0)), "((2,3),5)", ["3 = 3", "flatten(((2,3),5)) = (2,3,5)"]),
        (("modes", Layout(((2, 4), 8))), "((2,4):(1,2),8:8)", ["A[0] = (2,4):(1,2)", "A[1] = 8:8"]),
        (
            ("concat", Layout(4), Layout((2, 2), (8, 4))),
            "(4,(2,2)):(1,(8,4))",
            ["concat(A, B) = R", "R[1] = B"],
        ),
        (("make_layout", (4, 8)), "(4,8):(1,4)", ["1 * 4 = 4", "R(4) = 4"]),
        (("make_layout", (4, 8), (8, 1)), "(4,8):(8,1)", ["congruent((4,8), (8,1)) = True"]),
        (("make_layout", A), "(4,8):(8,1)", ["make_layout(A) = A"]),
        (("make_identity_layout", (4, 8)), "(4,8):(1@0,1@1)", ["A(i) = idx2crd(i, (4,8)) for every i < 32"]),
        (("append", A, Layout(2, 32)), "(4,8,2):(8,1,32)", ["R[2] = 2:32"]),
        (("prepend", A, Layout(2, 32)), "(2,4,8):(32,8,1)", ["R[0] = 2:32"]),
        (("replace", A, -1, Layout(2)), "(4,2):(8,1)", ["R[1] = 2:1"]),
        (("group", Layout((2, 3, 4)), 0, 2), "((2,3),4):((1,2),6)", ["same_function(A, R) = True"]),
        (("select", Layout((2, 3, 5)), 2, 0), "(5,2):(6,1)", ["A[2] = 5:6", "R[0] = 5:6"]),
        (("sort", A), "(8,4):(1,8)", ["size(A) = size(R)"]),
        (
            ("sort", SWIZZLED),
            "Sw<2,0,3> o 0 o (8,4):(1,8)",
            ["Sw<2,0,3> o 0 o R = Sw<2,0,3> o 0 o (8,4):(1,8)"],
        ),
    ],
    ids=str,
)
def test_trees(call: tuple[Any, ...], answer: str, statements: list[str]) -> None:
    said = proved(*call)
    assert set(statements) <= set(said), said
    assert explain(*call).answer == f"= {answer}"


@pytest.mark.parametrize(
    ("call", "statement"),
    [
        (("shape_div", 6, 4), "6 % 4 = 2"),
        (("shape_div", (6, 4), (4, 2)), "4 % 6 = 4"),
        (("shape_div", (6, 4), 4), "6 % 4 = 2"),
        (("ceil_div", 6, 0), "0 < 1"),
        (("ceil_div", (6,), (2, 2)), "1 < 2"),
        (("unflatten", (2, 3), (0, 0, 0)), "2 != 3"),
        (("make_layout", (4, 8), (8, 1, 2)), "congruent((4,8), (8,1,2)) = False"),
        (("select", A, 5), "rank(A) = 2"),
    ],
    ids=str,
)
def test_trees_that_are_refused(call: tuple[Any, ...], statement: str) -> None:
    assert explain(*call).refusal is not None
    assert statement in proved(*call)


def test_every_move_has_its_law() -> None:
    assert {operation.__name__ for operation, _ in MOVES} <= set(EXPLAINERS)
    operands = {"replace": (0, A), "group": (0, 1), "select": (0,)}
    for operation, law in MOVES:
        assert explain(operation, A, *operands.get(operation.__name__, ())).steps[0].law == law
