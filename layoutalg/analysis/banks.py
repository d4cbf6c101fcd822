"""Wavefronts or sectors of one warp instruction: the definition, for many at once, and closed forms.

Banks.  Shared memory has 32 banks of 4 bytes; bank = (byte address / 4) mod 32.  A wavefront reads at
most one word from each bank.  The lanes of a phase group are served together, so a group takes as many
wavefronts as its busiest bank has distinct words (equal words are one: a broadcast), and the instruction
takes the sum over its groups.

    32 lanes, 4 bytes, stride 4        each bank has one word                    1
    32 lanes, 4 bytes, stride 128      bank 0 has 32 words                      32
    32 lanes, 4 bytes, stride 132      banks 0, 1, 2, ..., 31                    1     (a padded row)
    32 lanes, 16 bytes, stride 16      4 groups of 8 lanes, one wavefront each   4

The ideal of an instruction is one wavefront per group that has an active lane; where equal words are not
broadcast, as many as its words need when spread evenly over the banks.

Two kinds of access need no lanes to be looked at, LINEAR and STRIDE ones.  Write V for the bytes per lane,
U = max(V, 4) for a chunk of whole words, n = 128 / U for the chunks in one row of all banks.

LINEAR.  address(lane) = base ^ (XOR of the columns its bits select).  Of the 2^k lanes of a phase group,
D = the chunk numbers of their columns, B = D modulo n: the group touches 2^rank(D) chunks in 2^rank(B) units
of the banks, evenly, so its busiest bank has

    2^(rank D - rank B)        words, whatever the base

That is the rank of a matrix restricted to the lanes of a phase: degree = 2^dim(K & F), K the kernel of the
word-to-bank map and F the words the phase reaches; synthesis makes K & F zero.  Merging doubles the group:
it happens exactly when the column of lane 1 or of lane 2 is zero.

STRIDE.  address(lane) = base + d lanes, in chunks: d l mod n runs through n / gcd(d, n) units in turn, so
r lanes need ceil(r gcd(d, n) / n) wavefronts, and 1 for d = 0.

>>> b32 = warp_rule("ld.shared.b32", "shared", "sm_90")
>>> linear_wavefronts(*b32, (128, 256, 512, 1024, 2048)), stride_wavefronts(*b32, 132, 32)
(Served(wavefronts=32, ideal=1, ways=32), Served(wavefronts=1, ideal=1, ways=1))

Notes.  Which lanes form a group, what is broadcast and which loads merge groups is data, counted on an
H200 (layoutalg.arch.instructions).  Groups without an active lane cost nothing.  Where the hardware counter
carries a constant (3 for cp.async of 4 and 8 bytes), the wavefronts and the ideal both include it.

Comparison with CuTe.  CuTe has no cost model; the rule of thumb "lanes on one bank = conflict" misses the
phases (a perfect 16-byte access has 4 lanes on every bank) and the broadcast.

Sectors.  A warp's global access is one request; memory moves in 32-byte sectors, four to a 128-byte line.
What the request costs is the number of DISTINCT sectors its active lanes touch, at every width:

    32 lanes, 4 bytes, contiguous, aligned          128 bytes      4 sectors
    the same, 4 bytes further                       128 bytes      5 sectors   (misalignment costs one)
    32 lanes, 4 bytes, stride 32 bytes                            32 sectors   (an eighth is useful)

Efficiency is distinct useful bytes over bytes moved.  Distinct, because lanes that read one word make
neither more traffic nor more than 100 %.

LINEAR.  address(lane) = base ^ (XOR of the columns its bits select), base a multiple of a line: the sectors
are 2^rank(columns / 32), the lines 2^rank(columns / 128), the useful bytes width * 2^rank(columns / width).

STRIDE.  address(lane) = start + d lane, lowest address a: with D = |d| and S = 32 or 128 bytes, lanes
closer than S skip no sector and farther ones share none, so the count is

    1 for D = 0;    floor((a mod S + (lanes - 1) D) / S) + 1 for D < S;    the lane count for D >= S

>>> b32 = warp_rule("ld.global.b32", "global", "sm_90")
>>> linear_traffic(*b32, (4, 8, 16, 32, 64)), stride_traffic(*b32, 4, 32, 28)
(Traffic(sectors=4, lines=1, useful_bytes=128), Traffic(sectors=5, lines=2, useful_bytes=128))

Notes.  Counted on an H200 for loads and stores of 1 to 16 bytes
(l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}.sum).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from layoutalg.analysis.lanes import active_lanes, distinct, warp_rule
from layoutalg.arch import DEFAULT_ARCH, Arch, Instruction
from layoutalg.f2 import rank
from layoutalg.layout import Swizzle

if TYPE_CHECKING:
    from numpy.typing import NDArray

Lanes: TypeAlias = "tuple[tuple[int, int], ...]"
"""(lane, byte offset) of active lanes."""


class Clash(NamedTuple):
    """The busiest bank of an instruction: `ways` wavefronts for the words that `lanes` ask of `bank`."""

    ways: int
    bank: int
    lanes: tuple[int, ...]


def wavefronts(instruction: str, offsets: Sequence[int | None], arch: str | Arch = DEFAULT_ARCH) -> int:
    """Wavefronts that one warp-wide shared-memory instruction takes.

    `offsets` are byte addresses in shared memory, one per lane, None where a lane is inactive.  Raises
    ShapeError when their number is not the architecture's lane count, AlignmentError for a lane that is
    not a multiple of the width, UnknownNameError, and UnsupportedError for a global instruction.

    Source: counted on an H200 with Nsight Compute 2025.3; see layoutalg.arch.instructions.

    >>> wavefronts("ld.shared.b32", [128 * lane for lane in range(32)])
    32
    >>> wavefronts("ldmatrix.x4", [144 * (lane % 16) + 16 * (lane // 16) for lane in range(32)])
    4
    """
    rule, machine = warp_rule(instruction, "shared", arch)
    return served_lanes(rule, machine, active_lanes(rule, machine, offsets)).wavefronts


def ideal_wavefronts(instruction: str, offsets: Sequence[int | None], arch: str | Arch = DEFAULT_ARCH) -> int:
    """The fewest wavefronts these lanes could take if their words were spread over the banks at will.

    One a phase group that has an active lane, after merging; where equal words are not broadcast,
    ceil(active words / banks) a group.  Raises as `wavefronts` does.

    >>> ideal_wavefronts("ld.shared.b64", [128 * lane for lane in range(32)])
    2
    >>> ideal_wavefronts("ld.shared.b64", [0] * 32)
    1
    """
    rule, machine = warp_rule(instruction, "shared", arch)
    return served_lanes(rule, machine, active_lanes(rule, machine, offsets)).ideal


class Served(NamedTuple):
    """Wavefronts of one instruction, the fewest its lanes could take, and the ways of its busiest bank."""

    wavefronts: int
    ideal: int
    ways: int


def served_lanes(rule: Instruction, machine: Arch, active: Lanes) -> Served:
    """`wavefronts`, `ideal_wavefronts` and ways of lanes that `active_lanes` has checked: THE definition.

    >>> rule, machine = warp_rule("ld.shared.b64", "shared", "sm_90")
    >>> served_lanes(rule, machine, active_lanes(rule, machine, [128 * lane for lane in range(32)]))
    Served(wavefronts=32, ideal=2, ways=16)
    """
    size, banks = machine.bank_bytes, machine.banks
    wide = range(max(1, rule.width_bytes // size))
    taken = ideal = rule.counter_bias if active else 0
    ways = 0
    for group in phase_groups(rule, active):
        words = [address // size + i for _, address in group for i in wide]
        load = Counter([word % banks for word in (set(words) if rule.broadcast else words)])
        ways = max(ways, busiest := max(load.values()))
        taken += busiest
        ideal += 1 if rule.broadcast else -(-len(words) // banks)
    return Served(taken, ideal, ways)


def phase_groups(rule: Instruction, active: Lanes) -> list[Lanes]:
    """The active lanes of each phase group that has any, merged where the rule merges.

    >>> rule, _ = warp_rule("ld.shared.b64", "shared", "sm_90")
    >>> [len(g) for g in phase_groups(rule, tuple((lane, 8 * lane) for lane in range(32)))]
    [16, 16]
    """
    address = dict(active)
    span = rule.group_lanes
    if any(all(address.get(lane ^ x, a) == a for lane, a in active) for x in rule.merge_xor):
        span *= 2
    order = rule.lane_order
    groups = (
        tuple((lane, address[lane]) for lane in sorted(order[start : start + span]) if lane in address)
        for start in range(0, rule.lanes, span)
    )
    return [group for group in groups if group]


def clash(rule: Instruction, machine: Arch, group: Lanes) -> Clash:
    """The busiest bank of one phase group (the lowest numbered among equals).

    >>> rule, machine = warp_rule("ld.shared.b32", "shared", "sm_90")
    >>> clash(rule, machine, ((0, 0), (1, 128), (2, 4), (3, 128)))
    Clash(ways=2, bank=0, lanes=(0, 1, 3))
    """
    size, banks = machine.bank_bytes, machine.banks
    wide = range(max(1, rule.width_bytes // size))
    words = [address // size + i for _, address in group for i in wide]
    load = Counter([word % banks for word in (set(words) if rule.broadcast else words)])
    ways = max(load.values())
    bank = min(bank for bank, number in load.items() if number == ways)
    lanes = [lane for lane, _ in group for _ in wide]
    users = [lane for lane, word in zip(lanes, words, strict=True) if word % banks == bank]
    return Clash(ways, bank, tuple(users))


def worst_clash(instruction: str, offsets: Sequence[int | None], arch: str | Arch = DEFAULT_ARCH) -> Clash:
    """The busiest bank of the busiest phase group; its `ways` is what people call an n-way conflict.

    An instruction without active lanes has none: 0 ways.  Raises as `wavefronts` does.

    >>> worst_clash("ld.shared.b128", [64 * lane for lane in range(32)])
    Clash(ways=4, bank=0, lanes=(0, 2, 4, 6))
    """
    rule, machine = warp_rule(instruction, "shared", arch)
    groups = phase_groups(rule, active_lanes(rule, machine, offsets))
    return max((clash(rule, machine, g) for g in groups), key=lambda c: c.ways, default=Clash(0, 0, ()))


def served_batch(
    rule: Instruction, machine: Arch, offsets: NDArray[Any], mask: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """(wavefronts, ideal, ways) of instructions whose lanes `batch_lanes` has checked.

    >>> import numpy
    >>> from layoutalg.analysis import batch_lanes
    >>> rule, machine = warp_rule("ld.shared.b128", "shared", "sm_90")
    >>> checked = batch_lanes(rule, machine, 64 * numpy.arange(32)[None, :])
    >>> [int(n[0]) for n in served_batch(rule, machine, *checked)]
    [16, 4, 4]
    """
    taken, ideal, ways = swizzled_batch(rule, machine, offsets, mask, (Swizzle(0, 0, 0),))
    return taken[0], ideal, ways[0]


def swizzled_batch(
    rule: Instruction, machine: Arch, offsets: NDArray[Any], mask: NDArray[Any], swizzles: Sequence[Swizzle]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """`served_batch` with the offsets under each of some swizzles: a row of wavefronts and ways per swizzle.

    Swizzles keep a word of a bank together, and the words that a lane asks for: their `base` is at least that
    of the instruction's width and of a word.  They move words to other banks and make no two of them one, so
    words are told apart once for all swizzles.

    >>> import numpy
    >>> from layoutalg.analysis import batch_lanes
    >>> rule, machine = warp_rule("ld.shared.b128", "shared", "sm_90")
    >>> checked = batch_lanes(rule, machine, 128 * numpy.arange(32)[None, :])
    >>> swizzled_batch(rule, machine, *checked, (Swizzle(0, 4, 3), Swizzle(3, 4, 3)))[0].tolist()
    [[32], [4]]
    """
    import numpy as np

    merged = _merged(rule, offsets, mask)
    taken, ways = np.zeros((2, len(swizzles), len(offsets)), dtype=np.int64)
    ideal = np.zeros(len(offsets), dtype=np.int64)
    for chosen, span in ((~merged, rule.group_lanes), (merged, 2 * rule.group_lanes)):
        if chosen.any():
            span = min(span, rule.lanes)
            loads, floors = _group_batch(rule, machine, offsets[chosen], mask[chosen], span, swizzles)
            taken[:, chosen], ideal[chosen] = loads.sum(axis=2), floors.sum(axis=1)
            ways[:, chosen] = loads.max(axis=2)
    bias = rule.counter_bias * mask.any(axis=1)
    return taken + bias, ideal + bias, ways


def _merged(rule: Instruction, offsets: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
    """Whether each instruction has two of its phases served as one."""
    import numpy as np

    merged = np.zeros(len(offsets), dtype=bool)
    for x in rule.merge_xor:
        partner = np.arange(rule.lanes) ^ x
        merged |= ((offsets == offsets[:, partner]) | ~mask | ~mask[:, partner]).all(axis=1)
    return merged


def _group_batch(
    rule: Instruction, machine: Arch, offsets: NDArray[Any], mask: NDArray[Any], span: int,
    swizzles: Sequence[Swizzle],
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    """The busiest bank's load of each group of `span` lanes under each swizzle, and the floor."""
    import numpy as np

    count, groups = len(offsets), rule.lanes // span
    if rule.phase_basis:
        order = list(rule.lane_order)
        offsets, mask = offsets[:, order], mask[:, order]
    each = max(1, rule.width_bytes // machine.bank_bytes)
    words = (offsets // machine.bank_bytes)[:, :, None] + np.arange(each)
    words = words.reshape(count * groups, span * each)
    used = np.repeat(mask, each, axis=1).reshape(count * groups, span * each)
    keep = used
    if rule.broadcast:
        words, keep = distinct(words, used)
    rows, addresses = np.nonzero(keep)[0] * machine.banks, words[keep] * machine.bank_bytes
    places = count * groups * machine.banks
    flat = np.concatenate(
        [
            n * places + rows + swizzle(addresses) // machine.bank_bytes % machine.banks
            for n, swizzle in enumerate(swizzles)
        ]
    )
    load = np.bincount(flat, minlength=len(swizzles) * places)
    busiest = load.reshape(len(swizzles), count, groups, machine.banks).max(axis=3)
    lanes = used.reshape(count, groups, -1).sum(axis=2)
    floors = lanes > 0 if rule.broadcast else -(-lanes // machine.banks)
    return busiest, floors


# --- closed forms --------------------------------------------------------------------------------------


def linear_wavefronts(rule: Instruction, machine: Arch, columns: Sequence[int]) -> Served:
    """Wavefronts when lane l < 2^len(columns) is at base ^ (XOR of the columns that l's bits select).

    `columns` are in bytes, of lanes 1, 2, 4, ...; the base is any aligned address.  Lanes beyond are
    inactive.  Equal to the definition: tests/analysis/test_banks.py.

    >>> linear_wavefronts(*warp_rule("ldmatrix.x4", "shared", "sm_90"), (128, 256, 512, 1024, 16))
    Served(wavefronts=32, ideal=4, ways=8)
    """
    lane_bits, phase = min(len(columns), rule.lanes.bit_length() - 1), rule.phase_columns(columns)
    group_bits = len(phase)
    groups = 1 << (lane_bits - group_bits)
    unit_bytes = max(rule.width_bytes, machine.bank_bytes)
    units = machine.banks * machine.bank_bytes // unit_bytes
    chunks = [column // unit_bytes for column in phase]
    spread = rank(chunk % units for chunk in chunks)
    distinct_bits = rank(chunks) if rule.broadcast else group_bits
    floor = 1 if rule.broadcast else -(-(1 << group_bits) // units)
    ways = 1 << (distinct_bits - spread)
    return Served(groups * ways + rule.counter_bias, groups * floor + rule.counter_bias, ways)


def stride_wavefronts(
    rule: Instruction, machine: Arch, stride_bytes: int, active: int, base_bytes: int = 0
) -> Served:
    """Wavefronts when lane l < `active` is at base + stride * l, and the others are inactive.

    The base matters only modulo one bank, and only to lanes narrower than a bank on a stride that is no
    multiple of it; those are counted by the definition, on one warp, and so are phases of lanes that are not
    consecutive.  Equal to the definition: tests/analysis/test_banks.py, test_phases.py.

    >>> stride_wavefronts(*warp_rule("ld.shared.b64", "shared", "sm_90"), 34 * 8, 32)
    Served(wavefronts=4, ideal=2, ways=2)
    """
    active = min(active, rule.lanes)
    if active == 0:
        return Served(0, 0, 0)
    unit_bytes = max(rule.width_bytes, machine.bank_bytes)
    if stride_bytes % unit_bytes or rule.phase_basis:
        # Lanes narrower than a bank, of which neighbours share some words and not others; and phases whose
        # lanes are not a progression.
        start = base_bytes % unit_bytes + max(0, -stride_bytes) * machine.lanes * unit_bytes
        lanes = [start + stride_bytes * lane if lane < active else None for lane in range(machine.lanes)]
        return served_lanes(rule, machine, active_lanes(rule, machine, lanes))
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
    return Served(sum(loads) + rule.counter_bias, sum(floors) + rule.counter_bias, max(loads))


class Traffic(NamedTuple):
    """The traffic of one request: distinct sectors, distinct lines, distinct useful bytes."""

    sectors: int
    lines: int
    useful_bytes: int


def sectors(instruction: str, offsets: Sequence[int | None], arch: str | Arch = DEFAULT_ARCH) -> int:
    """Distinct 32-byte sectors that one warp-wide global-memory instruction touches.

    `offsets` are byte addresses, one per lane, None where a lane is inactive.  Raises ShapeError when their
    number is not the architecture's lane count, AlignmentError for a lane that is not a multiple of the
    width, UnknownNameError, and UnsupportedError for a shared-memory instruction.

    Source: CUDA C++ Best Practices Guide, Coalesced Access to Global Memory; counted on an H200.

    >>> [sectors("ld.global.b32", [start + 4 * lane for lane in range(32)]) for start in (0, 4, 28)]
    [4, 5, 5]
    """
    return traffic(instruction, offsets, arch).sectors


def traffic(instruction: str, offsets: Sequence[int | None], arch: str | Arch = DEFAULT_ARCH) -> Traffic:
    """Sectors, lines and useful bytes of one instruction, by the definition.  Raises as `sectors` does.

    >>> traffic("ld.global.b64", [0] * 16 + [128] * 16)
    Traffic(sectors=2, lines=2, useful_bytes=16)
    """
    rule, machine = warp_rule(instruction, "global", arch)
    return traffic_lanes(rule, machine, active_lanes(rule, machine, offsets))


def traffic_lanes(rule: Instruction, machine: Arch, active: Sequence[tuple[int, int]]) -> Traffic:
    """`traffic` of lanes that `active_lanes` has checked: THE definition.

    >>> rule, machine = warp_rule("ld.global.b64", "global", "sm_90")
    >>> traffic_lanes(rule, machine, ((0, 24), (1, 32), (2, 32)))
    Traffic(sectors=2, lines=1, useful_bytes=16)
    """
    touched = {byte for _, address in active for byte in range(address, address + rule.width_bytes)}
    return Traffic(
        len({byte // machine.sector_bytes for byte in touched}),
        len({byte // machine.line_bytes for byte in touched}),
        len(touched),
    )


def traffic_batch(
    rule: Instruction, machine: Arch, offsets: NDArray[Any], mask: NDArray[Any]
) -> NDArray[Any]:
    """(sectors, lines, useful bytes) of instructions whose lanes `batch_lanes` has checked: (count, 3).

    >>> import numpy
    >>> from layoutalg.analysis import batch_lanes
    >>> rule, machine = warp_rule("ld.global.b32", "global", "sm_90")
    >>> traffic_batch(rule, machine, *batch_lanes(rule, machine, 32 * numpy.arange(32)[None, :])).tolist()
    [[32, 8, 128]]
    """
    import numpy as np

    # An aligned lane no wider than a sector lies in one; a wider one (no GPU has it) in several.
    out = np.empty((len(offsets), 3), dtype=np.int64)
    units = (machine.sector_bytes, machine.line_bytes, rule.width_bytes)
    for column, unit in enumerate(units):
        each = max(1, rule.width_bytes // unit)
        cells = (offsets // unit)[:, :, None] + np.arange(each)
        _, keep = distinct(cells.reshape(len(offsets), -1), np.repeat(mask, each, axis=1))
        out[:, column] = keep.sum(axis=1)
    out[:, 2] *= rule.width_bytes
    return out


# --- closed forms --------------------------------------------------------------------------------------


def linear_traffic(rule: Instruction, machine: Arch, columns: Sequence[int]) -> Traffic:
    """Traffic when lane l < 2^len(columns) is at base ^ (XOR of the columns that l's bits select).

    `columns` are in bytes, of lanes 1, 2, 4, ...; the base is a multiple of a line.  Equal to the
    definition: tests/analysis/test_banks.py.

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

    Equal to the definition: tests/analysis/test_banks.py.

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
