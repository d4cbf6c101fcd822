"""Index expressions: one definition on Python ints, on arrays and as nodes; parts and values.

The law: a layout called on ints, called on arrays, and called on variables, simplified and evaluated, is one
function on its whole domain.  `test_ctext` adds the C text to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen import expr
from layoutalg.errors import IRError, ResourceError
from layoutalg.layout import AnyLayout, ComposedLayout, coordinate_at, flatten_tree, product
from layoutalg.testing import composed_layouts, layouts
from tests.draws.expressions import domain, expressions, values

I, J, N = expr.Var("i", 8), expr.Var("j", 12, "unroll"), expr.Var("n", 100, "param", 1)  # noqa: E741

# --- one definition ------------------------------------------------------------------------------------


def domain_shape(layout: AnyLayout) -> Any:
    while isinstance(layout, ComposedLayout):
        layout = layout.inner
    return layout.shape


@given(st.one_of(layouts(), composed_layouts()))
def test_a_layout_is_one_function_on_ints_arrays_and_variables(layout: AnyLayout) -> None:
    size = product(domain_shape(layout))
    i = expr.Var("i", size)
    expected = [layout(k) for k in range(size)]
    assert np.broadcast_to(layout(np.arange(size)), size).tolist() == expected
    called = expr.as_expr(layout(i))
    for node in (called, expr.simplify(called)):
        assert values(node, domain(i)).tolist() == expected
        assert [expr.evaluate(node, {i: k}) for k in range(size)] == expected
        assert node.facts.lo <= min(expected) and max(expected) <= node.facts.hi


@given(composed_layouts(max_size=64))
def test_a_tree_of_variables_is_a_coordinate(layout: ComposedLayout) -> None:
    """One variable a leaf: the coordinate of the shape's own form."""
    shape = domain_shape(layout)
    leaves: list[expr.Var] = []

    def tree(extent: Any) -> Any:
        if isinstance(extent, tuple):
            return tuple(tree(e) for e in extent)
        leaves.append(expr.Var(f"v{len(leaves)}", extent))
        return leaves[-1]

    coordinate = tree(shape)
    node = expr.simplify(expr.as_expr(layout(coordinate)))
    for k in range(product(shape)):
        digits = flatten_tree(coordinate_at(k, shape))
        assert expr.evaluate(node, dict(zip(leaves, digits, strict=True))) == layout(k)


@given(expressions())
def test_facts_hold_everywhere_and_ints_and_arrays_agree(node: expr.Expr) -> None:
    env, f = domain(node), node.facts
    table = values(node, env)
    assert f.lo <= table.min() and table.max() <= f.hi
    assert (table % f.stride == f.offset).all() if f.stride else (table == f.offset).all()
    assert (table & f.must == f.must).all() and (table & ~f.may == 0).all()
    for index in ((0,) * table.ndim, tuple(n - 1 for n in table.shape), tuple(n // 2 for n in table.shape)):
        point = {v: int(np.broadcast_to(x, table.shape)[index]) for v, x in env.items()}
        assert expr.evaluate(node, point) == table[index]


# --- structure -----------------------------------------------------------------------------------------


@given(expressions())
def test_children_rebuild_their_node_and_substituting_is_evaluating_later(node: expr.Expr) -> None:
    assert expr.rebuild(node, node.children) == node
    first = max(expr.variables(node), key=lambda v: v.name)
    fixed = expr.substitute(node, {first: expr.Const(first.facts.hi)})
    assert first not in expr.variables(fixed)
    env = domain(node)
    top = {**env, first: np.full_like(env[first], first.facts.hi)}
    assert (values(fixed, top) == values(node, top)).all()
    assert expr.substitute(node, {}) is node


def test_shared_parts_are_visited_once() -> None:
    """A chain that uses each part twice doubles as a tree; as a graph it has one node a step."""
    node: expr.Expr = I
    for _ in range(200):
        node = (node ^ (node >> 1)) % 64
    assert expr.variables(node) == {I}
    one = expr.evaluate(node, {I: 5})
    assert expr.evaluate(expr.substitute(node, {I: expr.Const(5)}), {}) == one
    assert expr.evaluate(node, {I: np.arange(8)})[5] == one
    assert hash(node) == hash(node) and 0 <= expr.evaluate(expr.simplify(node), {I: 5}) < 64


def test_predicates() -> None:
    p = (I < 4) & (N > 2)
    assert all(
        map(expr.is_predicate, (p, p | I.eq(3), I <= 3, expr.Const(0), expr.Const(1), p & expr.Const(1)))
    )
    assert not any(
        map(expr.is_predicate, (I, I & 1, expr.Const(2), I + (I < 4), p & (I & 1), expr.Select(p, I, N)))
    )
    assert expr.simplify((I < 8) & (N > 0)) == expr.Const(1) and expr.is_predicate(expr.simplify(I < 8))
    assert [expr.evaluate(p, {I: 3, N: k}) for k in (2, 3)] == [0, 1]


# --- evaluation ----------------------------------------------------------------------------------------


def test_an_array_is_widened_or_refused_and_an_int_is_exact() -> None:
    tid, big = expr.Var("tid", 256), expr.Var("big", 1 << 40)
    assert expr.evaluate(tid * 4096 * 4096, {tid: np.arange(256, dtype=np.uint8)})[255] == 255 << 24
    assert expr.evaluate(big * big, {big: 1 << 39}) == 1 << 78
    with pytest.raises(ResourceError, match=r"bits of 'big \* big' .* 80 asked, the limit is 63"):
        expr.evaluate(big * big % 7, {big: np.arange(4)})
    with pytest.raises(IRError, match="no value is given for j"):
        expr.evaluate(I + J, {I: 3})


def test_a_difference_of_ints_arrays_and_expressions_is_one_function() -> None:
    table = [[max(i - j, 0) for j in range(12)] for i in range(8)]
    assert [[expr.minus(i, j) for j in range(12)] for i in range(8)] == table
    x, y = np.arange(8)[:, None], np.arange(12)[None, :]
    assert expr.minus(x, y).tolist() == expr.evaluate(expr.minus(I, J), {I: x, J: y}).tolist() == table
    assert expr.minus(I, 0) == expr.Minus(I, expr.Const(0)) and expr.minus(7, I).exact
