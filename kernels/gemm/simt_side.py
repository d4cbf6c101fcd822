"""One operand of a SIMT GEMM: how its tiles are copied to shared memory and read from there.

A thread moves `vector` elements along a row of the stored matrix, `passes` times a tile.  Where the tile is
stored like the matrix, they go to shared memory whole; where the copy turns the tile, element by element:

    through registers    one vector load, `vector` stores of an element
    by cp.async          a copy of one element each: 8 k of 4 rows a warp, whole sectors of global memory

Rows past the matrix's edge stand for row 0: what is multiplied there is never stored.  So only k is guarded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from layoutalg.codegen.expr import Const, Expr, Operand, Select, Var, simplify
from layoutalg.codegen.instr import CLEAR, CP_ASYNC, CP_ASYNC_ZFILL, LDG, LDS, STS
from layoutalg.codegen.program import Global, KernelBuilder, MemRef, Reg, Shared
from layoutalg.kernels.gemm.problem import Major
from layoutalg.kernels.gemm.simt_plan import Half, SimtConfig, thread_row


@dataclass(frozen=True, slots=True)
class Side:
    """An operand in a kernel.  `first` is the matrix's row where the tile starts, `extent` its rows, `own`
    the tile's row where this thread's fragment starts; `tile` and `staged` exist where they are used."""

    k: KernelBuilder
    c: SimtConfig
    h: Half
    major: Major
    source: Global
    first: Expr
    extent: Var
    own: Expr
    tile: Shared | None = None
    staged: Reg | None = None

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.source.element_bytes

    def there(self, row: Operand, k: Expr) -> MemRef:
        """Where the matrix holds what belongs at (row of the tile, k of the matrix)."""
        at = self.first + row
        if self.c.edges:
            at = Select(at < self.extent, at, Const(0))
        return self.k.at(self.source, *((at, k) if self.major == "k" else (k, at)))

    def slot(self, row: Operand, k: Operand, stage: Operand) -> MemRef:
        """Where (row, k) of a stage lies in shared memory."""
        at = self.k.at(cast(Shared, self.tile), row, k)
        return MemRef(at.buffer, simplify(at.index + stage * Const(self.h.stage_elems * self.size)))

    def place(self, step: Operand) -> tuple[Expr, Expr]:
        """(row, k) in the tile of the first element that this thread moves in a pass."""
        near, far = self.h.walk(self.k.tid, step)
        return (far, near) if self.major == "k" else (near, far)

    def start_copy(self, base: Expr, stage: Operand, bound: Expr | None, first: int, count: int) -> None:
        """Start passes of the copy of the tile whose first k is `base`; from `bound` on, k reads as zero."""
        k, nbytes = self.k, self.h.vector * self.size
        with k.Unroll("p", count) as p:
            row, deep = self.place(p + first)
            to, of = self.slot(row, deep, stage), self.there(row, base + deep)
            if bound is None:
                k.do(CP_ASYNC[nbytes], to, of)
            else:
                k.do(CP_ASYNC_ZFILL[nbytes], to, of, base + deep < bound)

    def load(self, base: Expr, bound: Expr | None) -> None:
        """Load that tile into registers."""
        k, nbytes, staged = self.k, self.h.vector * self.size, cast(Reg, self.staged)
        with k.Unroll("p", self.h.passes) as p:
            row, deep = self.place(p)
            of = self.there(row, base + deep)
            if bound is None:
                k.do(LDG[nbytes], staged[p], of)
            else:
                with k.If(base + deep < bound):
                    k.do(LDG[nbytes], staged[p], of)
                with k.Else():
                    k.do(CLEAR[nbytes], staged[p])

    def store(self, stage: Operand) -> None:
        """Store the loaded tile, whole vectors or element by element."""
        k, words, staged = self.k, self.size // 4, cast(Reg, self.staged)
        with k.Unroll("p", self.h.passes) as p:
            row, deep = self.place(p)
            if self.h.turned:
                with k.Unroll("e", self.h.vector) as e:
                    at = (row, deep + e) if self.major == "k" else (row + e, deep)
                    element = staged.slice(p, e * words, count=words)
                    k.do(STS[self.size], self.slot(*at, stage), element)
            else:
                k.do(STS[self.h.vector * self.size], self.slot(row, deep, stage), staged[p])

    def fetch(self, into: Reg, which: int, stage: Operand, step: int) -> None:
        """Load this thread's fragment of one k of a stage."""
        v, words = self.h.fragment, self.size // 4
        with self.k.Unroll("f", self.h.thread // v) as f:
            part = into.slice(which, f * (v * words), count=v * words)
            row = self.own + thread_row(self.h, f * v)
            self.k.do(LDS[v * self.size], part, self.slot(row, step, stage))

    def read(self, into: Reg, k: Expr) -> None:
        """Load this thread's fragment of one k straight from the matrix."""
        words = self.size // 4
        with self.k.Unroll("f", self.h.thread) as f:
            part = into.slice(0, f * words, count=words)
            self.k.do(LDG[self.size], part, self.there(self.own + thread_row(self.h, f), k))
