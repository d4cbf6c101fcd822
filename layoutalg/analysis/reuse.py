"""What several requests ask together: sectors that are asked again are served by the L1, not by memory.

The idea.  An access is counted request by request, and each request alone may look wasteful.  A warp that
reads an RGB picture in NHWC order, one byte per lane and channel, asks three times for 96 bytes:

    requests     R: 0 3 6 .. 93     G: 1 4 7 .. 94     B: 2 5 8 .. 95      bytes
    sectors      3                  3                  3                   9 asked
                 0 1 2              0 1 2              0 1 2               3 different: memory sees 3

`reuse_of` counts the sectors that a list of accesses asks for, a loop body or an unrolled loop, and how many
of them differ.  The latter is what memory must deliver; the rest hits the L1 as far as it still holds them.

>>> from layoutalg.dtype import dtype
>>> from layoutalg.layout import Layout
>>> pixels = Layout((32, 3), (3, 1))
>>> channels = Access("ld.global.b8", Layout((32, 3), (1, 32)), dtype("u8"))
>>> print(reuse_of(pixels, [channels]))
3 requests ask for 9 sectors, 3 of them different: 6 can be served by the L1.

Notes.  In closed form, digits that move whole sectors repeat what the others touch: what those touch is
listed, and if it is one run of sectors, the different ones are the image of a layout.  Otherwise, and under
predicates and swizzles, all addresses are.  That the L1 keeps what it holds until it is asked again is
assumed: a bound from below for memory, as the sectors asked are one from above.

Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; Nsight Compute, sectors of L1 and
of L2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product as combinations
from math import gcd, prod

from layoutalg.analysis.access import Access, addressing
from layoutalg.analysis.analyzer import Wanted, analyze_access
from layoutalg.analysis.classes.footprint import AccessStrides, find_footprint
from layoutalg.analysis.enumerated import (
    Extent,
    access_extent,
    instruction_offsets,
    lane_addresses,
    place_of,
)
from layoutalg.analysis.lanes import active_lanes
from layoutalg.analysis.report import GlobalReport, Method
from layoutalg.arch import Arch, Instruction, find_arch, find_instruction
from layoutalg.budget import Budget
from layoutalg.decide import image_size
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.layout import AnyLayout, Layout, coalesce
from layoutalg.optional import has_numpy

MOST_LISTED = 1 << 16
"""Addresses below a sector's step that are listed in the closed form, at most."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """The sectors that `requests` ask for, each counted alone, and the `different` ones among them."""

    requests: int
    asked: int
    different: int
    sector_bytes: int
    method: Method

    @property
    def again(self) -> int:
        """Sectors that are asked for again, which the L1 can serve."""
        return self.asked - self.different

    def __str__(self) -> str:
        served = f"{self.again:,} can be served by the L1" if self.again else "none is asked for twice"
        return (
            f"{self.requests:,} requests ask for {self.asked:,} sectors, {self.different:,} of them "
            f"different: {served}."
        )


def reuse_of(
    layout: AnyLayout,
    accesses: Iterable[Access],
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
) -> Reuse:
    """The sectors that accesses of global memory ask for together, all warps, registers and iterations.

    `method` is "auto" or "enumerated".  Raises ArgumentTypeError where there is no access or one of shared
    memory, UnsupportedError for another method, and what `analyze_access` raises.

    >>> from layoutalg.layout import Layout
    >>> rows = Layout((64, 64), (64, 1))
    >>> twice = [Access.of(f"ld.global.b32@{way}", rows, "f32") for way in ("row", "col")]
    >>> found = reuse_of(rows, twice)
    >>> found.asked, found.different, found.method
    (4608, 512, 'digit-classes')
    """
    machine, given = find_arch(arch), list(accesses)
    if method not in ("auto", "enumerated"):
        raise UnsupportedError(f"sectors asked twice are counted by 'auto' or 'enumerated', not {method!r}")
    reports = [analyze_access(layout, access, machine) for access in given]
    moved = [report for report in reports if isinstance(report, GlobalReport)]
    if not given or len(moved) < len(given):
        raise ArgumentTypeError(
            "sectors are asked for again by accesses of global memory; one or more are needed"
        )
    requests, asked = sum(r.instructions for r in moved), sum(r.sectors for r in moved)
    different = None if method == "enumerated" else _in_closed_form(layout, given, machine)
    if different is not None:
        return Reuse(requests, asked, different, machine.sector_bytes, "digit-classes")
    return Reuse(requests, asked, _listed(layout, given, machine), machine.sector_bytes, "enumerated")


