"""The copies of a packed kernel: a run of memory to shared memory as one stream of units, and back.

    run = PackedRun(k, walk, tile, where)
    run.copy_in(src)                  all units that hold an element of the run; ends with a barrier
    run.at(chunk.source)              where an element of the run is in shared memory
    run.copy_out(dst)                 a barrier, then units; those that the run shares with others by elements

The idea.  Unit t + threads * i of a run is thread t's, so that a warp's access is 512 contiguous bytes,
whatever the rows are.  The threads that find their elements in shared memory are others, which is what the
barriers are for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Expr, as_expr, minus, simplify
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Global, MemRef, Shared
from layoutalg.kernels.rowwise.packed import PackedWalk, Unit
from layoutalg.kernels.rowwise.walk import Index
from layoutalg.layout import Layout

Where: TypeAlias = Callable[[Iterable[Index]], AbstractContextManager[None]]
"""The function that writes code under the conjunction of predicates."""

FEW_TURNS, TURNS = 8, 4
"""The most copies of a thread that are unrolled completely, and the number unrolled at once beyond that."""


class PackedRun:
    """The run of a block in shared memory.

    `start` is where its first units start in memory, `low` the place of the first element in them; `cut` is
    the number of the unit in which a source of any number of rows ends; `where` makes code under the
    conjunction of predicates.
    """

    def __init__(self, k: KernelBuilder, walk: PackedWalk, tile: Expr, where: Where) -> None:
        self.k, self.walk, self.where = k, walk, where
        self.unit, self.size = walk.unit, walk.tiling.element.nbytes
        found, self.low = walk.start(tile), as_expr(0)
        source = k.let("run_source", as_expr(found.source))
        target = k.let("run_target", as_expr(found.target))
        if not walk.starts_at_units:
            self.low = k.let("run_low", source % self.unit)
            source = k.let("unit_source", source // self.unit * self.unit)
            target = k.let("unit_target", target // self.unit * self.unit)
        self.start = found._replace(source=source, target=target)
        room = walk.shared_bytes
        self.copied = k.shared_buffer("copied", 1, Layout((room,)), room, 16)
        if walk.filled:
            end = simplify(as_expr(walk.source_end))
            self.cut = k.let("cut_unit", minus(end, as_expr(self.start.source)) // self.unit)

    def at(self, index: Index, e: Index = 0) -> MemRef:
        """The address in shared memory of the element `e` behind element `index` of the run."""
        return self.k.at(self.copied, simplify(as_expr((index + e + self.low) * self.size)))

    def copy_in(self, src: Global | Shared) -> None:
        """Copy the units that hold an element of the run to shared memory, and wait for all threads' copies.

        Of a unit that ends behind the tensor those elements are copied that are before its end; in a run that
        is filled others are zeros.
        """
        k, nbytes, end, filled = self.k, self.unit * self.size, self.walk.source_end, self.walk.filled
        rest = 0 if filled else end % self.unit
        piece = k.reg("one", 2) if rest else None
        for n, low, copied, source, _ in self._units():
            with self.where(self.walk.touched(self.start, low, n)):
                if filled:
                    whole = as_expr(source + self.unit <= end)
                    k.do(
                        instr.CP_ASYNC_ZFILL[nbytes],
                        k.at(self.copied, copied),
                        self._place(src, source),
                        whole,
                    )
                    continue
                with self.where([source + self.unit <= end] if piece else []):
                    k.do(instr.CP_ASYNC[nbytes], k.at(self.copied, copied), self._place(src, source))
                if piece is None:
                    continue
                with k.Else(), self.where([source + (rest - 1) < end]):
                    for count in (n for n in (8, 4, 2, 1) if rest & n):
                        e, width = rest // (2 * count) * 2 * count, count * self.size
                        word = piece if width == 8 else piece[0]
                        k.do(instr.LDG[width], word, self._place(src, source + e))
                        k.do(instr.STS[width], k.at(self.copied, copied + e * self.size), word)
        ends: Any = k.reg("ends", self.unit, max(1, self.size // 4)) if filled else None
        for e, _, source, _ in self._cut() if filled else ():
            k.do(instr.LDG[self.size], ends[e], self._place(src, source))
        k.do(instr.CP_COMMIT)
        k.do(instr.CP_WAIT, 0)
        for e, at, _, _ in (
            self._cut() if filled else ()
        ):  # over the zeros, by the thread that has them written
            k.do(instr.STS[self.size], at, ends[e])
        k.do(instr.BAR)

    def copy_out(self, dst: Global | Shared) -> None:
        """Copy the run from shared memory, once all threads have written their results there."""
        k, nbytes, walk = self.k, self.unit * self.size, self.walk
        word = k.reg("unit", max(1, nbytes // 4))
        single = k.reg("element", max(1, self.size // 4))
        k.do(instr.BAR)
        for n, low, copied, _, target in self._units():
            at = n * self.unit
            whole = walk.in_run(self.start, low, at, self.unit)
            with self.where(whole):
                k.do(instr.LDS[nbytes], word, k.at(self.copied, copied))
                k.do(instr.STG_WHOLE[nbytes], self._place(dst, target), word)
            if not whole or (walk.filled and walk.starts_at_units):
                continue
            with k.Else():
                for e in range(self.unit):
                    with self.where(walk.in_run(self.start, low, at + e)):
                        k.do(instr.LDS[self.size], single, k.at(self.copied, copied + e * self.size))
                        k.do(instr.STG[self.size], self._place(dst, target + e), single)

        for _, at, _, target in self._cut() if walk.filled and walk.starts_at_units else ():
            k.do(instr.LDS[self.size], single, at)
            k.do(instr.STG[self.size], self._place(dst, target), single)

    def _cut(self) -> Iterator[tuple[int, MemRef, Index, Index]]:
        """The elements of the unit that the end of the source cuts, by the thread that copies it: their
        numbers, and their places in shared memory, in the source and in the destination."""
        k, walk, end = self.k, self.walk, as_expr(self.walk.source_end)
        found = walk.unit_at(self.start, self.low, self.cut)
        with k.If(k.tid.eq(self.cut % walk.tiling.threads) & (self.cut < walk.all_units)):
            for e in range(self.unit):
                with k.If(found.source + e < end):
                    at = k.at(self.copied, simplify((as_expr(found.copied) + e) * self.size))
                    yield e, at, found.source + e, found.target + e

    def _place(self, buffer: Global | Shared, index: Index) -> MemRef:
        return MemRef(buffer, simplify(as_expr(index)))

    def _units(self) -> Iterator[Unit]:
        """A thread's units of all runs, one after the other, each with its byte in shared memory.

        Code for each is written once.
        """
        k, walk, threads, units = self.k, self.walk, self.walk.tiling.threads, self.walk.all_units
        turns = -(-units // threads)
        loop = k.Unroll("c", turns) if turns <= FEW_TURNS else k.For("c", turns, TURNS)
        with loop as turn:
            unit = k.let("unit_of", turn * threads + k.tid)
            with self.where([unit < units] if units % threads else []):
                found = walk.unit_at(self.start, self.low, unit)
                low = k.let("low_of", as_expr(found.low)) if walk.shifted else self.low
                yield found._replace(low=low, copied=found.copied * self.size)
