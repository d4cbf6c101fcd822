"""SGEMM by multiply-adds of threads, in the eight versions of a published ladder, and warp tiles behind them.

    v1              a thread per element of D, straight from global memory
    v2, v3          tiles in shared memory, stored along k: A as in memory, B turned
    v4              tiles stored along rows: A is turned, 32-way, which their author leaves
    v5              four elements of a row of D per thread, and of the copies, one by one
    v6              the same by accesses of 16 bytes; A is turned 8-way
    v7              4 x 4 elements per thread
    v8              8 x 8 elements per thread
    warp tiles      the lanes of a warp are 4 x 8, and a thread's elements are in fours; padding ends
    conflicts

Their author's column-major C = A B is D = A B here with the operands exchanged: that A is B here.

Source: How to optimize SGEMM on NVIDIA GPUs, github.com/yzhaiustc/Optimizing-SGEMM-on-NVIDIA-Turing-GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from layoutalg import codegen as cg
from layoutalg.atoms import TiledCopy, TiledMMA, make_tiled_copy_A, make_tiled_copy_B, make_tiled_mma
from layoutalg.codegen.expr import Expr
from layoutalg.codegen.instr import fma_outer
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, Major, Side
from layoutalg.kernels.ladder.arrays import declare, row_copy
from layoutalg.layout import Layout


@dataclass(frozen=True, slots=True)
class Sgemm:
    """A version: a block's tile and a thread's part of it, and what else it has over the one before.

    Tiles are in `shared` memory, stored along k or along their rows (`order`).  Copies are of `vector`
    elements, with `single` one by one, and fragments are read `fragment` elements at a time.  With
    `warp_tiles` a warp has 4 x 8 lanes, each with runs of four elements, and turned tiles are padded.
    """

    tile_m: int = 32
    tile_n: int = 32
    tile_k: int = 32
    thread_m: int = 1
    thread_n: int = 1
    shared: bool = True
    order: Literal["k", "mn"] = "mn"
    vector: int = 1
    single: bool = False
    fragment: int = 1
    warp_tiles: bool = False

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile_m // self.thread_m * (self.tile_n // self.thread_n)

    def build(self, p: GemmProblem) -> cg.Program:
        """Return the program of a version for the problem's sizes and below."""
        return write(p, self)

    def __str__(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}"


class Part(NamedTuple):
    """An operand: its name, the rows of a tile and of a thread, and the mode along which it is stored."""

    name: Side
    rows: int
    own: int
    major: Major


def parts(p: GemmProblem, c: Sgemm) -> tuple[Part, Part]:
    """A and B."""
    return Part("a", c.tile_m, c.thread_m, p.a_major), Part("b", c.tile_n, c.thread_n, p.b_major)


def tiled_mma(c: Sgemm) -> TiledMMA:
    """The multiply-adds of a block for one k: who multiplies which rows and columns."""
    down, across = c.tile_m // c.thread_m, c.tile_n // c.thread_n
    threads = Layout((down, across, 1), (across, 1, 0))
    rows, columns = (Layout((n, own), (own, 1)) for n, own in ((down, c.thread_m), (across, c.thread_n)))
    if c.warp_tiles:  # (lane, warp, element of a run, run) -> row
        threads = Layout(((4, 4), ((2, 4), 2), 1), ((2, 32), ((1, 8), 128), 0))
        rows, columns = Layout((4, 4, 4, 2), (4, 32, 1, 16)), Layout((8, 2, 4, 2), (4, 64, 1, 32))
    return make_tiled_mma("UniversalFMA<float,float,float,float>", threads, (rows, columns))


def tile_layout(c: Sgemm, part: Part) -> Layout:
    """The layout of a tile (row, k) in shared memory; one that is turned has padded rows."""
    pad = 4 if c.warp_tiles and part.major != c.order else 0
    along = (1, part.rows + pad) if c.order == "mn" else (c.tile_k + pad, 1)
    return Layout((part.rows, c.tile_k), along)


def reading(c: Sgemm, part: Part) -> TiledCopy:
    """The loads of a thread for one k: as many elements at once as lie side by side."""
    make = make_tiled_copy_A if part.name == "a" else make_tiled_copy_B
    return make(f"UniversalCopy<uint{32 * min(c.fragment, part.own)}_t>", tiled_mma(c))


def write(p: GemmProblem, c: Sgemm) -> cg.Program:
    """Return the program of a version for the problem's sizes and below."""
    if p.operand.name != "f32":
        raise UnsupportedError(f"SGEMM of {p.operand}: f32 is accepted")
    k, mma, moved = cg.Kernel("sgemm_f32", c.threads), tiled_mma(c), 1 if c.single else c.vector
    x = declare(k, p, (c.tile_m, c.tile_n, c.tile_k), (moved, moved, c.fragment))
    m, n, depth = x.extents
    block_n, block_m = k.grid((n, m), (c.tile_n, c.tile_m))  # along rows of tiles
    pieces = Layout((c.fragment, c.thread_m, c.thread_n // c.fragment), (1, c.thread_n, c.fragment))
    acc = k.fragment("acc", "f32", pieces, values=c.thread_n)
    k.clear(acc)
    operands = [
        (
            part,
            tensor,
            block,
            k.fragment(f"r{part.name}", "f32", Layout(part.own), values=min(c.fragment, part.own)),
        )
        for part, tensor, block in zip(parts(p, c), (x.a, x.b), (block_m, block_n), strict=True)
    ]

    def multiply(reads: Sequence[cg.Tensor], step: Expr) -> None:
        """Add the products of what a thread reads of one k."""
        for (*_, held), read in zip(operands, reads, strict=True):
            k.load(read[None, 0, step], into=held)
        k.do(fma_outer(c.thread_m, c.thread_n), acc.reg, *(held.reg for *_, held in operands))

    if not c.shared:
        reads = [
            k.get_slice(reading(c, part)).partition_S(
                cg.local_tile(tensor, (part.rows, 1), (block, None))[None, 0, None]
            )
            for part, tensor, block, _ in operands
        ]
        with k.For("kk", depth, unroll=4) as kk:
            multiply(reads, kk)
    else:
        copies, reads = [], []
        for part, tensor, block, _ in operands:
            ring = k.shared(f"tile_{part.name}", "f32", tile_layout(c, part), align_bytes=128)
            tile = cg.local_tile(tensor, (part.rows, c.tile_k), (block, None))
            copy = row_copy(p.operand, (part.rows, c.tile_k), part.major, c.threads, c.vector, moved)
            copies.append((k.get_slice(copy).partition_S(tile), k.get_slice(copy).partition_D(ring)))
            reads.append(k.get_slice(reading(c, part)).partition_S(ring))
        with k.For("kt", depth // c.tile_k) as kt:
            for held, target in [(k.load(x[None, None, None, kt]), y) for x, y in copies]:
                k.store(held, target)
            k.do(cg.BAR)
            with k.Unroll("step", c.tile_k) as step:
                multiply(reads, step)
            k.do(cg.BAR)

    def mine(d: cg.Tensor) -> cg.Tensor:
        """A thread's part of the block's tile of D, in vectors."""
        tile = cg.local_tile(d, (c.tile_m, c.tile_n), (block_m, block_n))
        results = k.get_slice(mma).partition_C(tile)[0, None, None]
        return cg.local_tile(results, (1, c.fragment), (None, None))[0, None, None, None]

    x.store(acc, mine)
    return k.build()
