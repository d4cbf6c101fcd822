"""Which configurations of the tensor-core GEMM to try for a problem, best first.

The idea.  A few tiles cover the trade between reuse and the number of blocks.  Each has one measured number,
the rate of a full multiprocessor; the time of a problem follows from how many rounds of blocks it takes:

    cycles = rounds * (k + PROLOGUE) * 2 * tile_m * tile_n * blocks on a multiprocessor / rate

The choice is data: a row a tile, for 16-bit operands; other widths keep the bytes of tile_k.

Notes.  Rates were measured on an H200 at 4096 x 4096 x 4096, f16 into f32, in flops a cycle and
multiprocessor (`layoutalg bench gemm-sm80`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import GemmProblem
from layoutalg.kernels.gemm_sm80_plan import Sm80Config
from layoutalg.kernels.gemm_sm80_rules import check_config

PROLOGUE = 192
"""Steps of k that filling the ring and writing D take as long as."""


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
    Tile(Sm80Config(64, 64, 64, 2, 2, 4, min_blocks=3), 3, 1400.0),
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
        found.append((expected_cycles(p, replace(tile, config=config), chip), config))
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
    526498
    """
    c, sms = tile.config, chip.board.sms if chip.board else 1
    blocks = -(-p.m // c.tile_m) * -(-p.n // c.tile_n)
    rounds = -(-blocks // (sms * tile.blocks))
    here = min(tile.blocks, -(-blocks // sms))
    return rounds * (p.k + PROLOGUE) * 2 * c.tile_m * c.tile_n * here / tile.rate
