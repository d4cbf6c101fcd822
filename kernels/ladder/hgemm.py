"""HGEMM by mma.sync without cp.async, in six kernels: 8 to 96 % of cuBLAS on a T4.

A block of eight warps computes a tile of D; each warp has a 64-wide part of it, in fragments of 16 x 8.
Tiles of A and B go from global memory through registers to shared memory, and from there by ldmatrix.

    1  tiles of blocks, of warps and of instructions; a loop copies one element after the other
    2  copies of 16 bytes, all of a thread's loads before its stores
    3  tiles in shared memory are swizzled: ldmatrix has no bank conflict
    4  the next tile is loaded into registers while one is multiplied
    5  a tile of 256 x 256 x 32; fragments by four matrices at once, whose addresses are one XOR
    6  two tiles in shared memory: one barrier per tile of k

Source: How To Write A Fast Matrix Multiplication From Scratch With Tensor Cores, alexarmbr.github.io, 2024.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Literal

from layoutalg import codegen as cg
from layoutalg.analysis import Access
from layoutalg.atoms import TiledMMA, make_tiled_copy_A, make_tiled_copy_B, make_tiled_mma
from layoutalg.codegen.expr import Const, Expr
from layoutalg.codegen.instr import find_mma
from layoutalg.kernels.gemm import GemmProblem, Side
from layoutalg.kernels.ladder.arrays import declare, row_copy
from layoutalg.layout import AnyLayout, Layout
from layoutalg.synthesis import synthesize

WARPS_M, WARPS_N = 4, 2
"""The warps of a block."""

MMA_K, WARP_K, PAIR = 8, 32, 2
"""The k of an mma, and of a turn of the loop that multiplies; the results that a lane has side by side."""


@dataclass(frozen=True, slots=True)
class Hgemm:
    """A kernel of the six: `vector` elements are copied at once, single ones in a loop; tiles in shared
    memory are `swizzled`, the next tile is loaded `ahead`, and there are `stages` tiles of either operand.

    A `lean` kernel reads fragments of 16 k by ldmatrix.x4, and addresses are as short as linearity makes
    them.  The others read those of an mma, by .x2 and .x1, in a loop over parts of a tile of k, at addresses
    that are printed as they are written.
    """

    tile_m: int = 256
    tile_n: int = 128
    tile_k: int = 64
    vector: int = 1
    swizzled: bool = False
    ahead: bool = False
    lean: bool = False
    stages: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * WARPS_M * WARPS_N

    @property
    def fragment_k(self) -> int:
        """The k of a load of fragments."""
        return 2 * MMA_K if self.lean else MMA_K

    def build(self, p: GemmProblem) -> cg.Program:
        """Return the program of a kernel for the problem's sizes and below."""
        return write(p, self)

    def __str__(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}"


