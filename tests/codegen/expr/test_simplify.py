"""The simplifier: equal everywhere, a normal form, no variable copied, and as short as a person writes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen import expr
from layoutalg.codegen.expr.rewrite import Rule, Rules, rewrite
from layoutalg.codegen.expr.simplifier import RULES
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.draws.expressions import differ_at, expressions, occurrences
from tests.sweeps import each

A, B = expr.Var("a", 8), expr.Var("b", 12, "unroll")


@given(expressions())
@example((A ^ 8) ^ 33)  # two constants of a XOR once changed places for ever
@example((A ^ (B * 4 + 3)) ^ ((A + 8) & 24))
@example(expr.And(A * 4 + A * 64, expr.Const(28)))
@example((A * 12 + B * 18 + 5) // 36)
def test_the_normal_form_is_equal_everywhere_and_final(node: expr.Expr) -> None:
    out = expr.simplify(node)
    point = differ_at(node, out)
    assert point is None, f"{node}  ->  {out}  differs at {point}"
    assert rewrite(out, RULES) == out, "not a normal form"
    assert rewrite(node, RULES) == out, "what was simplified before it matters"
    assert occurrences(out) <= occurrences(node), "a variable is read more often than before"
    assert expr.variables(out) <= expr.variables(node)


def test_normal_forms_are_forgotten_past_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expr.simplifier, "MOST_KNOWN", 100)
    expr.simplifier.forget()
    nodes = [A * n + B // (n + 1) + n for n in range(300)]
    found = [expr.simplify(node) for node in nodes]
    assert len(expr.simplifier._known) < 200
    assert found == [rewrite(node, RULES) for node in nodes]
    assert expr.simplify(nodes[-1]) is found[-1], "it is known"


def universe() -> Iterator[expr.Expr]:
    """Every operator on every pair of simple operands, under every operator once more."""
    x, others = expr.Var("x", 13), (expr.Var("y", 6), expr.Var("m", 24, "let", 0, 4))

    def simple(v: expr.Expr) -> tuple[expr.Expr, ...]:
        return (v, v * 3, v * 4, v % 5, v % 4, v // 3, v // 4, v & 6, v + 7, v * 4 + v % 4)

    for a, v in product(simple(x), others):
        for b in (*simple(v), expr.Const(8), a):
            for node in (a + b, expr.Minus(a, b), expr.Minus(v + 80, b), a ^ b, a | b, expr.Mul(a, b)):
                yield from (node // 4, node % 6, node % 8, node & 12, node * 3, node + 5, node ^ 3)
                yield from (node < 11, node >= 6, node.eq(b))
            yield from (a < b, a <= b, a.eq(b), (a < b) & (b < 9), expr.Select(a < b, a, b))


@pytest.mark.deep
def test_no_rule_is_wrong_wherever_it_fires() -> None:
    fired: dict[str, int] = dict.fromkeys((rule.name for rule in RULES), 0)
    for node in universe():
        for rule in RULES:
            out = rule.apply(node)
            if out is not None:
                assert not rule.roots or type(node) in rule.roots, f"'{rule.name}' is not tried on {node}"
                fired[rule.name] += 1
                assert differ_at(node, out) is None, f"'{rule.name}': {node}  ->  {out}"
    assert sum(count > 0 for count in fired.values()) >= 20, fired


LARGE_VARIABLES = (
    expr.Var("tid", 1024), expr.Var("blk", 1 << 20, "block"), expr.Var("ld", 1 << 16, "param", 16, 16),
    expr.Var("i", 8, "unroll"), expr.Var("row", 1 << 30, "let", 0, 32),
)  # fmt: skip


@given(expressions(LARGE_VARIABLES), st.lists(st.integers(0, (1 << 62) - 1), min_size=5, max_size=5))
def test_large_values_agree(node: expr.Expr, seeds: list[int]) -> None:
    """Python's integers do not wrap: every intermediate value is exact, however large."""
    out = expr.simplify(node)
    for shift in range(5):
        env = {}
        for var, seed in zip(LARGE_VARIABLES, seeds[shift:] + seeds[:shift], strict=True):
            count = (var.facts.hi - var.facts.lo) // var.multiple + 1
            env[var] = var.facts.lo + seed % count * var.multiple
        value = expr.evaluate(node, env)
        assert expr.evaluate(out, env) == value
        for f in (node.facts, out.facts):
            assert f.lo <= value <= f.hi and f.must & ~value == 0 and value & ~f.may == 0


