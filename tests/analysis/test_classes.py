"""Digit classes: as many as the carries make, all warps in one of them, costs as the definition counts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given

from layoutalg.analysis import Access
from layoutalg.analysis.classes.classes import (
    MAX_RESIDUES,
    ClassTable,
    class_table,
    count_classes,
    worst_alignment,
)
from layoutalg.analysis.classes.footprint import find_footprint
from layoutalg.analysis.enumerated import count_all
from layoutalg.arch import ARCHS, Arch
from layoutalg.dtype import dtype
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import accesses

SM90 = ARCHS["sm_90"]


def table_of(layout: AnyLayout, access: Access, machine: Arch = SM90) -> ClassTable | None:
    found = find_footprint(layout, access, machine.instructions[access.op], machine)
    return None if found is None else class_table(found)


@pytest.mark.parametrize(
    ("extents", "full", "partial"),
    [((1003, 8), 8, 1), ((127, 255, 4), 35, 1), ((64, 64), 1, 0), ((33, 32), 32, 0), ((3, 64), 3, 0)],
)
def test_how_many_classes(extents: tuple[int, ...], full: int, partial: int) -> None:
    strides, current = [], 1
    for extent in extents:
        strides.append(current)
        current = 2048 * extent + current
    tile = Layout(extents, tuple(strides))
    table = table_of(tile, Access.default("ld.shared.b32", tile, dtype("f32")))
    assert table is not None
    lengths = Counter(len(c.relative) == 32 for c in table.classes)
    assert (lengths[True], lengths[False]) == (full, partial)


@given(accesses())
def test_every_instruction_is_in_one_class(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    table = table_of(layout, access)
    assume(table is not None)  # steps that no mode is a multiple of have no classes
    assert table is not None
    counted = sum(sum(table.residues.starts(f)) for c in table.classes for f in c.families)
    assert counted == table.found.extent.instructions


@given(accesses())
def test_classes_cost_what_the_definition_counts(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    if access.active is not None:
        return
    table = table_of(layout, access)
    assume(table is not None)  # steps that no mode is a multiple of have no classes
    assert table is not None
    defined = {k.cost: k.instructions for k in count_all(layout, access, table.found.rule, SM90)}
    for by_stride in (False, True) if table.is_progression else (False,):
        counted: Counter[tuple[int, ...]] = Counter()
        for kind in count_classes(table, by_stride=by_stride):
            counted[kind.cost] += kind.instructions
        assert counted == defined


@given(accesses(space="global", max_size=512))
def test_the_worst_alignment_is_the_worst_of_all_bases(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    table = table_of(layout, access)
    if access.active is not None or table is None:
        return
    rule = table.found.rule
    totals = [
        sum(k.instructions * k.cost[0] for k in count_all(layout, access, rule, SM90, shift))
        for shift in range(0, 32, rule.width_bytes)
    ]
    assert worst_alignment(table) == max(totals)


def test_a_period_too_long_has_no_classes() -> None:
    """Bits of a swizzle that no offset has are not part of its period."""
    far = MAX_RESIDUES.bit_length()
    access = Access("ld.shared.b32", Layout((32, 1, 33), (1, 0, 32)), dtype("f32"))
    for stride, counted in ((1, True), (1 << far, False)):
        tile = ComposedLayout(Swizzle(1, far, 1), 0, Layout((32, 33), (33, stride)))
        assert (table_of(tile, access) is not None) == counted
