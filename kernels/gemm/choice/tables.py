"""The tiles that are offered for products, with their measured numbers, as data.

    Tile, Sums     a configuration and its times; what parts of k cost beside them
    SIMT_TILES     threads;   SM80_TILES, SM80_F64_TILES, SM75_TILES     mma.sync;   SM90_TILES     wgmma

What the numbers mean: heuristic, and sm90_time for those of wgmma.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from layoutalg.kernels.gemm.gemv import GemvConfig
from layoutalg.kernels.gemm.tiles import BLOCK_BYTES, SimtConfig, Sm75Config, Sm80Config, Sm90Config

C = TypeVar("C", SimtConfig, Sm80Config, Sm75Config, Sm90Config, GemvConfig)


@dataclass(frozen=True, slots=True)
class Tile(Generic[C]):
    """A configuration and its measured numbers, in nanoseconds, for 1, 2, ... blocks on a multiprocessor.

    There are as many as a multiprocessor holds; none where one law has the time of all tiles.  `narrow` is
    how much longer copies of single elements take.
    """

    config: C
    step: tuple[float, ...] = ()
    block: tuple[float, ...] = ()
    narrow: float = 1.0


@dataclass(frozen=True, slots=True)
class Sums:
    """The cost of parts beside their products: `launch` nanoseconds, and `byte` per byte that is written."""

    launch: float
    byte: float


SIMT_SUMS = Sums(2290, 0.000378)
"""The cost of writing parts of k and adding them up."""

SIMT_TILES: tuple[Tile[SimtConfig], ...] = (
    Tile(SimtConfig(128, 256, 8, 16, 8, 4), (1308,), (2378,), 1.20),
    Tile(SimtConfig(192, 192, 8, 12, 8, 4, stages=4), (1479,), (7028,), 1.11),
    Tile(SimtConfig(128, 128, 16, 8, 8, 4, min_blocks=2, stages=4), (1414, 2680), (2369, 2726), 1.09),
    Tile(SimtConfig(96, 128, 8, 12, 8, 4, min_blocks=3, stages=4),
         (524, 999, 1497), (2590, 2534, 2412), 1.10),
    Tile(SimtConfig(80, 128, 16, 10, 8, 4, run_m=2, min_blocks=3, stages=4),
         (1008, 1872, 2557), (522, 0, 0), 1.13),
    Tile(SimtConfig(64, 128, 16, 8, 8, 4, min_blocks=4, stages=4),
         (828, 1495, 2016, 2629), (492, 0, 362, 1108), 1.19),
    Tile(SimtConfig(64, 64, 16, 8, 4, 4, min_blocks=4), (506, 923, 1232, 1524), (674, 162, 139, 89), 1.05),
    Tile(SimtConfig(32, 64, 16, 4, 4, 4, min_blocks=4), (322, 485, 709, 909), (500, 677, 378, 302), 1.08),
)  # fmt: skip
"""The tiles, for f32; a tile of f64 has half the columns per thread and per warp."""

SM80_SUMS = Sums(1595, 0.000319)
"""The cost of writing parts of k and adding them up."""

SM80_TILES: tuple[Tile[Sm80Config], ...] = (
    Tile(Sm80Config(128, 256, 64, 2, 4, 4), (1076,), (3116,)),
    Tile(Sm80Config(256, 128, 64, 4, 2, 4), (1079,), (3041,)),
    Tile(Sm80Config(128, 128, 64, 2, 2, 3, min_blocks=2), (531, 1150), (3451, 3433)),
    Tile(Sm80Config(128, 64, 64, 2, 2, 3, min_blocks=3), (371, 660, 1014), (2825, 2822, 2806)),
    Tile(Sm80Config(64, 128, 64, 2, 2, 3, min_blocks=3), (364, 655, 1013), (2200, 2793, 2783)),
    Tile(Sm80Config(64, 64, 64, 2, 2, 4, min_blocks=3), (245, 443, 619), (1771, 1807, 1839)),
    Tile(Sm80Config(64, 64, 32, 2, 2, 2, via="registers"), (443, 495, 703, 1415), (15, 10, 5, 0)),
)  # fmt: skip
"""The tiles, for operands of 16 bits; the last takes single elements."""

SM80_F64_TILES: tuple[Tile[Sm80Config], ...] = (
    Tile(Sm80Config(128, 128, 16, 4, 2, 4), (1216,), (3100,)),
    Tile(Sm80Config(128, 64, 16, 2, 2, 4, min_blocks=2), (646, 1293), (2800, 2800)),
    Tile(Sm80Config(64, 64, 16, 2, 2, 4, min_blocks=3), (369, 738, 1108), (1800, 1800, 1800)),
    Tile(Sm80Config(64, 64, 16, 2, 2, 2, via="registers"), (517, 1034), (1800, 1800)),
)
"""The tiles, for f64.  Not measured: a step is its multiplications at 0.85, 0.8, 0.7 and 0.5 of the 67
TFLOP/s that an H200's data sheet states for tensor cores of f64, the larger the tile the more; what a block
takes beside is that of 16-bit tiles."""

TURING_GHZ, TURING_FLOPS, TURING_WAVEFRONT, TURING_L2_BYTES, TURING_DRAM_BYTES = 1.59, 1024, 2.0, 20.0, 3.5
"""A multiprocessor of a T4: its boost clock and f16 operations per cycle of its tensor cores as documented;
cycles per wavefront of shared memory, bytes per cycle from the L2 and from DRAM as published (T4_ACHIEVED).
"""


def _turing(config: Sm75Config, blocks: int) -> Tile[Sm75Config]:
    """A tile whose times follow from rates; none was measured."""
    c, halves = config, (config.tile_m + config.tile_n) * config.tile_k
    fragments = (c.warp_m + c.warp_n) // 16 * (c.tile_k // 16) * c.warps_m * c.warps_n
    step = max(
        2 * c.tile_m * c.tile_n * c.tile_k / TURING_FLOPS,
        (4 * fragments + 2 * halves // 128) * TURING_WAVEFRONT,
        2 * halves / TURING_L2_BYTES,
    )
    block = 2 * c.tile_m * c.tile_n / TURING_DRAM_BYTES
    turns = range(1, blocks + 1)
    return Tile(
        config, tuple(n * step / TURING_GHZ for n in turns), tuple(n * block / TURING_GHZ for n in turns)
    )


SM75_SUMS = Sums(2000, 0.0045)
"""The cost of writing parts of k and adding them up, from the bandwidth of DRAM; not measured."""

SM75_TILES: tuple[Tile[Sm75Config], ...] = (
    _turing(Sm75Config(256, 256, 32, 4, 2), 1),
    _turing(Sm75Config(256, 128, 32, 4, 2), 1),
    _turing(Sm75Config(128, 256, 32, 2, 4), 1),
    _turing(Sm75Config(128, 128, 32, 2, 4), 1),
    _turing(Sm75Config(128, 64, 32, 2, 2, min_blocks=2), 2),
    _turing(Sm75Config(64, 128, 32, 2, 2, min_blocks=2), 2),
    _turing(Sm75Config(64, 64, 32, 2, 2, min_blocks=3), 3),
)
"""The tiles, for f16; the first holds f16 sums alone.  Their times are computed, no Turing was measured."""

MOST_STAGES, ENOUGH_STAGES = 12, 4
"""The most stages of a tile of SM90_TILES, since more were not faster; and the stages that it needs before
its boxes of results have rows of 128 bytes."""

Way: TypeAlias = dict[str, Any]
"""The fields that a variant of a gemm-sm90 tile changes."""

ALONE: Way = {}
M2, M4, N2, N4 = (Way({f"cluster_{x}": blocks}) for x in "mn" for blocks in (2, 4))
K2, K3, K4 = (Way(cluster_k=blocks) for blocks in (2, 3, 4))
TURNS: Way = {"pingpong": True}


def deepest(tile_m: int, tile_n: int, **way: Any) -> Sm90Config | None:
    """A tile with as many stages as leave room for results of 16 bits: in boxes of 128 bytes, or of 64 where
    there would be too few stages; None where not even those fit.

    >>> print(deepest(128, 192), "|", deepest(256, 160, cluster_n=2))
    128x192x64, 4 stages | 256x160x64, 4 stages, clusters of 1x2x1
    """
    consumers = 2 if tile_m == 256 or way.get("pingpong") else tile_m // 64
    deep = (Sm90Config(tile_m, tile_n, s, consumers, **way) for s in range(MOST_STAGES, 1, -1))
    fit = [c for c in deep if c.ring_bytes + c.results_bytes(2) <= BLOCK_BYTES]
    wide, half = ([c for c in fit if c.boxes(2)[0] >= min(x, c.written_n)] for x in (64, 32))
    return next(iter(wide if wide and wide[0].stages >= ENOUGH_STAGES else half), None)


def _sm90(tile_m: int, tile_n: int, *ways: Way) -> Iterator[Tile[Sm90Config]]:
    """A tile in several ways."""
    for way in ways:
        if (found := deepest(tile_m, tile_n, **way)) is not None:
            yield Tile(found)


SM90_TILES: tuple[Tile[Sm90Config], ...] = (
    *_sm90(256, 128, ALONE, N2),
    *_sm90(256, 144, ALONE, N2),
    *_sm90(256, 160, ALONE, N2),
    *_sm90(256, 192, ALONE, M2, N2),
    *_sm90(192, 96, ALONE, N2),
    *_sm90(192, 128, ALONE, N2, TURNS),
    *_sm90(192, 144, ALONE),
    *_sm90(192, 160, N2, N4),
    *_sm90(192, 176, ALONE, M2, N2),
    *_sm90(192, 192, ALONE, M2, N2),
    *_sm90(128, 48, N4),
    *_sm90(128, 64, ALONE, N4, K2, K4),
    *_sm90(128, 80, N4),
    *_sm90(128, 96, ALONE, N4, K2, K3),
    *_sm90(128, 112, N4),
    *_sm90(128, 128, ALONE, N2, N4, K2, K4, TURNS),
    *_sm90(128, 144, ALONE, N4, TURNS),
    *_sm90(128, 160, ALONE, N4, TURNS, M2 | TURNS),
    *_sm90(128, 176, ALONE, N4, TURNS),
    *_sm90(128, 192, ALONE, N4, TURNS, M2 | TURNS),
    *_sm90(128, 208, ALONE, M2),
    *_sm90(128, 224, ALONE, M2, N2),
    *_sm90(128, 240, ALONE),
    *_sm90(128, 256, ALONE, M2, N2),
    *_sm90(64, 48, N4),
    *_sm90(64, 64, ALONE, M2, N4, K2, K4),
    *_sm90(64, 80, ALONE, M2, N2),
    *_sm90(64, 96, ALONE, M2, N4, K2, K3),
    *_sm90(64, 112, ALONE),
    *_sm90(64, 128, ALONE, M2, M4, N4, K4),
    *_sm90(64, 144, ALONE, M2),
    *_sm90(64, 160, ALONE),
    *_sm90(64, 192, ALONE, M2),
    *_sm90(64, 224, ALONE, M4),
    *_sm90(64, 240, K3),
    *_sm90(64, 256, ALONE),
)
"""The tiles, for operands of 16 bits, the largest first: of 278, in clusters and by ping-pong, that were
timed on random problems, those that were fastest somewhere, or near it.  tests/kernels/gemm/test_fit compares
the choice among them with the fastest of all."""
