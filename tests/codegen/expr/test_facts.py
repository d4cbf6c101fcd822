"""Facts: every transfer function is sound on all small sets, and keeps what index code lives on.

The definition is a set of integers.  `sharpest(values)` is the best record that describes the set,
`members(facts)` the set a record describes.  A transfer function is sound when the results of all pairs
are members of what it says.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import astuple
from itertools import product
from math import gcd
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Expr, Minus, Select, Var, as_expr
from layoutalg.codegen.expr import facts as F
from layoutalg.codegen.expr.facts import Facts, between, constant, multiple, reconcile
from layoutalg.errors import IRError
from tests.draws.expressions import domain, values
from tests.sweeps import each


def contains(f: Facts, x: int) -> bool:
    congruent = (x - f.offset) % f.stride == 0 if f.stride else x == f.offset
    return f.lo <= x <= f.hi and congruent and f.must & ~x == 0 and x & ~f.may == 0


def members(f: Facts) -> set[int]:
    return {x for x in range(f.lo, f.hi + 1) if contains(f, x)}


def sharpest(values: Iterable[int]) -> Facts:
    ordered = sorted(values)
    first, stride, may, must = ordered[0], 0, 0, ordered[0]
    for x in ordered:
        stride, may, must = gcd(stride, x - first), may | x, must & x
    return Facts(first, ordered[-1], stride, first % stride if stride else first, may, must)


def subsets(n: int) -> list[list[int]]:
    return [[x for x in range(n) if chosen >> x & 1] for chosen in range(1, 1 << n)]


SMALL = {f: members(f) for f in map(sharpest, subsets(10))}
"""Every record that describes a set of numbers below 10 as sharply as possible, and what it admits."""


class Operator(NamedTuple):
    transfer: Callable[[Facts, Facts], Facts]
    meaning: Callable[[int, int], int]
    least_divisor: int = 0


OPERATORS = {
    "+": Operator(F.add, operator.add), "-": Operator(F.subtract, lambda x, y: max(x - y, 0)),
    "*": Operator(F.mul, operator.mul), "//": Operator(F.floordiv, operator.floordiv, 1),
    "%": Operator(F.mod, operator.mod, 1), "^": Operator(F.bitwise_xor, operator.xor),
    "&": Operator(F.bitwise_and, operator.and_), "|": Operator(F.bitwise_or, operator.or_),
    "<": Operator(F.less_than, operator.lt), "<=": Operator(F.less_equal, operator.le),
    "==": Operator(F.equal, operator.eq),
}  # fmt: skip


@each("symbol", OPERATORS, sample=3)
def test_a_transfer_function_admits_every_result(symbol: str) -> None:
    transfer, meaning, least = OPERATORS[symbol]
    for (a, xs), (b, ys) in product(SMALL.items(), repeat=2):
        if b.lo >= least:
            f = transfer(a, b)
            results = {int(meaning(x, y)) for x in xs for y in ys}
            assert results <= members(f), f"{a} {symbol} {b} gives {f}, which excludes {results - members(f)}"
        if symbol == "+":
            assert xs | ys <= members(F.join(a, b))


# --- reconciling ---------------------------------------------------------------------------------------


def raw_facts(bits: int) -> Iterable[Facts]:
    """Every claim about numbers of so many bits, sharp or not, of which some number is a witness."""
    top = 1 << bits
    congruences = [(s, o) for s in range(1, top + 1) for o in range(s)] + [(0, o) for o in range(top)]
    masks = [(may, must) for may in range(top) for must in range(top) if must & ~may == 0]
    for lo, hi in product(range(top), repeat=2):
        for (stride, offset), (may, must) in product(congruences, masks):
            if lo <= hi:
                yield Facts(lo, hi, stride, offset, may, must)


@pytest.mark.deep
def test_reconciling_loses_no_value_and_admits_no_other_and_once_is_enough() -> None:
    for raw in raw_facts(3):
        if wanted := members(raw):
            f = reconcile(*astuple(raw))
            assert members(f) == wanted and reconcile(*astuple(f)) == f, raw
    for kept in map(sharpest, subsets(12)):
        assert reconcile(*astuple(kept)) == kept


def test_congruences_meet_across_bits() -> None:
    assert reconcile(0, 100, 3, 0, 0b1111100, 0) == Facts(0, 96, 12, 0, 0b1111100, 0)
    assert reconcile(0, 100, 6, 2, 127, 0b100).offset == 2  # 4 is set, so is nothing below but 2


@each("claim", [(5, 7, 16, 0), (3, 2, 1, 0), (9, 9 + 14, 16, 8), (1, 5, 7, 0), (17, 30, 15, 1), (4, 9, 0, 3)])
def test_a_claim_no_value_satisfies_is_refused(claim: tuple[int, int, int, int]) -> None:
    with pytest.raises(IRError, match="no value satisfies"):
        between(*claim)
    with pytest.raises(IRError, match="no value satisfies"):
        reconcile(0, 15, 1, 0, 0b0111, 0b1000)


def test_a_difference_is_exact_where_the_intervals_say_so() -> None:
    """Then its interval and its congruence are as good as those of a sum."""
    for (a, xs), (b, ys) in product(SMALL.items(), repeat=2):
        if a.lo >= b.hi:
            found, best = F.subtract(a, b), sharpest({x - y for x in xs for y in ys})
            assert (found.lo, found.hi) == (best.lo, best.hi)
            assert found.stride == best.stride or found.stride % gcd(a.stride, b.stride) == 0


# --- large values: a witness must stay inside ----------------------------------------------------------


@st.composite
def witnessed(draw: st.DrawFn, least: int = 0) -> tuple[int, Facts]:
    """A number and facts that hold for it, not necessarily sharp."""
    bits = draw(st.integers(1, 40))
    x = draw(st.integers(least, max(least, (1 << bits) - 1)))
    lo = draw(st.integers(least, x))
    hi = x + draw(st.integers(0, 1 << bits))
    stride = draw(st.one_of(st.integers(1, 200), st.integers(0, bits).map(lambda n: 1 << n)))
    may = x | draw(st.integers(0, 1 << bits))
    must = x & draw(st.integers(0, 1 << bits))
    return x, reconcile(lo, hi, stride, x % stride, may, must)


@each("symbol", OPERATORS, sample=2)
@given(a=witnessed(), b=witnessed(least=1))
@example(a=(0, constant(0)), b=(1, constant(1)))
def test_a_transfer_function_keeps_large_witnesses(
    symbol: str, a: tuple[int, Facts], b: tuple[int, Facts]
) -> None:
    transfer, meaning, _ = OPERATORS[symbol]
    assert contains(a[1], a[0]) and contains(transfer(a[1], b[1]), int(meaning(a[0], b[0])))
    joined = F.join(a[1], b[1])
    assert contains(joined, a[0]) and contains(joined, b[0])


# --- precision: what index code lives on ---------------------------------------------------------------


@pytest.mark.parametrize("symbol", ["<", "<="])
def test_an_order_is_decided_wherever_it_can_be(symbol: str) -> None:
    transfer, meaning, _ = OPERATORS[symbol]
    for (a, xs), (b, ys) in product(SMALL.items(), repeat=2):
        results = {int(meaning(x, y)) for x in xs for y in ys}
        assert members(transfer(a, b)) == results


@pytest.mark.parametrize("symbol", ["+", "^", "&", "|"])
def test_known_bits_are_all_that_bits_can_tell(symbol: str) -> None:
    """Given bits alone, the result's bits are the best there are (for + this is LLVM's theorem)."""
    transfer, meaning, _ = OPERATORS[symbol]
    masks = [(may, must) for may in range(16) for must in range(16) if must & ~may == 0]
    bits_only = [reconcile(0, 15, 1, 0, may, must) for may, must in masks]
    for a, b in product(bits_only, repeat=2):
        best = sharpest({meaning(x, y) for x in members(a) for y in members(b)})
        got = transfer(a, b)
        assert (got.may, got.must) == (best.may, best.must), f"{a} {symbol} {b}"


TID, ROW, EVEN = Var("tid", 256), Var("row", 64), Var("x", 16, "let", 0, 2)
SHARP = (
    TID % 8 * 16 + 128, TID // 8 * 128 + TID % 8 * 16, ROW * 128 ^ ROW % 8 * 16, EVEN ^ 5, TID % 4 + 8,
    ROW * 36 + 4, Var("u", 4) * 68, TID * 48 // 16, Var("x", 48, "let", 32) % 32,
    Var("x", 256, "let", 0, 16) % 24, Var("x", 64, "let", 0, 8) % Var("n", 1000, "param", 64),
    Select(TID < 8, as_expr(16), as_expr(48)), EVEN.eq(EVEN * 2 + 1), Var("x", 5) ^ Var("y", 2),
    Var("x", 64, "let", 0, 4) | 3, 127 - Var("x", 128, "let", 0, 16),
    Minus(as_expr(96), Var("x", 128, "let", 0, 32)), Minus(ROW, as_expr(63)), TID & 48, (TID & 53) % 16,
)  # fmt: skip
"""Expressions of index code, whose facts are the sharpest that describe their values."""


@each("node", SHARP, ids=str)
def test_a_fact_index_code_needs_is_not_lost(node: Expr) -> None:
    assert node.facts == sharpest(np.unique(values(node, domain(node))).tolist())


def test_what_counts_back_beside_its_rows_does_not_borrow() -> None:
    found = F.subtract(F.add(F.mul(multiple(1 << 20), constant(8)), constant(7)), multiple(8))
    assert found == between(0, ((1 << 20) - 1) * 8 + 7)


def test_alignment_is_divisibility() -> None:
    f = between(0, 1000, 48, 16)
    assert [n for n in (1, 2, 4, 8, 16, 32, 48) if f.divisible_by(n)] == [1, 2, 4, 8, 16]
    assert constant(0).divisible_by(64) and not constant(8).divisible_by(64)
