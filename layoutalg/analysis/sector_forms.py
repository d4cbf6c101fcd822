"""Closed forms of the sector count: by rank over F2, and for a single stride.

LINEAR.  address(lane) = base ^ (XOR of the columns its bits select), base a multiple of a line: the sectors
are 2^rank(columns / 32), the lines 2^rank(columns / 128), the useful bytes width * 2^rank(columns / width).

STRIDE.  address(lane) = start + d lane, lowest address a: with D = |d| and S = 32 or 128 bytes, lanes
closer than S skip no sector and farther ones share none, so the count is

    1 for D = 0;    floor((a mod S + (lanes - 1) D) / S) + 1 for D < S;    the lane count for D >= S

>>> from layoutalg.analysis import warp_rule
>>> b32 = warp_rule("ld.global.b32", "global", "sm_90")
>>> linear_traffic(*b32, (4, 8, 16, 32, 64)), stride_traffic(*b32, 4, 32, 28)
(Traffic(sectors=4, lines=1, useful_bytes=128), Traffic(sectors=5, lines=2, useful_bytes=128))
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.analysis.coalescing import Traffic
from layoutalg.arch import Arch, Instruction
from layoutalg.f2 import rank


def linear_traffic(rule: Instruction, machine: Arch, columns: Sequence[int]) -> Traffic:
    """Traffic when lane l < 2^len(columns) is at base ^ (XOR of the columns that l's bits select).

    `columns` are in bytes, of lanes 1, 2, 4, ...; the base is a multiple of a line.  Equal to the
    definition: tests/test_sector_forms.py.

    >>> from layoutalg.analysis import warp_rule
    >>> linear_traffic(*warp_rule("ld.global.b128", "global", "sm_90"), (128, 256, 512, 1024, 16))
    Traffic(sectors=16, lines=16, useful_bytes=512)
    """
    used = columns[: rule.lanes.bit_length() - 1]
    sectors, lines, chunks = (
        1 << rank(column // unit for column in used)
        for unit in (machine.sector_bytes, machine.line_bytes, rule.width_bytes)
    )
    return Traffic(sectors, lines, chunks * rule.width_bytes)


def stride_traffic(
    rule: Instruction, machine: Arch, stride_bytes: int, active: int, start_bytes: int
) -> Traffic:
    """Traffic when lane l < `active` is at start + stride * l, and the others are inactive.

    Equal to the definition: tests/test_sector_forms.py.

    >>> from layoutalg.analysis import warp_rule
    >>> stride_traffic(*warp_rule("ld.global.b32", "global", "sm_90"), 12, 32, 4)
    Traffic(sectors=12, lines=3, useful_bytes=128)
    """
    active = min(active, rule.lanes)
    if active == 0:
        return Traffic(0, 0, 0)
    if stride_bytes == 0:
        return Traffic(1, 1, rule.width_bytes)
    reach = (active - 1) * abs(stride_bytes)
    lowest = start_bytes - (reach if stride_bytes < 0 else 0)
    sectors, lines = (
        active if abs(stride_bytes) >= unit else (lowest % unit + reach) // unit + 1
        for unit in (machine.sector_bytes, machine.line_bytes)
    )
    return Traffic(sectors, lines, active * rule.width_bytes)
