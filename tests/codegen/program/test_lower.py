"""Lowering: the split is exact, found for swizzled tiles, and refused where it does not hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr, Minus, Var, evaluate, simplify, variables
from layoutalg.codegen.instr import LDG, LDS, STG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do, For, If, Let, Roles, lower, walk
from layoutalg.codegen.program.lowering import chained, split_address, split_by_columns, split_by_table
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.tiles.boxes import ring_program

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


@pytest.mark.parametrize(
    "index",
    [
        TID * U,
        SWIZZLED(TID % 32 + U * 8, 0),
        TID % 7 ^ TID // (U + 1),
        TID * 4 + Var("k", 4, "loop"),
        TID * 4,
    ],
    ids=str,
)
def test_what_does_not_split_is_left_alone(index: Expr) -> None:
    assert split_address(index, TID) is None


@st.composite
def swizzled_addresses(draw: st.DrawFn) -> Expr:
    """Addresses of a swizzled tile of powers of two, by a coordinate of thread and unroll digits."""
    bits = draw(st.integers(5, 9))
    rows = draw(st.integers(1, bits - 1))
    strides = draw(st.sampled_from(((1 << bits - rows, 1), (1, 1 << rows))))
    tile = Layout((1 << rows, 1 << bits - rows), strides)
    width, base = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    layout = ComposedLayout(Swizzle(width, base, width + draw(st.integers(0, 2))), 0, tile)
    by = draw(st.permutations([(TID, 64), (U, 4), (W, 2)]))
    place: Expr = Const(0)
    weight = 1
    for v, extent in by:
        place, weight = place + v * weight, weight * extent
    place = place % (1 << bits)
    index = layout(place % (1 << rows), place // (1 << rows)) * draw(st.sampled_from((1, 2, 4, 16)))
    return simplify(
        index + W * draw(st.sampled_from((0, 1 << 14))) + Const(draw(st.sampled_from((0, 1 << 16))))
    )


@given(swizzled_addresses())
def test_the_columns_say_what_the_table_says(index: Expr) -> None:
    by_columns, by_table = split_by_columns(index, TID), split_by_table(index, TID)
    assert by_columns is not None and by_table is not None
    assert np.array_equal(by_columns[0], by_table[0]) and by_columns[1] == by_table[1]


def test_a_table_too_large_splits_by_its_columns() -> None:
    wide = [Var(f"w{i}", 16, "unroll") for i in range(5)]
    index: Expr = TID * 4
    for i, v in enumerate(wide):
        index = index ^ v * (1 << 2 * i + 3)
    split = split_address(index, TID)
    assert split is not None and split_by_table(index, TID) is None
    assert str(split[1]) == "tid * 4"


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
    """Under a name that the program does not use."""
    k = KernelBuilder("k", threads=64)
    tile = k.shared_buffer("tile", 4, SWIZZLED, 4096, 1024)
    v, x = k.reg("v", 4), k.let("lane0", k.tid % 4)
    with k.Unroll("i", 4) as i:
        k.do(LDS[4], v[i], k.at(tile, k.tid, i))
    with k.Unroll("j", 4) as j:
        k.do(STS[4], k.at(tile, k.tid, j + 8), v[j])
        k.do(STS[4], k.at(tile, x, j), v[j])
    names = [s.var.name for s in lower(k.build()).body if isinstance(s, Let)]
    assert sorted(names) == ["lane0", "lane1", "lane2"]


def test_roles_stay_and_what_is_in_them_is_lowered() -> None:
    kernel = ring_program()
    (roles,), (lowered,) = ([s for s in k.body if isinstance(s, Roles)] for k in (kernel, lower(kernel)))
    assert [part.name for part in lowered.parts] == [part.name for part in roles.parts]
    (loop,) = [s for s in walk(lowered.parts[0].body) if isinstance(s, For)]
    assert [c.var.name for c in loop.carry] == ["dst_at0"]


# --- what branches decide ------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "kept"), [(300, []), (299, ["stg32"] * 3)])
def test_a_store_that_its_branch_excludes_is_gone(end: int, kept: list[str]) -> None:
    """Whole vectors of 4 below 300: what is not whole has no element below 300, and three below 299."""
    k = KernelBuilder("k", threads=32)
    y, v = k.pointer("y", 4, writable=True), k.reg("v", 4)
    with k.For("j", 3) as j:
        x = k.let("x", (j * 32 + k.tid) * 4)
        with k.If(x + 3 < end):
            k.do(STG[16], k.at(y, x), v)
        with k.Else():
            again = k.let("again", x)
            for e in range(4):
                with k.If(x + e < end):
                    k.do(STG[4], k.at(y, again + e), v[e])
    (loop,) = [s for s in lower(k.build()).body if isinstance(s, For)]
    assert [str(s.instr) for s in walk(loop.body) if isinstance(s, Do)] == ["stg128", *kept]
    (branch, *_) = [s for s in loop.body if isinstance(s, If)]
    assert bool(branch.orelse) == bool(kept) and (kept or str(branch.condition) == "x < 300")


def test_a_branch_that_another_one_around_it_decides_is_opened() -> None:
    k = KernelBuilder("k", threads=32)
    y, v = k.pointer("y", 4, writable=True), k.reg("v", 1)
    with k.If(k.tid < 8):
        with k.If((k.tid < 16) & (k.tid % 2 < 1)):
            k.do(STG[4], k.at(y, k.tid), v)
        with k.If(k.tid < 9):
            k.do(STG[4], k.at(y, k.tid), v)
        with k.Else():
            k.do(STG[4], k.at(y, k.tid + 64), v)
    assert str(replace(k.build(), body=lower(k.build()).body)).splitlines()[1:] == [
        "  if tid < 8", "    if tid % 2 < 1", "      stg32(y[tid], v)", "    stg32(y[tid], v)",
    ]  # fmt: skip


def test_a_difference_is_exact_where_its_branch_says_so() -> None:
    """The lane's own part is computed in front of the branch, and stops at 0 there."""
    k = KernelBuilder("k", threads=32)
    x, v = k.pointer("x", 4), k.reg("v", 1)
    tile, thirds = k.shared_buffer("tile", 4, Layout(32), 128, 16), Minus(k.tid, Const(5)) * 3 % 8
    with k.For("j", 4) as j:
        at = Minus(k.tid + j * 8, Const(5))
        with k.If(k.tid + j * 8 >= 5):
            k.do(LDG[4], v, k.at(x, at))
        with k.Else():
            k.do(LDG[4], v, k.at(x, Minus(Const(4), k.tid + j * 8)))
        k.do(LDG[4], v, k.at(x, at))
    with k.If(k.tid >= 5):
        k.do(STS[4], k.at(tile, Minus(k.tid, Const(5))), v)
        k.do(LDG[4], v, k.at(x, thirds))
    k.do(LDG[4], v, k.at(x, thirds))
    text = str(lower(k.build()))
    assert "x[tid + j * 8 - 5]" in text and "x[4 - (tid + j * 8)]" in text
    assert text.count("x[max(tid + j * 8 - 5, 0)]") == 1
    assert "lane0 = max(tid - 5, 0) * 4" in text or "tile[(tid - 5) * 4]" in text
    assert "x[(tid * 3 + 1) % 8]" in text and "x[max(tid - 5, 0) * 3 % 8]" in text
