"""Promotion: sums of a step of k of 8-bit floats, added up in f32, or multiplied by factors of blocks before.

    sums of the step = A B over 128 of k, by wgmma, of 64 rows at a time
    sums            += sums of the step [* scale_a[m][k / 128] * scale_b[n / 128][k / 128]]

While one consumer adds, another multiplies.  The place of the next step in the ring is worked out, and its
operands are waited for, while the products of the last rows of a step run: between the sums and the products
behind them nothing else is left.  With the starts of operands in their descriptors, 21 ways of 6 products
took 0.96 of their time with both in front of the step (H200, 2026-12-01).  Factors of blocks, of any strides:

    scale_a[m][k / 128]           one for 1 x 128 elements of A
    scale_b[n / 128][k / 128]     one for 128 x 128 elements of B

A step of k of 8-bit floats is a block, and columns of a tile lie in one, so that a thread has one product of
two factors for each of its rows.  They are loaded a step ahead, so that no step waits for memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Var
from layoutalg.codegen.language import Fragment, KernelBuilder
from layoutalg.codegen.program import Mbarrier
from layoutalg.kernels.gemm.groups import BOX_ROWS
from layoutalg.kernels.gemm.problem import PROMOTED_K, SCALE_STEPS, GemmProblem
from layoutalg.kernels.gemm.tiles import Sm90Config
from layoutalg.layout import Layout

Factors: TypeAlias = "Callable[[Expr], list[Fragment]]"
"""The function that gives the factors of a thread's rows for a step of k, step after step."""


def promoted(
    k: KernelBuilder, acc: Fragment, sums: Fragment, before: Expr, count: Expr, full: Mbarrier,
    multiply: Callable[[Fragment, int, Expr], None], release: Callable[[Expr], None],
    factors: Factors | None = None,
) -> None:  # fmt: skip
    """Add up `sums` of 64 rows of each of `count` steps in `acc`, with `before` steps before the first:
    `multiply` starts those of rows of a number, in a stage that `release` hands back."""
    rows, eights, stages = acc.size // sums.size, sums.size // 4, full.stages
    by_row, of_step = Layout((2, eights, 2, rows), (1, 4, 2, sums.size)), Layout((2, eights, 2), (1, 4, 2))
    place = k.fragment("place", "u32", (2,))  # a stage, and the parity of the phase in which it is full
    for n, x in enumerate((before % stages, before // stages % 2)):
        k.map(x, into=place[n])
    k.clear(acc)
    with k.If(Const(0) < count):
        k.wait(full[before % stages], before // stages % 2)
    with k.For("kt", count) as kt:
        stage, parity = k.take("slot", place.at(0), stages - 1), k.take("parity", place.at(1), 1)
        for i in range(rows):
            k.do(instr.WGMMA_FENCE)
            multiply(sums, i, stage)
            if factors and i == 0:
                loaded = factors(kt)
            if i == rows - 1:
                after = k.let("after", (stage + 1) % stages)
                later = k.let("later", (parity + after.eq(0)) % 2)
                for n, x in enumerate((after, later)):
                    k.map(x, into=place[n])
                with k.If(kt + 1 < count):
                    k.wait(full[after], later)
            k.warpgroup_wait(0, sums)
            if i == rows - 1:
                release(stage)
            if not factors:
                k.map(acc[None, i, 0] + sums[None, 0, 0], into=acc[None, i, 0])
                continue
            for h in range(2):
                total, more = acc.view(by_row)[None, None, h, i], sums.view(of_step)[None, None, h]
                k.map(total + more * loaded[2 * i + h], into=total)


class BlockFactors:
    """The arrays of factors of a kernel, of any strides, and what a thread has of them.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> k = KernelBuilder("nothing", threads=128)
    >>> p, c = gemm_problem(8, 8, 256, "e4m3", arithmetic="blocks"), Sm90Config(128, 64, 2, tile_k=128)
    >>> factors = BlockFactors(k, p, c, k.param("m", 8))
    >>> len(factors.at((Const(0), Const(0)), Const(0), Const(2))(Const(0)))
    2
    """

    def __init__(self, k: KernelBuilder, p: GemmProblem, c: Sm90Config, m: Var) -> None:
        self.k, self.m = k, m
        steps = [k.param(x, d) for x, d in zip(SCALE_STEPS, p.scale_strides, strict=True)]
        self.a, self.b = (
            k.pointer(name, 4, (steps[at], steps[at + 1]), align_bytes=4)
            for name, at in (("scale_a", 0), ("scale_b", 2))
        )
        rows = range(c.consumer_m // 32)
        self.of_columns = k.fragment("scale_of_columns", "f32", (1,))
        self.of_rows, self.joined = (
            [k.fragment(f"{name}{i}", "f32", (1,)) for i in rows] for name in ("scale_of_row", "scale")
        )

    def at(self, corner: tuple[Expr, Expr], first: Expr, count: Expr) -> Factors:
        """Start to load those of a consumer's sums at a corner in D for `count` steps of k, from the `first`
        on."""
        for own in (self.of_columns, *self.of_rows):
            self.k.do(instr.fill(1), own.words, Const(0))  # also what rows behind the last have
        self._load(corner, first)

        def taken(step: Expr) -> list[Fragment]:
            for own, row in zip(self.joined, self.of_rows, strict=True):
                self.k.map(row * self.of_columns, into=own)
                # before the loads into their registers: ptxas copies them else, and a copy waits for its load
                self.k.do(instr.hold(1, "f32"), own.words)
            with self.k.If(step + 1 < count):
                self._load(corner, first + step + 1)
            return self.joined

        return taken

    def _load(self, corner: tuple[Expr, Expr], block: Expr) -> None:
        k = self.k
        k.do(instr.LDG[4], self.of_columns.words, k.at(self.b, corner[1] // PROMOTED_K, block))
        row = corner[0] + k.thread // 32 % 4 * 16 + k.thread % 32 // 4
        for i, own in enumerate(self.of_rows):
            at = row + (i // 2 * BOX_ROWS + i % 2 * 8)
            with k.If(at < self.m):
                k.do(instr.LDG[4], own.words, k.at(self.a, at, block))
