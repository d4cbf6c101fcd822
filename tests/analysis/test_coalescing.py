"""Sectors: the laws of the definition, and the batch form against it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import batch_lanes, sectors, traffic, traffic_batch, warp_rule
from layoutalg.arch import ARCHS

GLOBAL = sorted(name for name, rule in ARCHS["sm_90"].instructions.items() if rule.space == "global")


@st.composite
def warps(draw: st.DrawFn) -> tuple[str, list[int | None]]:
    """A global instruction and 32 aligned offsets, some lanes inactive."""
    name = draw(st.sampled_from(GLOBAL))
    width = ARCHS["sm_90"].instructions[name].width_bytes
    chunk = st.integers(0, draw(st.sampled_from((1, 8, 64, 1024))) - 1)
    chunks = draw(st.lists(chunk, min_size=32, max_size=32))
    mask = draw(st.one_of(st.just(2**32 - 1), st.integers(0, 2**32 - 1)))
    return name, [width * c if mask >> lane & 1 else None for lane, c in enumerate(chunks)]


@given(warps())
def test_the_batch_form_is_the_definition(warp: tuple[str, list[int | None]]) -> None:
    name, offsets = warp
    rule, machine = warp_rule(name, "global", "sm_90")
    given_ = np.array([[o or 0 for o in offsets]])
    mask = np.array([[o is not None for o in offsets]])
    counted = traffic_batch(rule, machine, *batch_lanes(rule, machine, given_, mask))
    assert tuple(counted[0]) == traffic(name, offsets)


@given(warps(), st.integers(0, 8))
def test_only_the_base_within_a_line_matters(warp: tuple[str, list[int | None]], lines: int) -> None:
    name, offsets = warp
    assert traffic(name, offsets) == traffic(name, [None if o is None else o + 128 * lines for o in offsets])


@given(warps())
def test_traffic_is_bounded_by_what_is_asked(warp: tuple[str, list[int | None]]) -> None:
    name, offsets = warp
    moved = traffic(name, offsets)
    lanes = sum(o is not None for o in offsets)
    assert moved.lines <= moved.sectors <= min(lanes, 4 * moved.lines)
    assert moved.useful_bytes <= 32 * moved.sectors
    assert sectors(name, offsets) == moved.sectors
