"""Programs that move boxes by TMA, written out in records: a copy of any rank, and a ring of two roles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

from layoutalg.arch import SwizzleMode, find_swizzle_mode
from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Operand, as_expr
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, Mbarrier, Role, Roles, TensorMapParam
from layoutalg.dtype import dtype
from layoutalg.layout import Layout


@dataclass(frozen=True, slots=True)
class Boxes:
    """A tensor, innermost dimension first, that is copied by boxes; rows are `pitch` elements apart."""

    dims: tuple[int, ...]
    box: tuple[int, ...]
    element: str = "f16"
    mode: str = "none"

    @property
    def pitch(self) -> int:
        """Elements from one row to the next: a multiple of 16 bytes."""
        unit = 16 // dtype(self.element).nbytes
        return -(-self.dims[0] // unit) * unit

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array, outermost first, with the padding of its rows."""
        return (*reversed(self.dims[1:]), self.pitch)

    @property
    def strides_bytes(self) -> tuple[int, ...]:
        """Of all dimensions but the innermost."""
        nbytes, strides = dtype(self.element).nbytes * self.pitch, []
        for n in self.dims[1:]:
            strides.append(nbytes)
            nbytes *= n
        return tuple(strides)

    def tensor_map(self, k: KernelBuilder, name: str, *, writable: bool = False) -> TensorMapParam:
        """A pointer parameter and its map."""
        element = dtype(self.element)
        strides = (1, *(d // element.nbytes for d in self.strides_bytes))
        source = k.pointer(name, element.nbytes, strides, writable=writable)
        dims, apart = (tuple(map(as_expr, part)) for part in (self.dims, self.strides_bytes))
        return TensorMapParam(f"map_{name}", source, dims, apart, self.box, element, self.swizzle)

    @property
    def swizzle(self) -> SwizzleMode:
        """The mode."""
        return find_swizzle_mode(self.mode)

    @property
    def box_bytes(self) -> int:
        """What one copy announces."""
        return prod(self.box) * dtype(self.element).nbytes

    @property
    def shared_bytes(self) -> int:
        """What a box spans: under a swizzle rows are a span apart."""
        row = self.box[0] * dtype(self.element).nbytes
        return max(row, self.swizzle.row_bytes if self.swizzle.swizzle.bits else 0) * prod(self.box[1:])


def copy_program(boxes: Boxes, cluster: int = 1) -> Kernel:
    """dst = src, one box per block: loaded by TMA, stored by TMA; of whole clusters."""
    k = KernelBuilder("tma_copy", threads=32)
    maps = boxes.tensor_map(k, "src"), boxes.tensor_map(k, "dst", writable=True)
    counts = [-(-n // side) for n, side in zip(boxes.dims, boxes.box, strict=True)]
    tiles = -(-prod(counts) // cluster) * cluster
    tile = k.shared_buffer("tile", 1, Layout(boxes.shared_bytes), boxes.shared_bytes, 1024)
    full = Mbarrier("full", 1, 1, -(-boxes.shared_bytes // 8) * 8)
    rest: Operand = k.block(0, tiles)
    crd: list[Expr] = []
    for n, side in zip(counts[:-1], boxes.box[:-1], strict=True):
        crd.append(as_expr(rest) % n * side)
        rest = as_expr(rest) // n
    crd.append(as_expr(rest) * boxes.box[-1])  # past the end in the blocks that fill a cluster
    first = k.tid.eq(0)
    with k.If(first):
        k.do(instr.MBARRIER_INIT, full[0], 1)
        k.do(instr.FENCE_BARRIER_INIT)
    k.do(instr.BAR)
    with k.If(first):
        k.do(instr.ARRIVE_EXPECT_TX, full[0], Const(boxes.box_bytes))
        k.do(instr.TMA_LOAD[len(crd)], k.at(tile, 0), maps[0], full[0], *crd)
        k.do(instr.TRY_WAIT, full[0], Const(0))
        k.do(instr.TMA_STORE[len(crd)], maps[1], k.at(tile, 0), *crd)
        k.do(instr.BULK_COMMIT)
        k.do(instr.BULK_WAIT, 0)
    if cluster > 1:
        k.do(instr.CLUSTER_ARRIVE)
        k.do(instr.CLUSTER_WAIT)
    return replace(k.build(), maps=maps, barriers=(full,), cluster=(cluster, 1, 1))


@contextmanager
def role(k: KernelBuilder, parts: list[Role], name: str, first: int, warps: int) -> Iterator[Expr]:
    """The statements of a role; its thread is the context's value."""
    thread = Role(name, first, warps, ()).thread
    with k._scope(thread) as body:
        yield thread
    parts.append(Role(name, first, warps, tuple(body)))


def ring_program(rows: int = 8, stages: int = 3) -> Kernel:
    """dst = src, (m, 64) f32 in tiles of `rows` rows: one role loads by TMA, the other stores by hand."""
    k = KernelBuilder("ring", threads=160)
    m = k.param("m", 1 << 20, rows, multiple=rows)
    src = k.pointer("src", 4, (64, 1))
    dst = k.pointer("dst", 4, (64, 1), writable=True)
    loads = TensorMapParam(
        "map_src", src, (Const(64), m), (Const(256),), (64, rows), dtype("f32"), l2_promotion_bytes=256
    )
    tile_bytes = 256 * rows
    tile = k.shared_buffer("tile", 4, Layout((64, rows)), 64 * rows * stages, 1024, stages=stages)
    full = Mbarrier("full", 1, stages, tile_bytes * stages)
    empty = Mbarrier("empty", 128, stages, tile_bytes * stages + 8 * stages)
    v = k.reg("v", 4)
    with k.If(k.tid.eq(0)):
        for stage in range(stages):
            k.do(instr.MBARRIER_INIT, full[stage], 1)
            k.do(instr.MBARRIER_INIT, empty[stage], 128)
        k.do(instr.FENCE_BARRIER_INIT)
    k.do(instr.BAR)

    def place(slot: Operand) -> tuple[Operand, ...]:
        return (slot,) if stages > 1 else ()

    parts: list[Role] = []
    with role(k, parts, "consumer", 0, 4) as thread, k.For("kt", m // rows) as kt:
        slot, parity = kt % stages, kt // stages % 2
        k.do(instr.TRY_WAIT, full[slot], parity)
        with k.Unroll("i", rows // 8) as i:
            row, column = i * 8 + thread // 16, thread % 16 * 4
            k.do(instr.LDS[16], v, k.at(tile, column, row, *place(slot)))
            k.do(instr.STG[16], k.at(dst, kt * rows + row, column), v)
        k.do(instr.ARRIVE, empty[slot])
    with role(k, parts, "producer", 4, 1) as thread, k.If(thread.eq(0)), k.For("kt", m // rows) as kt:
        slot, parity = kt % stages, kt // stages % 2
        k.do(instr.TRY_WAIT, empty[slot], parity ^ 1)
        k.do(instr.ARRIVE_EXPECT_TX, full[slot], Const(tile_bytes))
        k.do(instr.TMA_LOAD[2], k.at(tile, 0, 0, *place(slot)), loads, full[slot], Const(0), kt * rows)
    k._scopes[-1].body.append(Roles(tuple(parts)))
    return replace(k.build(), maps=(loads,), barriers=(full, empty))
