"""An index expression as a map over F2: its columns give every value, and what carries has none."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Affine, Const, Expr, Minus, Var, affine, evaluate, simplify
from layoutalg.f2 import affine_f2
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.sweeps import each

T, U = Var("t", 32), Var("u", 8, "unroll")


def value(found: Affine, env: dict[Var, int]) -> int:
    out = found.constant
    for v, columns in found.columns.items():
        for bit, column in enumerate(columns):
            out ^= column * (env[v] >> bit & 1)
    return out


def assert_right(node: Expr) -> None:
    found = affine(node)
    if found is not None:
        for t in range(32):
            for u in range(8):
                assert value(found, {T: t, U: u}) == evaluate(node, {T: t, U: u}), str(node)


def trees() -> st.SearchStrategy[Expr]:
    leaf: st.SearchStrategy[Expr] = st.sampled_from([T, U, Const(0), Const(5), Const(64)])

    def grown(child: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        number = st.sampled_from((1, 2, 3, 4, 8, 34))
        return st.one_of(
            st.builds(lambda a, b: a ^ b, child, child),
            st.builds(lambda a, b: a + b, child, child),
            st.builds(lambda a, b: a | b, child, child),
            st.builds(lambda n, a: Minus(Const(n), a), st.sampled_from((7, 31, 63, 100)), child),
            st.builds(lambda a, n: a * n, child, number),
            st.builds(lambda a, n: a // n, child, number),
            st.builds(lambda a, n: a % n, child, number),
            st.builds(lambda a, n: a & n, child, number),
            st.builds(lambda a, n: a << n % 4, child, number),
            st.builds(lambda a, n: a >> n % 4, child, number),
        )

    return st.recursive(leaf, grown, max_leaves=6)


@given(trees())
def test_the_columns_give_every_value(node: Expr) -> None:
    assert_right(node)
    assert_right(simplify(node))


@each("node", [T * 3, T + U, T % 6, T // 3, T * U, (T < 3) + U, T + 1, (T | U) * 4])
def test_what_carries_is_no_map(node: Expr) -> None:
    assert affine(node) is None


def test_a_layout_called_on_a_variable_has_the_layouts_own_columns() -> None:
    for layout in (
        Layout((4, 8), (8, 1)), ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 8), (8, 1))),
        ComposedLayout(Swizzle(1, 0, 3), 32, Layout((4, 8))),
    ):  # fmt: skip
        constant, columns = affine_f2(layout)
        found = affine(layout(T))
        assert found is not None and (found.constant, found.columns[T]) == (constant, columns)
        assert np.array_equal([value(found, {T: t}) for t in range(32)], layout(np.arange(32)))


def test_a_difference_that_borrows_nothing_is_a_map() -> None:
    found = affine(63 - T)
    assert found is not None and (found.constant, found.columns[T]) == (63, (1, 2, 4, 8, 16))
    assert affine(62 - T) is None and affine(Minus(Const(7), T)) is None
