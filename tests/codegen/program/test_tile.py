"""The statements of a tile program: references, indices, walking and printing."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import numpy as np
import pytest

from layoutalg.arch import TensorMap
from layoutalg.codegen import program as ir
from layoutalg.codegen.expr import Const, Var, evaluate
from layoutalg.codegen.instr import BAR, LDG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, IRError, ShapeError, UnsupportedError
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
    """By the index of a word in an array of the shape; a slice and a partial index begin with their first."""
    rng = random.Random(5)
    for _ in range(40):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
        reg, places = ir.Reg("r", shape), np.arange(math.prod(shape)).reshape(shape)
        index = tuple(rng.randrange(n) for n in shape[: rng.randint(0, len(shape))])
        part = ir.RegRef(reg, ()) if not index else reg[index]
        assert (part.words, evaluate(part.offset, {})) == (places[index].size, places[index].min())
        if len(index) == len(shape):
            assert reg.slice(*index, count=3).words == 3 and reg.slice(*index, count=3).offset == part.offset
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


def test_a_stage_of_a_ring_lies_behind_the_one_before() -> None:
    tile = ComposedLayout(Swizzle(2, 0, 4), 0, Layout((8, 16), (16, 1)))
    for stages, nbytes in ((1, 256), (2, 512), (3, 1536)):
        ring = ir.Shared("ring", 2, tile, nbytes, 128, 0, stages)
        assert ring.shape == ((8, 16) if stages == 1 else (8, 16, stages))
        for crd in np.ndindex(ring.shape):
            stage = crd[2] if stages > 1 else 0
            assert evaluate(ring.index(crd), {}) == tile(*crd[:2]) * 2 + stage * nbytes // stages
    bar = ir.Mbarrier("bar", 1, 3, 64)
    assert bar.size_bytes == 24 and str(bar[U + 1]) == "bar[u + 1]"
    assert dataclasses.replace(program(), shared=(), barriers=(bar,)).shared_bytes == 88


def test_a_box_has_the_elements_that_a_copy_visits() -> None:
    rng = random.Random(6)
    n, x = Var("n", 100, "param", 1), ir.Global("x", 2, (Const(1),), False)
    for rank in (1, 2, 3, 5):
        box, steps = (tuple(rng.randint(1, 6) for _ in range(rank)) for _ in "ab")
        promoted = (0, 64, 128, 256)[rank % 4]
        strides = tuple(n * (16 * i + 16) for i in range(rank - 1))
        for given in (steps, ()):
            m = ir.TensorMapParam("m", x, (n,) * rank, strides, box, dtype("f16"), element_strides=given,
                nan_fill=rank > 2, l2_promotion_bytes=promoted)  # fmt: skip
            used = (1, *(given or (1,) * rank)[1:])
            visited = math.prod(len(range(0, n, step)) for n, step in zip(box, used, strict=True))
            assert (m.rank, m.box_bytes, str(m)) == (rank, 2 * visited, "m")
            assert m.evaluate({n: 7}) == TensorMap(
                dtype("f16"), (7,) * rank, tuple(112 * (i + 1) for i in range(rank - 1)), box,
                given or (1,) * rank, nan_fill=rank > 2, l2_promotion_bytes=promoted,
            )  # fmt: skip


def test_a_record_has_a_name_that_c_takes_and_a_kernel_has_each_once() -> None:
    kernel = program()
    bar, role = ir.Mbarrier("bar", 1, 1, 0), ir.Role("part", 1, 2, ())
    box = ir.TensorMapParam("m", kernel.params[1], (Const(4),), (), (4,), dtype("f32"))  # type: ignore[arg-type]
    records: list[Any] = [kernel, kernel.params[1], kernel.shared[0], kernel.regs[0], bar, role, box]
    for record in records:
        with pytest.raises(IRError, match="two words"):
            dataclasses.replace(record, name="two words")
    for more in ({"barriers": (dataclasses.replace(bar, name="x"),)}, {"maps": (box, box)}):
        with pytest.raises(IRError, match="names 2 things of demo"):
            dataclasses.replace(kernel, **more)
    with pytest.raises(UnsupportedError, match="one of both is accepted"):
        dataclasses.replace(kernel, awaited=("x",), cooperative=True)
    assert (role.first_thread, role.thread) == (32, Var("part_tid", 64, "thread"))
    said = [str(dataclasses.replace(role, warps=warps)) for warps in (2, 1)]
    assert said == ["role part: warps 1 to 2", "role part: warp 1"]
    assert dataclasses.replace(kernel, cluster=(2, 4, 1)).cluster_blocks == 8


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
