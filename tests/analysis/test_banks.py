"""Wavefronts: the laws of the definition, and the batch form against it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import (
    active_lanes,
    batch_lanes,
    ideal_wavefronts,
    phase_groups,
    served_batch,
    swizzled_batch,
    warp_rule,
    wavefronts,
    wavefronts_batch,
    worst_clash,
)
from layoutalg.arch import ARCHS
from layoutalg.layout import Swizzle
from tests.sweeps import each

SHARED = sorted(name for name, rule in ARCHS["sm_90"].instructions.items() if rule.space == "shared")


@st.composite
def warps(draw: st.DrawFn) -> tuple[str, list[int | None]]:
    """An instruction and 32 aligned offsets: few distinct chunks, so that merges and broadcasts happen."""
    name = draw(st.sampled_from(SHARED))
    width = ARCHS["sm_90"].instructions[name].width_bytes
    spread = draw(st.sampled_from((1, 2, 8, 64, 512)))
    chunk = st.integers(0, spread - 1)
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


def batch(name: str, offsets: list[int | None]) -> tuple[int, int]:
    rule, machine = warp_rule(name, "shared", "sm_90")
    given_ = np.array([[o or 0 for o in offsets]])
    mask = np.array([[o is not None for o in offsets]])
    taken, ideal = served_batch(rule, machine, *batch_lanes(rule, machine, given_, mask))
    return int(taken[0]), int(ideal[0])


@given(warps())
def test_the_batch_form_is_the_definition(warp: tuple[str, list[int | None]]) -> None:
    assert batch(*warp) == (wavefronts(*warp), ideal_wavefronts(*warp))


@given(st.lists(warps(), min_size=1, max_size=3), st.lists(st.integers(3, 11), min_size=1, max_size=4))
def test_swizzles_are_served_as_the_offsets_under_each_of_them(
    some: list[tuple[str, list[int | None]]], shifts: list[int]
) -> None:
    rule, machine = warp_rule(some[0][0], "shared", "sm_90")
    lanes = [[16 * (o or 0) for o in offsets] for _, offsets in some]
    mask = np.array([[o is not None for o in offsets] for _, offsets in some])
    swizzles = [Swizzle(3, 4, shift) for shift in shifts]
    taken, ideal = swizzled_batch(rule, machine, *batch_lanes(rule, machine, np.array(lanes), mask), swizzles)
    for swizzle, found in zip(swizzles, taken, strict=True):
        alone = served_batch(rule, machine, *batch_lanes(rule, machine, swizzle(np.array(lanes)), mask))
        assert (found.tolist(), ideal.tolist()) == tuple(n.tolist() for n in alone)


@given(warps())
def test_nothing_beats_the_ideal(warp: tuple[str, list[int | None]]) -> None:
    assert ideal_wavefronts(*warp) <= wavefronts(*warp)


@given(warps(), st.integers(0, 63))
def test_a_base_in_whole_words_changes_nothing(warp: tuple[str, list[int | None]], words: int) -> None:
    name, offsets = warp
    base = words * max(4, ARCHS["sm_90"].instructions[name].width_bytes)
    assert wavefronts(name, offsets) == wavefronts(name, [None if o is None else o + base for o in offsets])


@given(warps())
def test_the_worst_clash_bounds_the_count(warp: tuple[str, list[int | None]]) -> None:
    name, offsets = warp
    rule, machine = warp_rule(name, "shared", "sm_90")
    groups = phase_groups(rule, active_lanes(rule, machine, offsets))
    ways = worst_clash(name, offsets).ways
    bias = rule.counter_bias if groups else 0
    assert ways + bias <= wavefronts(name, offsets) <= ways * len(groups) + bias or not groups


def test_a_warp_without_active_lanes_costs_nothing() -> None:
    nobody: list[int | None] = [None] * 32
    for name in SHARED:
        assert wavefronts(name, nobody) == ideal_wavefronts(name, nobody) == 0
        assert batch(name, nobody) == (0, 0)
        assert worst_clash(name, nobody).ways == 0


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


def test_a_batch_may_be_empty() -> None:
    assert wavefronts_batch("ld.shared.b32", np.zeros((0, 32), dtype=int)).tolist() == []
