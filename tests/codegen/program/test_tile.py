"""The statements of a tile program: references, indices, walking and printing."""

from __future__ import annotations

import dataclasses

import pytest

from layoutalg.codegen import program as ir
from layoutalg.codegen.expr import Const, Var, evaluate
from layoutalg.codegen.instr import BAR, LDG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.errors import ArgumentTypeError, ShapeError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.sweeps import each

U, W = Var("u", 4, "unroll"), Var("w", 2, "unroll")
TID = Var("tid", 32)
V = ir.Reg("v", (4, 2, 4))


# --- registers -----------------------------------------------------------------------------------------


@each(
    ("ref", "words", "offset", "text"),
    [
        (ir.RegRef(V, ()), 32, "0", "v"),
        (V[U], 8, "u * 8", "v[u]"),
        (V[U, 1], 4, "u * 8 + 4", "v[u][1]"),
        (V[U, W, 3], 1, "u * 8 + w * 4 + 3", "v[u][w][3]"),
        (V.slice(U, W, 2, count=2), 2, "u * 8 + w * 4 + 2", "v[u][w][2]..+2"),
        (V[U * 1 + 0], 8, "u * 8", "v[u]"),
    ],
)
def test_a_register_reference(ref: ir.RegRef, words: int, offset: str, text: str) -> None:
    assert (ref.words, str(ref.offset), str(ref)) == (words, offset, text)


def test_registers_are_row_major() -> None:
    """Every word has its own place, and places run through the array in order."""
    places = [evaluate(V[u, w, k].offset, {}) for u in range(4) for w in range(2) for k in range(4)]
    assert places == list(range(32))
    with pytest.raises(ShapeError, match="v has 3 modes; the index has 4"):
        V[U, W, 0, 0]
    with pytest.raises(ShapeError, match="v has 3 modes; a slice needs an index for each"):
        V.slice(U, count=2)
    with pytest.raises(ArgumentTypeError, match=r"1\.5 is a float"):
        V[1.5]  # type: ignore[index]


# --- memory --------------------------------------------------------------------------------------------


def test_a_global_index_is_the_inner_product_with_the_strides() -> None:
    ld = Var("ld", 100, "param", 1)
    buffer = ir.Global("x", 4, (ld, Const(1)), writable=False)
    index = buffer.index((TID, U))
    for point in ({TID: 5, U: 3, ld: 7}, {TID: 0, U: 0, ld: 99}):
        assert evaluate(index, point) == point[TID] * point[ld] + point[U]
    with pytest.raises(ShapeError, match="x has 2 modes; the coordinate has 3"):
        buffer.index((TID, U, 0))


@each("element_bytes", [1, 2, 4, 16])
@each("layout", [Layout((8, 16), (16, 1)), ComposedLayout(Swizzle(2, 0, 4), 0, Layout((8, 16), (16, 1)))])
def test_a_shared_index_is_the_layout_in_bytes(layout: Layout | ComposedLayout, element_bytes: int) -> None:
    buffer = ir.Shared("tile", element_bytes, layout, 128 * element_bytes, 128, 0)
    row, column = Var("row", 8), Var("column", 16)
    index = buffer.index((row, column))
    for r in range(8):
        for c in range(16):
            assert evaluate(index, {row: r, column: c}) == layout(r, c) * element_bytes
    assert buffer.index((3, 5)) == Const(layout(3, 5)) * element_bytes


# --- programs ------------------------------------------------------------------------------------------


def program() -> ir.Kernel:
    k = KernelBuilder("demo", threads=64)
    n = k.param("n", 1000)
    x = k.pointer("x", 4)
    tile = k.shared_buffer("tile", 4, Layout(256), 256, 128)
    r = k.reg("r", 4, 1)
    i = k.let("i", k.block(0, (n + 63) // 64) * 64 + k.tid)
    with k.For("step", n // 64 + 1) as step, k.Unroll("u", 4) as u:
        with k.If(i + step < n):
            k.do(LDG[4], r[u], k.at(x, i))
        with k.Else():
            k.do(STS[4], k.at(tile, k.tid + u * 64), r[u])
    k.do(BAR)
    return k.build()


def test_a_program_is_walked_parents_first_and_prints_as_an_outline() -> None:
    assert str(program()).splitlines() == [
        "kernel demo",
        "  i = block_x * 64 + tid",
        "  for step < n // 64 + 1",
        "    unroll u < 4",
        "      if i + step < n",
        "        ldg32(r[u], x[i])",
        "      else",
        "        sts32(tile[tid * 4 + u * 256], r[u])",
        "  block_sync()",
    ]
    walked = [line.strip() for line in str(program()).splitlines()[1:] if line.strip() != "else"]
    assert [str(s) for s in ir.walk(program().body)] == walked and list(ir.walk(())) == []


def test_a_program_is_a_value_that_knows_of_itself() -> None:
    """Two builds are equal and hash alike; shared memory ends with its last buffer."""
    kernel = program()
    assert kernel == program() and hash(kernel) == hash(program())
    with pytest.raises(dataclasses.FrozenInstanceError):
        kernel.threads = 32  # type: ignore[misc]
    assert kernel.tid == Var("tid", 64, "thread")
    x, y, z = kernel.block_vars
    assert (x.name, x.facts.hi, y.facts.hi, z.facts.hi) == ("block_x", (1000 + 63) // 64 - 1, 0, 0)
    a, b = ir.Shared("a", 1, Layout(100), 100, 16, 0), ir.Shared("b", 1, Layout(40), 40, 16, 32)
    for shared, nbytes in ((kernel.shared, 1024), ((), 0), ((a, b), 100)):
        assert dataclasses.replace(kernel, shared=shared).shared_bytes == nbytes
