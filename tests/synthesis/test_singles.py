"""Single swizzles by classes of instructions: none is missed, none is claimed that conflicts."""

from __future__ import annotations

import pytest

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access
from layoutalg.arch import ARCHS
from layoutalg.errors import UndecidedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.synthesis import singles, synthesize
from layoutalg.synthesis.proof.forms import every_single as listed
from layoutalg.synthesis.singles import every_swizzle, free_singles, visits_of
from tests.draws.synthesis_cases import is_free, missed_rows, mistakes
from tests.sweeps import each

MACHINE = ARCHS["sm_90"]


@pytest.mark.deep
def test_what_is_found_and_what_is_not_agree_with_enumeration() -> None:
    outcomes, wrong = mistakes(47, 50, most=512)
    assert wrong == [] and outcomes["found"] > 15 and outcomes["none"] > 5, outcomes


@pytest.mark.deep
def test_rows_of_whole_chunks_always_have_one() -> None:
    assert missed_rows(53, 40) == []


@each("room", [1, 2, 3, 8, 12, 100], sample=2)
def test_every_swizzle_that_moves_something_is_tried(room: int) -> None:
    """As functions on the offsets in question, so that fields past them count once."""
    tried = {tuple(swizzle(x) for x in range(room)) for swizzle in every_swizzle(room)}
    tried.add(tuple(range(room)))
    for bits in range(1, 9):
        for low in range(9):
            for shift in (n for n in range(-9, 10) if n):
                image = tuple(Swizzle(bits, low, shift)(x) for x in range(room))
                assert image in tried or max(image) >= room


def test_search_and_checker_list_the_same_swizzles() -> None:
    for shape, extra in (((48, 20), 0), ((64, 96), 4096), ((3, 5), 0)):
        found = synthesize(shape, ["ld.shared.b32@row"], element="f32", max_extra_bytes=extra)
        room = shape[0] * shape[1] + extra // 4
        assert set(listed(found)) == set(every_swizzle(room))


@each("chunks", range(1, 41), sample=9)
def test_the_rule_of_rows(chunks: int) -> None:
    """Rows of W chunks: Sw<min(t,3),3,max(t,3)>, t the exponent of 2 in W, serves f16 rows and stores."""
    base = storage_layout((24, 8 * chunks), "row")
    power = (chunks & -chunks).bit_length() - 1
    rows = Access("ldmatrix.x1", Layout((8, (8, chunks), 3), (1, (24, 192), 8)), "f16")  # type: ignore[arg-type]
    stores = Access.default("st.shared.b128", base, "f16")
    bits = min(power, 3)
    rule = ComposedLayout(Swizzle(bits, 3, max(power, 3)), 0, base) if bits else base
    assert is_free(rule, (rows, stores))
    found = synthesize((24, 8 * chunks), [rows, stores], element="f16")
    assert found.layout is not None and found.extra_bytes == 0
    used = found.layout.swizzles[0].bits if isinstance(found.layout, ComposedLayout) else 0
    assert used <= bits


def test_a_swizzle_past_the_tile_needs_memory() -> None:
    """12 rows of 5 chunks; the last block of 16 chunks is not whole."""
    base, room = storage_layout((12, 20), "row"), 256
    column = Access("ld.shared.b32", Layout((12, 1), (1, 0)), "f32")  # type: ignore[arg-type]
    visits = [visits_of(base, column, MACHINE)]
    inside = [one.swizzle for one in free_singles(visits, 240, 240, MACHINE)]
    more = list(free_singles(visits, 240, room, MACHINE))
    assert [one.swizzle for one in more if one.extra == 0] == inside
    outside = [one for one in more if one.extra]
    assert outside and [one.extra for one in outside] == sorted(one.extra for one in outside)
    for one in outside:
        assert max(one.swizzle(x) for x in range(240)) == 239 + one.extra


def test_repeats_are_not_walked_and_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    base = storage_layout((48, 20), "row")
    often = Access("ld.shared.b32", Layout((32, 1, (1 << 40, 3)), (1, 0, (0, 48))), "f32")  # type: ignore[arg-type]
    assert len(visits_of(base, often, MACHINE).offsets) == 3
    many = Access("ld.shared.b32", Layout((1 << 30, 1), (0, 0)), "f32")  # type: ignore[arg-type]
    with pytest.raises(UndecidedError, match="has at least 33554432 instructions"):
        visits_of(base, many, MACHINE)
    monkeypatch.setattr(singles, "WORK", 1000)
    column = Access.along("ld.shared.b32", base, "f32", "col")
    with pytest.raises(UndecidedError, match="after 1000 swizzled words"):
        list(free_singles([visits_of(base, column, MACHINE)], 960, 960, MACHINE))
