"""Index expressions: one definition on Python ints, on arrays and as nodes; parts and values.

The law: a layout called on ints, called on arrays, and called on variables, simplified and evaluated, is one
function on its whole domain.  `test_ctext` adds the C text to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from layoutalg.codegen.expr import (
    Const,
    Expr,
    Minus,
    Select,
    Var,
    as_expr,
    children,
    evaluate,
    is_predicate,
    minus,
    rebuild,
    simplify,
    substitute,
    variables,
)
from layoutalg.errors import IRError, ResourceError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, coordinate_at, flatten_tree, product
from layoutalg.testing import composed_layouts, layouts
from tests.expressions import domain, expressions, values

I, J, N = Var("i", 8), Var("j", 12, "unroll"), Var("n", 100, "param", 1)  # noqa: E741

# --- one definition ------------------------------------------------------------------------------------


def domain_shape(layout: AnyLayout) -> Any:
    while isinstance(layout, ComposedLayout):
        layout = layout.inner
    return layout.shape


@given(layouts())
def test_a_layout_is_one_function_on_ints_arrays_and_variables(layout: Layout) -> None:
    agree(layout)


@given(composed_layouts())
def test_a_swizzled_layout_is_one_function_on_ints_arrays_and_variables(layout: ComposedLayout) -> None:
    agree(layout)


def agree(layout: AnyLayout) -> None:
    shape = domain_shape(layout)
    size = product(shape)
    i = Var("i", size)
    expected = [layout(k) for k in range(size)]
    assert np.broadcast_to(layout(np.arange(size)), size).tolist() == expected
    called = as_expr(layout(i))
    for node in (called, simplify(called)):
        assert values(node, domain(i)).tolist() == expected
        assert [evaluate(node, {i: k}) for k in range(size)] == expected
        assert node.facts.lo <= min(expected) and max(expected) <= node.facts.hi


@given(composed_layouts(max_size=64))
def test_a_tree_of_variables_is_a_coordinate(layout: ComposedLayout) -> None:
    """One variable a leaf: the coordinate of the shape's own form."""
    shape = domain_shape(layout)
    leaves: list[Var] = []

    def tree(extent: Any) -> Any:
        if isinstance(extent, tuple):
            return tuple(tree(e) for e in extent)
        leaves.append(Var(f"v{len(leaves)}", extent))
        return leaves[-1]

    coordinate = tree(shape)
    node = simplify(as_expr(layout(coordinate)))
    for k in range(product(shape)):
        digits = flatten_tree(coordinate_at(k, shape))
        assert evaluate(node, dict(zip(leaves, digits, strict=True))) == layout(k)


@given(expressions())
def test_facts_hold_everywhere(node: Expr) -> None:
    f, found = node.facts, values(node, domain(node))
    assert f.lo <= found.min() and found.max() <= f.hi
    assert (found % f.stride == f.offset).all() if f.stride else (found == f.offset).all()
    assert (found & f.must == f.must).all() and (found & ~f.may == 0).all()


@given(expressions())
def test_ints_and_arrays_agree(node: Expr) -> None:
    env = domain(node)
    table = values(node, env)
    for index in ((0,) * table.ndim, tuple(n - 1 for n in table.shape), tuple(n // 2 for n in table.shape)):
        point = {v: int(np.broadcast_to(x, table.shape)[index]) for v, x in env.items()}
        assert evaluate(node, point) == table[index]


# --- structure -----------------------------------------------------------------------------------------


@given(expressions())
def test_children_rebuild_their_node(node: Expr) -> None:
    assert rebuild(node, children(node)) == node


@given(expressions())
def test_substituting_is_evaluating_later(node: Expr) -> None:
    first = max(variables(node), key=lambda v: v.name)
    fixed = substitute(node, {first: Const(first.facts.hi)})
    assert first not in variables(fixed)
    env = domain(node)
    top = {**env, first: np.full_like(env[first], first.facts.hi)}
    assert (values(fixed, top) == values(node, top)).all()
    assert substitute(node, {}) is node


def test_shared_parts_are_visited_once() -> None:
    """A chain that uses each part twice doubles as a tree; as a graph it has one node a step."""
    node: Expr = I
    for _ in range(200):
        node = (node ^ (node >> 1)) % 64
    assert variables(node) == {I}
    one = evaluate(node, {I: 5})
    assert evaluate(substitute(node, {I: Const(5)}), {}) == one
    assert evaluate(node, {I: np.arange(8)})[5] == one
    assert hash(node) == hash(node) and 0 <= evaluate(simplify(node), {I: 5}) < 64


def test_predicates() -> None:
    p = (I < 4) & (N > 2)
    assert all(map(is_predicate, (p, p | I.eq(3), I <= 3, Const(0), Const(1), p & Const(1))))
    assert not any(map(is_predicate, (I, I & 1, Const(2), I + (I < 4), p & (I & 1), Select(p, I, N))))
    assert simplify((I < 8) & (N > 0)) == Const(1) and is_predicate(simplify(I < 8))
    assert [evaluate(p, {I: 3, N: k}) for k in (2, 3)] == [0, 1]


# --- evaluation ----------------------------------------------------------------------------------------


def test_narrow_arrays_are_widened() -> None:
    tid = Var("tid", 256)
    node = tid * 4096 * 4096
    assert evaluate(node, {tid: np.arange(256, dtype=np.uint8)})[255] == 255 << 24


def test_an_array_that_could_wrap_is_refused_and_an_int_is_exact() -> None:
    big = Var("big", 1 << 40)
    assert evaluate(big * big, {big: 1 << 39}) == 1 << 78
    with pytest.raises(
        ResourceError, match=r"bits of 'big \* big' in an int64 array: 80 asked, the limit is 63"
    ):
        evaluate(big * big % 7, {big: np.arange(4)})


def test_a_variable_without_a_given_value_is_named() -> None:
    with pytest.raises(IRError, match="no value is given for j"):
        evaluate(I + J, {I: 3})


def test_a_difference_of_ints_arrays_and_expressions_is_one_function() -> None:
    x, y = np.arange(12)[:, None], np.arange(12)[None, :]
    a, b = Var("a", 12), Var("b", 12)
    table = [[max(i - j, 0) for j in range(12)] for i in range(12)]
    assert [[minus(i, j) for j in range(12)] for i in range(12)] == table
    assert minus(x, y).tolist() == evaluate(minus(a, b), {a: x, b: y}).tolist() == table
    assert minus(a, 0) == Minus(a, Const(0)) and minus(7, a) == Minus(Const(7), a)


def test_a_choice_is_made_point_by_point() -> None:
    node = Select(I < 4, I * 2, J + 100)
    assert evaluate(node, {I: np.arange(8), J: 1}).tolist() == [0, 2, 4, 6, 101, 101, 101, 101]
