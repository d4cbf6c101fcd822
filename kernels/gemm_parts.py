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
from typing import Protocol

from layoutalg.arch import Arch
from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Const, Expr, Select, Var
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.gemm import GemmProblem

MOST_SPLITS = 64
"""Parts that k may have."""

OFFERED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of parts that are tried."""

LEAST_K = 128
"""The k that a part has at least."""

MOST_ROUNDS = 12
"""Blocks of parts that a multiprocessor computes at most: past that, tiles fill it without splitting."""

LAUNCH_CYCLES = 4000
"""From the end of a kernel to the first results of the next."""

BYTES_A_CYCLE = 2500
"""Sums that pass between the kernels, by way of the cache."""


class Tiled(Protocol):
    """What parts need of a configuration."""

    @property
    def tile_m(self) -> int:
        """Rows of a block's tile."""

    @property
    def tile_n(self) -> int:
        """Columns of it."""


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

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> part_problem(gemm_problem(64, 64, 512, ldd=80)).ldd
    64
    """
    return replace(p, result=p.accumulator, ldd=p.n, ldc=p.n, reads_c=False, bias=False, activation="none")


def check_splits(p: GemmProblem, splits: int) -> None:
    """Raise ShapeError for a number of parts there cannot be, UnsupportedError for sums none adds up.

    >>> from layoutalg.kernels.gemm import gemm_problem
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


def tile_splits(p: GemmProblem, c: Tiled, chip: Arch) -> tuple[int, ...]:
    """Numbers of parts worth trying for a problem in tiles of a configuration.

    >>> from layoutalg.arch import find_arch
    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> from layoutalg.kernels.gemm_sm80_plan import Sm80Config
    >>> tile = Sm80Config(128, 128, 64, 2, 2, 3)
    >>> tile_splits(gemm_problem(256, 256, 1024), tile, find_arch("sm_90"))
    (1, 2, 3, 4, 6, 8)
    >>> tile_splits(gemm_problem(4096, 4096, 4096), tile, find_arch("sm_90"))
    (1,)
    """
    if p.accumulator.name == "f16":
        return (1,)
    tiles = -(-p.m // c.tile_m) * -(-p.n // c.tile_n)
    sms = chip.board.sms if chip.board else 1
    return tuple(s for s in OFFERED if s == 1 or (s * LEAST_K <= p.k and s * tiles <= MOST_ROUNDS * sms))


def combine_cycles(p: GemmProblem, splits: int) -> float:
    """Cycles that writing the parts, reading them again and a second launch take.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> combine_cycles(gemm_problem(256, 256, 1024), 1)
    0.0
    """
    if splits == 1:
        return 0.0
    moved = p.m * p.n * (2 * splits * part_problem(p).result.nbytes + p.result.nbytes)
    return LAUNCH_CYCLES + moved / BYTES_A_CYCLE
