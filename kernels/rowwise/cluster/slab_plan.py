"""The slabs of columns that the blocks of a cluster keep: every configuration that fits, best first.

The idea.  A norm over columns is bound by memory, and memory by how much of a row is touched at once: a
copy through slabs of 64 bytes has 0.64 to 0.73 of the rate of a plain one, through slabs of 128 bytes 0.79 to
0.85, of 256 bytes 0.87 to 0.95.  Wide slabs need large clusters, which leave multiprocessors of a GPC idle,
and blocks that fill a multiprocessor alone, which wait for memory and compute in turn.  So everything that
fits is ranked by the share of a copy that is expected of it:

    share = by width * by cluster * by blocks of a multiprocessor * by bytes on it * of the last wave

    f32, 4096 rows       256 bytes, 8 blocks, two on a multiprocessor
    f32, 14336 rows      128 bytes, 16 blocks, two on a multiprocessor
    bf16, 27648 rows     128 bytes, 16 blocks, alone on theirs: 7 clusters go from slab to slab

Notes.  The factors are fitted to 250 softmaxes of 256 MB, 1024 to 49152 rows, on one H200 with a cold L2
(tests/gpu/column_ways, 2026-11-23).  Slabs of 64 bytes are not offered: at 49152 rows they have 0.60 of a
copy, and reading twice has 0.61.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType

from layoutalg.kernels.rowwise.walk import WARP, WORD_BYTES
from layoutalg.model import resident_clusters

MULTIPROCESSOR_BYTES, BLOCK_BYTES, RESERVED_BYTES = 228 << 10, 227 << 10, 1 << 10
"""Shared memory of a multiprocessor that has clusters, of a block, and what the system takes per block."""

REGISTERS, LEAST_REGISTERS = 1 << 16, 64
"""Registers of a multiprocessor, and of a thread as many as are enough."""

WIDE: Mapping[int, float] = MappingProxyType({256: 0.95, 128: 0.91})
NARROW: Mapping[int, float] = MappingProxyType({256: 0.78, 128: 0.88})
"""The share of a copy that slabs of so many bytes have: elements of four bytes, and of two."""

BY_CLUSTER: Mapping[int, float] = MappingProxyType({1: 1.0, 2: 0.985, 4: 0.965, 8: 0.94, 16: 0.92})
"""The factor of that share in clusters of so many blocks."""


FULL_BYTES = 192 << 10
"""The least bytes that a multiprocessor keeps, so that enough loads are in flight."""


@dataclass(frozen=True, slots=True)
class Together:
    """Blocks that share a multiprocessor: threads of each, vectors of a thread that may be in registers, and
    what is left of the share.  Those that are alone there go from slab to slab."""

    blocks: int
    threads: int
    held: int
    share: float


TOGETHER = (
    Together(3, 256, 1, 1.0), Together(3, 128, 0, 0.985), Together(2, 256, 8, 0.97), Together(1, 512, 8, 0.9)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slab:
    """A slab `lanes` vectors wide that clusters keep, and the `share` of a copy that is expected.

    The first `staged` vectors of a thread are in shared memory, 0: all, and the others in registers.  Of
    clusters `resident` go from slab to slab; 0: there is one for each.
    """

    lanes: int
    threads: int
    cluster: int
    staged: int
    resident: int
    share: float


def slab_bytes(vec: int, vector_bytes: int, lanes: int, threads: int, staged: int, cluster: int) -> int:
    """Shared memory of a block at most: vectors, words of warps, factors, room of the exchange, mbarrier.

    >>> slab_bytes(4, 16, 8, 256, 26, 8)
    113040
    """
    words = 2 * vec + 4
    beside = WORD_BYTES * lanes * words * (threads // WARP + cluster + 1) + 16
    return staged * threads * vector_bytes + beside


def neighbours(nbytes: int, threads: int) -> int:
    """Blocks of a multiprocessor that shared memory has room for, with enough registers.

    >>> neighbours(100 << 10, 256), neighbours(200 << 10, 256)
    (2, 1)
    """
    by_registers = REGISTERS // (LEAST_REGISTERS * threads)
    return max(1, min(MULTIPROCESSOR_BYTES // (nbytes + RESERVED_BYTES), by_registers))


def slabs(rows: int, columns: int, vec: int, vector_bytes: int, sms: int, clusters: int) -> list[Slab]:
    """All slabs of `rows` that fit, of `columns` vectors side by side, for clusters of up to so many blocks.

    >>> best = slabs(8192, 2048, 4, 16, 132, 16)[0]
    >>> best.lanes, best.cluster
    (8, 16)
    """
    found = _fitting(rows, columns, vec, vector_bytes, sms, clusters)
    return sorted(found, key=lambda slab: -slab.share)


def _fitting(rows: int, columns: int, vec: int, vector_bytes: int, sms: int, clusters: int) -> Iterator[Slab]:
    by_width = WIDE if vector_bytes == WORD_BYTES * vec else NARROW
    for width, of_width in by_width.items():
        lanes = width // vector_bytes
        for cluster, of_cluster in BY_CLUSTER.items():
            for way in TOGETHER:
                each = way.threads // lanes
                if cluster > clusters or lanes > WARP or cluster * each >= rows:
                    continue
                rounds = -(-rows // (cluster * each))
                room = MULTIPROCESSOR_BYTES // way.blocks - RESERVED_BYTES
                room -= slab_bytes(vec, vector_bytes, lanes, way.threads, 0, cluster)
                staged = min(rounds, room // (way.threads * vector_bytes))
                if staged < 1 or rounds - staged > way.held:
                    continue
                resident = resident_clusters(sms, cluster, way.blocks)
                alone = way.blocks == 1 and cluster > 1
                filled = way.blocks * rounds * way.threads * vector_bytes / FULL_BYTES
                share = of_width * of_cluster * way.share * min(1.0, filled) ** 0.3
                share *= _of_waves(ceil(columns / lanes) / resident)
                fits = staged if staged < rounds else 0
                yield Slab(lanes, way.threads, cluster, fits, resident if alone else 0, share)


def _of_waves(waves: float) -> float:
    """The share of the rate that the last wave leaves; of many waves, clusters end at different times."""
    return waves / ceil(waves) if waves < 2 else waves / (waves + 0.25)
