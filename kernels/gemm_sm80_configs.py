"""Which configurations of the tensor-core GEMM to try for a problem, best first.

The idea.  A few tiles cover the trade between reuse and the number of blocks.  Each has one measured number,
the rate of a full multiprocessor; the time of a problem follows from the blocks of its busiest one:

    cycles = blocks * max(1, resident / blocks) ^ ALONE * 2 * tile_m * tile_n * k / rate

where `resident` blocks keep a multiprocessor busy, and fewer take longer each.  Predicates of edges cost a
tile EDGE * (1 / tile_m + 1 / tile_n) of its time: they go by vectors copied, not by products.

The choice is data: a row a tile, for 16-bit operands; other widths keep the bytes of tile_k.

Notes.  Rates were measured on an H200 (f16 into f32, flops a cycle and multiprocessor), ALONE, EDGE and the
last rates fitted to the times of all tiles on 20 sizes from 256 to 8192: the first choice is 1.5 % slower
than the best tile in the mean, 6 % at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import GemmProblem
from layoutalg.kernels.gemm_parts import combine_cycles, tile_splits
from layoutalg.kernels.gemm_sm80_plan import Sm80Config
from layoutalg.kernels.gemm_sm80_rules import check_config

ALONE = 0.6
"""How much of the rate is lost with missing blocks: 0 none, 1 in proportion."""

EDGE = 15.0
"""Elements of a tile's side whose products take as long as the predicates of its copies."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A configuration, the blocks of it that one multiprocessor holds, and its rate when it holds them."""

    config: Sm80Config
    blocks: int
    rate: float


TILES: tuple[Tile, ...] = (
    Tile(Sm80Config(128, 256, 64, 2, 4, 4), 1, 2135.0),
    Tile(Sm80Config(256, 128, 64, 4, 2, 4), 1, 2130.0),
    Tile(Sm80Config(128, 128, 64, 2, 2, 3, min_blocks=2), 2, 1976.0),
    Tile(Sm80Config(128, 64, 64, 2, 2, 3, min_blocks=3), 3, 1700.0),
    Tile(Sm80Config(64, 128, 64, 2, 2, 3, min_blocks=3), 3, 1700.0),
    Tile(Sm80Config(64, 64, 64, 2, 2, 4, min_blocks=3), 3, 1200.0),
    Tile(Sm80Config(64, 64, 32, 2, 2, 2, via="registers"), 4, 400.0),
)
"""The tiles, for operands of 16 bits; the last takes single elements."""


def configs(p: GemmProblem, arch: str | Arch = "sm_90") -> tuple[Sm80Config, ...]:
    """The configurations that fit a problem, the one expected to be fastest first.

    Vectors are as wide as the leading dimensions and the extents allow.  Raises the refusal of the last
    tile where none fits.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> print(configs(gemm_problem(8192, 8192, 8192))[0])
    128x256x64, 4 stages
    """
    chip = find_arch(arch)
    found: list[tuple[float, Sm80Config]] = []
    refusal: LayoutAlgError | None = None
    for tile in TILES:
        config = fitted(p, tile.config)
        try:
            check_config(p, config, chip)
        except LayoutAlgError as error:
            refusal = error
            continue
        for splits in tile_splits(p, config, chip):
            split = replace(config, splits=splits)
            found.append((expected_cycles(p, replace(tile, config=split), chip), split))
    if not found and refusal is not None:
        raise refusal
    return tuple(config for _, config in sorted(found, key=lambda pair: pair[0]))


def fitted(p: GemmProblem, c: Sm80Config) -> Sm80Config:
    """The configuration with vectors, k and edges as a problem needs them.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> fitted(gemm_problem(100, 100, 100), Sm80Config(128, 256, 64, 2, 4, 4)).a_bytes
    8
    """
    size = p.operand.nbytes
    tile_k = c.tile_k * 2 // size

    def vector(leading: int, along: int) -> int:
        return gcd(16, gcd(leading, along) * size)

    a_bytes = vector(p.lda, p.k if p.a_major == "k" else p.m)
    b_bytes = vector(p.ldb, p.k if p.b_major == "k" else p.n)
    across = gcd(p.ldd, p.n, p.ldc if p.reads_c else 0)
    result_vec = gcd(across, 16 // p.result.nbytes)
    edges = bool(p.m % c.tile_m or p.n % c.tile_n or p.k % tile_k)
    return replace(
        c, tile_k=tile_k, a_bytes=a_bytes, b_bytes=b_bytes, result_vec=result_vec, edges=edges,
        static_ld=c.via == "cp.async",
    )  # fmt: skip


def expected_cycles(p: GemmProblem, tile: Tile, chip: Arch) -> float:
    """Cycles that the model of the module's text expects.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> round(expected_cycles(gemm_problem(4096, 4096, 4096), TILES[0], find_arch("sm_90")))
    502924
    """
    c, sms = tile.config, chip.board.sms if chip.board else 1
    blocks = -(-p.m // c.tile_m) * -(-p.n // c.tile_n) * c.splits
    busiest = -(-blocks // sms)
    alone: float = max(1.0, tile.blocks / busiest) ** ALONE
    predicates = 1 + EDGE * (1 / c.tile_m + 1 / c.tile_n) if c.edges else 1.0
    work = 2 * c.tile_m * c.tile_n * p.k / c.splits
    return busiest * alone * work * predicates / tile.rate + combine_cycles(p, c.splits)
