"""Reports: sums over kinds, and the words people use for them."""

from __future__ import annotations

import pytest

from layoutalg.analysis import CostClass, Place, Witness, global_report, shared_report, worst_rank

HERE = Place(0, 0, 0)


def test_a_shared_report_adds_up() -> None:
    kinds = [CostClass(12, (4, 4, 1), HERE), CostClass(4, (32, 4, 8), Place(3, 0, 1))]
    report = shared_report("ldmatrix.x4", kinds, "digit-classes", "measured", Witness(3, 0, 1, 8, 0, (0, 1)))
    assert (report.total, report.ideal_total, report.instructions) == (176, 64, 16)
    assert (report.worst, report.worst_ideal, report.excess, report.ways) == (32, 4, 112, 8)
    assert report.mean == 11.0 and not report.conflict_free


def test_an_access_nobody_takes_part_in() -> None:
    report = shared_report("ld.shared.b32", [CostClass(2, (0, 0, 0), HERE)], "enumerated", "measured", None)
    assert report.conflict_free and report.ways == 0 and report.mean == 0.0
    moved = global_report("ld.global.b32", [CostClass(2, (0, 0, 0), HERE)], "enumerated", "measured", 0, 32)
    assert moved.efficiency == 1.0 and moved.moved_bytes == 0


def test_a_global_report_adds_up() -> None:
    kinds = [CostClass(3, (4, 1, 128), HERE), CostClass(1, (5, 2, 130), HERE)]
    report = global_report("ld.global.b16", kinds, "gcd", "measured", 20, 32)
    assert (report.sectors, report.lines, report.instructions, report.worst_alignment) == (17, 5, 4, 20)
    assert report.ideal == 3 * 4 + 5 and report.useful_bytes == 514 and report.moved_bytes == 544
    assert report.efficiency == pytest.approx(514 / 544)


def test_among_equals_the_one_with_the_lower_ideal_then_with_the_busiest_bank_is_worst() -> None:
    merged, plain, even = (CostClass(1, cost, HERE) for cost in ((8, 1, 8), (8, 2, 5), (8, 2, 4)))
    assert sorted((plain, merged, even), key=worst_rank) == [even, plain, merged]
