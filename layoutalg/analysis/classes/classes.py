"""Digit classes: the warps of an access sorted by where their digits carry, counted without walking them.

The idea.  Thread numbers are written in the mixed radix of the footprint's thread digits.  Within a warp the
low digits run and now and then one carries; what the warp looks like relative to its first lane depends
only on the lanes at which that happens.

    threads 1003:1 8:1024     warp 0: lanes 0..31 count the first digit           1 1 1 1 ... 1
                              warp 31: lane 11 is thread 1003, the digit carries  1 ... 1 22 1 ... 1

Let P be the place value of a digit (1 and 1003 above).  Places below a warp's width make a pattern that
repeats with the largest of them; a place at or above it carries at most once in a warp, at some lane, into
one digit.  So there are at most `lanes` patterns without a carry and lanes - 1 for each higher digit, and how
many warps have each is a count of digit choices (residues).  (1003,8) has 8 classes, (127,255,4) has 35.

What a class costs also depends on its base address, but only modulo a period: one vector for lanes of whole
words, one word for narrower lanes, one line for sectors, and the period of the swizzle.
Registers and iterations only move the base; they are further digits.

Source: invariance of the wavefront count under aligned translation; S(x + P) = S(x) + P for a swizzle of
period P.  Both are tested against the enumerated definition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from itertools import starmap
from operator import add
from typing import NamedTuple

from layoutalg.analysis.banks import stride_wavefronts
from layoutalg.analysis.classes.footprint import AccessStrides, LeafPairs, value_at
from layoutalg.analysis.classes.residues import ResidueDigit, ResidueFamily, Residues
from layoutalg.analysis.coalescing import stride_traffic
from layoutalg.analysis.enumerated import instruction_costs
from layoutalg.analysis.report import CostClass, Place
from layoutalg.budget import spend

MAX_RESIDUES = 1 << 16
"""Largest number of base residues kept apart; beyond it the classes would cost more than enumerating."""


class WarpClass(NamedTuple):
    """Warps whose lanes lie at first lane + `relative` (units); `families` says which warps they are.

    `active` has one mark a lane of `relative`; None: all of them.
    """

    relative: tuple[int, ...]
    families: tuple[ResidueFamily, ...]
    active: tuple[bool, ...] | None = None


class ClassTable(NamedTuple):
    """All instructions of a footprint: classes of warps, offsets in units of `unit` elements."""

    found: AccessStrides
    unit: int
    residues: Residues
    classes: tuple[WarpClass, ...]

    @property
    def is_progression(self) -> bool:
        """True when all lanes are active and equally spaced in every warp and no swizzle moves them."""
        return self.found.adds and all(
            c.active is None and _step(c.relative) is not None for c in self.classes
        )


def class_table(found: AccessStrides) -> ClassTable | None:
    """Sort the warps of a footprint into classes; None when there would be more than MAX_RESIDUES bases.

    >>> from layoutalg.analysis import Access
    >>> from layoutalg.analysis.classes.footprint import find_footprint
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> from layoutalg.layout import Layout
    >>> tile, rule = Layout((1003, 8), (1, 1024)), INSTRUCTIONS["ld.shared.b32"]
    >>> found = find_footprint(tile, Access.default(rule.name, tile, "f32"), rule, ARCHS["sm_90"])
    >>> len(class_table(found).classes)
    9

    Eight kinds of full warps, and the last warp, which is partial.
    """
    period = cost_period(found)
    strides = [d for _, d in (*found.threads, *found.registers, *found.iterations)]
    unit = math.gcd(period, found.offset, *strides)
    if period // unit > MAX_RESIDUES:
        return None
    rest: list[ResidueDigit] = []
    for leaves, position in ((found.registers, 1), (found.iterations, 2)):
        weight = 1
        for extent, stride in leaves:
            moves = (0, weight, 0) if position == 1 else (0, 0, weight)
            rest.append(ResidueDigit(0, extent, stride // unit, moves))
            weight *= extent
    threads = tuple((extent, stride // unit) for extent, stride in found.threads)
    residues = Residues(period // unit, found.machine.lanes)
    gathered: dict[tuple[int, ...], list[ResidueFamily]] = {}
    pairs = warp_families(
        threads, found.extent.threads, found.rule.lanes, found.offset // unit, tuple(rest), residues
    )
    for relative, family in pairs:
        gathered.setdefault(relative, []).append(family)
    classes = tuple(WarpClass(relative, tuple(families)) for relative, families in gathered.items())
    return ClassTable(found, unit, residues, classes)


def count_classes(table: ClassTable, *, by_stride: bool = False) -> list[CostClass]:
    """Every class and base residue counted once.

    `by_stride` uses the gcd and stride forms, which needs `table.is_progression`; otherwise one warp of
    each sort is counted by the definition.

    >>> from layoutalg.analysis import Access
    >>> from layoutalg.analysis.classes.footprint import find_footprint
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> from layoutalg.layout import Layout
    >>> tile, rule = Layout((32, 4), (33, 1)), INSTRUCTIONS["ld.shared.b32"]
    >>> access = Access.along(rule.name, tile, "f32", "col")
    >>> table = class_table(find_footprint(tile, access, rule, ARCHS["sm_90"]))
    >>> count_classes(table, by_stride=True)
    [CostClass(instructions=4, cost=(1, 1), place=Place(warp=0, register=0, iteration=0))]
    """
    counted = [
        (which, base, number) for which in range(len(table.classes)) for base, number in _bases(table, which)
    ]
    rows = [(which, base, 0) for which, base, _ in counted]
    sorted_out: dict[tuple[int, tuple[int, ...]], tuple[int, int]] = {}
    for (which, base, many), cost in zip(counted, _costs(table, rows, by_stride), strict=True):
        number, first = sorted_out.get((which, cost), (0, base))
        sorted_out[which, cost] = (number + many, first)
    kinds: list[CostClass] = []
    for (which, cost), (number, base) in sorted_out.items():
        families = table.classes[which].families
        family = next(family for family in families if table.residues.starts(family)[base])
        thread, register, iteration = table.residues.member(family, base)
        kinds.append(CostClass(number, cost, Place(thread // table.found.machine.lanes, register, iteration)))
    return kinds


def _bases(table: ClassTable, which: int) -> list[tuple[int, int]]:
    """(base residue, instructions) of a class, for the residues that have any."""
    first, *others = table.classes[which].families
    total = table.residues.starts(first)
    for family in others:
        total = list(map(add, total, table.residues.starts(family)))
    counted = [(base, number) for base, number in enumerate(total) if number]
    spend(20 + table.residues.modulus // 32 + len(counted))
    return counted


def worst_alignment(table: ClassTable) -> int:
    """Sectors of the whole access at the worst base among those that keep it aligned.

    >>> from layoutalg.analysis import Access
    >>> from layoutalg.analysis.classes.footprint import find_footprint
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> from layoutalg.layout import Layout
    >>> tile, rule = Layout(64), INSTRUCTIONS["ld.global.b32"]
    >>> found = find_footprint(tile, Access.default(rule.name, tile, "f32"), rule, ARCHS["sm_90"])
    >>> worst_alignment(class_table(found))
    10
    """
    strides, sector = table.found, table.found.machine.sector_bytes
    shifts = range(0, sector, strides.rule.width_bytes)
    # Where strides add, only the place of the first lane within its sector matters.
    moves = not strides.adds
    spots: dict[tuple[int, int], tuple[int, int]] = {}
    for which in range(len(table.classes)):
        for base, many in _bases(table, which):
            spot = base if moves else strides.byte(base * table.unit) % sector
            number, _ = spots.get((which, spot), (0, 0))
            spots[which, spot] = (number + many, base)

    def alike(which: int, spot: int, shift: int) -> tuple[int, int, int]:
        return (which, spot, shift) if moves else (which, (spot + shift) % sector, 0)

    rows = {alike(w, spot, s): (w, base, s) for (w, spot), (_, base) in spots.items() for s in shifts}
    costs = dict(zip(rows, _costs(table, list(rows.values()), table.is_progression), strict=True))
    return max(sum(n * costs[alike(*key, s)][0] for key, (n, _) in spots.items()) for s in shifts)


def cost_period(found: AccessStrides) -> int:
    """Elements by which every address may move together without changing any cost.

    >>> from layoutalg.analysis import Access
    >>> from layoutalg.analysis.classes.footprint import find_footprint
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> from layoutalg.layout import Layout
    >>> tile, rule = Layout((64, 64), (64, 1)), INSTRUCTIONS["ld.global.b16"]
    >>> cost_period(find_footprint(tile, Access.default(rule.name, tile, "f16"), rule, ARCHS["sm_90"]))
    64
    """
    machine, width_bytes = found.machine, found.rule.width_bytes
    needed = machine.line_bytes if found.rule.space == "global" else machine.bank_bytes
    elems = max(1, 8 * max(needed, width_bytes) // found.bits)
    return found.period(elems)


def warp_families(
    threads: LeafPairs,
    count: int,
    window: int,
    offset: int,
    rest: tuple[ResidueDigit, ...],
    residues: Residues,
) -> Iterator[tuple[tuple[int, ...], ResidueFamily]]:
    """(relative offsets of the lanes, the warps that have them), for all warps of `count` threads.

    A warp is `residues.lanes` threads, of which the first `window` supply an address; `rest` are the digits
    of registers and iterations.

    >>> pairs = warp_families(((6, 1), (2, 10)), 12, 4, 0, (), Residues(1, 4))
    >>> [(relative, int(family.place[0])) for relative, family in pairs]
    [((0, 1, 2, 3), 0), ((0, 1, 6, 7), -2)]
    """
    lanes = residues.lanes
    places = [1]
    for extent, _ in threads:
        places.append(places[-1] * extent)
    low = max(i for i, weight in enumerate(places[:-1] or [1]) if weight < window)
    digits = tuple(
        ResidueDigit(0, extent, stride, (weight, 0, 0))
        for (extent, stride), weight in zip(threads, places, strict=False)
    )
    # Full warps in which no digit above `low` carries.
    spend(8 * (low + 1) * places[low] if threads else 0)
    for first in range(places[low] if threads else 0):
        room = places[low + 1] - window - first
        if room >= 0:
            short = digits[low]._replace(extent=room // places[low] + 1)
            start = value_at(threads[:low], first)
            relative = tuple(value_at(threads[: low + 1], first + n) - start for n in range(window))
            yield relative, ResidueFamily(offset + start, (first, 0, 0), (short, *digits[low + 1 :], *rest))
    # Full warps in which digit `level` steps at lane `lane`, and the digits below it start again.
    for level in range(low + 1, len(threads)):
        stepping = (
            digits[level]._replace(first=1, extent=threads[level][0] - 1),
            *digits[level + 1 :],
            *rest,
        )
        reached = set(residues.threads(stepping))
        for lane in range(1, window):
            if lane in reached:
                spend(8 * level)
                first = places[level] - lane
                start = value_at(threads[:level], first)
                before = (value_at(threads[:level], first + n) - start for n in range(lane))
                step = threads[level][1]
                after = (step + value_at(threads[:level], n) - start for n in range(window - lane))
                yield (*before, *after), ResidueFamily(offset + start - step, (-lane, 0, 0), stepping)
    # The last warp, if threads run out within it.
    tail = count % lanes
    if 0 < tail < window:
        first = count - tail
        start = value_at(threads, first)
        relative = tuple(value_at(threads, first + n) - start for n in range(tail))
        yield relative, ResidueFamily(offset + start, (first, 0, 0), rest)


def _step(relative: tuple[int, ...]) -> int | None:
    """The common difference of the lanes, 0 for a single one, None when there is none."""
    step = relative[1] - relative[0] if len(relative) > 1 else 0
    return step if all(r == n * step for n, r in enumerate(relative)) else None


def _costs(table: ClassTable, rows: list[tuple[int, int, int]], by_stride: bool) -> list[tuple[int, ...]]:
    """The cost of one instruction for each (class, base residue, shift in bytes)."""
    spend(5 * len(rows))
    if not by_stride:
        return _defined_costs(table, rows)
    strides = table.found
    out: list[tuple[int, ...]] = []
    for which, base, shift in rows:
        relative = table.classes[which].relative
        stride = (_step(relative) or 0) * table.unit * strides.bits // 8
        start = strides.byte(base * table.unit) + shift
        if strides.rule.space == "shared":
            out.append(tuple(stride_wavefronts(strides.rule, strides.machine, stride, len(relative), start)))
        else:
            start += strides.machine.line_bytes * abs(stride) * len(relative)
            out.append(tuple(stride_traffic(strides.rule, strides.machine, stride, len(relative), start)))
    return out


def _defined_costs(table: ClassTable, rows: list[tuple[int, int, int]]) -> list[tuple[int, ...]]:
    """`_costs` by the definition, on one instruction each."""
    strides, lanes = table.found, table.found.machine.lanes
    period = table.residues.modulus * table.unit
    lowest = min(min(c.relative) for c in table.classes) * table.unit
    above = -(lowest // period) * period
    idle: list[int | None] = [None] * lanes
    byte = functools.cache(strides.byte)  # lanes of many warps lie at the same places

    def offsets(which: int, base: int, shift: int) -> list[int | None]:
        kind = table.classes[which]
        on = (True,) * len(kind.relative) if kind.active is None else kind.active
        starts = (above + (base + lane) * table.unit for lane in kind.relative)
        row = [byte(start) + shift if ok else None for start, ok in zip(starts, on, strict=True)]
        return row + idle[len(row) :]

    return instruction_costs(strides.rule, strides.machine, starmap(offsets, rows))
