"""Closed forms of the wavefront count: by rank over F2, and by gcd.

Two kinds of access need no lanes to be looked at.  Write V for the bytes a lane moves, U = max(V, 4) for a
chunk of whole words, n = 128 / U for the chunks in one row of all banks.

LINEAR.  address(lane) = base ^ (XOR of the columns its bits select).  Of the 2^k lanes of a phase group,
D = the chunk numbers of their columns, B = D modulo n: the group touches 2^rank(D) chunks in 2^rank(B) units
of the banks, evenly, so its busiest bank has

    2^(rank D - rank B)        words, whatever the base

STRIDE.  address(lane) = base + d lanes, in chunks: d l mod n runs through n / gcd(d, n) units in turn, so
r lanes need ceil(r gcd(d, n) / n) wavefronts, and 1 for d = 0.

>>> from layoutalg.analysis import warp_rule
>>> b32 = warp_rule("ld.shared.b32", "shared", "sm_90")
>>> linear_wavefronts(*b32, (128, 256, 512, 1024, 2048)), stride_wavefronts(*b32, 132, 32)
(Served(wavefronts=32, ideal=1), Served(wavefronts=1, ideal=1))

Notes.  The first form is the rank of a matrix restricted to the lanes of a phase: degree = 2^dim(K & F), K
the kernel of the word-to-bank map and F the words the phase reaches; synthesis makes K & F zero.
Merging doubles the group: it happens exactly when the column of lane 1 or of lane 2 is zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from layoutalg.analysis.banks import ideal_wavefronts, wavefronts
from layoutalg.arch import Arch, Instruction
from layoutalg.f2 import rank


class Served(NamedTuple):
    """Wavefronts of one instruction, and the fewest its lanes could take."""

    wavefronts: int
    ideal: int


def linear_wavefronts(rule: Instruction, machine: Arch, columns: Sequence[int]) -> Served:
    """Wavefronts when lane l < 2^len(columns) is at base ^ (XOR of the columns that l's bits select).

    `columns` are in bytes, of lanes 1, 2, 4, ...; the base is any aligned address.  Lanes beyond are
    inactive.  Equal to the definition: tests/test_bank_forms.py.

    >>> from layoutalg.analysis import warp_rule
    >>> linear_wavefronts(*warp_rule("ldmatrix.x4", "shared", "sm_90"), (128, 256, 512, 1024, 16))
    Served(wavefronts=32, ideal=4)
    """
    lane_bits = min(len(columns), rule.lanes.bit_length() - 1)
    group_bits = rule.group_lanes.bit_length() - 1
    if any(x >> lane_bits or columns[x.bit_length() - 1] == 0 for x in rule.merge_xor):
        group_bits += 1
    group_bits = min(group_bits, lane_bits)
    groups = 1 << (lane_bits - group_bits)
    unit_bytes = max(rule.width_bytes, machine.bank_bytes)
    units = machine.banks * machine.bank_bytes // unit_bytes
    chunks = [column // unit_bytes for column in columns[:group_bits]]
    spread = rank(chunk % units for chunk in chunks)
    distinct_bits = rank(chunks) if rule.broadcast else group_bits
    floor = 1 if rule.broadcast else -(-(1 << group_bits) // units)
    return Served(
        (groups << (distinct_bits - spread)) + rule.counter_bias, groups * floor + rule.counter_bias
    )


def stride_wavefronts(
    rule: Instruction, machine: Arch, stride_bytes: int, active: int, base_bytes: int = 0
) -> Served:
    """Wavefronts when lane l < `active` is at base + stride * l, and the others are inactive.

    The base matters only modulo one bank, and only to lanes narrower than a bank on a stride that is no
    multiple of it; those are counted by the definition, on one warp.  Equal to the definition:
    tests/test_bank_forms.py.

    >>> from layoutalg.analysis import warp_rule
    >>> stride_wavefronts(*warp_rule("ld.shared.b64", "shared", "sm_90"), 34 * 8, 32)
    Served(wavefronts=4, ideal=2)
    """
    active = min(active, rule.lanes)
    if active == 0:
        return Served(0, 0)
    unit_bytes = max(rule.width_bytes, machine.bank_bytes)
    if stride_bytes % unit_bytes:
        # Only lanes narrower than a bank get here: neighbours share some words and not others.
        start = base_bytes % unit_bytes + max(0, -stride_bytes) * machine.lanes * unit_bytes
        lanes = [start + stride_bytes * lane if lane < active else None for lane in range(machine.lanes)]
        return Served(wavefronts(rule.name, lanes, machine), ideal_wavefronts(rule.name, lanes, machine))
    units = machine.banks * machine.bank_bytes // unit_bytes
    merged = any(stride_bytes == 0 or active <= x for x in rule.merge_xor)
    span = rule.group_lanes * (2 if merged else 1)
    sizes = [span] * (active // span) + [active % span] * (active % span > 0)
    if stride_bytes == 0:
        loads = [1 if rule.broadcast else size for size in sizes]
    else:
        common = math.gcd(stride_bytes // unit_bytes, units)
        loads = [-(-size * common // units) for size in sizes]
    floors = [1 if rule.broadcast else -(-size // units) for size in sizes]
    return Served(sum(loads) + rule.counter_bias, sum(floors) + rule.counter_bias)
