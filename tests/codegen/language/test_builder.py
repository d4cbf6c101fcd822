"""Writing tile programs: names, declarations, scopes, placement; every misuse is refused where it is made."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import GRID_LIMITS, Const, Var
from layoutalg.codegen.expr.facts import between
from layoutalg.codegen.instr import BAR, CP_WAIT, LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do, For, If, Let, RegRef, Unroll
from layoutalg.errors import ArgumentTypeError, IRError, ShapeError
from layoutalg.layout import Layout
from tests.sweeps import each


def builder() -> KernelBuilder:
    return KernelBuilder("k", threads=128)


# --- names ---------------------------------------------------------------------------------------------


@each(
    "declare",
    [
        lambda k, name: k.param(name, 10),
        lambda k, name: k.pointer(name, 4),
        lambda k, name: k.shared_buffer(name, 4, Layout(8), 8, 16),
        lambda k, name: k.reg(name, 1),
        lambda k, name: k.let(name, 3),
        lambda k, name: k.For(name, 3).__enter__(),
        lambda k, name: k.Unroll(name, 3).__enter__(),
        lambda k, name: KernelBuilder(name, 32),
    ],
)
def test_every_name_is_checked(declare: object) -> None:
    for name in ("x; y", "int", "_x"):
        with pytest.raises(IRError, match="cannot name"):
            declare(builder(), name)  # type: ignore[operator]


def test_a_name_is_declared_once() -> None:
    k = builder()
    k.param("n", 10)
    for again in (
        lambda: k.param("n", 20), lambda: k.pointer("n", 4), lambda: k.reg("n", 1),
        lambda: k.shared_buffer("n", 4, Layout(8), 8, 16),
    ):  # fmt: skip
        with pytest.raises(IRError, match="'n' is declared twice in kernel k"):
            again()
    with pytest.raises(IRError, match="'k' is declared twice"):
        k.reg("k", 1)


# --- declarations --------------------------------------------------------------------------------------


def test_a_parameter_has_a_range_and_a_multiple() -> None:
    k = builder()
    n, ld = k.param("n", 100), k.param("ld", 1 << 20, 8, multiple=8)
    assert n.facts == between(1, 100) and n.kind == "param"
    assert ld.facts == between(8, 1 << 20, 8)
    assert k.build().params == (n, ld)
    with pytest.raises(IRError, match="variable range"):
        k.param("m", 7, 5, multiple=16)


def test_a_pointer_has_strides() -> None:
    k = builder()
    ld = k.param("ld", 100)
    x, y = k.pointer("x", 2, (ld, 1), align_bytes=8), k.pointer("y", 4, writable=True)
    assert (x.element_bytes, x.strides, x.writable, x.align_bytes) == (2, (ld, Const(1)), False, 8)
    assert (y.strides, y.writable) == ((Const(1),), True)
    assert str(k.at(x, k.tid, 3).index) == "tid * ld + 3"


def test_block_indices_are_bounded_by_the_grid() -> None:
    k = builder()
    n = k.param("n", 1000)
    x, y = k.block(0, (n + 127) // 128), k.block(1, 7)
    kernel = k.build()
    assert (x.facts.hi, y.facts.hi) == (7, 6)
    assert kernel.block_vars == (x, y, Var("block_z", Const(1), "block"))
    assert kernel.grid == ((n + 127) // 128, Const(7), Const(1))


def test_block_indices_are_below_the_limits_of_a_grid() -> None:
    k = builder()
    n = k.param("n", 1 << 40)
    assert [k.block(axis, n).facts.hi + 1 for axis in range(3)] == list(GRID_LIMITS)


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 16]), st.integers(1, 300), st.sampled_from([1, 16, 128, 1024])),
        min_size=1,
        max_size=6,
    )
)
def test_shared_buffers_are_aligned_and_apart(wanted: list[tuple[int, int, int]]) -> None:
    k = builder()
    placed = [
        k.shared_buffer(f"s{i}", size, Layout(elems), elems, align)
        for i, (size, elems, align) in enumerate(wanted)
    ]
    assert k.build().shared == tuple(placed)
    for s, (size, elems, align) in zip(placed, wanted, strict=True):
        assert s.offset_bytes % align == 0 and s.size_bytes == size * elems
    for a, b in pairwise(placed):
        assert a.offset_bytes + a.size_bytes <= b.offset_bytes < a.offset_bytes + a.size_bytes + b.align_bytes
    assert k.build().shared_bytes == placed[-1].offset_bytes + placed[-1].size_bytes


def test_a_let_inherits_what_is_known() -> None:
    k = builder()
    m0 = k.let("m0", k.block(0, 10) * 64)
    odd = k.let("odd", k.tid * 2 + 1)
    same = k.let("same", 48)
    assert m0.facts == between(0, 576, 64)
    assert odd.facts == between(1, 255, 2, 1)
    assert same.facts.is_constant and same.facts.divisible_by(16)
    assert [str(s) for s in k.build().body] == ["m0 = block_x * 64", "odd = tid * 2 + 1", "same = 48"]


# --- statements ----------------------------------------------------------------------------------------


def test_an_instruction_takes_as_many_operands_as_it_has() -> None:
    k = builder()
    x, r = k.pointer("x", 4, writable=True), k.reg("r", 1)
    with pytest.raises(IRError, match="ldg32 takes 2 operands, got 1"):
        k.do(LDG[4], r)
    with pytest.raises(IRError, match="block_sync takes 0 operands, got 1"):
        k.do(BAR, r)
    k.do(STG[4], k.at(x, k.tid), r)
    k.do(CP_WAIT, 1)
    assert k.build().body == (Do(STG[4], (k.at(x, k.tid), RegRef(r, ()))), Do(CP_WAIT, (1,)))


def test_addresses_are_simplified_and_checked() -> None:
    k = builder()
    tile = k.shared_buffer("tile", 4, Layout((8, 16), (16, 1)), 128, 128)
    assert str(k.at(tile, k.tid // 16, k.tid % 16).index) == "tid * 4"
    with pytest.raises(ShapeError):
        k.at(tile, 1, 2, 3)
    with pytest.raises(ArgumentTypeError):
        k.at(tile, 1.5, 0)  # type: ignore[arg-type]


def test_scopes_nest() -> None:
    k = builder()
    with k.For("i", 4, unroll=2) as i, k.Unroll("j", 3) as j, k.If(i + j < 5):
        k.do(BAR)
    (outer,) = k.build().body
    assert outer == For(i, Const(4), (Unroll(j, 3, (If(i + j < 5, (Do(BAR, ()),)),)),), unroll=2)
    assert (i.kind, i.facts.hi, j.kind, j.facts.hi) == ("loop", 3, "unroll", 2)


def test_a_loop_over_parameters_has_their_bounds() -> None:
    k = builder()
    n = k.param("n", 1000)
    with k.For("i", (n + 31) // 32) as i:
        pass
    assert i.facts.hi == 31


def test_a_loop_needs_a_value() -> None:
    k = builder()
    for loop in (k.For("i", 0), k.Unroll("j", 0)):
        with pytest.raises(IRError, match=r"\[0, 0\) has no value"), loop:
            pass


def test_else_belongs_to_the_if_before_it() -> None:
    k = builder()
    with k.If(k.tid < 3):
        k.do(BAR)
    with k.Else():
        k.let("a", 1)
    assert k.build().body == (If(k.tid < 3, (Do(BAR, ()),), (Let(Var("a", 2, "let", 1), Const(1)),)),)
    for misplaced in ("twice", "after another statement"):
        with pytest.raises(IRError, match="Else must directly follow the If it belongs to"), k.Else():
            pass
        if misplaced == "twice":
            k.do(BAR)
    fresh = builder()
    with pytest.raises(IRError, match="Else must directly follow"), fresh.Else():
        pass


def test_an_else_inside_does_not_reach_the_if_outside() -> None:
    k = builder()
    with k.If(k.tid < 3):
        pass
    with k.For("i", 4), pytest.raises(IRError, match="Else must directly follow"), k.Else():
        pass


def test_a_failed_block_leaves_no_statement() -> None:
    """What is written while an error unwinds is dropped with its scope."""
    k = builder()
    with pytest.raises(ZeroDivisionError), k.For("i", 4):
        k.do(BAR)
        raise ZeroDivisionError
    k.do(BAR)
    assert k.build().body == (Do(BAR, ()),)


def test_a_condition_is_simplified() -> None:
    k = builder()
    with k.If(k.tid * 4 + 3 < 512):
        k.do(BAR)
    (only,) = k.build().body
    assert isinstance(only, If) and only.condition == Const(1)


def test_notes_and_launch_bounds_are_kept() -> None:
    k = KernelBuilder("k", 64, ["tile 8 x 8"], min_blocks=2)
    k.notes.append("conflict-free")
    kernel = k.build()
    assert (kernel.notes, kernel.min_blocks, kernel.threads) == (("tile 8 x 8", "conflict-free"), 2, 64)
