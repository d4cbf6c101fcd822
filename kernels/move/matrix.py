"""Copies and transposes of matrices: extents and leading dimensions are parameters, elements 1 to 16 bytes.

The idea.  A block moves one tile of a tensor of coordinates, in vectors along each side's contiguous mode.  A
copy is one partition of it on both sides,

    "registers"    load a vector, store it: nothing to wait for but memory
    "cp.async"     copy into shared memory asynchronously (sm_80), wait, read it back, store

a transpose goes through shared memory, so that both sides of global memory see vectors:

    1  each lane loads P rows of one vector along n        P = 4 / element bytes, at least 1
    2  P x P corners are transposed in registers           byte permutes, so that words go to shared memory
    3  words are stored to the tile, element (n, m) at Sw o (tile_n, tile_m):(tile_m, 1)
    4  after the barrier each lane loads one vector along m and stores it

Consecutive blocks of a transpose walk down a column of tiles, so that what they store lies in the same rows
of the destination: 1 to 4 % faster than along a row (H200).  Full tiles take a path without predicates, under
a block-uniform branch; of tiles that stick out of the matrix every vector has a predicate, that its
coordinates are inside of the extents, or where the edge cuts vectors every element.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from layoutalg.codegen import instr
from layoutalg.codegen.costs import describe
from layoutalg.codegen.expr import Expr
from layoutalg.codegen.language import Fragment, KernelBuilder, Tensor, local_tile
from layoutalg.codegen.program import Kernel, Shared
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move import matrix_plan
from layoutalg.layout import Layout

X = TypeVar("X")

TRANSPOSE_WORDS: Mapping[int, instr.Instr] = MappingProxyType({2: instr.TRANSPOSE_16, 4: instr.TRANSPOSE_8})
"""The instructions that transpose a corner of 2 or 4 rows in registers, a word of each."""


def _turned(p: MatrixProblem, m: X, n: X) -> tuple[X, X]:
    """Turn values for the modes of the source into the order of the destination's modes, or back."""
    return (n, m) if p.turned else (m, n)


