"""Guards: what they admit, what they refuse, and that their closed form is the definition."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import Access, GlobalReport, Guard, SharedReport, analyze
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, coordinate_at
from tests.judges.reports import numbers
from tests.sweeps import each
from tests.work import counted


@given(
    st.tuples(st.none() | st.integers(0, 5), st.none() | st.integers(0, 7)),
    st.none() | st.integers(0, 40),
    st.none() | st.sets(st.integers(0, 3)),
)
def test_what_a_guard_admits(below: Any, threads: int | None, lanes: set[int] | None) -> None:
    guard, shape = Guard(below, threads, lanes), (4, (2, 3))
    wanted = []
    for thread in range(24):
        row, column = coordinate_at(thread, (4, 6))
        inside = (below[0] is None or row < below[0]) and (below[1] is None or column < below[1])
        inside = inside and (threads is None or thread < threads)
        wanted.append(inside and (lanes is None or thread % 4 in lanes))
    assert [bool(guard.admits(shape, 4, t, t)) for t in range(24)] == wanted
    number = np.arange(24)
    assert guard.admits(shape, 4, number, number).tolist() == wanted


CASES = [
    (Layout((128, 64), (64, 1)), "ld.global.b128", "f16"),
    (Layout((128, 64), (72, 1)), "ld.shared.b32@col", "f16"),
    (Layout((128, 64), (64, 1)), "ldmatrix.x4", "f16"),
    (ComposedLayout(Swizzle(3, 3, 3), 0, Layout((128, 64), (64, 1))), "ldmatrix.x4", "f16"),
    (Layout((48, 20), (20, 1)), "ld.global.b32@row", "f32"),
    (Layout((48, 20), (1, 50)), "st.shared.b8@row", "u8"),
]


@each(("layout", "spec", "element"), CASES, sample=3)
@each(
    "guard",
    [
        Guard((40, 13)), Guard((None, 8)), Guard((0,)), Guard((1000, 1000)), Guard(threads=77),
        Guard((47, None), threads=500), Guard(lanes=range(5, 19)), Guard((17, 19), 600, (0, 31)),
    ],
)  # fmt: skip
def test_edges_are_extra_classes(layout: Any, spec: str, element: str, guard: Guard) -> None:
    access = dataclasses.replace(Access.of(spec, layout, element), active=guard)
    report, defined = analyze(layout, access), analyze(layout, access, method="enumerated")
    assert report.method == "digit-classes"
    assert numbers(report) == numbers(defined)


def test_a_guard_on_a_large_tile_costs_no_more() -> None:
    side = 1 << 20
    tile = Layout((side, side), (side, 1))
    access = dataclasses.replace(Access.of("ld.global.b32", tile, "f32"), active=Guard((side - 3, side - 5)))
    report, steps = counted(lambda: analyze(tile, access))
    assert steps < 70_000
    assert isinstance(report, GlobalReport) and report.method == "digit-classes"
    assert report.useful_bytes == 4 * (side - 3) * (side - 5)
    assert report.sectors == (side - 3) * (side // 8)


def test_the_witness_respects_the_guard() -> None:
    tile = Layout((32, 32), (32, 1))
    access = dataclasses.replace(Access.of("ld.shared.b32@col", tile, "f32"), active=Guard((5,)))
    report = analyze(tile, access)
    assert isinstance(report, SharedReport) and report.witness is not None
    assert (report.worst, report.witness.lanes) == (5, (0, 1, 2, 3, 4))


def test_lanes_that_are_left_out_may_be_misaligned() -> None:
    access = Access("ld.shared.b128", Layout((32, 4), (1, 32)), dtype("f32"))
    tile = Layout((16, 2, 4), (4, 66, 1))
    guarded = dataclasses.replace(access, active=Guard(threads=16))
    report = analyze(tile, guarded)
    assert isinstance(report, SharedReport) and (report.method, report.total) == ("enumerated", 2)


def test_what_a_guard_does_not_allow() -> None:
    tile = Layout((32, 32), (32, 1))
    access = Access.of("ld.shared.b32", tile, "f32")
    three, one = (dataclasses.replace(access, active=Guard(below)) for below in ((5, 5, 5), (5,)))
    refused: list[tuple[type[Exception], str, Any]] = [
        (ShapeError, "3 bounds", lambda: analyze(tile, three)),
        (UnsupportedError, "'f2' does not apply", lambda: analyze(tile, one, method="f2")),
        (ShapeError, "bound -1", lambda: Guard((-1,))),
        (ShapeError, r"bound 1\.5", lambda: Guard(threads=1.5)),  # type: ignore[arg-type]
        (ShapeError, "lanes", lambda: Guard(lanes=(-1,))),
        (ArgumentTypeError, "below is 5", lambda: Guard(5)),  # type: ignore[arg-type]
    ]
    for error, part, call in refused:
        with pytest.raises(error, match=part):
            call()
