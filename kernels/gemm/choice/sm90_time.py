"""How long a product by gemm-sm90 is expected to take: tensor cores, L2 and memory, each with its own rate.

The idea.  Three things go on beside each other, and none hides the others wholly:

    tensor cores    rounds * (steps of k * step + block), of what a multiprocessor computes in turn
    L2              bytes that TMA brings to all blocks, over the rate of the L2; rows that start at odd
                    multiples of 16 or 32 bytes are read in more requests
    memory          each operand once, and D, whose rows leave in runs of the boxes' width

They add up to (a^q + b^q + c^q)^(1/q): with a large q the longest of them, with q = 1 their sum.  Starting,
the first loads and the last results come on top, and parts of k their own kernel.

Notes.  A cluster of 4 or 8 does not find all multiprocessors: those of a graphics processing cluster that are
left over stay idle.  The rates are what fits best together with q, not those of the hardware.  Groups of rows
are taken to be of one size.

Fitted to times of the choices on 64 of 96 random problems on an H200 with a cold L2 (2026-11-23,
tests/gpu/tune_wgmma second); every third one judges it (tests/data/gemm_choice_sm90.json).  Tiles of 192x192
were timed with 3 stages there, and with 4 on three squares.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

from layoutalg.kernels.gemm.choice.tables import Sums, Tile
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.tiles import Sm90Config
from layoutalg.kernels.gemm.work import part_count, share_of

L2_BYTES_PER_NS, MEMORY_BYTES_PER_NS = 14964.4, 4520.1
"""What the L2 gives to all multiprocessors, and the memory, in bytes per nanosecond: fitted."""

REQUESTS = {16: 2.13, 32: 1.24}
"""Cost of rows in the L2 that start at odd multiples of so many bytes, over that of others: fitted."""

RUNS = {32: 8.00, 64: 4.66}
"""Bytes of memory that a byte of D costs where its rows leave in runs of so many bytes: fitted."""

TOGETHER = 2.932
"""The power q by which the three add up."""

RESIDENT = {1: 132, 2: 66, 3: 39, 4: 30, 6: 17, 8: 15, 16: 7}
"""Clusters of so many blocks, one per multiprocessor, that the 132 multiprocessors of an H200 hold at once:
what cuOccupancyMaxActiveClusters says of blocks of 227 KB (2026-11-23).  Which multiprocessors share a
graphics processing cluster differs from board to board."""


def resident_clusters(sms: int, blocks: int) -> int:
    """Clusters of `blocks` blocks that `sms` multiprocessors hold at once, one block on each.

    >>> resident_clusters(132, 4), resident_clusters(114, 2)
    (30, 57)
    """
    return RESIDENT.get(blocks, sms // blocks) if sms == RESIDENT[1] else sms // blocks


def expected_sm90_ns(
    p: GemmProblem, c: Sm90Config, tile: Tile[Sm90Config], sums: Sums, sms: int, splits: int | None = None
) -> float:
    """Nanoseconds that the model of the module's text expects, with another number of `splits` where given.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.choice.tables import SM90_SUMS, SM90_TILES
    >>> p, tile = gemm_problem(4096, 4096, 4096, "bf16"), SM90_TILES[0]
    >>> round(expected_sm90_ns(p, tile.config, tile, SM90_SUMS, 132), -3)
    183000.0
    """
    return sm90_clock(p, sums, sms)(c, tile, splits or c.splits)


def sm90_clock(p: GemmProblem, sums: Sums, sms: int) -> Callable[[Sm90Config, Tile[Sm90Config], int], float]:
    """`expected_sm90_ns` of one product, of which what no tile changes is worked out once.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.choice.tables import SM90_SUMS, SM90_TILES
    >>> p, tile = gemm_problem(256, 256, 16384, "bf16"), SM90_TILES[0]
    >>> sm90_clock(p, SM90_SUMS, 132)(tile.config, tile, 4) == expected_sm90_ns(
    ...     p, tile.config, tile, SM90_SUMS, 132, 4
    ... )
    True
    """
    m, n, products, size, result = p.rows, p.n, p.products, p.operand.nbytes, p.result.nbytes
    asked = REQUESTS.get(min(gcd(lead * size, 64) for lead in (p.lda, p.ldb)), 1.0)
    operands, results = (m + n) * p.k * size, m * n * result

    def clock(c: Sm90Config, tile: Tile[Sm90Config], splits: int) -> float:
        step, block, cluster = tile.step[0], tile.block[0], c.cluster
        rows, columns = -(-m // (c.tile_m * c.cluster_m)), -(-n // (c.tile_n * c.cluster_n))
        blocks = rows * columns * cluster * splits * products
        steps_of_all = -(-p.k // c.tile_k)
        steps = -(-steps_of_all // (splits * c.cluster_k))
        clusters = resident_clusters(sms, cluster)
        if c.schedule == "streamk":
            units = blocks // cluster
            waves, share = units // clusters, share_of(units, steps, clusters)
            tensor = waves * (steps * step + block)
            tensor += share * step + block * ((share > 0) + (share > 0 and steps % share > 0))
            sums_written = part_count(units, steps, clusters) * cluster * c.tile_m * c.tile_n
        else:
            tensor = -(-blocks // (clusters * cluster)) * (steps * step + block)
            sums_written = splits * p.m * n if splits > 1 else 0
        brought = blocks * steps * c.tile_k * size * (c.tile_m / c.cluster_n + c.tile_n / c.cluster_m)
        l2 = brought * asked / L2_BYTES_PER_NS
        boxes = c.boxes(result) if c.through == "tma" and splits == 1 else ()
        runs = sum(x * RUNS.get(x * result, 1.0) for x in boxes) / sum(boxes) if boxes else 1.0
        memory = products * (operands + results * runs) / MEMORY_BYTES_PER_NS
        ns: float = (tensor**TOGETHER + l2**TOGETHER + memory**TOGETHER) ** (1 / TOGETHER) + tile.start
        if sums_written:
            ns += sums.launch + sums_written * p.accumulator.nbytes * sums.byte
        return ns

    return clock
