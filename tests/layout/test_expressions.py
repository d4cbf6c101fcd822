"""Index expressions of codegen: a layout of coordinates is called on them, and no layout holds one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from layoutalg.algebra import logical_divide, zipped_divide
from layoutalg.codegen.expr import Const, Var, as_expr, evaluate
from layoutalg.compose import composition
from layoutalg.errors import ArgumentTypeError
from layoutalg.layout import (
    IntTuple,
    Layout,
    ScaledBasis,
    make_identity_layout,
    make_layout,
    product,
)
from tests.sweeps import each

LD: Any = Var("ld", 1 << 14, "param", 64)
P, Q = Var("i", 64), Var("j", 64)

COORDINATES = {
    "identity": make_identity_layout((4, 8)),
    "nested": make_identity_layout(((2, 4), 8)),
    "tiles": zipped_divide(make_identity_layout((16, 32)), (4, 8)),
    "turned": Layout((4, 8), (ScaledBasis(1, 1), ScaledBasis(3, 0))),
    "repeated": Layout((2, 4, 8), (0, ScaledBasis(1, 0), 0)),
    "one mode": Layout(8, ScaledBasis(5, 2)),
}


def numbers(value: Any, env: dict[Var, int]) -> IntTuple:
    if isinstance(value, tuple):
        return tuple(numbers(v, env) for v in value)
    found: int = evaluate(as_expr(value), env)
    return found


@each("layout", list(COORDINATES.values()))
def test_a_coordinate_of_expressions(layout: Layout) -> None:
    whole = layout(P)
    for i in range(product(layout.shape)):
        assert numbers(whole, {P: i}) == layout(i)


def test_one_expression_per_mode_and_in_a_nested_coordinate() -> None:
    layout = COORDINATES["tiles"]
    flat, nested = layout(P, Q), layout((P, 3), (1, Q))
    for i in range(4):
        for j in range(4):
            assert numbers(flat, {P: i, Q: j}) == layout(i, j)
            assert numbers(nested, {P: i, Q: j}) == layout((i, 3), (1, j))
    assert numbers(COORDINATES["repeated"](P, 2, Q), {P: 1, Q: 7}) == (2,)


HELD: dict[str, Callable[[], object]] = {
    "an extent": lambda: Layout((LD, 8)),
    "a stride": lambda: Layout((8, 8), (LD, 1)),
    "a constant": lambda: Layout((8, 8), (Const(64), 1)),  # type: ignore[arg-type]
    "a basis": lambda: Layout(8, 2 * ScaledBasis(1, 0) * LD),
    "make_layout": lambda: make_layout((8, 8), (LD, 1)),
    "a tiler's extent": lambda: composition(Layout((8, 8)), (LD, 2)),
    "what answered (4,2):(0,0)": lambda: composition(Layout((8, 8), (LD, 1)), Layout((4, 2), (2, 8))),
}


@each("build", list(HELD.values()))
def test_no_layout_holds_an_expression(build: Callable[[], object]) -> None:
    with pytest.raises(
        ArgumentTypeError, match=r"has the index expression (ld|64|2 \* ld); a layout holds int"
    ):
        build()


def test_no_tiler_is_an_expression() -> None:
    with pytest.raises(ArgumentTypeError, match=r"logical_divide\(\(8,8\):\(1,8\), ld\)"):
        logical_divide(Layout((8, 8)), LD)
