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

Guards.  Without a guard a class of warps is known by its lanes' offsets relative to the first.  With one,
also by which of its lanes are active, and that depends on the coordinate c of its first lane alone:

    lanes at columns c + 0, 1, 2, 3, guard column < n

    c <= n - 4       all four        most warps
    c = n - 3        the first three     one edge class each
    c = n - 2        two
    c = n - 1        one
    c >= n           none            these cost nothing

So every class is cut at the few places where a lane crosses its bound, and the warps in between are counted
by digits (intervals).  For that, coordinates travel with the offsets: a stride is one integer that carries
what it adds to the offset in its low bits and what it adds to the coordinates above (Fields).
Offsets are only ever asked for modulo a power of two: the other fields do not touch that.

Source: invariance of the wavefront count under aligned translation; S(x + P) = S(x) + P for a swizzle of
period P.  Both are tested against the enumerated definition.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import starmap
from operator import add
from typing import NamedTuple, TypeAlias

from layoutalg.analysis.access import Access, Guard, mode_sizes
from layoutalg.analysis.banks import stride_traffic, stride_wavefronts
from layoutalg.analysis.enumerated import instruction_costs
from layoutalg.analysis.footprint import AccessStrides, LeafPairs, value_at
from layoutalg.analysis.report import CostClass, Place
from layoutalg.analysis.residues import ResidueDigit, ResidueFamily, Residues, between
from layoutalg.budget import spend
from layoutalg.compose import Fields, compose_layouts, find_normal_form
from layoutalg.errors import DivisibilityError, UndecidedError
from layoutalg.layout import (
    AnyLayout,
    Layout,
    flatten_tree,
    layout_of,
    leaf_lists,
    leaves,
    merge,
    modes,
    size,
    span,
)

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
    >>> from layoutalg.analysis.footprint import find_footprint
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> from layoutalg.layout import Layout
    >>> tile, rule = Layout((1003, 8), (1, 1024)), INSTRUCTIONS["ld.shared.b32"]
    >>> found = find_footprint(tile, Access.default(rule.name, tile, "f32"), rule, ARCHS["sm_90"])
    >>> len(class_table(found).classes)
    9

    Eight kinds of full warps, and the last warp, which is partial.
    """
    digits = _digits_of(found, (found.threads, found.registers, found.iterations))
    if digits is None:
        return None
    return digits.table((relative, None, family) for relative, family in digits.families(digits.rest))


_Active: TypeAlias = "tuple[bool, ...] | None"


class _Digits(NamedTuple):
    """The digits of an access, offsets in units of `unit` elements."""

    found: AccessStrides
    threads: LeafPairs
    rest: tuple[ResidueDigit, ...]
    unit: int
    residues: Residues

    def families(self, rest: tuple[ResidueDigit, ...]) -> Iterator[tuple[tuple[int, ...], ResidueFamily]]:
        """All warps, as `warp_families` gives them, with these digits of registers and iterations."""
        count, start = self.found.extent.threads, self.found.offset // self.unit
        for first in range(0, self.residues.lanes, self.found.machine.lanes):
            window = min(self.found.rule.lanes, self.residues.lanes - first)
            yield from warp_families(self.threads, count, window, start, rest, self.residues, first)

    def table(self, warps: Iterable[tuple[tuple[int, ...], _Active, ResidueFamily]]) -> ClassTable:
        """Warps gathered by the offsets of their lanes and by which are active."""
        gathered: dict[tuple[tuple[int, ...], _Active], list[ResidueFamily]] = {}
        for relative, active, family in warps:
            gathered.setdefault((relative, active), []).append(family)
        classes = tuple(WarpClass(relative, tuple(f), marks) for (relative, marks), f in gathered.items())
        return ClassTable(self.found, self.unit, self.residues, classes)


def _digits_of(
    found: AccessStrides, parts: Sequence[LeafPairs], fields: Fields | None = None, every: int = 0
) -> _Digits | None:
    """The digits of (threads, registers, iterations) in units; None where there are too many residues.

    Warps are counted from every multiple of `every` threads; 0: of the lanes of a warp.
    """
    period = cost_period(found)
    split = [
        [(extent, code, code if fields is None else fields.of(code, 0)) for extent, code in part]
        for part in parts
    ]
    unit = math.gcd(period, found.offset, *(offset for part in split for _, _, offset in part))
    if period // unit > MAX_RESIDUES:
        return None
    threads: list[tuple[int, int]] = []
    rest: list[ResidueDigit] = []
    for position, part in enumerate(split):
        radix = 1
        for extent, code, offset in part:
            stride = code - offset + offset // unit
            if position == 0:
                threads.append((extent, stride + (fields.code(radix, _THREAD) if fields else 0)))
            else:
                moves = (0, radix, 0) if position == 1 else (0, 0, radix)
                rest.append(ResidueDigit(0, extent, stride, moves))
            radix *= extent
    residues = Residues(period // unit, every or found.machine.lanes)
    return _Digits(found, tuple(threads), tuple(rest), unit, residues)


def count_classes(table: ClassTable, *, by_stride: bool = False) -> list[CostClass]:
    """Every class and base residue counted once.

    `by_stride` uses the gcd and stride forms, which needs `table.is_progression`; otherwise one warp of
    each sort is counted by the definition.

    >>> from layoutalg.analysis import Access
    >>> from layoutalg.analysis.footprint import find_footprint
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> from layoutalg.layout import Layout
    >>> tile, rule = Layout((32, 4), (33, 1)), INSTRUCTIONS["ld.shared.b32"]
    >>> access = Access.along(rule.name, tile, "f32", "col")
    >>> table = class_table(find_footprint(tile, access, rule, ARCHS["sm_90"]))
    >>> count_classes(table, by_stride=True)
    [CostClass(instructions=4, cost=(1, 1, 1), place=Place(warp=0, register=0, iteration=0))]
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
        lanes, every = table.found.machine.lanes, table.residues.lanes
        warp = thread // every * -(-every // lanes) + thread % every // lanes
        kinds.append(CostClass(number, cost, Place(warp, register, iteration)))
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
    >>> from layoutalg.analysis.footprint import find_footprint
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
    >>> from layoutalg.analysis.footprint import find_footprint
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
    start_at: int = 0,
) -> Iterator[tuple[tuple[int, ...], ResidueFamily]]:
    """(relative offsets of the lanes, the warps that have them), for all warps of `count` threads.

    Warps start at the thread numbers that are `start_at` modulo `residues.lanes`; the first `window` threads
    of each supply an address.  `rest` are the digits of registers and iterations.

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
            upper = (short, *digits[low + 1 :], *rest)
            yield relative, ResidueFamily(offset + start, (first, 0, 0), upper, start_at)
    # Full warps in which digit `level` steps at lane `lane`, and the digits below it start again.
    for level in range(low + 1, len(threads)):
        stepping = (
            digits[level]._replace(first=1, extent=threads[level][0] - 1),
            *digits[level + 1 :],
            *rest,
        )
        reached = set(residues.threads(stepping))
        for lane in range(1, window):
            if (start_at + lane) % lanes in reached:
                spend(8 * level)
                first = places[level] - lane
                start = value_at(threads[:level], first)
                before = (value_at(threads[:level], first + n) - start for n in range(lane))
                step = threads[level][1]
                after = (step + value_at(threads[:level], n) - start for n in range(window - lane))
                family = ResidueFamily(offset + start - step, (-lane, 0, 0), stepping, start_at)
                yield (*before, *after), family
    # The last warp, if threads run out within it.
    tail = count % lanes - start_at
    if 0 < tail < window:
        first = count - tail
        start = value_at(threads, first)
        relative = tuple(value_at(threads, first + n) - start for n in range(tail))
        yield relative, ResidueFamily(offset + start, (first, 0, 0), rest, start_at)


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


# --- guards --------------------------------------------------------------------------------------------


_THREAD, _FIRST_MODE = 1, 2
"""Fields of a coded stride: offset, thread number, then one coordinate for each mode of the layout."""

MAX_FAMILIES = 1 << 10
"""The most families of warps that are kept apart; an access with more is enumerated."""


def guarded_table(
    layout: AnyLayout,
    access: Access,
    found: AccessStrides,
    counts: Sequence[int] | None = None,
    every: int = 0,
) -> ClassTable | None:
    """The classes of an access whose `active` is a Guard; None when closed forms do not reach it.

    `found` is the footprint of the access without its guard.  `counts` says how many of its threads,
    registers and iterations there are, if that is less: what is past them is not an instruction at all.
    A warp starts at every multiple of `every` threads, and of the lanes of a warp between two of them.
    Raises ShapeError for a guard with more bounds than the layout has modes.

    >>> from dataclasses import replace
    >>> from layoutalg.analysis.footprint import find_footprint
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> tile, rule = Layout((64, 64), (1, 64)), INSTRUCTIONS["ld.shared.b32"]
    >>> access = replace(Access.default(rule.name, tile, "f32"), active=Guard((50, None)))
    >>> table = guarded_table(tile, access, find_footprint(tile, access, rule, ARCHS["sm_90"]))
    >>> [sum(c.active) for c in table.classes]
    [32, 18]
    """
    guard = access.active
    low, high = span(access.tv)
    if not isinstance(guard, Guard) or (counts is None and (low < 0 or high >= size(layout))):
        return None
    bounds = guard.bounds(layout.shape)
    form = find_normal_form(layout)
    if form is None or mode_sizes(form.layout.shape) != mode_sizes(layout.shape):
        return None
    fields = Fields(max(64, 2 + _largest(form.layout, access.tv, found).bit_length()))
    parts = _coded(form.layout, access.tv, found, {k for k, _ in bounds}, fields)
    digits = None if parts is None else _digits_of(found, parts, fields, every)
    if digits is None:
        return None
    limits = [(_FIRST_MODE + k, bound) for k, bound in bounds]
    if guard.threads is not None:
        limits.append((_THREAD, guard.threads))
    try:
        return digits.table(_active_warps(digits, fields, guard.lanes, limits, counts))
    except UndecidedError:
        return None


def _active_warps(
    digits: _Digits,
    fields: Fields,
    lanes: Iterable[int] | None,
    limits: Sequence[tuple[int, int]],
    counts: Sequence[int] | None,
) -> Iterator[tuple[tuple[int, ...], tuple[bool, ...], ResidueFamily]]:
    """(offsets of the lanes, which of them are active, warps of both) for all warps that there are."""
    rests = [digits.rest]
    for position, count in enumerate(counts or ()):
        if position:
            rests = [
                part
                for rest in rests
                for part in between(rest, [digit.moves[position] for digit in rest], 0, count)
            ]
    exists = [] if counts is None else [(_THREAD, counts[0])]
    number = 0
    for codes, family in (warps for rest in rests for warps in digits.families(rest)):
        offsets = tuple(fields.of(code, 0) for code in codes)
        for there, existing in _cut(fields, codes, family, (True,) * len(codes), exists):
            inside = tuple(on and (lanes is None or lane in lanes) for lane, on in enumerate(there))
            for active, part in _cut(fields, codes, existing, inside, limits) if there[0] else ():
                if any(digits.residues.starts(part)):
                    number += 1
                    yield offsets, active, part
        if number > MAX_FAMILIES:
            raise UndecidedError(f"more than {MAX_FAMILIES} families of warps", budget=MAX_FAMILIES)


def _cut(
    fields: Fields,
    relative: tuple[int, ...],
    family: ResidueFamily,
    inside: tuple[bool, ...],
    limits: Sequence[tuple[int, int]],
) -> Iterator[tuple[tuple[bool, ...], ResidueFamily]]:
    """(which lanes are active, the warps of the family for which it is those)."""
    if not limits:
        yield inside, family
        return
    spend(2 * len(relative) + 2 * len(family.digits))
    (field, limit), rest = limits[0], limits[1:]
    weights = [fields.of(digit.stride, field) for digit in family.digits]
    start = fields.of(family.offset, field)
    lanes = [fields.of(code, field) for code in relative]
    steps = sorted(set(lanes))
    if any(weight < 0 for weight in weights):
        raise UndecidedError("coordinates that fall are not counted by intervals")
    # A lane is active while start + its step < limit; the steps cut the starts into intervals.
    ends = [limit - step for step in reversed(steps)]
    for low, high in zip((None, *ends), (*ends, None), strict=True):
        active = tuple(
            on and (high is not None and step <= limit - high) for on, step in zip(inside, lanes, strict=True)
        )
        reach = sum(
            (digit.first + digit.extent - 1) * w for digit, w in zip(family.digits, weights, strict=True)
        )
        bottom = 0 if low is None else low - start
        top = reach + 1 if high is None else high - start
        for digits in between(family.digits, weights, min(bottom, top), top):
            yield from _cut(fields, relative, family._replace(digits=digits), active, rest)


def _coded(
    inner: Layout, tv: Layout, found: AccessStrides, bounded: Collection[int], fields: Fields
) -> tuple[LeafPairs, LeafPairs, LeafPairs] | None:
    """The digits of the access with what they add to bounded coordinates; None where that is not a layout."""
    if not bounded:
        return found.threads, found.registers, found.iterations
    strides: list[int] = []
    for k, mode in enumerate(modes(inner)):
        weight = 1
        for extent, stride in leaves(mode):
            strides.append(stride + (fields.code(weight, _FIRST_MODE + k) if k in bounded else 0))
            weight *= extent
    try:
        composed = compose_layouts(layout_of(flatten_tree(inner.shape), tuple(strides)), tv)
    except (DivisibilityError, UndecidedError):
        return None
    parts = [tuple(zip(*merge(*leaf_lists(mode)), strict=True)) for mode in modes(composed)]
    registers, elems = parts[1], found.extent.elems
    if elems > 1:
        extent, code = registers[0]
        if fields.of(code, 0) != 1 or extent % elems:
            return None
        registers = (((extent // elems, elems * code),) if extent > elems else ()) + registers[1:]
    return parts[0], registers, parts[2] if len(parts) > 2 else ()


def _largest(inner: Layout, tv: Layout, footprint: AccessStrides) -> int:
    """A bound on every offset, coordinate and thread number that digits of the access add up to."""
    low, high = span(tv)
    index = max(abs(low), abs(high), size(inner), size(tv))
    return abs(footprint.offset) + index * (1 + sum(abs(stride) for _, stride in leaves(inner)))
