"""Why a layout is no wgmma operand: the innermost reason first, and a nearest layout that is one."""

from __future__ import annotations

import pytest

from layoutalg.arch import WGMMA_TYPES, Major
from layoutalg.dtype import dtype
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.legality import check_wgmma, check_wgmma_instruction, recognize
from layoutalg.legality.canonical import operand_shape, restrict
from layoutalg.legality.wgmma_rules import (
    WGMMA_RULES,
    best_guess,
    broken,
    diagnose,
    nearest_layout,
    no_n,
    no_type,
    require_wgmma,
)
from tests.legality.test_legality_wgmma import BROKEN
from tests.sweeps import each

F16 = WGMMA_TYPES["f16"]


def test_every_rule_is_broken_by_some_request() -> None:
    by_operands = {rule for rule, *_ in BROKEN}
    by_instructions = {
        *check_wgmma_instruction("f16", "f16", "s32", 64).broken,
        *check_wgmma_instruction("f16", "f16", "f32", 64, a_source="registers", a_major="MN").broken,
    }
    assert by_operands | by_instructions == set(WGMMA_RULES)


@each("element", [name for name in WGMMA_TYPES if name != "b1"])
def test_the_nearest_layout_is_legal(element: str) -> None:
    kind = WGMMA_TYPES[element]
    majors: tuple[Major, ...] = ("K", "MN") if kind.transposable else ("K",)
    for major in majors:
        for rows in (8, 24, 64, 96, 256):
            for k in (1, kind.k, 3 * kind.k, 8 * kind.k):
                tile = nearest_layout(kind, major, (rows, k), rows)
                mn, depth = operand_shape(tile)
                assert mn == rows and k <= depth < k + kind.k
                found = check_wgmma(tile, element, "B", n=rows).require()
                assert found.canonical.major == major
                row_bits = 8 * found.canonical.mode.row_bytes
                along = depth if major == "K" else rows
                assert along * dtype(element).bits % row_bits == 0
                wider = found.canonical.mode.name == "128B" or along * dtype(element).bits % (2 * row_bits)
                assert wider, "the widest atom that fits"


@each(
    ("layout", "rule"),
    [
        (Layout((64, 16), (16, 2)), "wgmma.chunk"),  # and a pitch of 32 bytes, and no swizzle
        (Layout((64, 16), (72, 1)), "wgmma.pitch"),  # and no swizzle
        (Layout((64, 16), (64, 1)), "wgmma.swizzle"),
        (Layout(((8, 2, 4), 16), ((64, 512, 4096), 1)), "wgmma.repeat"),  # and no swizzle
        (ComposedLayout(Swizzle(1, 9, 1), 0, Layout((64, 16), (64, 1))), "wgmma.swizzle"),
        (Layout((64, 16), (1, 64)), "wgmma.major"),
    ],
)
def test_the_innermost_reason_comes_first(layout: AnyLayout, rule: str) -> None:
    assert recognize(layout, "K", "f16") is None
    assert diagnose(layout, F16, "K", layout, 64).rule.name == rule


def test_only_the_sum_of_two_digits_may_be_wrong() -> None:
    """Rows alone and chunks alone are right, together they carry: the last resort names a coordinate."""
    inner = Layout((64, (8, 2)), (8, (1, 768)))
    assert recognize(inner, "K", "f16")
    carries = ComposedLayout(Layout((1024, 2), (1, 1088)), 0, inner)
    violation = diagnose(carries, F16, "K", carries, 64)
    assert violation.rule.name == "wgmma.repeat"
    coordinate = 32 + 64 * 8  # row 32 of the second chunk is at 1024
    assert f"departs from mode none at coordinate {coordinate} of" in violation.asked


def test_later_instructions_are_diagnosed_too() -> None:
    """The first 64 rows are canonical; of the next, the second half is elsewhere than the first half asks."""
    rows = ((8, 8, 2), 16)
    tile = ComposedLayout(Swizzle(1, 3, 3), 0, Layout(rows, ((16, 128, 1 << 12), 1)))
    assert check_wgmma(tile, "f16", "A").legal
    carries = ComposedLayout(Layout((4096 + 512, 2), (1, 1 << 13)), 0, tile)
    first = restrict(carries, 0, Layout((64, 16), (1, 128)))
    assert recognize(first, "K", "f16")
    assert check_wgmma(carries, "f16", "A").broken == ("wgmma.repeat",)
    late = ComposedLayout(Swizzle(1, 3, 3), 0, Layout(rows, ((16, 128, (1 << 12) + 4), 1)))
    assert check_wgmma(late, "f16", "A").broken == ("wgmma.start",)


def test_guesses() -> None:
    assert best_guess(Layout((64, 16), (16, 1)), F16) == "K"
    assert best_guess(Layout((64, 16), (1, 64)), F16) == "MN"
    assert best_guess(Layout((64, 16), (2, 128)), F16) == "K"


def test_parts() -> None:
    assert broken("wgmma.atom", "a", "b", Layout(8)).rule is WGMMA_RULES["wgmma.atom"]
    assert no_type(dtype("s32"), "a").fix == (("a", "tf32"),) and no_type(dtype("u16")).change == "f16"
    assert no_n(F16, 9, 8).accepted == "8, 16, 24, ..., 256"
    part = restrict(Layout((128, 32), (32, 1)), 64, Layout((64, 16), (1, 128)))
    assert part(1, 1) == Layout((128, 32), (32, 1))(65, 1)
    with pytest.raises(UnsupportedError, match="sm_100 has no wgmma; sm_90a has"):
        require_wgmma("sm_100a")
    with pytest.raises(UnknownNameError):
        require_wgmma("sm_1")
