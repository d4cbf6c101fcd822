"""Digit classes of an access with a Guard: predicated edges are extra classes.

The idea.  Without a guard a class of warps is known by its lanes' offsets relative to the first.  With one,
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
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from layoutalg.analysis.access import Access, Guard, mode_sizes
from layoutalg.analysis.classes.classes import (
    MAX_RESIDUES,
    ClassTable,
    WarpClass,
    cost_period,
    warp_families,
)
from layoutalg.analysis.classes.footprint import AccessStrides, LeafPairs
from layoutalg.analysis.classes.intervals import between
from layoutalg.analysis.classes.residues import ResidueDigit, ResidueFamily, Residues
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

_THREAD, _FIRST_MODE = 1, 2
"""Fields of a coded stride: offset, thread number, then one coordinate for each mode of the layout."""

MAX_FAMILIES = 1 << 10
"""The most families of warps that are kept apart; an access with more is enumerated."""


class _Coded(NamedTuple):
    """The digits of an access with coded strides; offsets in units of `unit` elements."""

    threads: LeafPairs
    rest: tuple[ResidueDigit, ...]
    unit: int
    fields: Fields


def guarded_table(
    layout: AnyLayout, access: Access, found: AccessStrides, counts: Sequence[int] | None = None
) -> ClassTable | None:
    """The classes of an access whose `active` is a Guard; None when closed forms do not reach it.

    `found` is the footprint of the access without its guard.  `counts` says how many of its threads,
    registers and iterations there are, if that is less: what is past them is not an instruction at all.
    Raises ShapeError for a guard with more bounds than the layout has modes.

    >>> from dataclasses import replace
    >>> from layoutalg.analysis.classes.footprint import find_footprint
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
    coded = _coded(layout, access, found, {k for k, _ in bounds})
    if coded is None:
        return None
    limits = [(_FIRST_MODE + k, bound) for k, bound in bounds]
    if guard.threads is not None:
        limits.append((_THREAD, guard.threads))
    period, lanes = cost_period(found) // coded.unit, found.machine.lanes
    if period > MAX_RESIDUES:
        return None
    residues = Residues(period, lanes)
    gathered: dict[tuple[tuple[int, ...], tuple[bool, ...]], list[ResidueFamily]] = {}
    try:
        for relative, family, exists in _existing(coded, found, residues, counts):
            offsets = tuple(coded.fields.of(code, 0) for code in relative)
            inside = tuple(
                on and (guard.lanes is None or lane in guard.lanes) for lane, on in enumerate(exists)
            )
            for active, part in _cut(coded.fields, relative, family, inside, limits):
                if any(residues.starts(part)):
                    gathered.setdefault((offsets, active), []).append(part)
            if sum(map(len, gathered.values())) > MAX_FAMILIES:
                return None
    except UndecidedError:
        return None
    classes = tuple(WarpClass(relative, tuple(f), marks) for (relative, marks), f in gathered.items())
    return ClassTable(found, coded.unit, residues, classes)


def _existing(
    coded: _Coded, steps: AccessStrides, residues: Residues, counts: Sequence[int] | None
) -> Iterator[tuple[tuple[int, ...], ResidueFamily, tuple[bool, ...]]]:
    """(relative offsets of the lanes, the warps that have them, which of the lanes there are)."""
    rests = [coded.rest]
    for position, count in enumerate(counts or ()):
        if position:
            rests = [
                part
                for rest in rests
                for part in between(rest, [digit.moves[position] for digit in rest], 0, count)
            ]
    limits = [] if counts is None else [(_THREAD, counts[0])]
    for rest in rests:
        start = steps.offset // coded.unit
        warps = warp_families(coded.threads, steps.extent.threads, steps.rule.lanes, start, rest, residues)
        for relative, family in warps:
            for exists, part in _cut(coded.fields, relative, family, (True,) * len(relative), limits):
                if exists[0]:
                    yield relative, part, exists


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
    layout: AnyLayout, access: Access, footprint: AccessStrides, bounded: Collection[int]
) -> _Coded | None:
    """The footprint's digits with what they add to bounded coordinates; None where that is not a layout."""
    form = find_normal_form(layout)
    if form is None or mode_sizes(form.layout.shape) != mode_sizes(layout.shape):
        return None
    inner = form.layout
    fields = Fields(max(64, 2 + _largest(inner, access.tv, footprint).bit_length()))
    strides: list[int] = []
    for k, mode in enumerate(modes(inner)):
        weight = 1
        for extent, stride in leaves(mode):
            strides.append(stride + (fields.code(weight, _FIRST_MODE + k) if k in bounded else 0))
            weight *= extent
    try:
        composed = compose_layouts(layout_of(flatten_tree(inner.shape), tuple(strides)), access.tv)
    except (DivisibilityError, UndecidedError):
        return None
    parts = [tuple(zip(*merge(*leaf_lists(mode)), strict=True)) for mode in modes(composed)]
    registers, elems = parts[1], footprint.extent.elems
    if elems > 1:
        extent, code = registers[0]
        if fields.of(code, 0) != 1 or extent % elems:
            return None
        registers = (((extent // elems, elems * code),) if extent > elems else ()) + registers[1:]
    digits = (parts[0], registers, parts[2] if len(parts) > 2 else ())
    offsets = [fields.of(code, 0) for part in digits for _, code in part]
    unit = math.gcd(cost_period(footprint), footprint.offset, *offsets)
    threads: list[tuple[int, int]] = []
    rest: list[ResidueDigit] = []
    for position, part in enumerate(digits):
        radix = 1
        for extent, code in part:
            offset = fields.of(code, 0)
            stride = code - offset + offset // unit
            if position == 0:
                threads.append((extent, stride + fields.code(radix, _THREAD)))
            else:
                rest.append(
                    ResidueDigit(0, extent, stride, (0, radix, 0) if position == 1 else (0, 0, radix))
                )
            radix *= extent
    return _Coded(tuple(threads), tuple(rest), unit, fields)


def _largest(inner: Layout, tv: Layout, footprint: AccessStrides) -> int:
    """A bound on every offset, coordinate and thread number that digits of the access add up to."""
    low, high = span(tv)
    index = max(abs(low), abs(high), size(inner), size(tv))
    return abs(footprint.offset) + index * (1 + sum(abs(stride) for _, stride in leaves(inner)))
