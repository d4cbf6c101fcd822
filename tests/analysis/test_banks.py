"""Counts of one warp: their laws, every closed or batched form beside the definition, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import analysis, errors
from layoutalg.analysis import ideal_wavefronts, sectors, traffic, wavefronts
from layoutalg.analysis.banks import Served, linear_traffic, stride_traffic, stride_wavefronts
from layoutalg.analysis.enumerated import costs_by_definition
from layoutalg.arch import ARCHS, Arch
from layoutalg.layout import Swizzle
from layoutalg.limits import Most
from tests.draws.synthesis_cases import TOY
from tests.sweeps import each

SM90 = ARCHS["sm_90"]
RULES = {name: rule for name, rule in SM90.instructions.items() if rule.space in ("shared", "global")}
ALL = tuple(sorted(RULES))
SHARED = tuple(name for name in ALL if RULES[name].space == "shared")
GLOBAL = tuple(name for name in ALL if RULES[name].space == "global")
CASES = st.tuples(st.just(SM90), st.sampled_from(ALL)) | st.tuples(
    st.just(TOY), st.sampled_from([name for name in SHARED if name in TOY.instructions])
)
Offsets = list[int | None]


@st.composite
def warps(draw: st.DrawFn, names: Sequence[str] = ALL) -> tuple[str, Offsets]:
    """An instruction and 32 aligned offsets: few distinct chunks, so that merges and broadcasts happen."""
    name = draw(st.sampled_from(names))
    width = RULES[name].width_bytes
    chunk = st.integers(0, draw(st.sampled_from((1, 2, 8, 64, 512, 1024))) - 1)
    kind = draw(st.sampled_from(("any", "pairs", "partial", "stride")))
    if kind == "stride":
        start, step = draw(chunk), draw(chunk)
        return name, [width * (start + step * lane) for lane in range(32)]
    chunks = draw(st.lists(chunk, min_size=32, max_size=32))
    if kind == "pairs":
        distance = draw(st.sampled_from((1, 2, 4)))
        chunks = [chunks[lane & ~distance] for lane in range(32)]
    mask = draw(st.integers(0, 2**32 - 1)) if kind == "partial" else 2**32 - 1
    return name, [width * c if mask >> lane & 1 else None for lane, c in enumerate(chunks)]


def defined(machine: Arch, name: str, offsets: Offsets) -> tuple[int, ...]:
    """The cost of one instruction by the definition."""
    if machine.instructions[name].space == "shared":
        ways = analysis.worst_clash(name, offsets, machine).ways
        return Served(wavefronts(name, offsets, machine), ideal_wavefronts(name, offsets, machine), ways)
    return traffic(name, offsets, machine)


def arrays(*rows: Offsets) -> tuple[Any, Any]:
    """The offsets, and which of them are some lane's."""
    active = np.array([[o is not None for o in row] for row in rows])
    return np.array([[o or 0 for o in row] for row in rows]), active


def checked_rows(op: str, offsets: Any, active: Any = None) -> Any:
    """Offsets and lanes of many instructions of shared memory, once they are checked."""
    return analysis.batch_lanes(*analysis.warp_rule(op, "shared", "sm_90"), offsets, active)


def batch(name: str, *rows: Offsets) -> list[tuple[int, ...]]:
    rule, machine = analysis.warp_rule(name, RULES[name].space, "sm_90")
    lanes = analysis.batch_lanes(rule, machine, *arrays(*rows))
    if rule.space == "shared":
        return list(zip(*(n.tolist() for n in analysis.served_batch(rule, machine, *lanes)), strict=True))
    return [tuple(row) for row in analysis.traffic_batch(rule, machine, *lanes)]


@given(warps())
def test_the_batch_form_is_the_definition(warp: tuple[str, Offsets]) -> None:
    name, offsets = warp
    assert batch(*warp) == [defined(SM90, *warp)]
    rows, rule = [offsets, offsets[::-1], [*offsets[1:], None]], RULES[name]
    assert analysis.instruction_costs(rule, SM90, rows) == costs_by_definition(rule, SM90, rows)