# --- as short as a person would write ------------------------------------------------------------------

TID, LANE, STEP, J = (
    expr.Var("tid", 256),
    expr.Var("lane", 32),
    expr.Var("i", 8, "unroll"),
    expr.Var("j", 4, "unroll"),
)
X, N = expr.Var("x", 4096), expr.Var("n", 1 << 20, "param", 1)
WARPS = expr.Var("tid", 128)
ROW = expr.Var("row", 1 << 20, "let", 0, 32)
TILE = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
F32 = ComposedLayout(Swizzle(5, 0, 5), 0, Layout((32, 32), (32, 1)))

Z240, T, U, V, W8, K64, BLK = (
    expr.Var(name, extent, kind)  # type: ignore[arg-type]
    for name, extent, kind in (
        ("z", 240, "thread"), ("t", 64, "thread"), ("u", 8, "thread"), ("v", 4, "unroll"), ("w", 8, "thread"),
        ("k", 64, "loop"), ("b", 99, "block"),
    )
)  # fmt: skip
O, X20, Y20 = expr.Var("o", 97, "let", 0, 32), expr.Var("x", 20), expr.Var("y", 40, "param", 20)  # noqa: E741
HIERARCHICAL, PADDED = Layout(((2, 4), 8), ((1, 16), 2)), Layout((8, 32), (33, 1))
ROWS, TILES = Layout((16, 16), (16, 1)), Layout(((8, 8), (8, 8)), ((8, 512), (1, 64)))
MMA = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
VECTORS, MATRICES = (
    TILE(WARPS // 8, WARPS % 8 * 8),
    (WARPS // 32 * 16 + WARPS % 16, WARPS % 32 // 16 * 8 + J * 16),
)

SHORT: list[tuple[Any, str]] = [
    (ROWS(TID), "tid % 16 * 16 + tid // 16"),
    (ROWS(ROWS(TID)), "tid"),
    (Layout((4, 6, 10), (60, 10, 1))(Layout((10, 6, 4), (24, 4, 1))(Z240)), "z"),
    (HIERARCHICAL(T), "t % 2 + t // 2 % 4 * 16 + t // 8 * 2"),
    (HIERARCHICAL(U, W8), "u % 2 + u // 2 * 16 + w * 2"),
    (TILES(TID // 64 * 8 + STEP, TID % 64), "tid // 8 * 64 + i * 8 + tid % 8"),
    (Layout((3, 5, 7), (35, 7, 1))(expr.Var("t", 105)), "t % 3 * 35 + t // 3 % 5 * 7 + t // 15"),
    (PADDED(TID // 32, TID % 32) % 32, "(tid // 32 + tid % 32) % 32"),
    (MMA(LANE, V), "lane % 4 * 32 + lane // 4 + v % 2 * 16 + v // 2 * 8"),
    (Layout((99, 256), (256, 1))(BLK, TID), "b * 256 + tid"),
    (TILE(WARPS // 8 + J * 16, WARPS % 8 * 8), "(tid * 8 ^ tid & 56) + j * 1024"),
    (TILE(*MATRICES), "(tid // 16 % 2 + j * 2 ^ tid % 8) * 8 + tid // 32 * 1024 + tid % 16 * 64"),
    (VECTORS // 8, "tid ^ tid // 8 % 8"),
    (
        K64 % 3 * 4096 + TILE(LANE % 16, LANE // 16 * 8),
        "k % 3 * 4096 + (lane // 16 ^ lane % 8) * 8 + lane % 16 * 64",
    ),
    (F32(TID // 32 + J * 8, TID % 32), "(tid ^ tid // 32 + j * 8) + j * 256"),
    (F32(LANE, W8), "(w ^ lane) + lane * 32"),
    (Swizzle(3, 0, 1)(Swizzle(3, 0, 1)(X)), "x ^ x // 4 % 4"),
    (Swizzle(3, 3, 3)(X // 8 * 8) // 8, "x // 8 ^ x // 64 % 8"),
    (Swizzle(3, 3, 3)(X) // 64, "x // 64"),
    ((TID + 130) // 128, "(tid + 2) // 128 + 1"),
    ((TID + 130) % 128, "(tid + 2) % 128"),
    (TID * 4 + 3 < N * 4, "tid < n"),
    (ROW + 32 <= N, "row + 32 <= n"),
    ((TID // 32 * 4 < 256) & (ROW + TID % 32 < N), "row + tid % 32 < n"),
    ((TID // 32).eq(0), "tid < 32"),
    (TID + 5 >= 9, "3 < tid"),
    ((TID * 8 + 3).eq(N * 8 + 4), "0"),
    (expr.Select(TID < 300, TID, TID + 1), "tid"),
    (expr.Minus(X20 * 4 + 3, X20 * 4), "3"),
    (expr.Const(127) - O - X20, "127 - (o + x)"),
    ((19 - X20) * 4 + 2 < 40, "9 < x"),
    (expr.Minus(X20, expr.Const(4)) < 4, "x < 8"),
    (expr.Minus(X20 * 8, expr.Const(16)) // 8, "max(x - 2, 0)"),
    ((96 - O) % 16 + X20, "x"),
    ((Y20 - X20) + 3 < Y20, "3 < x"),
]


@each(("node", "text"), SHORT)
def test_index_code_is_as_short_as_a_person_writes_it(node: expr.Expr, text: str) -> None:
    out = expr.simplify(node)
    assert str(out) == text
    if all(v.facts.hi < 10_000 for v in expr.variables(node)):
        assert differ_at(node, out) is None


@pytest.mark.parametrize(
    "fields", [(3, 3, 3), (2, 0, 3), (3, 4, -3), (5, 0, 5), (3, 0, 1), (3, 1, -2), (5, 3, 2)]
)
def test_swizzles_cancel(fields: tuple[int, int, int]) -> None:
    """(1 + N)^2 = 1 over F2 where N^2 = 0, (1 + N)^4 = 1 where the shift moves every field out by then."""
    node: expr.Expr = X
    for _ in range(2 if abs(fields[2]) >= fields[0] else 4):
        node = Swizzle(*fields)(node)
    assert expr.simplify(node) == X


def test_a_long_chain_of_swizzles_stays_small() -> None:
    """Each step uses the offset twice: as a tree the input has 2^12 leaves."""
    node: expr.Expr = X
    for bits, base, shift in ((3, 2, 1), (3, 1, -3), (5, 4, -1), (3, 5, -1), (3, 3, 1), (4, 1, 4)) * 2:
        node = Swizzle(bits, base, shift)(node)
    out = expr.simplify(node)
    every = np.arange(4096)
    assert np.array_equal(expr.evaluate(out, {X: every}), expr.evaluate(node, {X: every}))
    assert expr.index_cost(out) < 4 * expr.index_cost(node)


# --- effort --------------------------------------------------------------------------------------------


def test_an_address_takes_few_rewrites() -> None:
    """The work is counted in rewrites, not in time: a swizzled ldmatrix address needs about a hundred."""
    steps: list[expr.Expr] = []

    def counting(rule: Rule) -> Rule:
        def apply(node: expr.Expr) -> expr.Expr | None:
            out = rule.apply(node)
            steps.extend([] if out is None else [out])
            return out

        return Rule(rule.name, apply)

    node = TILE(*MATRICES)
    assert rewrite(node, Rules(map(counting, RULES))) == expr.simplify(node)
    assert 0 < len(steps) <= 150


def test_a_wide_sum_stays_cheap() -> None:
    """Many terms, each shared: the normal form of a subexpression is found once."""
    node: expr.Expr = expr.Const(0)
    for n in range(40):
        node = node + (TID // 8 % 4 * n + (TID % 8) * (n + 1))
    out = expr.simplify(node)
    assert str(out) == "tid % 8 * 820 + tid // 8 % 4 * 780"
    assert np.array_equal(
        expr.evaluate(out, {TID: np.arange(256)}), expr.evaluate(node, {TID: np.arange(256)})
    )
