"""Patterns: footprints as the definition sees them."""

from __future__ import annotations

import dataclasses

import pytest

from layoutalg.analysis import Access, Place, active_lanes, instruction_offsets, phase_groups, warp_rule
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, NotLinearError
from layoutalg.f2 import apply
from layoutalg.layout import Layout
from layoutalg.synthesis.patterns import make_patterns, make_tile
from tests.sweeps import each

SM90, F32 = ARCHS["sm_90"], dtype("f32")

CASES = [
    ("f16", "ldmatrix.x4"), ("f16", "ldmatrix.x1"), ("f16", "st.shared.b128@row"),
    ("f16", "st.shared.b16@col"), ("u8", "ld.shared.b8@col"), ("u8", "ld.shared.b32@col"),
    ("f32", "ld.shared.b64@col"), ("f32", "ld.shared.b64@((2,16),2):((0,1),32)"),
    ("f32", "st.shared.b64@((2,16),2):((0,1),32)"), ("f64", "ld.shared.b64@col"),
    ("f64", "ld.shared.b128@row"), ("f32", "red.shared.u32@col"), ("f32", "ld.shared.b32@(8,1):(32,0)"),
]  # fmt: skip


@each(("element", "spec"), CASES)
def test_a_footprint_is_the_set_of_words_of_a_phase(element: str, spec: str) -> None:
    """On plain storage order, the words of the first phase are the span of the footprint."""
    tile = make_tile((32, 64), dtype(element).bits, "row", SM90)
    access = Access.of(spec, tile.base, dtype(element))
    pattern = make_patterns(tile, [access], dtype(element), SM90)[0]
    rule, machine = warp_rule(access.op, "shared", SM90)
    offsets = instruction_offsets(tile.base, access, Place(0, 0, 0))
    group = phase_groups(rule, active_lanes(rule, machine, offsets))[0]
    words = {
        word
        for _, address in group
        for word in range(address // 4, address // 4 + max(1, rule.width_bytes // 4))
    }
    span = {apply(pattern.footprint, n) for n in range(1 << len(pattern.footprint))}
    assert span == words
    assert 1 << pattern.vector_bits == max(1, rule.width_bytes // 4)
    distinct = len({address // 4 for _, address in group})
    assert pattern.repeats == (not rule.broadcast and distinct < len(group))


def test_what_is_not_linear_is_refused() -> None:
    """And vectors that do not start at multiples of themselves."""
    with pytest.raises(NotLinearError, match="48 elements"):
        make_tile((6, 8), 32, "row", SM90)
    tile = make_tile((8, 8), 32, "col", SM90)
    for bits, tv in ((32, Layout((3, 1))), (64, Layout((4, 2, 2), (8, 1, 1)))):
        with pytest.raises((AlignmentError, NotLinearError)):
            make_patterns(tile, [Access(f"ld.shared.b{bits}", tv, F32)], F32, SM90)


def test_a_base_in_whole_words_changes_nothing() -> None:
    tile = make_tile((32, 64), 32, "row", SM90)
    access = Access.of("ld.shared.b32@col", tile.base, F32)
    patterns = [make_patterns(tile, [dataclasses.replace(access, base_bytes=n)], F32, SM90) for n in (0, 12)]
    assert patterns[0] == patterns[1]