def tiled_mma(p: GemmProblem, c: Hgemm) -> TiledMMA:
    """The fragments of a block: each warp has one piece of its tile."""
    rows, columns = c.tile_m // WARPS_M, c.tile_n // WARPS_N
    pieces = (
        Layout((16, WARPS_M, rows // 16), (1, rows, 16)),
        Layout((8, WARPS_N, columns // 8), (1, columns, 8)),
    )
    atom = find_mma(p.operand.name, p.accumulator.name, MMA_K).atom
    return make_tiled_mma(atom, (WARPS_M, WARPS_N, 1), (*pieces, c.fragment_k))


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand on its way: what a thread copies of its tiles, by registers, and the fragments it reads."""

    name: Side
    source: cg.Tensor
    staged: cg.Fragment
    target: cg.Tensor
    read: cg.Tensor
    copied: cg.Fragment
    held: cg.Fragment


def write(p: GemmProblem, c: Hgemm) -> cg.Program:
    """Return the program of a kernel for the problem's sizes and below."""
    mma, tile = tiled_mma(p, c), (c.tile_m, c.tile_n, c.tile_k)
    k = cg.Kernel(f"hgemm_{p.operand}", c.threads)
    x = declare(k, p, tile, (c.vector, c.vector, PAIR))
    m, n, depth = x.extents
    block_n, block_m = k.grid((n, m), (c.tile_n, c.tile_m))  # along rows of tiles
    thread = k.get_slice(mma)
    acc = thread.fragment_C("acc", (c.tile_m, c.tile_n))
    k.clear(acc)
    a = _operand(k, p, c, mma, "a", cg.local_tile(x.a, (c.tile_m, c.tile_k), (block_m, None)))
    b = _operand(k, p, c, mma, "b", cg.local_tile(x.b, (c.tile_n, c.tile_k), (block_n, None)))

    def at(ring: cg.Tensor, stage: Expr) -> cg.Tensor:
        return ring if c.stages == 1 else ring[None, None, None, stage]

    def load(tile: Expr) -> None:
        for x in (a, b):
            k.load(x.source[None, None, None, tile], into=x.staged)

    def store(stage: Expr) -> None:
        for x in (a, b):
            k.store(x.staged, at(x.target, stage))

    def copy(tile: Expr) -> None:
        """Bring a tile to the first stage; of single elements each is stored before the next is loaded."""
        if c.vector > 1:
            load(tile)
            store(Const(0))
            return
        for x in (a, b):
            source = x.source[None, None, None, tile]
            _, rows, columns = source.shape
            with k.For(f"copied_{x.name}", rows * columns) as i:
                place = None, i // columns, i % columns
                k.store(k.load(source[place], into=x.staged[None, 0, 0]), x.target[place])

    def multiply(stage: Expr) -> None:
        steps = (c.tile_k if c.lean else WARP_K) // c.fragment_k
        with nullcontext(Const(0)) if c.lean else k.For("warp_k", c.tile_k // WARP_K) as turn:
            for step in range(steps):
                for x in (a, b):
                    k.load(at(x.read, stage)[None, None, turn * steps + step], into=x.copied)
                for part in range(c.fragment_k // MMA_K):
                    k.mma(mma, acc, a.held[None, None, part], b.held[None, None, part])

    tiles = k.let("tiles", depth // c.tile_k)
    if c.ahead:
        copy(Const(0))
        k.do(cg.BAR)
    with k.For("kt", tiles) as kt:
        if c.ahead:
            with k.If(kt + 1 < tiles):
                load(kt + 1)
        else:
            copy(kt)
            k.do(cg.BAR)
        multiply(kt % c.stages)
        if c.ahead:
            if c.stages == 1:
                k.do(cg.BAR)  # all have read the tile
            with k.If(kt + 1 < tiles):
                store((kt + 1) % c.stages)
        k.do(cg.BAR)
    x.store(acc, lambda d: thread.partition_C(cg.local_tile(d, (c.tile_m, c.tile_n), (block_m, block_n))))
    return replace(k.build(), as_written=not c.lean)


def _operand(k: cg.Kernel, p: GemmProblem, c: Hgemm, mma: TiledMMA, side: Side, tiles: cg.Tensor) -> _Operand:
    """A tile (rows, k) of A or B: lanes copy along its stored rows, ldmatrix reads matrices of it."""
    by_k = (p.a_major if side == "a" else p.b_major) == "k"
    tile = (c.tile_m if side == "a" else c.tile_n), c.tile_k
    copy = row_copy(p.operand, tile, "k" if by_k else "mn", c.threads, c.vector, c.vector)
    make = make_tiled_copy_A if side == "a" else make_tiled_copy_B
    matrices = 4 if c.lean else 2 if side == "a" else 1
    read = make(f"SM75_U32x{matrices}_LDSM_N" if by_k else f"SM75_U16x{2 * matrices}_LDSM_T", mma)
    layout: AnyLayout = Layout(tile, (tile[1], 1) if by_k else (1, tile[0]))
    if c.swizzled:
        accesses = (
            Access(f"st.shared.b{16 * c.vector}", copy.tidfrg("dst", Layout(tile)), p.operand),
            Access(read.atom.src_op, read.tidfrg("src", Layout(tile)), p.operand),
        )
        order: Literal["row", "col"] = "row" if by_k else "col"
        layout = synthesize(tile, accesses, element=p.operand, order=order, form="single").layout or layout
    ring = k.shared(f"tile_{side}", p.operand, layout, stages=c.stages, align_bytes=1024)
    thread, copying, reading = k.get_slice(mma), k.get_slice(copy), k.get_slice(read)
    fragment = thread.fragment_A if side == "a" else thread.fragment_B
    held = fragment(f"r{side}", (tile[0], c.fragment_k))
    source = copying.partition_S(tiles)
    shape = source.shape[:3] if c.vector > 1 else (1, 1, 1)
    staged = k.fragment(f"staged_{side}", p.operand, shape, values=c.vector)
    return _Operand(
        side, source, staged, copying.partition_D(ring), reading.partition_S(ring), reading.retile(held), held
    )
