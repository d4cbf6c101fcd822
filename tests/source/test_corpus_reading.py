"""The sources of tests/data/sources, read: the accesses and costs that were enumerated, and what is read."""

from __future__ import annotations

import pytest

from layoutalg.arch import find_arch
from layoutalg.source import fixes_of
from layoutalg.source.costs import Launch, cost_of
from layoutalg.source.machine import ASKED
from tests.source.test_census import EXPECTED, PUBLISHED, reading_of
from tests.sweeps import first

Row = tuple[int, str, str]
SAMPLES = ("async_pipeline.cu", "bitonic_sort.cu", "histogram.cu", "reduction_5.cu", "stencil_2d.cu")


def added(found: dict[Row, list[int | None]], row: Row, counts: tuple[int | None, ...]) -> None:
    """Add the counts of an access to those of its line, op and array: a function is read at each call."""
    before = found.setdefault(row, [0, 0, 0, counts[3]])
    for i in range(3):
        before[i] = (before[i] or 0) + (counts[i] or 0)
    if counts[3] is not None:
        before[3] = max(before[3] or 1, counts[3])


CASES = (*PUBLISHED, *SAMPLES)


@pytest.mark.deep(only=("hgemm_k4.cu", "hgemm_k5.cu", "hgemm_k6.cu"))
@pytest.mark.parametrize("name", [*CASES, *first(0, (n for n in EXPECTED if n not in CASES))])
def test_a_source_costs_what_is_enumerated(name: str) -> None:
    wanted: dict[Row, list[int | None]] = {}
    found: dict[Row, list[int | None]] = {}
    unread = set()
    for a in EXPECTED[name]["accesses"]:
        row = (a["line"], a["op"], a["array"])
        if a["read"]:
            added(wanted, row, (a["instructions"], a["total"], a["ideal_total"], a["ways"]))
        else:
            unread.add(row)
    reading = reading_of(name)
    for one in reading.memory:
        if one.read and not any(name.startswith(ASKED) for name in one.sizes):
            counts = (one.instructions, one.total, one.ideal_total, one.ways)
            added(found, (one.line, one.op, one.array), counts)
    assert found == wanted
    assert {(a.line, a.op, a.array) for a in reading.memory if not a.read} <= unread


@pytest.mark.deep
def test_all_accesses_of_the_rewritten_ladders_are_read() -> None:
    assert len(PUBLISHED) == 14
    found = [access for name in PUBLISHED for access in reading_of(name).memory]
    assert all(access.read for access in found)
    assert len(found) == 155


@pytest.mark.parametrize("name", ["sgemm_v2.cu", "transpose_coalesced.cu", "hgemm_k2.cu"])
def test_a_fix_leaves_no_conflict(name: str) -> None:
    reading = reading_of(name)
    fixes, notes = fixes_of(reading)
    assert all("bytes of static shared memory" in note for note in notes)  # 48 KiB without a padding
    assert {fix.array for fix in fixes} == set(reading.conflicting)
    for fix in fixes:
        assert fix.before > fix.after == fix.ideal
        assert fix.array in fix.code


@pytest.mark.parametrize("name", ["sgemm_v8.cu", "hgemm_k6.cu", "reduction_5.cu", "stencil_2d.cu"])
def test_classes_cost_what_turns_cost_one_by_one(name: str) -> None:
    reading = reading_of(name)
    machine, launch = find_arch("sm_90"), Launch(reading.block, None)
    for touch in reading.touches:
        assert cost_of(touch, launch, machine) == cost_of(touch, launch, machine, enumerated=True), touch
