"""How long a way to compute a product takes: blocks counted, and a few measured numbers for each tile.

The idea.  Every block of a product does the same: so many tiles of k, then its results.  A multiprocessor
that holds R blocks at most computes its share in rounds of R, and the rest of them at the end:

    time = rounds * (tiles of k * step[R] + block[R]) + tiles of k * step[rest] + block[rest]

step[r] is what r blocks take together for a tile of k, block[r] what they take beside: filling the ring,
writing results.  Parts of k (see gemm_parts) are more blocks with fewer tiles; writing their sums, reading
them again and launching the kernel that adds them up come on top.

    ns = expected_ns(p, tile, splits, sms)

Notes.  step and block are data, fitted to the times of every choice on 24 published problems on an H200; the
measurements are in the tests, which hold the selectors to them.  Other element types are taken to be in
proportion: a tile of k has the same bytes there, or the same multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from layoutalg.arch import Arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm.parts import part_problem
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt_plan import SimtConfig
from layoutalg.kernels.gemm.sm80_plan import Sm80Config

C = TypeVar("C", SimtConfig, Sm80Config)

OFFERED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of parts that are tried."""

LEAST_K = 128
"""The k that a part has at least."""

MOST_ROUNDS = 12
"""Blocks of parts that a multiprocessor computes at most: past that, tiles fill it without splitting."""


@dataclass(frozen=True, slots=True)
class Tile(Generic[C]):
    """A configuration and its measured numbers, in nanoseconds, for 1, 2, ... blocks on a multiprocessor.

    There are as many as a multiprocessor holds.  `narrow` is how much longer copies of single elements take.
    """

    config: C
    step: tuple[float, ...]
    block: tuple[float, ...]
    narrow: float = 1.0


@dataclass(frozen=True, slots=True)
class Sums:
    """What parts cost beside their products: `launch` nanoseconds, and `byte` for each that is written."""

    launch: float
    byte: float


def tile_count(p: GemmProblem, c: C) -> int:
    """Tiles of D.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> tile_count(gemm_problem(1000, 1000, 64, "f32"), SimtConfig(128, 256, 8, 16, 8, 4))
    32
    """
    return -(-p.m // c.tile_m) * -(-p.n // c.tile_n)


def offered_splits(p: GemmProblem, c: C, sms: int) -> tuple[int, ...]:
    """Numbers of parts worth trying for a problem in tiles of a configuration, on `sms` multiprocessors.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> tile = Sm80Config(128, 128, 64, 2, 2, 3)
    >>> offered_splits(gemm_problem(256, 256, 1024), tile, 132)
    (1, 2, 3, 4, 6, 8)
    >>> offered_splits(gemm_problem(8192, 8192, 8192), tile, 132)
    (1,)
    """
    if p.accumulator.name == "f16":
        return (1,)
    tiles = tile_count(p, c)
    return tuple(s for s in OFFERED if s == 1 or (s * LEAST_K <= p.k and s * tiles <= MOST_ROUNDS * sms))


def expected_ns(p: GemmProblem, c: C, tile: Tile[C], sums: Sums, sms: int) -> float:
    """Nanoseconds that the model of the module's text expects of `tile` as the configuration `c` has it.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> c = Sm80Config(128, 128, 64, 2, 2, 3)
    >>> p, tile = gemm_problem(256, 256, 1024), Tile(c, (100.0, 150.0), (1000.0, 1200.0))
    >>> expected_ns(p, c, tile, Sums(2000.0, 0.001), 132)
    2600.0
    """
    blocks, tiles = tile_count(p, c) * c.splits, -(-p.k // c.tile_k)
    steps = -(-tiles // c.splits)
    rounds, rest = divmod(-(-blocks // sms), len(tile.step))
    ns = rounds * (steps * tile.step[-1] + tile.block[-1])
    if rest:
        ns += steps * tile.step[rest - 1] + tile.block[rest - 1]
    if _is_narrow(p, c):
        ns *= tile.narrow
    if c.splits > 1:
        ns += sums.launch + c.splits * p.m * p.n * part_problem(p).result.nbytes * sums.byte
    return ns


def _is_narrow(p: GemmProblem, c: SimtConfig | Sm80Config) -> bool:
    if isinstance(c, SimtConfig):
        return min(c.a_vector, c.b_vector) == 1
    return min(c.a_bytes, c.b_bytes) < 2 * p.operand.nbytes


def ranked(
    p: GemmProblem,
    tiles: Sequence[Tile[C]],
    sums: Sums,
    chip: Arch,
    fitted: Callable[[C], C],
    check: Callable[[C], None],
) -> tuple[C, ...]:
    """Every tile that fits, with every number of parts worth trying, the one expected to be fastest first.

    Raises the refusal of the last tile where none fits.

    >>> from layoutalg.arch import find_arch
    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> tile = Tile(Sm80Config(128, 128, 64, 2, 2, 3), (100.0, 150.0), (1000.0, 1200.0))
    >>> p, sums, chip = gemm_problem(256, 256, 4096), Sums(2000.0, 0.001), find_arch("sm_90")
    >>> [c.splits for c in ranked(p, [tile], sums, chip, lambda c: c, lambda c: None)][:3]
    [4, 6, 8]
    """
    sms = chip.board.sms if chip.board else 1
    found: list[tuple[float, C]] = []
    refusal: LayoutAlgError | None = None
    for tile in tiles:
        config = fitted(tile.config)
        try:
            check(config)
        except LayoutAlgError as error:
            refusal = error
            continue
        for splits in offered_splits(p, config, sms):
            choice = replace(config, splits=splits)
            found.append((expected_ns(p, choice, tile, sums, sms), choice))
    if not found and refusal is not None:
        raise refusal
    return tuple(config for _, config in sorted(found, key=lambda pair: pair[0]))
