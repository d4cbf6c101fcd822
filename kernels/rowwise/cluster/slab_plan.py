"""Which slabs of columns the blocks of a cluster keep, and how: everything that fits, best first.

The idea.  A norm over columns is bound by memory, and memory by how much of a row is touched at once: a slab
of 64 bytes is read and written at two thirds of the rate of a copy, one of 512 bytes at nearly all of it.
Wide slabs need large clusters, which leave multiprocessors of a GPC idle, and blocks that fill one alone,
which wait for memory and compute in turn.  So everything that fits is ranked by the share of a copy that is
expected of it:

    share = by width * by cluster * by blocks of a multiprocessor * of the last wave

Notes.  The factors were found on an H200: tests/gpu/slab_ceiling.py, tests/gpu/column_ways.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType

from layoutalg.kernels.rowwise.cluster.resident import resident_clusters
from layoutalg.kernels.rowwise.walk import WARP, WORD_BYTES

MULTIPROCESSOR_BYTES, BLOCK_BYTES, RESERVED_BYTES = 228 << 10, 227 << 10, 1 << 10
"""Shared memory of a multiprocessor that has clusters, of a block, and what the system takes per block."""

REGISTERS, LEAST_REGISTERS = 1 << 16, 64
"""Of a multiprocessor, and those of a thread that are enough."""

HELD_VECTORS = 8
"""Vectors of a thread in registers, at most."""

BY_WIDTH: Mapping[int, float] = MappingProxyType({512: 0.95, 256: 0.92, 128: 0.86, 64: 0.72})
"""The share of a copy that slabs of so many bytes can have."""

BY_CLUSTER: Mapping[int, float] = MappingProxyType({1: 1.0, 2: 0.99, 4: 0.98, 8: 0.96, 16: 0.94})
"""What is left of it in clusters of so many blocks."""

BY_BLOCKS: Mapping[int, float] = MappingProxyType({1: 0.95, 2: 1.0, 3: 1.0})
"""What is left where so many blocks share a multiprocessor."""

THREADS: Mapping[int, tuple[int, ...]] = MappingProxyType({1: (512,), 2: (256,), 3: (256,)})
"""Threads of blocks of which so many share a multiprocessor."""


@dataclass(frozen=True, slots=True)
class Slab:
    """A slab `lanes` vectors wide that clusters keep, and the `share` of a copy that is expected.

    The first `staged` vectors of a thread are in shared memory, 0: all, and the others in registers.
    """

    lanes: int
    threads: int
    cluster: int
    staged: int
    share: float


def slab_bytes(vec: int, vector_bytes: int, lanes: int, threads: int, staged: int, cluster: int) -> int:
    """Shared memory of a block at most: vectors, words of warps, factors, room of the exchange, mbarrier."""
    words = 2 * vec + 4
    return staged * threads * vector_bytes + WORD_BYTES * lanes * words * (threads // WARP + cluster + 1) + 16


def neighbours(nbytes: int, threads: int) -> int:
    """Blocks of a multiprocessor that shared memory has room for, with enough registers.

    >>> neighbours(100 << 10, 256), neighbours(200 << 10, 256)
    (2, 1)
    """
    return max(
        1, min(MULTIPROCESSOR_BYTES // (nbytes + RESERVED_BYTES), REGISTERS // (LEAST_REGISTERS * threads))
    )


def slabs(rows: int, columns: int, vec: int, vector_bytes: int, sms: int, clusters: int) -> list[Slab]:
    """All slabs of `rows` that fit, of `columns` vectors side by side, for clusters of up to so many blocks.

    >>> slabs(8192, 2048, 4, 16, 132, 16)[0].cluster > 1
    True
    """
    found = dict.fromkeys(_fitting(rows, columns, vec, vector_bytes, sms, clusters))
    return sorted(found, key=lambda slab: -slab.share)


def _fitting(rows: int, columns: int, vec: int, vector_bytes: int, sms: int, clusters: int) -> Iterator[Slab]:
    ways = [(blocks, threads) for blocks in BY_BLOCKS for threads in THREADS[blocks]]
    for width, of_width in BY_WIDTH.items():
        lanes = width // vector_bytes
        for cluster, of_cluster in BY_CLUSTER.items():
            for blocks, threads in ways:
                each = threads // max(1, lanes)
                rounds = -(-rows // (cluster * each)) if each else 0
                if cluster > clusters or lanes > WARP or not lanes or cluster * each >= rows:
                    continue
                beside = slab_bytes(vec, vector_bytes, lanes, threads, 0, cluster) + RESERVED_BYTES
                room = MULTIPROCESSOR_BYTES // blocks - beside
                staged = min(rounds, room // (threads * vector_bytes))
                if staged < 1 or rounds - staged > (HELD_VECTORS if blocks < 3 else 0):
                    continue
                tiles, resident = ceil(columns / lanes), resident_clusters(sms, cluster, blocks)
                waves = tiles / resident
                of_waves = waves / ceil(waves) if waves < 2 else waves / (waves + 0.5)
                share = of_width * of_cluster * BY_BLOCKS[blocks] * of_waves
                yield Slab(lanes, threads, cluster, staged if staged < rounds else 0, share)
