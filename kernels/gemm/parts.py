"""A part of k: what one block of a split product computes, and where its k lie.

The idea.  `splits` blocks share a tile of D, each with a part of k.  With q = tiles // splits tiles of k and
r = tiles % splits left over, the first r parts have q + 1 tiles and the others q:

    part s        tiles s * q + min(s, r) and on, q + (s < r) of them

so that no part is longer than another by more than a tile.  A part writes its sums alone, into a workspace:
sums[part][m][n] in the accumulator's type.  gemm_split adds them up.

A kernel takes `splits` when it is launched: one kernel serves every number of parts.  Where there are fewer
tiles than parts, the last parts have none, and write zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from layoutalg.codegen.expr import Const, Expr, Select, Var
from layoutalg.codegen.program import KernelBuilder
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.gemm.problem import GemmProblem

MOST_SPLITS = 64
"""Parts that k may have."""


@dataclass(frozen=True, slots=True)
class Part:
    """A block's tiles of k: the number of the first, and how many; `which` part, None for the whole k."""

    which: Var | None
    first_tile: Expr
    tiles: Var

    @contextmanager
    def work(self, k: KernelBuilder) -> Iterator[None]:
        """Statements that need a tile: what a part without any skips."""
        with nullcontext() if self.which is None else k.If(Const(0) < self.tiles):
            yield


def part_problem(p: GemmProblem) -> GemmProblem:
    """What one part computes: sums alone, in rows of n.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> part_problem(gemm_problem(64, 64, 512, ldd=80)).ldd
    64
    """
    return replace(p, result=p.accumulator, ldd=p.n, ldc=p.n, reads_c=False, bias=False, activation="none")


def check_splits(p: GemmProblem, splits: int) -> None:
    """Raise ShapeError for a number of parts there cannot be, UnsupportedError for sums none adds up.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_splits(gemm_problem(64, 64, 512), 8)
    """
    if not 1 <= splits <= MOST_SPLITS:
        raise ShapeError(f"splits = {splits}: 1 to {MOST_SPLITS} parts of k are accepted")
    if splits > 1 and p.accumulator.name == "f16":
        raise UnsupportedError("parts of f16 sums are not added up: f32, f64 and s32 are, or take splits = 1")


def declare_part(k: KernelBuilder, tiles: Expr, splits: int) -> Part:
    """The block's share of `tiles` tiles of k; with parts, the grid's second axis counts them.

    >>> k = KernelBuilder("parts", threads=32)
    >>> declare_part(k, k.param("tiles", 100), 4).first_tile.facts.hi
    127
    """
    if splits == 1:
        return Part(None, Const(0), k.let("trips", tiles))
    parts = k.param("splits", MOST_SPLITS)
    which = k.block(1, parts)
    each, over = k.let("each", tiles // parts), k.let("over", tiles % parts)
    first = which * each + Select(which < over, which, over)
    reach = (
        1 << tiles.facts.hi.bit_length()
    )  # no part starts past the last tile: the modulus says what is known
    first = k.let("first_tile", first % reach)
    return Part(which, first, k.let("trips", each + Select(which < over, Const(1), Const(0))))
