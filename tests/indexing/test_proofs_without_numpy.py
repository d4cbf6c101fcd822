"""The proof of a printed function without NumPy: the same verdict, at one coordinate after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from layoutalg.codegen.expr import Var
from layoutalg.errors import MismatchError
from layoutalg.indexing.proofs import compare_one_by_one
from layoutalg.indexing.reading import read_c
from layoutalg.layout import ComposedLayout, Layout, Swizzle

TILE = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((16, 64), (64, 1)))
ROW, COL = Var("row", 16), Var("col", 64)


def compare(body: str) -> None:
    """Compare a function of C with the tile."""

    def table(at: Sequence[Any]) -> Any:
        return TILE(*at)

    term = read_c(f"unsigned f(unsigned row, unsigned col) {{ return {body}; }}", "f").term
    compare_one_by_one("f", term, (ROW, COL), (16, 64), table)


def test_what_is_the_layout_passes() -> None:
    compare("(col ^ (row % 8 * 8)) + row * 64")
    compare("row * 64 + col ^ (row & 7) << 3")


@pytest.mark.parametrize(
    ("body", "at"), [("row * 64 + col", "row=1, col=0"), ("(col ^ (row % 4 * 8)) + row * 64", "row=4, col=0")]
)
def test_the_first_coordinate_that_differs_is_told(body: str, at: str) -> None:
    with pytest.raises(MismatchError, match=f"is not the layout at {at}"):
        compare(body)
