"""The tiles that are offered for products, with their measured times, and the law of the time of gemm-sm90.

    WgmmaLaw, LAW  tensor cores, L2 and memory, each with its own rate
    Tile, Sums     a configuration and its times; what parts of k cost beside them
    SIMT_TILES     threads;   SM80_TILES, SM80_F64_TILES, SM75_TILES     mma.sync;   SM90_TILES     wgmma

What the numbers of tiles mean: choice.

The law.  One law holds for all tiles and clusters.  Three things happen at the same time, and none hides
the others completely:

    tensor cores    what a multiprocessor computes in turn: steps of k * step + tiles * block
    L2              bytes that TMA brings to all blocks; rows that start at odd multiples of 16 or 32 bytes
                    are read in more requests
    memory          each operand once, and D, whose rows leave in runs of the boxes' width; B in part once
                    more where other rows of tiles read it at the same time

They add up as in `model`.  Starting, the first loads and the last results come on top, and parts of k their
own kernel.  In the same way a step is what the tensor cores take for the elements of a tile, what one thread
takes to load a stage, and in clusters that load for each other the latency of a load over the stages that are
in flight (Little's law):

    step = |(element * rows * columns, issue, latency / stages)|_3

Notes.  A cluster of 4 or 8 does not find all multiprocessors: those of a graphics processing cluster that are
left over stay idle (resident).  The rates are what fits best together, not those of the hardware.  Groups of
rows are taken to be of one size.

The numbers are in the file of the board, fitted by tests/gpu/fit_wgmma to times of random problems on an H200
with a cold L2 (2026-11-24, tests/data/gemm_choice_sm90.json), of which parts are not fitted to:
of these the first choice has 0.9754 of the fastest, 0.877 at least, and of all 0.9738, 0.818 at least.  They
are not wholly unseen, since the weights of the fit and the terms that were left out were chosen with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from layoutalg.kernels.gemm.gemv import GemvConfig
from layoutalg.kernels.gemm.parts import part_count, share_of
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.tiles import BLOCK_BYTES, SimtConfig, Sm75Config, Sm80Config, Sm90Config
from layoutalg.kernels.model import machine_of, p_norm
from layoutalg.model import resident_clusters


@dataclass(frozen=True, slots=True)
class WgmmaLaw:
    """The numbers of the law: nanoseconds, bytes per nanosecond and factors."""

    element: float
    """The time of tensor cores for an element of a tile in a step of 64 of k."""
    parted: float
    """The factor of `element` in clusters whose blocks take a part of k each."""
    issue: float
    """The time that one thread takes to issue the loads of a stage, independent of its size."""
    latency: float
    """The time from an empty stage to a full one in clusters that load for each other."""
    block: float
    result: float
    """The time of a tile beside its steps, and more per element."""
    turn: float
    """The time of a tile beside its steps by ping-pong."""
    start: float
    consumer: float
    turn_start: float
    """The time of a launch, and more per consumer and by ping-pong."""
    joined: float
    peer: float
    """The time per element of a consumer that goes to another block of such a cluster, and per such block."""
    launch: float
    byte: float
    """The time of the kernel that adds parts of k up, and of each byte that it reads."""
    l2: float
    odd16: float
    odd32: float
    """The rate of the L2 for all multiprocessors; factors for rows at odd multiples of 16 and 32 bytes."""
    memory: float
    again: float
    run32: float
    """The rate of memory; the share of B that is read again; the additional bytes that each byte of D costs
    where rows leave in runs of 32 bytes."""


LAW = WgmmaLaw(**machine_of("sm_90").ways["gemm-sm90"])


class TileTime(NamedTuple):
    """Nanoseconds of a step of k, of a tile beside its steps, and of starting."""

    step: Any
    block: Any
    start: Any


class Demand(NamedTuple):
    """The inputs of the law for a problem: steps of k and tiles that a multiprocessor computes in turn; bytes
    that TMA brings, whether rows are odd multiples of 16 or 32 bytes, bytes of operands, of B where another
    row of tiles reads it, of results and of those in runs of 32, and of sums of parts of k, with 1 where
    there are any."""

    steps: Any
    tiles: Any
    brought: Any
    odd16: Any
    odd32: Any
    operands: Any
    again: Any
    results: Any
    in32: Any
    sums: Any
    summed: Any


def tile_time(c: Any, law: WgmmaLaw = LAW) -> TileTime:
    """Nanoseconds of a tile by the law; of many, where the fields of a configuration are arrays.

    >>> step, block, start = tile_time(Sm90Config(128, 256, 4))
    >>> 500 < step < 700, 500 < block < 4000, 4000 < start < 8000
    (True, True, True)
    """
    area, parts = c.tile_m * c.tile_n, c.cluster_k
    sharing, parted = c.sharing > 1, parts > 1
    step = p_norm(law.element * area, sharing * law.latency / c.stages, law.issue)
    of_cluster = 1 + parted * (law.parted - 1)
    block = law.block + law.result * area / parts
    joining = (parts - 1) * (law.peer + law.joined * (area // c.readers) / parts)
    start = law.start + c.consumers * law.consumer + c.pingpong * law.turn_start + joining
    return TileTime(of_cluster * step, block + c.pingpong * (law.turn - block), start)


def law_ns(time: TileTime, x: Demand, law: WgmmaLaw = LAW) -> Any:
    """Nanoseconds of a problem in tiles of such a time.

    >>> round(law_ns(TileTime(500, 1000, 100), Demand(64, 1, *(0,) * 9)))
    33100
    """
    tensor = x.steps * time.step + x.tiles * time.block
    l2 = x.brought * (1 + x.odd16 * (law.odd16 - 1) + x.odd32 * (law.odd32 - 1)) / law.l2
    results = x.results + law.run32 * x.in32
    memory = (x.operands + law.again * x.again + results) / law.memory
    return p_norm(tensor, l2, memory) + time.start + x.summed * law.launch + x.sums * law.byte


class Fixed(NamedTuple):
    """The properties of a configuration that do not depend on the extents of the product.

    Rows and columns of a cluster's tiles, its blocks, and those that have a part of k each; elements of its
    tiles where stream-K shares them, else 0; the elements that TMA brings to a block in a step; the part of
    the results in boxes of 32 bytes; the time of a tile.
    """

    rows: int
    columns: int
    cluster: int
    parts: int
    shared: int
    brought: float
    in32: float
    time: TileTime


@lru_cache(maxsize=1 << 11)
def _fixed(c: Sm90Config, result: int) -> Fixed:
    """The fixed properties, for results of `result` bytes that leave in boxes, 0 if they leave otherwise."""
    narrow = sum(x for x in c.boxes(result) if x * result == 32) if result else 0
    rows, columns = c.tile_m * c.cluster_m, c.tile_n * c.cluster_n
    shared = c.cluster * c.tile_m * c.tile_n if c.schedule == "streamk" else 0
    brought = 64 * (c.tile_m / c.cluster_n + c.tile_n / c.cluster_m)
    return Fixed(rows, columns, c.cluster, c.cluster_k, shared, brought, narrow / c.written_n, tile_time(c))


def sm90_clock(p: GemmProblem, sms: int) -> Callable[[Sm90Config, int], float]:
    """The nanoseconds that the law expects of a configuration for a product, in so many parts of k.

    The parts of it that do not depend on the tile are computed once.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> 150e3 < sm90_clock(gemm_problem(4096, 4096, 4096, "bf16"), 132)(Sm90Config(128, 256, 4), 1) < 220e3
    True
    """
    inputs = sm90_inputs(p, sms)
    return lambda c, splits: law_ns(*inputs(c, splits))


def sm90_inputs(p: GemmProblem, sms: int) -> Callable[[Sm90Config, int], tuple[TileTime, Demand]]:
    """Return the function from a configuration and its parts of k to the inputs of the law for a problem.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> time, demand = sm90_inputs(gemm_problem(4096, 4096, 4096, "bf16"), 132)(Sm90Config(128, 256, 4), 1)
    >>> demand[:2]
    (256, 4)
    """
    m, n, products, size, result = p.rows, p.n, p.products, p.operand.nbytes, p.result.nbytes
    start = min(gcd(lead * size, 64) for lead in (p.lda, p.ldb))
    odd16, odd32 = start == 16, start == 32
    operands, b, results = (products * x for x in ((m + n) * p.k * size, n * p.k * size, m * n * result))
    steps_of_all = -(-p.k // 64)

    def inputs(config: Sm90Config, splits: int) -> tuple[TileTime, Demand]:
        c = _fixed(config, result if config.through == "tma" and splits == 1 else 0)
        units = -(-m // c.rows) * -(-n // c.columns) * splits * products
        steps = -(-steps_of_all // (splits * c.parts))
        clusters, blocks = resident_clusters(sms, c.cluster), units * c.cluster
        if c.shared:
            waves, share = units // clusters, share_of(units, steps, clusters)
            in_turn = waves * steps + share, waves + (share > 0) + (share > 0 and steps % share > 0)
            sums = part_count(units, steps, clusters) * c.shared
        else:
            waves = -(-units // clusters)
            in_turn = waves * steps, waves
            sums = splits * p.m * n if splits > 1 else 0
        return c.time, Demand(
            *in_turn, blocks * steps * size * c.brought, odd16, odd32, operands, b * (m > c.rows), results,
            results * c.in32, sums * p.accumulator.nbytes, sums > 0,
        )  # fmt: skip

    return inputs


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

TURING_GHZ = 1.59
"""The boost clock of a T4, as documented."""

TURING_FLOPS = 1024
"""Operations of f16 per cycle of a multiprocessor's tensor cores, as documented."""

TURING_WAVEFRONT = 2.0
"""Cycles per wavefront of shared memory, as published (T4_ACHIEVED)."""

TURING_L2_BYTES = 20.0
"""Bytes per cycle that a multiprocessor gets from the L2, as published."""

TURING_DRAM_BYTES = 3.5
"""Bytes per cycle that a multiprocessor gets from memory, as published."""


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

MOST_STAGES = 12
"""The most stages of a tile of SM90_TILES, since more were not faster."""

ENOUGH_STAGES = 4
"""The stages that a tile needs before its boxes of results have rows of 128 bytes."""

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
