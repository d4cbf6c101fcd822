"""Writing tile programs: names, declarations, scopes, placement; every misuse is refused where it is made."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
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


DECLARATIONS: list[Callable[[KernelBuilder, str], object]] = [
    lambda k, name: k.param(name, 10),
    lambda k, name: k.pointer(name, 4),
    lambda k, name: k.shared_buffer(name, 4, Layout(8), 8, 16),
    lambda k, name: k.reg(name, 1),
    lambda k, name: k.let(name, 3),
    lambda k, name: k.For(name, 3).__enter__(),
    lambda k, name: k.Unroll(name, 3).__enter__(),
]


@each("declare", DECLARATIONS)
def test_every_name_is_checked_and_declared_once(declare: Callable[[KernelBuilder, str], object]) -> None:
    for name in ("x; y", "int", "_x"):
        with pytest.raises(IRError, match="cannot name"):
            declare(builder(), name)
    if declare in DECLARATIONS[:4]:
        k = builder()
        k.param("n", 10)
        for name in "nk":
            with pytest.raises(IRError, match=f"'{name}' is declared twice in kernel k"):
                declare(k, name)


def test_declarations_say_what_is_known() -> None:
    k = builder()
    n, ld = k.param("n", 1000), k.param("ld", 1 << 20, 8, multiple=8)
    assert (n.facts, n.kind, ld.facts) == (between(1, 1000), "param", between(8, 1 << 20, 8))
    with pytest.raises(IRError, match="variable range"):
        k.param("m", 7, 5, multiple=16)
    x, y = k.pointer("x", 2, (ld, 1), align_bytes=8), k.pointer("y", 4, writable=True)
    assert (x.element_bytes, x.strides, x.writable, x.align_bytes) == (2, (ld, Const(1)), False, 8)
    assert (y.strides, y.writable) == ((Const(1),), True)
    assert str(k.at(x, k.tid, 3).index) == "tid * ld + 3"
    blocks = k.block(0, (n + 127) // 128), k.block(1, 7)
    kernel = k.build()
    assert kernel.params == (n, ld, x, y)
    assert [b.facts.hi for b in blocks] == [7, 6]
    assert kernel.block_vars == (*blocks, Var("block_z", Const(1), "block"))
    assert kernel.grid == ((n + 127) // 128, Const(7), Const(1))
    m0, odd, same = k.let("m0", blocks[0] * 64), k.let("odd", k.tid * 2 + 1), k.let("same", 48)
    assert (m0.facts, odd.facts) == (between(0, 448, 64), between(1, 255, 2, 1))
    assert same.facts.is_constant and same.facts.divisible_by(16)
    assert [str(s) for s in k.build().body] == ["m0 = block_x * 64", "odd = tid * 2 + 1", "same = 48"]
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


# --- statements ----------------------------------------------------------------------------------------


def test_operands_are_counted_and_addresses_simplified_and_checked() -> None:
    k = builder()
    x, r = k.pointer("x", 4, writable=True), k.reg("r", 1)
    with pytest.raises(IRError, match="ldg32 takes 2 operands, got 1"):
        k.do(LDG[4], r)
    with pytest.raises(IRError, match="block_sync takes 0 operands, got 1"):
        k.do(BAR, r)
    k.do(STG[4], k.at(x, k.tid), r)
    k.do(CP_WAIT, 1)
    assert k.build().body == (Do(STG[4], (k.at(x, k.tid), RegRef(r, ()))), Do(CP_WAIT, (1,)))
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
    with k.For("n", (k.param("n", 1000) + 31) // 32) as n, k.If(k.tid * 4 + 3 < 512):
        k.do(BAR)
    first, second = k.build().body
    assert first == For(i, Const(4), (Unroll(j, 3, (If(i + j < 5, (Do(BAR, ()),)),)),), unroll=2)
    assert (i.kind, i.facts.hi, j.kind, j.facts.hi, n.facts.hi) == ("loop", 3, "unroll", 2, 31)
    assert isinstance(second, For) and second.body == (If(Const(1), (Do(BAR, ()),)),)
    for loop in (k.For("none", 0), k.Unroll("nothing", 0)):
        with pytest.raises(IRError, match=r"\[0, 0\) has no value"), loop:
            pass


def test_else_belongs_to_the_if_before_it() -> None:
    k = builder()
    with k.If(k.tid < 3):
        k.do(BAR)
    with k.Else():
        k.let("a", 1)
    assert k.build().body == (If(k.tid < 3, (Do(BAR, ()),), (Let(Var("a", 2, "let", 1), Const(1)),)),)
    inside = builder()
    with inside.If(inside.tid < 3):
        pass
    for misplaced in ("twice", "after another statement", "first", "inside of another scope"):
        other = {"first": builder(), "inside of another scope": inside}.get(misplaced, k)
        scope = other.For("i", 4) if other is inside else nullcontext()
        with scope, pytest.raises(IRError, match="Else must directly follow the If"), other.Else():
            pass
        if misplaced == "twice":
            k.do(BAR)


def test_a_failed_block_leaves_no_statement() -> None:
    """What is written while an error unwinds is dropped with its scope."""
    k = KernelBuilder("k", 64, ["tile 8 x 8"], min_blocks=2)
    k.notes.append("conflict-free")
    with pytest.raises(ZeroDivisionError), k.For("i", 4):
        k.do(BAR)
        raise ZeroDivisionError
    k.do(BAR)
    kernel = k.build()
    assert kernel.body == (Do(BAR, ()),)
    assert (kernel.notes, kernel.min_blocks, kernel.threads) == (("tile 8 x 8", "conflict-free"), 2, 64)
