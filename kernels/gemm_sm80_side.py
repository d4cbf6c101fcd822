"""One operand of a tensor-core GEMM as its kernel sees it: its matrix, its ring of tiles, and who moves what.

A and B are alike: rows (m or n) by k.  Places in a tile come from the thread-value layouts of gemm_sm80_plan:
a layout adds up, so that a thread's own part, the pass and the stage stay separate summands of an address.
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Const, Expr, Operand, Var, as_expr
from layoutalg.codegen.instr_mma import LDMATRIX, LDMATRIX_TRANS
from layoutalg.codegen.instr_sm75 import CLEAR, LDG, STS
from layoutalg.codegen.instr_sm80 import CP_ASYNC, CP_ASYNC_ZFILL
from layoutalg.codegen.simplify import simplify
from layoutalg.codegen.tile import Global, MemRef, Reg, Shared
from layoutalg.kernels.gemm import Major
from layoutalg.kernels.gemm_sm80_plan import Sm80Config, copy_tv, matrix_tv


@dataclass(frozen=True, slots=True)
class Side:
    """Operand A (`paired` False) or B of a kernel that is being written.

    `first` is the row of the matrix where the block's tile starts, `extent` and `depth` are its rows and k;
    `warp` is the number of the warp's rows in the tile, `first_tile` the block's first tile of k.
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
    first_tile: Expr
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

    def start_copy(self, kt: Operand, stage: Operand) -> None:
        """Copy tile `kt` of k into a place of the ring, asynchronously."""
        k, nbytes = self.k, self.vector_bytes
        with k.Unroll("p", self.passes) as p:
            at, place, guard = self._pass(p, kt)
            if self.c.edges:
                k.do(CP_ASYNC_ZFILL[nbytes], self.slot(at, stage), place, guard)
            else:
                k.do(CP_ASYNC[nbytes], self.slot(at, stage), place)

    def load(self, kt: Operand, staged: Reg) -> None:
        """Load tile `kt` of k into registers, zeros where there is no matrix."""
        k, nbytes = self.k, self.vector_bytes
        with k.Unroll("p", self.passes) as p:
            _, place, guard = self._pass(p, kt)
            if self.c.edges:
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

    def _pass(self, step: Operand, kt: Operand) -> tuple[Expr, MemRef, Expr]:
        """Where a pass goes in the tile, where it comes from, and whether that exists."""
        at = self._copy(self.k.tid, 0, step)
        row = self.first + simplify(at % self.rows)
        deep = (self.first_tile + kt) * Const(self.c.tile_k) + simplify(at // self.rows)
        place = self.k.at(self.source, *((row, deep) if self.major == "k" else (deep, row)))
        return at, place, (row < self.extent) & (deep < self.depth)