@given(CASES, st.lists(st.integers(0, 255), max_size=5), st.integers(0, 255))
@example((SM90, "ld.shared.b64"), [0, 1, 2, 4, 8], 0)
@example((SM90, "ld.shared.b128"), [1], 0)
def test_the_rank_form_is_the_definition(case: tuple[Arch, str], chunks: list[int], base: int) -> None:
    machine, name = case
    rule = machine.instructions[name]
    columns = [rule.width_bytes * chunk for chunk in chunks[: machine.lanes.bit_length() - 1]]
    offsets: Offsets = []
    for lane in range(machine.lanes):
        address = (rule.width_bytes if rule.space == "shared" else 128) * base
        for bit, column in enumerate(columns):
            address ^= column if lane >> bit & 1 else 0
        offsets.append(address if lane < 1 << len(columns) else None)
    form = analysis.linear_wavefronts if rule.space == "shared" else linear_traffic
    assert form(rule, machine, columns) == defined(machine, name, offsets)


@given(CASES, st.integers(-300, 300), st.integers(0, 32), st.integers(0, 200))
@example((SM90, "ld.shared.b8"), 33, 32, 0)
@example((SM90, "ld.shared.b16"), 65, 2, 1)
@example((SM90, "ld.shared.b64"), 0, 32, 0)
@example((TOY, "ld.shared.b128"), 1, 2, 0)
@example((SM90, "ld.global.b32"), 1, 32, 7)
def test_the_stride_form_is_the_definition(case: tuple[Arch, str], step: int, active: int, base: int) -> None:
    machine, name = case
    rule = machine.instructions[name]
    stride, start = rule.width_bytes * step, rule.width_bytes * base + 128 * 2048
    offsets = [start + stride * lane if lane < active else None for lane in range(machine.lanes)]
    form = stride_wavefronts if rule.space == "shared" else stride_traffic
    assert form(rule, machine, stride, active, start) == defined(machine, name, offsets)


@given(st.lists(warps(SHARED), min_size=1, max_size=3), st.lists(st.integers(3, 11), min_size=1, max_size=4))
def test_swizzles_are_served_as_the_offsets_under_each_of_them(
    some: list[tuple[str, Offsets]], shifts: list[int]
) -> None:
    rule, swizzles = RULES[some[0][0]], [Swizzle(3, 4, shift) for shift in shifts]
    start, mask = arrays(*(offsets for _, offsets in some))
    moved = [16 * start, *(swizzle(16 * start) for swizzle in swizzles)]
    lanes = [analysis.batch_lanes(rule, SM90, offsets, mask) for offsets in moved]
    taken, ideal, ways = analysis.swizzled_batch(rule, SM90, *lanes[0], swizzles)
    for counted, busiest, alone in zip(taken, ways, lanes[1:], strict=True):
        expected = analysis.served_batch(rule, SM90, *alone)
        assert [n.tolist() for n in (counted, ideal, busiest)] == [n.tolist() for n in expected]


@given(warps(SHARED), st.integers(0, 63))
def test_wavefronts_are_bounded_and_move_with_whole_words(warp: tuple[str, Offsets], words: int) -> None:
    """The ideal and the worst clash bound the count, which no base in whole words changes."""
    name, offsets = warp
    rule, count = RULES[name], wavefronts(*warp)
    base = words * max(4, rule.width_bytes)
    assert ideal_wavefronts(*warp) <= count
    assert count == wavefronts(name, [None if o is None else o + base for o in offsets])
    groups = analysis.phase_groups(rule, analysis.active_lanes(rule, SM90, offsets))
    ways, bias = analysis.worst_clash(name, offsets).ways, rule.counter_bias if groups else 0
    assert ways + bias <= count <= ways * len(groups) + bias or not groups


@given(warps(GLOBAL), st.integers(0, 8))
def test_traffic_is_bounded_and_moves_with_whole_lines(warp: tuple[str, Offsets], lines: int) -> None:
    name, offsets = warp
    moved, lanes = traffic(*warp), sum(o is not None for o in offsets)
    assert moved == traffic(name, [None if o is None else o + 128 * lines for o in offsets])
    assert moved.lines <= moved.sectors <= min(lanes, 4 * moved.lines)
    assert moved.useful_bytes <= 32 * moved.sectors and sectors(*warp) == moved.sectors


def test_warps_without_lanes_and_batches_without_warps_cost_nothing() -> None:
    nobody: Offsets = [None] * 32
    for name in SHARED:
        assert batch(name, nobody) == [defined(SM90, name, nobody)] == [(0, 0, 0)]
        assert analysis.worst_clash(name, nobody).ways == 0
    rule, machine = analysis.warp_rule("ld.shared.b32", "shared", "sm_90")
    nothing = checked_rows("ld.shared.b32", np.zeros((0, 32), dtype=int))
    assert analysis.served_batch(rule, machine, *nothing)[0].tolist() == []


