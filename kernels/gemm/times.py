"""The tiles that are offered for products, and the laws of their times.

    WgmmaLaw, LAW         of gemm-sm90: tensor cores, L2 and memory, each with its own rate
    TileLaw, tile_work    of tiles that threads copy
    SIMT_TILES     threads;   SM80_TILES, SM80_F64_TILES, SM75_TILES     mma.sync;   SM90_TILES     wgmma

Tiles that threads copy.  A block takes steps of k: it issues copies of a later tile, loads of fragments and
products, and waits for its warps, its copies and its fragments.  A multiprocessor that has `each` blocks in
all, of which it holds R at a time, issues for all of them, and waits as often as places are taken anew:

    time = launch + start + |memory, each * steps * issue + max(1, each / R) * (steps * wait + block)|_3

What the warps of a multiprocessor issue adds up, products with copies: with the power 3 between them first
choices of gemm-sm80 lost 1.8 %.  An epilogue is issued once per tile.  Other element types are taken to be in
proportion to their bytes.  The numbers of gemm-sm80 are fitted by tests/gpu/fit_tiles to times with a cold
L2 of 216 drawn products (H200, 2026-11-30, tests/data/product_ways.json, seed 4101): of others, seed 4201,
the first choices have 0.952 of the fastest of the family.  f64 multiplies and stores at rates of its own,
fitted to 28 products, on halves that were not fitted to 0.971.  Those of gemm-simt are fitted to times with a
warm L2 of 34 problems (gemm_choice_simt.json), of which their first choices have 0.992, and of 75 drawn
products with a cold L2 0.989; fitted to these, to both, and with the terms of gemm-sm80, they had less.
`piece` is fitted to 12 other problems whose B, or both operands, lie along k.

Wgmma.  One law holds for all tiles and clusters.  Three things happen at the same time, and none hides
the others completely:

    tensor cores    what a multiprocessor computes for a tile: steps of k * step + block
    L2              bytes that TMA brings to all blocks of a wave of tiles; rows that start at odd multiples
                    of 16 or 32 bytes are read in more requests; the same bytes for many blocks one by one
    memory          each operand once, and D; B in part once more where other rows of tiles read it at the
                    same time

They add up as in `model`, the first two wave by wave: a last wave of few tiles leaves the L2 to them.
Starting, the first loads and the last results come on top, and parts of k their own kernel.  In the same way
a step is what the tensor cores take for the elements of a tile, what one thread takes to load a stage, and
what the stage takes to arrive: its rows, which come the slower the more multiprocessors are busy, and in
clusters that load for each other the latency of a load over the stages in flight (Little's law):

    step = |(element * rows * columns, issue, fill * busy * (rows + columns) + latency / stages)|_3

Where blocks of a cluster have parts of k, whose sums wait for the last of them, steps are longer by
`together` of what they are, if all multiprocessors are busy.

A step is 128 bytes of k of any element, which tensor cores take equally long; where sums of 8-bit floats are
promoted, they are waited for besides, 64 rows of a consumer at a time.

Where a product has few rows of tiles, all blocks ask for the same A at one time: 64x64 tiles without clusters
took up to 1.45 of their time with clusters of 4 that share A.  First choices of 146 products of up to 64 rows
(product_ways.json) have 0.972 of the fastest and 0.83 at least, without that term 0.966 and 0.69.

Notes.  A cluster of 4 or 8 does not find all multiprocessors: those of a graphics processing cluster that are
left over stay idle (resident).  The rates are what fits best together, not those of the hardware.  Groups of
rows are taken to be of one size.

The epilogue of a tile comes behind it; in turns, the other consumer multiplies meanwhile.  C is waited for
with or without turns (13 ways by ping-pong of 6 products took 3 to 24 us longer with C than without), and
once more for each box whose place in shared memory another box has first.

The numbers are in the file of the board, fitted to times of 690 random problems on an H200 with a cold L2
(2026-11-24 to 2026-12-01: tests/data/gemm_choice_sm90.json, and of product_ways.json the parts "crossed",
"4101", "4302" and "43117"), in which those up to twice the fastest of a problem count.  Of the others there,
seed 4201, the first choice of the family has 0.976 of the fastest.
The times of promotion and of factors are fitted to 14 products of 8-bit floats and 15 with factors of blocks
(2026-12-01, tests/data/gemm_choice_bytes.json): first choices have 0.986 and 0.998 of the fastest of 6 to 12
ways, fitted to half of the products 0.987 and 0.994 of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from typing import Any, NamedTuple, TypeAlias

from layoutalg.arch import Arch
from layoutalg.kernels.gemm.groups import BOX_ROWS as ROWS
from layoutalg.kernels.gemm.problem import BYTE_FLOATS, GemmProblem, fragment_k
from layoutalg.kernels.gemm.tiles import (
    BLOCK_BYTES,
    SIDES,
    STEP_BYTES,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    operand_tile,
    tile_count,
)
from layoutalg.kernels.gemm.validate import registers, shared_bytes
from layoutalg.kernels.model import ISSUED, Machine, Work, machine_of, p_norm, time_us
from layoutalg.model import occupancy_of, resident_clusters


@dataclass(frozen=True, slots=True)
class WgmmaLaw:
    """The numbers of the law: nanoseconds, bytes per nanosecond and factors."""

    element: float
    """The time of tensor cores for an element of a tile in a step of 128 bytes of k."""
    together: float
    """The share by which steps are longer in clusters whose blocks take a part of k each."""
    promoted: float
    """The time by which a step is longer whose sums are waited for, and added up in f32, for 64 rows of each
    consumer; for more by the square of their number, since each 64 wait behind the ones before."""
    factors: float
    """The time by which it is longer still where sums are multiplied by factors of blocks."""
    issue: float
    """The time that one thread takes to issue the loads of a stage, independent of its size."""
    fill: float
    """The time in which a row of 128 bytes of a stage arrives, if all multiprocessors are busy."""
    latency: float
    """The time from an empty stage to a full one in clusters that load for each other."""
    block: float
    result: float
    """The time of a tile beside its steps, and more per element."""
    turn: float
    """The time of a tile beside its steps by ping-pong."""
    refill: float
    """The time from a box of D in shared memory to the next box of C in its place."""
    start: float
    consumer: float
    turn_start: float
    """The time of a launch, and more per consumer and by ping-pong."""
    joined: float
    peer: float
    """The time per element of a consumer that goes to another block of such a cluster, and per such block."""
    launch: float
    part: float
    byte: float
    """The time of the kernel that adds parts of k up, of each part, since a thread reads one behind another,
    and of each byte."""
    kept: float
    """The share of L2 up to which parts stay there; memory is written and read for more."""
    l2: float
    odd16: float
    odd32: float
    """The rate of the L2 for all multiprocessors; factors for rows at odd multiples of 16 and 32 bytes."""
    alike: float
    """The rate at which L2 brings the same bytes to one block after another."""
    memory: float
    again: float
    """The rate of memory; the share of B that is read again."""


ALIKE = 16
"""The blocks that may ask L2 for the same bytes at one time and wait no longer."""

LAW = WgmmaLaw(**machine_of("sm_90").ways["gemm-sm90"])


class TileTime(NamedTuple):
    """Nanoseconds of a step of k, of a tile beside its steps, and of starting."""

    step: Any
    block: Any
    start: Any


class Demand(NamedTuple):
    """The inputs of the law for a problem: the share of multiprocessors that are busy, steps of k of a tile,
    whole waves of tiles, the share of another; bytes that TMA brings in a whole wave, and of those the bytes
    that more than `ALIKE` blocks ask for at one time, for all blocks beyond; the share in rows at odd
    multiples of 16 and of 32 bytes, bytes of operands, of B where another row of tiles reads it, of results,
    and of sums of parts of k; the number of parts, 0 for one; the time of the epilogue of a tile that nothing
    hides; bytes of the L2."""

    busy: Any
    steps: Any
    waves: Any
    rest: Any
    brought: Any
    alike: Any
    odd16: Any
    odd32: Any
    operands: Any
    again: Any
    results: Any
    sums: Any
    parts: Any
    finished: Any
    l2_bytes: Any

    def left(self, kept: float) -> Any:
        """Bytes of parts of k that a share of the L2 does not hold."""
        past = self.sums - kept * self.l2_bytes
        return past * (past > 0)


def tile_time(
    c: Any, law: WgmmaLaw = LAW, *, promoted: bool = False, factors: bool = False, busy: Any = 1.0
) -> TileTime:
    """Nanoseconds of a tile by the law, whose sums may be `promoted`, with `factors` of blocks, where a share
    of all multiprocessors is `busy`; of many, where the fields of a configuration are arrays.

    >>> step, block, start = tile_time(Sm90Config(128, 256, 4))
    >>> 500 < step < 700, 500 < block < 4000, 4000 < start < 8000
    (True, True, True)
    """
    area, parts = c.tile_m * c.tile_n, c.cluster_k
    sharing, parted = c.sharing > 1, parts > 1
    arrival = law.fill * busy * (c.tile_m + c.tile_n) + sharing * law.latency / c.stages
    step = p_norm(law.element * area, law.issue, arrival)
    step = step + promoted * law.promoted * (c.tile_m / c.readers / ROWS) ** 2 + factors * law.factors
    block = law.block + law.result * area / parts
    joining = (parts - 1) * (law.peer + law.joined * (area // c.readers) / parts)
    start = law.start + c.consumers * law.consumer + c.pingpong * law.turn_start + joining
    return TileTime(step * (1 + parted * law.together * busy), block + c.pingpong * (law.turn - block), start)


def law_ns(time: TileTime, x: Demand, law: WgmmaLaw = LAW) -> Any:
    """Nanoseconds of a problem in tiles of such a time.

    >>> round(law_ns(TileTime(500, 1000, 100), Demand(1, 64, 1, *(0,) * 12)))
    33100
    """
    tile = x.steps * time.step + time.block + x.finished
    l2 = x.brought * (1 + x.odd16 * (law.odd16 - 1) + x.odd32 * (law.odd32 - 1)) / law.l2
    alike = x.alike / law.alike
    waves = x.waves * p_norm(tile, l2 + alike) + (x.rest > 0) * p_norm(tile, x.rest * l2 + alike)
    left = x.left(law.kept)
    memory = (x.operands + law.again * x.again + x.results + left) / law.memory
    added = (x.parts > 0) * law.launch + x.parts * law.part + x.sums * law.byte + left / law.memory
    return p_norm(waves, memory) + time.start + added


def sm90_clock(p: GemmProblem, m: Machine) -> Callable[[Sm90Config, int], float]:
    """The nanoseconds that the law expects of a configuration for a product, in so many parts of k.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> clock = sm90_clock(gemm_problem(4096, 4096, 4096, "bf16"), machine_of("sm_90"))
    >>> 150e3 < clock(Sm90Config(128, 256, 4), 1) < 220e3
    True
    """
    inputs = sm90_inputs(p, m)
    return lambda c, splits: law_ns(*inputs(c, splits))


def sm90_inputs(p: GemmProblem, machine: Machine) -> Callable[[Sm90Config, int], tuple[TileTime, Demand]]:
    """Return the function from a configuration and its parts of k to the inputs of the law for a problem.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> inputs = sm90_inputs(gemm_problem(4096, 4096, 4096, "bf16"), machine_of("sm_90"))
    >>> time, demand = inputs(Sm90Config(128, 256, 4), 1)
    >>> [round(x, 3) for x in demand[:4]]
    [1.0, 64, 3, 0.879]
    """
    products, size, result = p.products, p.operand.nbytes, p.result.nbytes
    lead_starts = [gcd(lead * size, 64) for lead in (p.lda, p.ldb)]
    operands, results = products * (p.rows + p.n) * p.k * size, products * p.rows * p.n * result
    steps_of_all, added = -(-p.k * size // STEP_BYTES), results * p.reads_c

    def inputs(c: Sm90Config, splits: int) -> tuple[TileTime, Demand]:
        m, n = (p.n, p.rows) if c.crossed else (p.rows, p.n)
        starts = lead_starts[::-1] if c.crossed else lead_starts
        rows, columns = c.tile_m * c.cluster_m, c.tile_n * c.cluster_n
        units = -(-m // rows) * -(-n // columns) * splits * products
        clusters = resident_clusters(machine.sms, c.cluster)
        busy = min(1.0, units * c.cluster / machine.sms)
        time = tile_time(c, promoted=p.promoted, factors=bool(p.block_scales), busy=busy)
        if p.by_registers:  # two wavefronts a load of 32 elements: two k of a chunk's width share banks
            loads = 2 * c.tile_m * c.tile_k / 32
            time = time._replace(step=p_norm(time.step, 1e3 * loads / machine.cycles_per_us))
        steps = -(-steps_of_all // (splits * c.cluster_k))
        waves, rest = divmod(units, clusters)
        tiles, sums = waves + (rest > 0), splits * p.m * p.n if splits > 1 else 0
        sides = [c.tile_k * x for x in (c.tile_m / c.cluster_n, c.tile_n / c.cluster_m)]
        brought = sum(sides)
        running = min(units, clusters) * c.cluster_m * c.cluster_n / splits
        alike = sum(
            tile * max(0.0, max(1.0, running / (products * -(-extent // tile))) / sharing - ALIKE)
            for tile, extent, sharing in ((c.tile_m, m, c.cluster_n), (c.tile_n, n, c.cluster_m))
        )
        odd16, odd32 = (
            sum(x for x, start in zip(sides, starts, strict=True) if start == odd) / brought
            for odd in (16, 32)
        )
        finish = 0.0
        if splits == 1 and p.epilogue.instructions:
            written = c.tile_m * c.written_n
            each = 1e3 * finish_us(p, written, machine)
            # in turns the other consumer multiplies meanwhile, but behind the last tile
            finish = max(each / tiles, each - (steps * time.step if c.pingpong else 0))
            if p.reads_c:  # all multiprocessors end their tiles, and read the C of these, at about one time
                finish += 1e3 * written * result * machine.sms / machine.bytes_per_us
                finish += c.refills(result) * LAW.refill
        return time, Demand(
            busy, steps, waves, rest / clusters, clusters * c.cluster * steps * size * brought,
            steps * STEP_BYTES * alike, odd16, odd32,
            operands + added, products * n * p.k * size * (m > rows), results, sums * p.accumulator.nbytes,
            splits * (splits > 1), finish, machine.l2_bytes,
        )  # fmt: skip

    return inputs


@dataclass(frozen=True, slots=True)
class TileLaw:
    """The numbers of a way by tiles that threads copy; times are nanoseconds."""

    multiply: float
    """Multiply-adds per cycle of a multiprocessor, times the bytes of an element."""
    copy: float
    """Instructions that a warp issues to copy a vector for each of its threads."""
    launch: float
    byte: float
    """The time of the kernel that adds parts of k up, and of each byte of them."""
    reached: float
    """The share of the memory's rate that tiles reach."""
    start: float = 0.0
    """The time that first loads take longer where L2 is cold."""
    part: float = 0.0
    """The time of the kernel that adds parts up for each of them."""
    piece: float = 0.0
    """Instructions that a warp could issue while a tile that is turned asks for the few k of a row."""
    block: float = 0.0
    result: float = 0.0
    """The time of a block beside its steps, and more per element of its tile."""
    step: float = 0.0
    copied: float = 0.0
    deep: float = 0.0
    """The time that a step waits, and more for each copy of a warp and for each of its k."""


