"""Derivations of slices, of one block's tile and of one thread's share."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.explanations import explain
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.paper import proved

A = Layout((4, 8))
SWIZZLED = ComposedLayout(Swizzle(2, 0, 3), 4, A)
WIDE = Layout((8, 32), (32, 1))


@pytest.mark.parametrize(
    ("call", "answer", "statements"),
    [
        (("slice_", (2, None), A), "(8):(4)", ["A((2,0)) = 2", "slice_((2,_), A) = K"]),
        (
            ("slice_and_offset", (2, (None, 1)), Layout((4, (2, 8)), (16, (8, 1)))),
            "((2):(8),33)",
            ["A((2,(0,1))) = 33"],
        ),
        (("slice_", (2, None), SWIZZLED), "Sw<2,0,3> o 6 o (8):(4)", ["4 + 2 = 6", "slice_((2,_), A) = K"]),
        (("slice_and_offset", (2, None), SWIZZLED), "(Sw<2,0,3> o 6 o (8):(4),0)", ["4 + 2 = 6"]),
        (("dice", (2, None), A), "(4):(1)", ["dice((2,_), A) = (4):(1)"]),
        (("domain_offset", (2, 3), A), "((4,8):(1,4),14)", ["A((2,3)) = 14"]),
        (("domain_offset", (2, 3), SWIZZLED), "(Sw<2,0,3> o 18 o (4,8):(1,4),0)", ["4 + 14 = 18"]),
        (
            ("local_tile", WIDE, (4, 8), (1, 2)),
            "((4,8):(32,1),144)",
            ["zipped_divide(A, (4,8)) = Z", "Z(((0,0),(1,2))) = 144"],
        ),
        (("local_tile", WIDE, (4, 8), (1, None)), "((4,8,4):(32,1,8),128)", ["K = (4,8,4):(32,1,8)"]),
        (
            ("local_tile", WIDE, (4, 8, 2), (1, 2, 0), (1, 1, None)),
            "((4,8):(32,1),144)",
            ["zipped_divide(A, (4,8)) = Z"],
        ),
        (
            ("local_partition", WIDE, Layout((2, 4), (4, 1)), 5),
            "((4,8):(64,4),33)",
            ["T(3) = 5", "size(T) = product((2,4))"],
        ),
    ],
    ids=str,
)
def test_parts(call: tuple[Any, ...], answer: str, statements: list[str]) -> None:
    said = proved(*call)
    assert set(statements) <= set(said), said
    assert explain(*call).answer == f"= {answer}"


@pytest.mark.parametrize(
    ("call", "statement"),
    [
        (("slice_", (1, 2, 3), A), "rank(A) = 2"),
        (("local_tile", Layout((9, 32)), (Layout((2, 2), (1, 1)), 8), (0, 0)), "T(1) = T(2) = 1"),
        (("local_partition", WIDE, Layout((2, 4), (4, 1)), 99), "size(T) = 8"),
    ],
    ids=str,
)
def test_parts_that_are_refused(call: tuple[Any, ...], statement: str) -> None:
    assert explain(*call).refusal is not None
    said = proved(*call)
    assert statement in said, said
