"""The simplifier: equal everywhere, a normal form, no variable copied, and as short as a person writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

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

SHORT: dict[str, tuple[Callable[[], expr.Expr], str]] = {
    "column-major": (lambda: Layout((16, 16))(TID), "tid"),
    "row-major": (lambda: Layout((16, 16), (16, 1))(TID), "tid % 16 * 16 + tid // 16"),
    "rows and columns of a row-major tile": (lambda: Layout((16, 16), (16, 1))(TID // 16, TID % 16), "tid"),
    "transposed twice": (
        lambda: Layout((16, 16), (16, 1))(Layout((16, 16), (16, 1))(TID)),
        "tid",
    ),
    "a permutation and its inverse": (
        lambda: Layout((4, 6, 10), (60, 10, 1))(Layout((10, 6, 4), (24, 4, 1))(expr.Var("z", 240))),
        "z",
    ),
    "hierarchical": (
        lambda: Layout(((2, 4), 8), ((1, 16), 2))(expr.Var("t", 64)),
        "t % 2 + t // 2 % 4 * 16 + t // 8 * 2",
    ),
    "hierarchical, a coordinate a mode": (
        lambda: Layout(((2, 4), 8), ((1, 16), 2))(expr.Var("t", 8), expr.Var("u", 8)),
        "t % 2 + t // 2 * 16 + u * 2",
    ),
    "tiles of 8 x 8": (
        lambda: Layout(((8, 8), (8, 8)), ((8, 512), (1, 64)))(TID // 64 * 8 + STEP, TID % 64),
        "tid // 8 * 64 + i * 8 + tid % 8",
    ),
    "odd extents": (lambda: Layout((3, 5, 7))(expr.Var("t", 105)), "t"),
    "odd extents, row-major": (
        lambda: Layout((3, 5, 7), (35, 7, 1))(expr.Var("t", 105)),
        "t % 3 * 35 + t // 3 % 5 * 7 + t // 15",
    ),
    "padded": (lambda: Layout((8, 32), (33, 1))(TID // 32, TID % 32), "tid // 32 * 33 + tid % 32"),
    "the bank of a padded element": (
        lambda: expr.as_expr(Layout((8, 32), (33, 1))(TID // 32, TID % 32)) % 32,
        "(tid // 32 + tid % 32) % 32",
    ),
    "an mma accumulator": (
        lambda: Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))(LANE, expr.Var("v", 4, "unroll")),
        "lane % 4 * 32 + lane // 4 + v % 2 * 16 + v // 2 * 8",
    ),
    "block and thread": (
        lambda: Layout((99, 256), (256, 1))(expr.Var("b", 99, "block"), TID),
        "b * 256 + tid",
    ),
    "a swizzled tile written in vectors": (lambda: TILE(WARPS // 8, WARPS % 8 * 8), "tid * 8 ^ tid & 56"),
    "... with an unrolled step of rows": (
        lambda: TILE(WARPS // 8 + J * 16, WARPS % 8 * 8),
        "(tid * 8 ^ tid & 56) + j * 1024",
    ),
    "... read by ldmatrix": (
        lambda: TILE(WARPS // 32 * 16 + WARPS % 16, WARPS % 32 // 16 * 8 + J * 16),
        "(tid // 16 % 2 + j * 2 ^ tid % 8) * 8 + tid // 32 * 1024 + tid % 16 * 64",
    ),
    "... its 16-byte vector": (
        lambda: expr.as_expr(TILE(WARPS // 8, WARPS % 8 * 8)) // 8,
        "tid ^ tid // 8 % 8",
    ),
    "... in a ring of stages": (
        lambda: expr.Var("k", 64, "loop") % 3 * 4096 + expr.as_expr(TILE(LANE % 16, LANE // 16 * 8)),
        "k % 3 * 4096 + (lane // 16 ^ lane % 8) * 8 + lane % 16 * 64",
    ),
    "an f32 tile written by rows": (
        lambda: F32(TID // 32 + J * 8, TID % 32),
        "(tid ^ tid // 32 + j * 8) + j * 256",
    ),
    "an f32 tile read by columns": (
        lambda: F32(LANE, expr.Var("w", 8)),
        "(w ^ lane) + lane * 32",
    ),
    "a swizzle undoes itself": (lambda: Swizzle(3, 3, 3)(Swizzle(3, 3, 3)(X)), "x"),
    "an overlapping swizzle, twice": (lambda: Swizzle(3, 0, 1)(Swizzle(3, 0, 1)(X)), "x ^ x // 4 % 4"),
    "the vector of a swizzled offset": (lambda: Swizzle(3, 3, 3)(X // 8 * 8) // 8, "x // 8 ^ x // 64 % 8"),
    "the row of a swizzled offset": (lambda: Swizzle(3, 3, 3)(X) // 64, "x // 64"),
    "a rounded-up quotient": (lambda: (TID + 130) // 128, "(tid + 2) // 128 + 1"),
    "the remainder of a shifted index": (lambda: (TID + 130) % 128, "(tid + 2) % 128"),
    "a guard in elements": (lambda: TID * 4 + 3 < N * 4, "tid < n"),
    "a guard of a whole tile": (lambda: ROW + 32 <= N, "row + 32 <= n"),
    "a guard that always holds": (lambda: (TID // 32 * 4 < 256) & (ROW + TID % 32 < N), "row + tid % 32 < n"),
    "the first warp": (lambda: (TID // 32).eq(0), "tid < 32"),
    "offsets on both sides": (lambda: TID + 5 >= 9, "3 < tid"),
    "never equal": (lambda: (TID * 8 + 3).eq(N * 8 + 4), "0"),
    "a decided choice": (lambda: expr.Select(TID < 300, TID, TID + 1), "tid"),
}  # fmt: skip


@each("what", SHORT)
def test_index_code_is_as_short_as_a_person_writes_it(what: str) -> None:
    make, text = SHORT[what]
    node = make()
    out = expr.simplify(node)
    assert str(out) == text
    if all(v.facts.hi < 10_000 for v in expr.variables(node)):
        assert differ_at(node, out) is None


@pytest.mark.parametrize("swizzle", [Swizzle(3, 3, 3), Swizzle(2, 0, 3), Swizzle(3, 4, -3), Swizzle(5, 0, 5)])
def test_an_involution_cancels(swizzle: Swizzle) -> None:
    assert expr.simplify(swizzle(swizzle(X))) == X


@pytest.mark.parametrize("swizzle", [Swizzle(3, 0, 1), Swizzle(3, 1, -2), Swizzle(5, 3, 2)])
def test_overlapping_fields_come_back_after_four_times(swizzle: Swizzle) -> None:
    """(1 + N)^4 = 1 over F2 where N^4 = 0: the shift moves every field out of itself by then."""
    node: expr.Expr = X
    for _ in range(4):
        node = swizzle(node)
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
    steps = 0

    def counting(rule: Rule) -> Rule:
        def apply(node: expr.Expr) -> expr.Expr | None:
            nonlocal steps
            out = rule.apply(node)
            steps += out is not None
            return out

        return Rule(rule.name, apply)

    node = TILE(WARPS // 32 * 16 + WARPS % 16, WARPS % 32 // 16 * 8 + J * 16)
    assert rewrite(node, Rules(map(counting, RULES))) == expr.simplify(node)
    assert 0 < steps <= 150


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


def test_names_of_rules_are_theorems_and_differ() -> None:
    names = [rule.name for rule in RULES]
    assert len(set(names)) == len(names)
    assert all(len(name) < 110 for name in names)
