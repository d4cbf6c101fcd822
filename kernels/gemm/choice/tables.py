"""The tiles that are offered for products, with their measured numbers, as data.

    Tile, Sums     a configuration and its times; what parts of k cost beside them
    SIMT_TILES     threads;   SM80_TILES, SM80_F64_TILES, SM75_TILES     mma.sync;   SM90_TILES     wgmma

What the numbers mean: heuristic, and sm90_time for those of wgmma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from layoutalg.kernels.gemm.tiles import SimtConfig, Sm75Config, Sm80Config, Sm90Config

C = TypeVar("C", SimtConfig, Sm80Config, Sm75Config, Sm90Config)


@dataclass(frozen=True, slots=True)
class Tile(Generic[C]):
    """A configuration and its measured numbers, in nanoseconds, for 1, 2, ... blocks on a multiprocessor.

    There are as many as a multiprocessor holds.  `narrow` is how much longer copies of single elements take,
    `start` what a launch takes beside its blocks.
    """

    config: C
    step: tuple[float, ...]
    block: tuple[float, ...]
    narrow: float = 1.0
    start: float = 0.0


@dataclass(frozen=True, slots=True)
class Sums:
    """What parts cost beside their products: `launch` nanoseconds, and `byte` for each that is written."""

    launch: float
    byte: float


SIMT_SUMS = Sums(2290, 0.000378)
"""What writing parts of k and adding them up cost."""

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
"""What writing parts of k and adding them up cost."""

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
"""What writing parts of k and adding them up cost, by the bandwidth of DRAM; not measured."""

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

SM90_SUMS = Sums(1954, 0.000328)
"""What writing parts of k and adding them up cost."""

SM90_TILES: tuple[Tile[Sm90Config], ...] = (
    Tile(Sm90Config(128, 256, 4), (553,), (6131,), start=2000),
    Tile(Sm90Config(128, 256, 4, cluster_m=2), (625,), (2766,), start=3792),
    Tile(Sm90Config(256, 128, 4), (568,), (5472,), start=2000),
    Tile(Sm90Config(256, 128, 4, cluster_n=2), (624,), (2610,), start=4045),
    Tile(Sm90Config(256, 160, 4, cluster_m=2), (832,), (439,), start=3812),
    Tile(Sm90Config(256, 144, 3, cluster_n=2), (760,), (2455,), start=4226),
    Tile(Sm90Config(192, 192, 4, 3), (719,), (1289,), start=5144),
    Tile(Sm90Config(192, 192, 4, 3, cluster_m=2), (755,), (1100,), start=4890),
    Tile(Sm90Config(192, 144, 4, 3), (515,), (2850,), start=3663),
    Tile(Sm90Config(192, 128, 4, 3), (450,), (1959,), start=4270),
    Tile(Sm90Config(192, 128, 4, 3, cluster_n=2), (488,), (1159,), start=5052),
    Tile(Sm90Config(192, 128, 4, 3, cluster_k=2), (544,), (2205,), start=4887),
    Tile(Sm90Config(192, 128, 4, pingpong=True), (434,), (1484,), start=4987),
    Tile(Sm90Config(192, 96, 4, 3), (358,), (1270,), start=4667),
    Tile(Sm90Config(128, 240, 3), (578,), (4886,), start=2553),
    Tile(Sm90Config(128, 224, 4), (478,), (4982,), start=2000),
    Tile(Sm90Config(128, 224, 4, cluster_m=2), (556,), (1340,), start=5135),
    Tile(Sm90Config(128, 208, 4), (444,), (4641,), start=2430),
    Tile(Sm90Config(128, 208, 4, cluster_m=2), (520,), (1278,), start=5013),
    Tile(Sm90Config(128, 192, 4, pingpong=True), (421,), (1564,), start=5169),
    Tile(Sm90Config(128, 192, 4, cluster_m=2, pingpong=True), (488,), (100,), start=5717),
    Tile(Sm90Config(128, 176, 4), (386,), (2825,), start=3886),
    Tile(Sm90Config(128, 176, 4, pingpong=True), (396,), (100,), start=6139),
    Tile(Sm90Config(128, 160, 5), (369,), (2191,), start=4090),
    Tile(Sm90Config(128, 160, 5, pingpong=True), (380,), (100,), start=6023),
    Tile(Sm90Config(128, 160, 5, cluster_m=2, pingpong=True), (434,), (100,), start=5797),
    Tile(Sm90Config(128, 144, 5), (322,), (2340,), start=4142),
    Tile(Sm90Config(128, 144, 5, pingpong=True), (355,), (100,), start=5252),
    Tile(Sm90Config(128, 144, 5, cluster_m=2, pingpong=True), (396,), (482,), start=5534),
    Tile(Sm90Config(128, 128, 6), (293,), (1307,), start=4807),
    Tile(Sm90Config(128, 128, 6, pingpong=True), (291,), (100,), start=6014),
    Tile(Sm90Config(128, 128, 6, cluster_n=2), (324,), (140,), start=5969),
    Tile(Sm90Config(128, 128, 6, cluster_n=4), (280,), (5668,), start=1500),
    Tile(Sm90Config(128, 128, 5, cluster_k=2), (321,), (5939,), start=2000),
    Tile(Sm90Config(128, 128, 5, cluster_k=4), (313,), (5478,), start=3068),
    Tile(Sm90Config(128, 96, 6), (250,), (806,), start=4965),
    Tile(Sm90Config(128, 96, 5, cluster_k=2), (232,), (3910,), start=4121),
    Tile(Sm90Config(128, 64, 8), (171,), (794,), start=5427),
    Tile(Sm90Config(128, 64, 8, cluster_n=4), (218,), (4425,), start=1500),
    Tile(Sm90Config(64, 256, 5, 1), (256,), (2015,), start=4775),
    Tile(Sm90Config(64, 224, 5, 1), (247,), (1141,), start=5018),
    Tile(Sm90Config(64, 192, 6, 1), (205,), (1309,), start=4916),
    Tile(Sm90Config(64, 160, 7, 1), (170,), (932,), start=4969),
    Tile(Sm90Config(64, 128, 8, 1), (149,), (837,), start=4871),
    Tile(Sm90Config(64, 128, 7, 1, cluster_k=2), (234,), (3630,), start=2701),
    Tile(Sm90Config(64, 128, 7, 1, cluster_k=4), (149,), (3940,), start=3842),
    Tile(Sm90Config(64, 128, 7, 1, cluster_k=8), (135,), (100,), start=7367),
    Tile(Sm90Config(64, 96, 10, 1), (139,), (963,), start=4621),
    Tile(Sm90Config(64, 96, 10, 1, cluster_k=2), (144,), (4216,), start=2139),
    Tile(Sm90Config(64, 64, 10, 1), (110,), (706,), start=4818),
    Tile(Sm90Config(64, 64, 10, 1, cluster_k=2), (92,), (3012,), start=4288),
    Tile(Sm90Config(64, 64, 10, 1, cluster_k=4), (103,), (3146,), start=4178),
)  # fmt: skip
"""The tiles, for operands of 16 bits: see sm90_time."""
