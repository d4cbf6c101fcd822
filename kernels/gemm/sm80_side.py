"""One operand of a tensor-core GEMM as its kernel sees it: its matrix, its ring of tiles, and who moves what.

A and B are alike: rows (m or n) by k.  Places in a tile come from the thread-value layouts of gemm_sm80_plan:
a layout adds up, so that a thread's own part, the pass and the stage stay separate summands of an address.

Edges cost the main loop nothing.  A tile that would leave the matrix is moved inward, to its last rows
(`tile_start`): rows that the tile before it has too are computed twice and stored once.  The tile of k that
is not whole comes first, before the loop, under a guard (`tile_order`).  Only a matrix with fewer rows than
the tile has no other place for it; rows past its end stand for its first, and are not stored.

    main loop, 128 x 256 x 64, f16, sm_90a             instructions     rate on an H200, 4096 cubed
    whole tiles                                        227              1
    a guard a copy, of row and k                       245              0.979
    row guards as bits of a mask, tested in the loop   254              0.982
    rows past the end read the first, an address each  219              0.970
    tiles moved inward                                 227              0.996
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.codegen.expr import Const, Expr, Operand, Select, Var, as_expr, simplify
from layoutalg.codegen.instr import CLEAR, CP_ASYNC, CP_ASYNC_ZFILL, LDG, LDMATRIX, LDMATRIX_TRANS, STS
from layoutalg.codegen.program import Global, KernelBuilder, MemRef, Reg, Shared
from layoutalg.kernels.gemm.parts import Part
from layoutalg.kernels.gemm.problem import Major
from layoutalg.kernels.gemm.sm80_plan import Sm80Config, copy_tv, matrix_tv


@dataclass(frozen=True, slots=True)
class Side:
    """Operand A (`paired` False) or B of a kernel that is being written.

    `first` is the row of the matrix where the block's tile lies, `extent` and `depth` are its rows and k;
    `warp` is the number of the warp's rows in the tile.
    """

    k: KernelBuilder
    c: Sm80Config
    source: Global
    tile: Shared
    major: Major
    rows: int
    vector_bytes: int
    first: Expr
    extent: Var
    depth: Var
    warp: Expr
    warp_rows: int
    paired: bool
    staged: Reg | None

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.source.element_bytes

    @property
    def passes(self) -> int:
        """Vectors that a thread moves for a tile."""
        return self.rows * self.c.tile_k * self.size // (self.vector_bytes * self.c.threads)

    def slot(self, at: Expr, stage: Operand) -> MemRef:
        """The element at index row + rows * k of a tile of the ring."""
        where = self.k.at(self.tile, simplify(at % self.rows), simplify(at // self.rows))
        stage_bytes = self.rows * self.c.tile_k * self.size
        return MemRef(where.buffer, simplify(where.index + stage * Const(stage_bytes)))

    def start_copy(self, tile: Expr, stage: Operand, *, ragged: bool) -> None:
        """Copy a tile of k into a place of the ring, asynchronously; of a `ragged` one what there is."""
        k, nbytes = self.k, self.vector_bytes
        with k.Unroll("p", self.passes) as p:
            at, place, guard = self._pass(p, tile)
            if ragged:
                k.do(CP_ASYNC_ZFILL[nbytes], self.slot(at, stage), place, guard)
            else:
                k.do(CP_ASYNC[nbytes], self.slot(at, stage), place)

    def load(self, tile: Expr, staged: Reg, *, ragged: bool) -> None:
        """Load a tile of k into registers; of a `ragged` one what there is, and zeros."""
        k, nbytes = self.k, self.vector_bytes
        with k.Unroll("p", self.passes) as p:
            _, place, guard = self._pass(p, tile)
            if ragged:
                with k.If(guard):
                    k.do(LDG[nbytes], staged[p], place)
                with k.Else():
                    k.do(CLEAR[nbytes], staged[p])
            else:
                k.do(LDG[nbytes], staged[p], place)

    def store(self, stage: Operand, staged: Reg) -> None:
        """Store the loaded tile into a place of the ring."""
        with self.k.Unroll("p", self.passes) as p:
            at = self._copy(self.k.tid, 0, p)
            self.k.do(STS[self.vector_bytes], self.slot(at, stage), staged[p])

    def fragments(self, into: Reg, which: int, stage: Operand, step: int) -> None:
        """Load the fragments of a step of a tile: 16 rows by 32 bytes of k an instruction."""
        turned = self.major == "mn"
        tv = matrix_tv(
            self.rows, self.c.tile_k, self.warp_rows, 16 // self.size, turned=turned, paired=self.paired
        )
        load = LDMATRIX_TRANS if turned else LDMATRIX
        with self.k.Unroll("f", into.shape[1]) as f:
            at = as_expr(tv(self.k.tid % 32, 0, (f, step), self.warp))
            self.k.do(load, into[which, f], self.slot(at, stage))

    def _copy(self, thread: Operand, element: Operand, step: Operand) -> Expr:
        vec = self.vector_bytes // self.size
        tv = copy_tv(self.rows, self.c.tile_k, self.major, vec, self.c.threads)
        return as_expr(tv(thread, element, step))

    def _pass(self, step: Operand, tile: Expr) -> tuple[Expr, MemRef, Expr]:
        """Where a pass goes in the tile, where it comes from, and whether its k exists."""
        at = self._copy(self.k.tid, 0, step)
        row, deep = simplify(at % self.rows), tile * self.c.tile_k + simplify(at // self.rows)
        if self.c.edges and self.extent.facts.lo < self.rows:
            row = Select(row < self.extent, row, Const(0))
        row = self.first + row
        place = self.k.at(self.source, *((row, deep) if self.major == "k" else (deep, row)))
        return at, place, deep < self.depth


def least_extent(extent: int, rows: int, *, edges: bool) -> int:
    """The fewest rows that a kernel for up to `extent` of them takes: with edges a tile's, if there are.

    >>> least_extent(100, 64, edges=True), least_extent(50, 64, edges=True)
    (64, 1)
    """
    return rows if edges and extent >= rows else 1


def tile_start(k: KernelBuilder, name: str, first: Expr, rows: int, extent: Var, *, edges: bool) -> Expr:
    """Where a tile of `rows` rows lies that D has at `first`: there, or as far inward as the matrix asks.

    Of fewer rows than a tile's nothing is moved.

    >>> k = KernelBuilder("inward", threads=32)
    >>> m = k.param("m", 100, 64)
    >>> _ = tile_start(k, "a_row", k.block(0, 2) * 64, 64, m, edges=True)
    >>> str(k.build().body[0])
    'a_row = (block_x * 64 if block_x * 64 + 64 <= m else m - 64)'
    """
    if not edges or extent.facts.lo < rows:
        return first
    return k.let(name, Select(first + rows <= extent, first, extent - rows))


def tile_order(k: KernelBuilder, depth: Var, tile_k: int, part: Part, *, edges: bool) -> tuple[Expr, Expr]:
    """The tile of k that a block multiplies first of its part, and the next; the others follow in order.

    With `edges` the last one opens where k ends inside it, so that every other is whole:

        k = 200 in tiles of 64        3 (8 of k), 0, 1, 2

    >>> k = KernelBuilder("order", threads=32)
    >>> depth = k.param("k", 200)
    >>> whole = Part(None, Const(0), k.let("tiles", (depth + 63) // 64))
    >>> _ = tile_order(k, depth, 64, whole, edges=True)
    >>> [str(s) for s in k.build().body[1:]]
    ['opening = (k // 64 if k < tiles * 64 else 0)', 'second = (0 if k < tiles * 64 else 1)']
    """
    first = part.first_tile
    if not edges:
        return first, first + 1
    ragged = depth < (first + part.tiles) * tile_k
    opening = k.let("opening", Select(ragged, depth // tile_k, first))
    return opening, k.let("second", first + Select(ragged, Const(0), Const(1)))