@each("distance", [1, 2, 3, 4, 8, 16])
def test_loads_merge_at_distances_one_and_two_only(distance: int) -> None:
    """Pairs of lanes read one address; only ^1 and ^2 fold two groups into one."""
    place = {lane: i for i, lane in enumerate(sorted({min(n, n ^ distance) for n in range(32)}))}
    offsets = [8 * place[min(lane, lane ^ distance)] for lane in range(32)]
    assert ideal_wavefronts("ld.shared.b64", offsets) == (1 if distance in (1, 2) else 2)
    assert ideal_wavefronts("st.shared.b64", offsets) == 2


def test_red_counts_every_lane() -> None:
    assert wavefronts("red.shared.u32", [0] * 32) == 32
    assert wavefronts("st.shared.b32", [0] * 32) == 1


def test_lanes_that_supply_no_address_may_hold_anything() -> None:
    rule, machine = analysis.warp_rule("ldmatrix.x1", "shared", "sm_90")
    anything = [16 * n for n in range(8)] + [-1] * 24
    assert analysis.active_lanes(rule, machine, anything) == tuple((n, 16 * n) for n in range(8))
    lanes, mask = analysis.batch_lanes(rule, machine, np.array([anything]))
    assert lanes.shape == mask.shape == (1, 8)
    assert wavefronts("ld.shared.b32", list(4 * np.arange(32, dtype=np.uint16))) == 1


LANES = [4 * lane for lane in range(32)]

REFUSED: list[tuple[Callable[..., Any], str, Any, type[Exception], str]] = [
    (wavefronts, "ld.shared.b128", [132 * n for n in range(32)], errors.AlignmentError, "lane 1 has 132"),
    (checked_rows, "ld.shared.b128", 132 * np.arange(32)[None, :], errors.AlignmentError, "lane 1 has"),
    (sectors, "ld.global.b64", LANES, errors.AlignmentError, "ld.global.b64"),
    (wavefronts, "ld.shared.b33", LANES, errors.UnknownNameError, "instruction"),
    (sectors, "ld.shared.b33", LANES, errors.UnknownNameError, "instruction"),
    (wavefronts, "ld.global.b32", LANES, errors.UnsupportedError, "ask for its sectors"),
    (sectors, "ldmatrix.x4", LANES, errors.UnsupportedError, "global memory"),
    *((wavefronts, "ld.shared.b32", [0] * n, errors.ShapeError, f"{n} were given") for n in (0, 31, 33)),
    (checked_rows, "ld.shared.b32", np.zeros((2, 31), dtype=int), errors.ShapeError, "shape"),
    (checked_rows, "ld.shared.b32", np.array([[-4, *LANES[1:]]]), errors.ShapeError, "byte addresses"),
    (checked_rows, "ld.shared.b32", np.zeros((1, 32)), errors.ArgumentTypeError, "float64"),
    *(
        (wavefronts, "ld.shared.b32", [bad, *LANES[1:]], errors.ShapeError, "not a byte address")
        for bad in (-4, Most.MAGNITUDE.number + 1)
    ),
    *(
        (wavefronts, "ld.shared.b32", [bad, *LANES[1:]], errors.ArgumentTypeError, "offset of lane 0")
        for bad in (1.0, True, "0", (0,))
    ),
]


@each(("call", "op", "offsets", "error", "part"), REFUSED)
def test_what_no_warp_asks_for(
    call: Callable[..., Any], op: str, offsets: Any, error: type[Exception], part: str
) -> None:
    with pytest.raises(error, match=part) as caught:
        call(op, offsets)
    if isinstance(caught.value, errors.AlignmentError) and op == "ld.shared.b128" and call is wavefronts:
        assert (caught.value.offset, caught.value.required_bytes) == (132, 16)


def test_other_operands_are_refused_too() -> None:
    with pytest.raises(errors.UnknownNameError, match="architecture"):
        wavefronts("ld.shared.b32", LANES, "sm_1")
    with pytest.raises(errors.ShapeError, match="active needs shape"):
        checked_rows("ld.shared.b32", np.zeros((1, 32), dtype=int), np.ones((1, 32)))
