"""Occupancy: how many blocks of a kernel an SM holds, and what says no to one more; clusters on a GPU.

The idea.  An SM gives each block warps, registers, shared memory and a slot, each in whole units.  The
scarcest decides:

    warps        ceil(threads / 32)
    registers    a warp takes 32 * registers_per_thread, rounded up to 256, out of ONE of 4 register files
    shared       shared_bytes and what the system keeps, rounded up to 128 or 256 bytes
    blocks       1

A Turing kernel of 256 threads, 104 registers per thread and 48 KiB: shared memory leaves room for one block,
so raising the registers to 166 costs nothing.

>>> report = occupancy_of("sm_75", threads=256, registers_per_thread=104, shared_bytes=49152)
>>> report.blocks_per_sm, report.warps_per_sm, report.limiting
(1, 8, ('shared',))
>>> occupancy_of("sm_75", threads=256, registers_per_thread=166, shared_bytes=49152).limiting
('registers', 'shared')

Notes.  A warp lives in one partition: of the 10 warps of 200 registers per thread that 65,536 registers could
hold, only 8 fit, 2 in each file of 16,384.  The shared memory of an SM is the largest part of the L1 cache
that can be made shared; a launch that prefers L1 gets less.

Source: CUDA C++ Programming Guide, "Compute Capabilities"; cuda_occupancy.h of the CUDA toolkit, with
which tests/test_occupancy.py compares every architecture.

Clusters.  The blocks of a cluster stay in one graphics processing cluster (GPC), several of them on one
multiprocessor where there is room.  So a GPC of s multiprocessors that have room for n blocks each holds
s n // c clusters of c blocks if s >= c, and none if it is smaller:

    c = 4, n = 3     18 * 3 // 4 = 13 of a GPC of 18 multiprocessors

GPC_SMS is what one H200 answers: cuOccupancyMaxActiveClusters, asked on 2026-11-23 for clusters of 2,
3, 4, 6, 8, 12 and 16 blocks at 1 to 16 blocks per multiprocessor, gave 77 numbers, each as the law says.
Other boards of that name may have other groups, and of other GPUs groups of 16 are assumed: a choice is one
of an architecture, equal on all devices of a job, and so are the bits of its sums.  Whether a cluster fits at
all the device is asked when a kernel is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import ResourceError, ShapeError
from layoutalg.layout import normalize


@dataclass(frozen=True, slots=True)
class Limit:
    """A resource of an SM: what a block takes of it in whole units, how much there is, blocks that fit.

    `resource` is "warps", "registers", "shared" (bytes) or "blocks".

    >>> Limit("shared", 50176, 233472, 4).idle
    32768
    """

    resource: str
    per_block: int
    available: int
    blocks: int

    @property
    def idle(self) -> int:
        """The amount that is left when as many blocks as fit are there."""
        return self.available - self.blocks * self.per_block


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps that an SM holds at once; `limiting` names the resources that allow no more.

    `limits` has every resource that the kernel uses.

    >>> report = occupancy_of("sm_90", threads=256, registers_per_thread=64)
    >>> [(limit.resource, limit.blocks) for limit in report.limits]
    [('warps', 8), ('registers', 4), ('blocks', 32), ('shared', 228)]
    """

    arch: str
    threads: int
    registers_per_thread: int
    shared_bytes: int
    blocks_per_sm: int
    warps_per_sm: int
    max_warps_per_sm: int
    limits: tuple[Limit, ...]

    @property
    def occupancy(self) -> float:
        """Warps present over warps possible.

        >>> occupancy_of("sm_90", threads=1024, registers_per_thread=32).occupancy
        1.0
        """
        return self.warps_per_sm / self.max_warps_per_sm

    @property
    def limiting(self) -> tuple[str, ...]:
        """The resources that have no room for another block."""
        return tuple(limit.resource for limit in self.limits if limit.blocks == self.blocks_per_sm)


def occupancy_of(
    arch: str | Arch, *, threads: int, registers_per_thread: int, shared_bytes: int = 0
) -> Occupancy:
    """The number of blocks of `threads` threads that an SM holds, and why not more.

    `shared_bytes` is static and dynamic shared memory of a block together.  Raises ResourceError when not
    even one block fits (the launch would fail), naming resource and limit; ShapeError for counts that make
    no sense.

    >>> report = occupancy_of("sm_90", threads=384, registers_per_thread=168, shared_bytes=200 * 1024)
    >>> report.blocks_per_sm, report.limiting, report.occupancy
    (1, ('registers', 'shared'), 0.1875)
    """
    machine = find_arch(arch)
    threads = _count("threads", threads, 1)
    registers = _count("registers_per_thread", registers_per_thread, 1)
    shared = _count("shared_bytes", shared_bytes, 0)
    for resource, count, most in (
        ("threads per block", threads, machine.max_threads_per_block),
        ("registers per thread", registers, machine.max_registers_per_thread),
        ("shared memory a block in bytes", shared, machine.max_shared_bytes_per_block),
    ):
        if count > most:
            raise ResourceError(f"{resource} on {machine.name}", count, most)
    warps = -(-threads // machine.lanes)
    limits = [
        Limit("warps", warps, machine.max_warps_per_sm, machine.max_warps_per_sm // warps),
        _register_limit(machine, warps, registers),
        Limit("blocks", 1, machine.max_blocks_per_sm, machine.max_blocks_per_sm),
    ]
    taken = _round_up(shared + machine.reserved_shared_bytes_per_block, machine.shared_allocation_unit_bytes)
    if taken:
        room = machine.shared_bytes_per_sm
        limits.append(Limit("shared", taken, room, room // taken))
    for limit in limits:
        if not limit.blocks:
            raise ResourceError(
                f"{limit.resource} of an SM of {machine.name}", limit.per_block, limit.available
            )
    blocks = min(limit.blocks for limit in limits)
    return Occupancy(
        machine.name,
        threads,
        registers,
        shared,
        blocks,
        blocks * warps,
        machine.max_warps_per_sm,
        tuple(limits),
    )


def _register_limit(machine: Arch, warps: int, registers: int) -> Limit:
    """Registers are taken by whole warps, each from the file of one partition."""
    per_warp = _round_up(registers * machine.lanes, machine.register_allocation_unit)
    # A launch is checked as if each partition got as many warps as the fullest one.
    checked = per_warp * _round_up(warps, machine.sm_partitions)
    if checked > machine.registers_per_sm:
        raise ResourceError(
            f"registers per block on {machine.name}",
            checked,
            machine.registers_per_sm,
            hint=f"{warps} warps of {registers} registers per thread, each warp in units of "
            f"{machine.register_allocation_unit}",
        )
    fitting = machine.registers_per_sm // machine.sm_partitions // per_warp * machine.sm_partitions
    return Limit("registers", per_warp * warps, machine.registers_per_sm, fitting // warps)


def _round_up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _count(name: str, n: int, least: int) -> int:
    value = normalize(n, name)
    if isinstance(value, tuple) or value < least:
        raise ShapeError(f"{name} is {n!r}; an integer of at least {least} is needed")
    return value


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