def _tiles(
    k: KernelBuilder,
    p: MatrixProblem,
    c: matrix_plan.CopyConfig | matrix_plan.TransposeConfig,
    steps: tuple[int, int],
    *vec: int,
) -> tuple[Tensor, Tensor, Expr]:
    """A block's tile of the source and of the destination, and the predicate that neither sticks out.

    Extents are multiples of `steps`, leading dimensions of `vec`.  Consecutive blocks walk along rows of the
    destination.
    """
    m, n = k.param("m", p.m, steps[0], steps[0]), k.param("n", p.n, steps[1], steps[1])
    lds, ldd = k.param("lds", p.lds, vec[0], vec[0]), k.param("ldd", p.ldd, vec[1], vec[1])
    aligned, aligned_dst = (v * p.element_bytes for v in vec)
    src = k.tensor("src", p.dtype, (m, n), (lds, 1), align_bytes=aligned)
    dst = k.tensor("dst", p.dtype, _turned(p, m, n), (ldd, 1), writable=True, align_bytes=aligned_dst)
    tile = c.tile_m, c.tile_n
    down, along = _turned(p, (m + (c.tile_m - 1)) // c.tile_m, (n + (c.tile_n - 1)) // c.tile_n)
    block = k.block(0, down * along)
    at_m, at_n = _turned(p, block // along, block % along)
    origin = k.let("m0", at_m * c.tile_m), k.let("n0", at_n * c.tile_n)
    s = local_tile(src.moved(*origin), tile, (0, 0))
    d = local_tile(dst.moved(*_turned(p, *origin)), _turned(p, *tile), (0, 0))
    return s, d, (origin[0] + c.tile_m <= m) & (origin[1] + c.tile_n <= n)


def build_copy(p: MatrixProblem, c: matrix_plan.CopyConfig) -> Kernel:
    """The tile program of a copy, for sizes up to the problem's: what its `contract` says.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> from layoutalg.kernels.move.matrix_plan import copy_configs
    >>> p = matrix_problem(64, 64, "f32", turned=False)
    >>> build_copy(p, copy_configs(p)[0]).name
    'copy_f32'
    """
    k = KernelBuilder(f"copy_{p.dtype}", c.threads, notes=_notes(p, c))
    s, d, full = _tiles(k, p, c, (1, c.edge_vec), c.vec, c.vec)
    thread = k.get_slice(matrix_plan.row_copy(c, p.dtype))
    here, there = thread.partition_S(s), thread.partition_D(d)
    with k.If(full):
        if c.via == "cp.async":
            tile = k.shared("tile", p.dtype, Layout((c.tile_m, c.tile_n), (c.tile_n, 1)), align_bytes=128)
            mine = thread.partition_D(tile)
            k.copy(here, mine)
            k.do(instr.CP_COMMIT)
            k.do(instr.CP_WAIT, 0)  # every thread reads back only what it copied: its own wait is enough
            here = mine
        k.store(k.load(here, name="v"), there, instr=instr.STG_WHOLE)
    with k.Else():
        here, there = (
            local_tile(t.transposed, (c.edge_vec, 1), (None, None))[0, 0, None, None] for t in (s, d)
        )
        _one_by_one(k, here, there, here, "one", c.edge_vec, unroll=4)
    return k.build()


def build_transpose(p: MatrixProblem, c: matrix_plan.TransposeConfig) -> Kernel:
    """The tile program of a transpose, for sizes up to the problem's: what its `contract` says.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> from layoutalg.kernels.move.matrix_plan import transpose_configs
    >>> p = matrix_problem(64, 64, "f32", turned=True)
    >>> build_transpose(p, next(transpose_configs(p))).name
    'transpose_f32'
    """
    by_vectors = c.edges == "vectors"
    k = KernelBuilder(f"transpose_{p.dtype}", c.threads, notes=_notes(p, c))
    steps = (c.dst_vec, c.src_vec) if by_vectors else (1, 1)
    s, d, full = _tiles(k, p, c, steps, c.src_vec, c.dst_vec)
    tile = k.shared("tile", p.dtype, c.layout, align_bytes=1024)
    loading, storing = (
        k.get_slice(matrix_plan.load_copy(c, p.dtype)),
        k.get_slice(matrix_plan.store_copy(c, p.dtype)),
    )
    here, there = loading.partition_S(s), storing.partition_D(d)
    put, get = loading.partition_D(tile.transposed), storing.partition_S(tile)
    if by_vectors:
        with k.If(full):
            v = k.load(here, name="v")
        with k.Else():
            k.load(here, where=here.inside, into=v)
        _put(k, v, put)
        k.do(instr.BAR)
        u = k.load(get, name="u")
        with k.If(full):
            k.store(u, there, instr=instr.STG_WHOLE)
        with k.Else():
            k.store(u, there, where=there.inside, instr=instr.STG_WHOLE)
    else:
        with k.If(full):
            _put(k, k.load(here, name="v"), put)
        with k.Else():
            _one_by_one(k, s.transposed, tile, s.transposed, "one")
        k.do(instr.BAR)
        with k.If(full):
            k.store(k.load(get, name="u"), there, instr=instr.STG_WHOLE)
        with k.Else():
            _one_by_one(k, tile.transposed, d.transposed, d.transposed, "last")
    return k.build()


def _put(k: KernelBuilder, v: Fragment, put: Tensor) -> None:
    """Store registers to the tile: narrow elements in words, whose corners are transposed first."""
    rows, size = matrix_plan.rows_per_word(put.buffer.element_bytes), put.buffer.element_bytes
    if rows == 1:
        k.store(v, put)
        return
    (vector, _), passes, _ = v.shape
    t = k.reg("t", rows)
    side = min(rows, vector)
    with k.Unroll("i", passes) as i, k.Unroll("w", vector // side) as w:
        k.do(TRANSPOSE_WORDS[rows], t, *(v.at((w * side, r), i, 0, values=side) for r in range(rows)))
        with k.Unroll("e", side) as e:
            k.do(instr.STS[rows * size], put.at((w * side + e, 0), i, 0), t[e])


def _one_by_one(
    k: KernelBuilder, here: Tensor, there: Tensor, where: Tensor, name: str, vec: int = 1, *, unroll: int = 1
) -> None:
    """Move the part of a tile that exists between two views: elements, or vectors that no edge cuts."""
    nbytes = vec * here.buffer.element_bytes
    load = instr.LDS if isinstance(here.buffer, Shared) else instr.LDG
    store = instr.STS if isinstance(there.buffer, Shared) else instr.STG_WHOLE
    one = k.reg(name, max(1, nbytes // 4))
    with k.For("j", where.size // k.threads, unroll=unroll) as j:
        x = k.tid + j * k.threads
        with k.If(where.inside(x)):
            k.do(load[nbytes], one, here.at(x))
            k.do(store[nbytes], there.at(x), one)


def _notes(p: MatrixProblem, c: matrix_plan.CopyConfig | matrix_plan.TransposeConfig) -> list[str]:
    size, tile = p.element_bytes, f"a {c.tile_m} x {c.tile_n} tile with {c.threads} threads"
    if isinstance(c, matrix_plan.CopyConfig):
        how = [f"A block copies {tile} through {c.via}; vectors of {c.vec * size} bytes."]
    else:
        how = [
            f"A block transposes {tile}; vectors of {c.src_vec * size} bytes in, {c.dst_vec * size} out.",
            f"Element (n, m) of the tile lies at {c.layout}.",
        ]
    which = f"dst[{'n, m' if p.turned else 'm, n'}] = src[m, n], elements of {size} bytes"
    return [
        "",
        f"{which}; rows of src are lds elements apart, of dst ldd.",
        *how,
        "Predicted for a full tile:",
        *describe(matrix_plan.tile_costs(p, c)),
    ]
