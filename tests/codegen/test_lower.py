"""Lowering: the split is exact, found for swizzled tiles, and refused where it does not hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr, Var, evaluate, simplify, variables
from layoutalg.codegen.instr import LDS, STS
from layoutalg.codegen.program import Do, If, KernelBuilder, Let, MemRef, Unroll, lower, walk
from layoutalg.codegen.program.lowering import chained, split_address
from layoutalg.layout import ComposedLayout, Layout, Swizzle

TID, U, W = Var("tid", 64), Var("u", 4, "unroll"), Var("w", 2, "unroll")


def table(node: Expr) -> np.ndarray:
    grids = np.indices((64, 4, 2), dtype=np.int64)
    return np.broadcast_to(evaluate(node, dict(zip((TID, U, W), grids, strict=True))), (64, 4, 2))


def assert_split(index: Expr) -> tuple[Expr, Expr, Expr]:
    split = split_address(index, TID)
    assert split is not None
    values, base, xor, immediate = split
    assert np.array_equal(table(base)[:, 0, 0], values)
    assert variables(base) <= {TID}
    assert variables(xor) | variables(immediate) <= {U, W}
    np.testing.assert_array_equal(table(chained(base, xor, immediate, [])), table(index))
    return base, xor, immediate


SWIZZLED = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((64, 64), (64, 1)))


@pytest.mark.parametrize(
    "index",
    [
        SWIZZLED(TID % 8 + U * 8, TID // 8 * 8 % 16 + W * 16),
        SWIZZLED(TID, U * 16 + W * 8),
        SWIZZLED(TID % 8 * 8 + U, TID // 8 * 2) * 4,
        (TID * 4 ^ U * 4) + W * 1024,
        TID * 16 + U * 4 + 8,
    ],
    ids=str,
)
def test_swizzled_addresses_split_into_base_xor_and_immediate(index: Expr) -> None:
    assert_split(simplify(index))


def test_disjoint_constants_become_immediates_and_cost_no_xor() -> None:
    _, xor, immediate = assert_split(simplify(SWIZZLED(TID % 8, TID // 8 * 8) + U * 8192))
    assert simplify(xor) == Const(0)
    assert str(immediate) == "u * 8192"


@pytest.mark.parametrize("index", [TID * U, SWIZZLED(TID % 32 + U * 8, 0), TID % 7 ^ TID // (U + 1)], ids=str)
def test_what_does_not_split_is_left_alone(index: Expr) -> None:
    assert split_address(index, TID) is None


def test_other_variables_are_left_alone() -> None:
    assert split_address(TID * 4 + Var("k", 4, "loop"), TID) is None
    assert split_address(TID * 4, TID) is None


@given(
    st.lists(st.integers(0, 4095), min_size=6, max_size=6, unique=True),
    st.lists(st.integers(0, 4095), min_size=3, max_size=3),
)
def test_every_f2_linear_address_splits(thread_columns: list[int], unroll_columns: list[int]) -> None:
    """f = XOR of one column a bit: Cx takes what A can set, Ca the rest, whatever the columns."""
    index: Expr = Const(0)
    for bit, column in enumerate(thread_columns):
        index = index ^ (TID >> bit) % 2 * column
    for bit, column in enumerate(unroll_columns[:2]):
        index = index ^ (U >> bit) % 2 * column
    index = index ^ W * unroll_columns[2]
    if variables(simplify(index)) > {TID}:
        assert_split(simplify(index))


def test_one_base_serves_every_access_with_the_same_values() -> None:
    k = KernelBuilder("k", threads=64)
    tile = k.shared_buffer("tile", 4, SWIZZLED, 4096, 1024)
    v = k.reg("v", 4)
    with k.Unroll("i", 4) as i:
        k.do(LDS[4], v[i], k.at(tile, k.tid, i))
    with k.Unroll("j", 4) as j:
        k.do(STS[4], k.at(tile, k.tid, j + 8), v[j])
    lowered = lower(k.build())
    lets = [s for s in lowered.body if isinstance(s, Let)]
    assert [s.var.name for s in lets] == ["lane0"]


def test_one_step_unrolls_and_decided_branches_are_written_out() -> None:
    k = KernelBuilder("k", threads=32)
    tile = k.shared_buffer("tile", 4, Layout((32, 4)), 128, 128)
    v = k.reg("v", 1)
    with k.Unroll("i", 1) as i:
        with k.If(i < 1):
            k.do(STS[4], k.at(tile, k.tid, i), v[i])
        with k.Else():
            k.do(STS[4], k.at(tile, k.tid, 3), v[i])
    body = lower(k.build()).body
    assert not any(isinstance(s, (Unroll, If)) for s in walk(body))
    (store,) = body
    assert isinstance(store, Do)
    assert isinstance(store.args[0], MemRef)
    assert str(store.args[0].index) == "tid * 4"


def test_a_name_the_program_uses_is_not_taken() -> None:
    k = KernelBuilder("k", threads=32)
    tile = k.shared_buffer("tile", 4, Layout((32, 4)), 128, 128)
    v = k.reg("v", 4)
    x = k.let("lane0", k.tid % 4)
    with k.Unroll("i", 4) as i:
        k.do(STS[4], k.at(tile, k.tid, (x + i) % 4), v[i])
        k.do(STS[4], k.at(tile, k.tid, i), v[i])
    names = [s.var.name for s in walk(lower(k.build()).body) if isinstance(s, Let)]
    assert len(names) == len(set(names))
