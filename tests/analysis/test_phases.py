"""Phases of lanes that are not consecutive, on machines that are data: every form is the definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutalg as la
from layoutalg.analysis import Access, analyze, analyzer, banks, lanes
from layoutalg.arch import ARCHS, Arch, Instruction
from layoutalg.errors import ShapeError
from layoutalg.f2 import apply, rank
from layoutalg.layout import Layout


def wide(name: str, count: int, *rules: Instruction) -> Arch:
    """A machine of 64 lanes."""
    table = MappingProxyType({rule.name: rule for rule in rules})
    return replace(ARCHS["sm_90"], name=name, lanes=64, banks=count, instructions=table, targets=())


def ds_read(group: int, *basis: int) -> Instruction:
    return Instruction("ds_read_b128", "shared", 16, 64, group, phase_basis=basis)


MI300 = wide("mi300", 32, ds_read(8, 1, 2, 4 ^ 16, 4, 8, 32))
MI350 = wide("mi350", 64, ds_read(16, 1, 2, 4 ^ 8, 4 ^ 16, 4, 32))
"""The documented phases of ds_read_b128: span(l0, l1, l2 ^ l4), and span(l0, l1, l2 ^ l3, l2 ^ l4)."""


def test_the_documented_phases() -> None:
    every = tuple((lane, 16 * lane) for lane in range(64))
    first, second, *_ = banks.phase_groups(MI300.instructions["ds_read_b128"], every)
    assert [lane for lane, _ in first] == [0, 1, 2, 3, 20, 21, 22, 23]
    assert [lane for lane, _ in second] == [4, 5, 6, 7, 16, 17, 18, 19]
    first, *others = banks.phase_groups(MI350.instructions["ds_read_b128"], every)
    assert [lane for lane, _ in first] == [0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27]
    assert len(others) == 3


def bases(bits: int) -> st.SearchStrategy[tuple[int, ...]]:
    vectors = st.lists(st.integers(1, (1 << bits) - 1), min_size=bits, max_size=bits)
    return vectors.filter(lambda drawn: rank(drawn) == bits).map(tuple)


@st.composite
def instructions(draw: st.DrawFn) -> tuple[Instruction, Arch]:
    """A load of a machine with any basis of phases, merging or not, with or without broadcasts."""
    bits, width = draw(st.integers(2, 6)), draw(st.sampled_from([4, 8, 16]))
    merge = draw(st.sampled_from([(), (1, 2), (2,)]))
    rule = Instruction(
        "read", "shared", width, 1 << bits, 1 << draw(st.integers(0, bits)), draw(st.booleans()), merge,
        phase_basis=draw(bases(bits)),
    )  # fmt: skip
    return rule, replace(wide("drawn", draw(st.sampled_from([16, 32, 64])), rule), lanes=1 << bits)


def offsets(rule: Instruction, columns: list[int], active: int) -> list[int | None]:
    return [apply(columns, lane) if lane < active else None for lane in range(rule.lanes)]


@given(instructions(), st.data())
def test_every_form_is_the_definition(drawn: tuple[Instruction, Arch], data: st.DataObject) -> None:
    rule, machine = drawn
    bits = data.draw(st.integers(0, rule.lanes.bit_length() - 1))
    drawn_columns = data.draw(st.lists(st.integers(0, 63), min_size=bits, max_size=bits))
    columns = [rule.width_bytes * column for column in drawn_columns]
    expected = banks.served_lanes(
        rule, machine, lanes.active_lanes(rule, machine, offsets(rule, columns, 1 << bits))
    )
    assert banks.linear_wavefronts(rule, machine, columns) == expected
    stride, active = rule.width_bytes * data.draw(st.integers(0, 40)), data.draw(st.integers(0, rule.lanes))
    told = [stride * lane if lane < active else None for lane in range(rule.lanes)]
    walked = banks.served_lanes(rule, machine, lanes.active_lanes(rule, machine, told))
    assert banks.stride_wavefronts(rule, machine, stride, active) == walked
    rows = [offsets(rule, columns, 1 << bits), told]
    addresses = np.array([[x or 0 for x in row] for row in rows])
    mask = np.array([[x is not None for x in row] for row in rows])
    assert banks.served_batch(rule, machine, addresses, mask)[0].tolist() == [
        expected.wavefronts, walked.wavefronts
    ]  # fmt: skip


def cases() -> Iterator[tuple[Arch, Layout, str]]:
    for machine in (MI300, MI350):
        for pitch in (64, 72, 128):
            for mapping in ("row", "col"):
                yield machine, Layout((128, 64), (pitch, 1)), f"ds_read_b128@{mapping}"


@pytest.mark.parametrize(("machine", "tile", "access"), list(cases()), ids=str)
def test_text_is_resolved_on_the_machine_and_counted(machine: Arch, tile: Layout, access: str) -> None:
    report = analyze(tile, access, "f16", machine)
    counted = analyzer.analyze_access(tile, Access.of(access, tile, "f16", machine), machine, "enumerated")
    assert (report.total, report.ideal_total) == (counted.total, counted.ideal_total)  # type: ignore[union-attr]


@pytest.mark.parametrize("machine", [MI300, MI350], ids=str)
def test_a_swizzle_is_found_and_its_certificate_holds(machine: Arch) -> None:
    accesses = ["ds_read_b128@row", "ds_read_b128@col"]
    found = la.synthesize((64, 64), accesses, element="f16", arch=machine)
    assert found.layout is not None
    la.check_certificate(found)
    for access in accesses:
        chosen = Access.of(access, found.layout, "f16", machine)
        report = analyzer.analyze_access(found.layout, chosen, machine, "enumerated")
        assert report.total == report.ideal_total  # type: ignore[union-attr]


def test_a_basis_that_is_none_is_refused() -> None:
    with pytest.raises(ShapeError, match="phase_basis"):
        ds_read(8, 1, 2, 3, 4, 8, 32)
