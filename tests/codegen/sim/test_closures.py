"""A compiled expression has the value that `evaluate` defines in each lane; what is kept may be kept."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Expr, Lt, Minus, Var, evaluate
from layoutalg.codegen.sim.closures import Scope
from layoutalg.errors import IRError, ResourceError
from tests.draws.expressions import expressions

TID = Var("tid", 64, "thread")
UNROLLED = Var("i", 4, "unroll")
LOOP = Var("kt", 100, "loop")
PARAM = Var("n", 1000, "param", 1)
VARS = (TID, UNROLLED, LOOP, PARAM)


def _lanes(value: Any) -> list[int]:
    return [int(v) for v in numpy.broadcast_to(value, 64)]


@example(Minus(Lt(TID, PARAM), Lt(UNROLLED, TID)), [(3, 0)])  # predicates are numbers
@example(Lt(TID, PARAM) + Lt(LOOP, TID), [(0, 7)])
@given(
    expressions(VARS, max_leaves=8),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), min_size=1, max_size=5),
)
def test_a_closure_is_evaluation(node: Expr, visits: list[tuple[int, int]]) -> None:
    scope = Scope()
    slots = {var: scope.declare(var) for var in VARS}
    run = scope.compile(node)
    frame = scope.frame()
    frame[slots[TID]], frame[slots[PARAM]] = numpy.arange(64), 137
    for i, kt in visits:  # one frame, so that what it remembers is put to use
        frame[slots[UNROLLED]], frame[slots[LOOP]] = i, kt
        env = {TID: numpy.arange(64), PARAM: 137, UNROLLED: i, LOOP: kt}
        assert _lanes(run(frame)) == _lanes(evaluate(node, env))


def test_a_variable_that_is_declared_again_is_another() -> None:
    """Closures are kept by their expressions, and inside a scope a name may mean something else."""
    scope = Scope()
    tid, i = scope.declare(TID), scope.declare(UNROLLED)
    node = TID * 2 + UNROLLED * 8
    outer, again, inside = scope.compile(node), scope.compile(node), scope.inner()
    j = inside.declare(UNROLLED)
    inner = inside.compile(node)
    frame = scope.frame()
    frame[tid], frame[i], frame[j] = numpy.arange(64), 1, 3
    assert outer is again and outer(frame) is outer(frame)
    assert _lanes(outer(frame)) == [2 * n + 8 for n in range(64)]
    assert _lanes(inner(frame)) == [2 * n + 24 for n in range(64)]
    beside = scope.inner()
    k = beside.declare(LOOP)
    assert not beside.is_fixed(node + LOOP) and beside.is_fixed(node)
    with pytest.raises(IRError, match="kt is not in scope"):
        scope.compile(node + LOOP)
    frame = scope.frame()
    frame[tid], frame[i], frame[k] = numpy.arange(64), 2, 5
    assert _lanes(beside.compile(node + LOOP)(frame)) == [2 * n + 21 for n in range(64)]


def test_a_let_of_fixed_variables_is_fixed() -> None:
    scope = Scope()
    tid, i = scope.declare(TID), scope.declare(UNROLLED)
    row = Var("row", 64, "let")
    value = TID // 2 + UNROLLED
    compute, slot = scope.compile(value), scope.declare(row, value)
    run = scope.compile(row * 3)
    frame = scope.frame()
    frame[tid] = numpy.arange(64)
    seen = []
    for n in (0, 1, 0):
        frame[i] = n
        frame[slot] = compute(frame)
        seen.append(run(frame))
    assert seen[0][5] == 6 and seen[1][5] == 9
    assert seen[0] is seen[2], "the value for i = 0 is kept"


def test_shared_subexpressions_are_computed_once() -> None:
    """Forty swizzles of swizzles: a tree of 2^40 leaves, a graph of 120 nodes."""
    scope = Scope()
    tid, kt = scope.declare(TID), scope.declare(LOOP)
    node: Expr = TID + LOOP * 64
    for n in range(40):
        node = node ^ (node >> (n % 5 + 1))
    run = scope.compile(node)
    frame = scope.frame()
    frame[tid], frame[kt] = numpy.arange(64), 3
    want = numpy.arange(64) + 192
    for n in range(40):
        want = want ^ (want >> (n % 5 + 1))
    assert (run(frame) == want).all()


def test_values_past_63_bits_stay_ints_or_are_refused() -> None:
    wide = Var("wide", 1 << 70, "param")
    scope = Scope()
    tid, slot = scope.declare(TID), scope.declare(wide)
    alone, mixed = scope.compile(wide * 4 + 1), scope.compile((wide * 4 + TID) % 1024)
    frame = scope.frame()
    frame[tid], frame[slot] = numpy.arange(64), 1 << 69
    assert alone(frame) == (1 << 71) + 1
    with pytest.raises(ResourceError, match=r"bits of 'wide \* 4 \+ tid' in an int64 array: 73 asked"):
        mixed(frame)