def tile_law(way: str, m: Machine) -> TileLaw:
    """The numbers of a way on a board."""
    return TileLaw(**m.ways[way])


def tile_work(
    p: GemmProblem, c: SimtConfig | Sm80Config, splits: int, law: TileLaw, m: Machine, chip: Arch
) -> Work:
    """The work of a product in tiles of a configuration, in so many parts of k.

    >>> from layoutalg.arch import find_arch
    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> m, c = machine_of("sm_90"), Sm80Config(128, 256, 64, 2, 4, 4)
    >>> w = tile_work(gemm_problem(4096, 4096, 4096), c, 1, tile_law("gemm-sm80", m), m, find_arch("sm_90"))
    >>> w.blocks, 60 < w.block_us < 90
    (4.0, True)
    """
    operands, warps = [operand_tile(p, c, side) for side in SIDES], c.threads // 32
    copies = warps * sum(tile.passes for tile in operands)
    depth = fragment_k(p, c) if isinstance(c, Sm80Config) else 1
    loads = warps * sum(tile.fragments for tile in operands) * c.tile_k / depth
    pieces = sum(tile.rows for tile in operands if tile.turned)
    size, converted = p.operand.nbytes, 0.0
    if p.element in BYTE_FLOATS and chip.compute_capability >= (9, 0):
        # warps have no tensor core for them: machine code makes f16 of a word by 2 instructions of 2 turns
        size, converted = 2, 4 * warps * c.tile_k / depth * sum(x.fragments * x.words for x in operands)
    issued = loads + converted + law.copy * copies + law.piece * pieces
    cycles = c.tile_m * c.tile_n * c.tile_k * size / law.multiply + issued / ISSUED
    issue = cycles / m.cycles_per_us
    wait = (law.step + law.copied * copies + law.deep * c.tile_k) / 1e3
    # the stages are filled before the first step
    alone = (law.block + law.result * c.tile_m * c.tile_n + c.stages * law.copied * copies) / 1e3
    finish = (splits == 1) * finish_us(p, c.tile_m * c.tile_n, m)
    tiles, steps = tile_count(p, c), -(-p.k // c.tile_k)
    each, most = -(-tiles * splits // m.sms), resident(p, c, chip)
    together = min(each, most)
    parts, sums = (splits, splits * p.m * p.n) if splits > 1 else (0, 0)
    adding = (sums > 0) * law.launch + parts * law.part + sums * p.accumulator.nbytes * law.byte
    return Work(
        moved_bytes(p) / law.reached,
        blocks=max(1.0, each / most),
        block_us=-(-steps // splits) * (together * issue + wait) + together * finish + alone,
        beside_us=(law.start + adding) / 1e3,
    )


def tile_clock(way: str, p: GemmProblem, chip: Arch) -> Callable[[Any, int], float]:
    """The nanoseconds that the law of a way, or of its f64, expects of a configuration and parts of k."""
    m = machine_of(chip)
    law = tile_law(f"{way} f64" if p.element == "f64" and f"{way} f64" in m.ways else way, m)
    return lambda c, splits: 1e3 * time_us(tile_work(p, c, splits, law, m, chip), m)


def resident(p: GemmProblem, c: SimtConfig | Sm80Config, chip: Arch) -> int:
    """Blocks that a multiprocessor holds: as many as a configuration asks for, or as its registers leave."""
    if c.min_blocks > 1:
        return c.min_blocks
    return occupancy_of(
        chip, threads=c.threads, registers_per_thread=registers(p, c), shared_bytes=shared_bytes(p, c)
    ).blocks_per_sm


def finish_us(p: GemmProblem, elements: int, m: Machine) -> float:
    """Microseconds in which a multiprocessor applies the epilogue to elements."""
    return elements * p.epilogue.instructions / (32 * ISSUED * m.cycles_per_us)


def moved_bytes(p: GemmProblem) -> int:
    """Bytes of the operands, of D and of C, each once."""
    sizes = {"a": (p.m * p.k, p.operand), "b": (p.n * p.k, p.operand), "d": (p.m * p.n, p.result)}
    if p.reads_c:
        sizes["c"] = sizes["d"]
    return sum(
        elems * of.nbytes * prod(mode.extent for mode, step in zip(p.batch, p.steps(x), strict=True) if step)
        for x, (elems, of) in sizes.items()
    )


SIMT_TILES = (
    SimtConfig(128, 256, 8, 16, 8, 4),
    SimtConfig(192, 192, 8, 12, 8, 4, stages=4),
    SimtConfig(128, 128, 16, 8, 8, 4, min_blocks=2, stages=4),
    SimtConfig(96, 128, 8, 12, 8, 4, min_blocks=3, stages=4),
    SimtConfig(80, 128, 16, 10, 8, 4, run_m=2, min_blocks=3, stages=4),
    SimtConfig(64, 128, 16, 8, 8, 4, min_blocks=4, stages=4),
    SimtConfig(64, 64, 16, 8, 4, 4, min_blocks=4),
    SimtConfig(32, 64, 16, 4, 4, 4, min_blocks=4),
)
"""The tiles, for f32; a tile of f64 has half the columns per thread and per warp."""

SM80_TILES = (
    Sm80Config(128, 256, 64, 2, 4, 4),
    Sm80Config(256, 128, 64, 4, 2, 4),
    Sm80Config(128, 128, 64, 2, 2, 3, min_blocks=2),
    Sm80Config(64, 128, 64, 2, 2, 3, min_blocks=3),
    Sm80Config(128, 64, 64, 2, 2, 3, min_blocks=3),
    Sm80Config(64, 64, 64, 2, 2, 4, min_blocks=3),
    Sm80Config(64, 64, 32, 2, 2, 2, via="registers"),
)
"""The tiles, for operands of 16 bits; the last takes single elements."""

SM80_F64_TILES = (
    Sm80Config(128, 128, 16, 4, 2, 4),
    Sm80Config(64, 128, 16, 2, 4, 4),
    Sm80Config(128, 64, 16, 4, 1, 4, min_blocks=2),
    Sm80Config(64, 64, 16, 2, 2, 6, min_blocks=2),
    Sm80Config(64, 64, 16, 2, 2, 4, min_blocks=3),
    Sm80Config(64, 32, 16, 2, 1, 4, min_blocks=4),
    Sm80Config(32, 64, 16, 1, 2, 4, min_blocks=4),
)
"""The tiles, for f64: of fourteen that were timed on 28 drawn products those that were fastest of all."""

SM80_PROMOTED_TILES = (Sm80Config(128, 128, 64, 4, 2, 3), *SM80_TILES)
"""The same, for sums that are added up in f32, which take twice the registers."""

SM75_TILES = (
    Sm75Config(256, 256, 32, 4, 2),
    Sm75Config(256, 128, 32, 4, 2),
    Sm75Config(128, 256, 32, 2, 4),
    Sm75Config(128, 128, 32, 2, 4),
    Sm75Config(128, 64, 32, 2, 2, min_blocks=2),
    Sm75Config(64, 128, 32, 2, 2, min_blocks=2),
    Sm75Config(64, 64, 32, 2, 2, min_blocks=3),
)
"""The tiles, for f16; the first holds f16 sums alone."""

MOST_STAGES = 12
"""The most stages of a tile of SM90_TILES, since more were not faster."""

ENOUGH_STAGES = 4
"""The stages that a tile needs before its boxes of results have rows of 128 bytes."""

Way: TypeAlias = dict[str, Any]
"""The fields that a variant of a gemm-sm90 tile changes."""

ALONE: Way = {}
TURNS: Way = {"pingpong": True}
M2, M4, N2, N4 = (Way({f"cluster_{x}": blocks}) for x in "mn" for blocks in (2, 4))
"""In clusters of so many blocks along m or n."""

K2, K3, K4 = (Way(cluster_k=blocks) for blocks in (2, 3, 4))
"""In clusters of so many blocks, each with a part of k."""


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


def _sm90(tile_m: int, tile_n: int, *ways: Way, crossed: bool = False) -> Iterator[Sm90Config]:
    """A tile in several ways."""
    for way in ways:
        if (found := deepest(tile_m, tile_n, crossed=crossed, **way)) is not None:
            yield found


_crossed = partial(_sm90, crossed=True)

SM90_TILES = (
    *_sm90(256, 112, ALONE), *_sm90(256, 128, N2), *_sm90(256, 144, N2), *_sm90(256, 160, M2, N2),
    *_sm90(256, 176, ALONE), *_sm90(256, 192, ALONE, M2, N2), *_sm90(192, 64, N4), *_sm90(192, 80, N4),
    *_sm90(192, 112, N4), *_sm90(192, 128, ALONE, N2, N4, M2 | TURNS), *_sm90(192, 160, N2),
    *_sm90(192, 192, N2), *_sm90(128, 64, N4), *_sm90(128, 112, N4), *_sm90(128, 128, ALONE, N2, N4, K4),
    *_sm90(128, 144, ALONE), *_sm90(128, 160, M2 | TURNS), *_sm90(128, 192, ALONE, M4, M2 | TURNS),
    *_sm90(128, 208, ALONE), *_sm90(128, 224, ALONE, M4), *_sm90(128, 256, M4, N2), *_sm90(64, 48, N4, K3),
    *_sm90(64, 64, ALONE, N4, K2, K4), *_sm90(64, 80, ALONE, N4), *_sm90(64, 96, K3),
    *_sm90(64, 128, ALONE, M2, M4, N4, K4), *_sm90(64, 144, K3), *_sm90(64, 160, ALONE, M4),
    *_sm90(64, 192, ALONE), *_sm90(64, 208, M2), *_sm90(64, 256, M2, M4),
)  # fmt: skip
"""The tiles, for operands of 16 bits, the largest first: of those that were timed the ones of which the least
time by the law is least on drawn products; the first 48 by themselves, then with crossed ones beside them.
tests/kernels/gemm/test_fit compares the choice among them with the fastest of all."""

SM90_CROSSED_TILES = (
    *_crossed(256, 144, N2), *_crossed(256, 160, M2, N2), *_crossed(256, 176, ALONE, N2),
    *_crossed(256, 192, ALONE, M2, N2), *_crossed(192, 32, ALONE), *_crossed(192, 96, N4),
    *_crossed(192, 112, ALONE), *_crossed(192, 144, ALONE), *_crossed(192, 160, N2), *_crossed(192, 176, M2),
    *_crossed(128, 48, K3), *_crossed(128, 64, K4), *_crossed(128, 80, ALONE), *_crossed(128, 96, M4, N2, K3),
    *_crossed(128, 112, ALONE), *_crossed(128, 144, ALONE, N2), *_crossed(128, 160, M4, M2 | TURNS),
    *_crossed(128, 176, ALONE, N2), *_crossed(128, 192, M2), *_crossed(128, 208, M2),
    *_crossed(128, 224, M2, M4), *_crossed(128, 240, M2), *_crossed(128, 256, N2),
    *_crossed(64, 32, ALONE, K2), *_crossed(64, 48, ALONE, K3), *_crossed(64, 64, M4, K4),
    *_crossed(64, 80, ALONE), *_crossed(64, 96, M4, K3), *_crossed(64, 112, ALONE), *_crossed(64, 128, M4),
    *_crossed(64, 144, K3), *_crossed(64, 160, M4), *_crossed(64, 176, ALONE), *_crossed(64, 192, M4),
    *_crossed(64, 224, M4),
)  # fmt: skip
"""The same of the transposed product: where D has few rows, or B lies along n, whose uncrossed tiles have
whole 64 columns."""
