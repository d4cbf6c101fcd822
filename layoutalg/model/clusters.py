"""The number of clusters that a GPU holds at a time.

The idea.  The blocks of a cluster stay in one graphics processing cluster (GPC), several of them on one
multiprocessor where there is room.  So a GPC of s multiprocessors that have room for n blocks each holds
s n // c clusters of c blocks if s >= c, and none if it is smaller:

    c = 4, n = 3     18 * 3 // 4 = 13 of a GPC of 18 multiprocessors

Notes.  GPC_SMS is what one H200 answers: cuOccupancyMaxActiveClusters, asked on 2026-11-23 for clusters of 2,
3, 4, 6, 8, 12 and 16 blocks at 1 to 16 blocks per multiprocessor, gave 77 numbers, each as the law says.
Other boards of that name may have other groups, and of other GPUs groups of 16 are assumed: a choice is one
of an architecture, equal on all devices of a job, and so are the bits of its sums.  Whether a cluster fits at
all the device is asked when a kernel is loaded.
"""

from __future__ import annotations

from functools import lru_cache

GPC_SMS = (18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2)
"""Multiprocessors of an H200 by groups in which clusters can be."""

ASSUMED_SMS = 16
"""Multiprocessors of a group of other GPUs, which were not measured."""

MOST_TOGETHER = 8
"""The most blocks of clusters on one multiprocessor."""


def groups(sms: int) -> tuple[int, ...]:
    """Multiprocessors of each group in which clusters can be.

    >>> groups(132)[:3], groups(40)
    ((18, 18, 16), (16, 16, 8))
    """
    if sms == sum(GPC_SMS):
        return GPC_SMS
    full, left = divmod(sms, ASSUMED_SMS)
    return (ASSUMED_SMS,) * full + ((left,) if left else ())


@lru_cache(maxsize=1 << 10)
def resident_clusters(sms: int, blocks: int, each: int = 1) -> int:
    """Clusters of `blocks` blocks that `sms` multiprocessors hold at a time, which have room for `each`.

    >>> [resident_clusters(132, blocks, 2) for blocks in (1, 2, 4, 8, 16)]
    [264, 132, 62, 30, 14]
    >>> resident_clusters(132, 4), resident_clusters(114, 2)
    (30, 57)
    """
    if blocks == 1:
        return sms * each
    return sum(s * min(each, MOST_TOGETHER) // blocks for s in groups(sms) if s >= blocks)