def _in_closed_form(layout: AnyLayout, accesses: list[Access], machine: Arch) -> int | None:
    """The different sectors where those of each step are one run, and steps lead to one set; else None."""
    runs: dict[tuple[tuple[int, int], ...], set[int]] = {}
    for access in accesses:
        rule = find_instruction(access.op, machine)
        counted = addressing(access, rule, machine)
        found = None if access.active else find_footprint(layout, counted, rule, machine)
        parts = None if found is None else _near_and_far(found)
        if found is None or parts is None:
            return None
        near, far = parts
        start, run = found.byte(found.offset), runs.setdefault(far, set())
        for digits in combinations(*(range(extent) for extent, _ in near)):
            moved = sum(digit * step for digit, (_, step) in zip(digits, near, strict=True))
            run.add((start + moved) // machine.sector_bytes)
    sets = set()
    for far, run in runs.items():
        if max(run) - min(run) + 1 != len(run):
            return None
        steps = sorted((step // machine.sector_bytes, extent) for extent, step in far)
        shape, stride = (len(run), *(n for _, n in steps)), (1, *(d for d, _ in steps))
        sets.add((min(run), coalesce(Layout(shape, stride))))
    return image_size(sets.pop()[1]) if len(sets) == 1 else None


def _near_and_far(found: AccessStrides) -> tuple[list[tuple[int, int]], tuple[tuple[int, int], ...]] | None:
    """(extent, step in bytes) of digits that move parts of sectors, and of those that move whole ones."""
    near: list[tuple[int, int]] = []
    far: list[tuple[int, int]] = []
    for extent, stride in (*found.threads, *found.registers, *found.iterations):
        step, rest = divmod(stride * found.bits, 8)
        if rest or step < 0 or not found.adds:
            return None
        inside = found.machine.sector_bytes // gcd(step, found.machine.sector_bytes)
        if step and extent % inside == 0:  # so many steps are whole sectors
            near.append((inside, step))
            far.append((extent // inside, step * inside))
        elif step:
            near.append((extent, step))
    if prod(n for n, _ in near) > MOST_LISTED:
        return None
    return near, tuple(sorted(part for part in far if part[0] > 1))


def _listed(layout: AnyLayout, accesses: list[Access], machine: Arch) -> int:
    """The different sectors of all addresses, one by one."""
    sectors: set[int] = set()
    for access in accesses:
        rule = find_instruction(access.op, machine)
        counted = addressing(access, rule, machine)
        extent = access_extent(layout, counted, rule, machine)
        text = f"{access.op} on {layout}: listing the sectors of {extent.instructions} requests"
        budget = Budget(text.__str__)
        listed = _sectors_in_blocks if has_numpy() else _sectors_one_by_one
        for found in listed(layout, counted, rule, machine, extent, budget):
            sectors.update(found)
    return len(sectors)


def _sectors_one_by_one(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, extent: Extent, budget: Budget
) -> Iterator[list[int]]:
    """The sectors of every instruction, by the definition."""
    for number in range(extent.instructions):
        budget.spend(machine.lanes)
        lanes = instruction_offsets(layout, access, place_of(extent, number), machine)
        yield [address // machine.sector_bytes for _, address in active_lanes(rule, machine, lanes)]


def _sectors_in_blocks(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, extent: Extent, budget: Budget
) -> Iterator[list[int]]:
    """The sectors of many instructions at a time; needs NumPy."""
    import numpy as np

    step = 1 << 12
    for start in range(0, extent.instructions, step):
        numbers = np.arange(start, min(start + step, extent.instructions))
        budget.spend(len(numbers) * machine.lanes)
        addresses, mask = lane_addresses(layout, access, rule, machine, extent, numbers)
        yield np.unique(addresses[mask] // machine.sector_bytes).tolist()
