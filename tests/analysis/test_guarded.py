"""Guarded classes: all warps in exactly one, and None where strides or budgets do not allow them."""

from __future__ import annotations

import random

from hypothesis import given

from layoutalg.analysis import Access, Guard, Place, instruction_offsets
from layoutalg.analysis.classes.footprint import find_footprint
from layoutalg.analysis.classes.guarded import guarded_table
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.layout import AnyLayout, Layout
from layoutalg.testing import accesses
from tests.draws.guards import active_lanes, draw_case

SM90 = ARCHS["sm_90"]


@given(accesses(kind="partial"))
def test_every_instruction_is_in_one_class(pair: tuple[AnyLayout, Access]) -> None:
    layout, access = pair
    if not isinstance(access.active, Guard):
        return
    found = find_footprint(layout, access, SM90.instructions[access.op], SM90)
    assert found is not None
    table = guarded_table(layout, access, found)
    assert table is not None
    counted = sum(sum(table.residues.starts(f)) for c in table.classes for f in c.families)
    assert counted == found.extent.instructions
    for one in table.classes:
        for family in one.families:
            residue = next(n for n, count in enumerate(table.residues.starts(family)) if count)
            thread, register, iteration = table.residues.member(family, residue)
            offsets = instruction_offsets(layout, access, Place(thread // SM90.lanes, register, iteration))
            active = [o is not None for o in offsets][: len(one.relative)]
            assert tuple(active) == one.active


def test_tiles_that_the_access_leaves_are_not_for_classes() -> None:
    tile, rule = Layout((8, 4), (4, 1)), SM90.instructions["ld.shared.b32"]
    access = Access(rule.name, Layout((64, 1), (1, 0)), dtype("f32"), active=Guard(threads=32))
    found = find_footprint(tile, access, rule, SM90)
    assert found is not None and guarded_table(tile, access, found) is None


def test_coordinates_that_fall_are_not_for_classes() -> None:
    tile, rule = Layout((8, 64), (64, 1)), SM90.instructions["ld.shared.b32"]
    access = Access(rule.name, Layout((32, 1, 8), (8, 0, 1)), dtype("f32"), active=Guard((3, 9)))
    found = find_footprint(tile, access, rule, SM90)
    assert found is not None and guarded_table(tile, access, found) is not None


def test_active_lanes_are_counted_whatever_the_number_of_threads() -> None:
    """Up to 2^66 threads, with bounds about the powers of two at which words end."""
    rng, decided = random.Random("threads past words"), 0
    for _ in range(60):
        layout, guard, wanted = draw_case(rng)
        found = active_lanes(layout, guard)
        assert found in {wanted, None}, f"{layout} under {guard}: {found} instead of {wanted}"
        decided += found is not None
    assert decided > 50
