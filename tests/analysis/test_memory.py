"""What requests touch together: runs against sets of bytes, closed form against the list of all addresses."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.analysis import Access, Guard, Units, count_units, nested, touched_by
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.sweeps import each

UNITS = (32, 64, 128)
DIGIT = st.tuples(
    st.sampled_from((1, 2, 3, 4, 5, 9, 17, 32)),
    st.sampled_from(
        (0, 1, 4, 8, 12, 16, 20, 32, 36, 40, 48, 64, 96, 100, 128, 160, 256, 300, 400, 511, 1024)
    ),
)


@given(st.integers(0, 200), st.sampled_from((1, 2, 4, 8, 16, 24, 64, 100, 300)), st.lists(DIGIT, max_size=3))
@example(16, 16, [(4, 32), (2, 16), (16, 128)])
@example(0, 64, [(17, 400), (3, 6800)])
@example(28, 8, [(9, 40)])
def test_runs_are_their_bytes(first: int, run: int, digits: list[tuple[int, int]]) -> None:
    """Digits in any order become the same bytes, and units are counted as sets of bytes say."""
    found = nested(first, run, digits)
    if found is None:
        return
    wanted = _bytes(first, run, digits)
    assert _bytes(*found) == wanted
    assert found.reach == max(wanted) - min(wanted) + 1
    for unit in UNITS:
        filled = Counter(byte // unit for byte in wanted)
        whole = sum(count == unit for count in filled.values())
        assert count_units(found, unit) == Units(len(filled), whole)


def _bytes(first: int, run: int, digits: list[tuple[int, int]] | tuple[tuple[int, int], ...]) -> set[int]:
    out = set(range(first, first + run))
    for extent, step in digits:
        out = {byte + n * step for byte in out for n in range(extent)}
    return out


@each("seed", range(4))
def test_the_closed_form_is_the_list(seed: int) -> None:
    rng, closed = random.Random(seed), 0
    for _ in range(25):
        rows, columns = rng.choice((8, 24, 31, 64)), rng.choice((3, 8, 16, 40, 65))
        pitch = columns + rng.choice((0, 0, 1, 8, 13))
        tile = rng.choice((Layout((rows, columns), (pitch, 1)), Layout((rows, columns), (1, rows + 3))))
        element = rng.choice(("u8", "f16", "f32"))
        op = f"{rng.choice(('ld', 'st'))}.global.b{dtype(element).bits}"
        wanted = [Access.of(f"{op}@{way}", tile, element) for way in rng.choice((["row"], ["row", "col"]))]
        wanted = [replace(a, base_bytes=rng.choice((0, 4, 16, 32))) for a in wanted]
        found = touched_by(tile, wanted, ARCHS["sm_90"])
        listed = touched_by(tile, wanted, ARCHS["sm_90"], listed=True)
        assert found.useful_bytes == listed.useful_bytes and listed.method == "enumerated"
        for unit in UNITS:
            assert found.units(unit) == listed.units(unit), (str(tile), [str(a.tv) for a in wanted], unit)
        closed += found.method == "digit-classes"
    assert closed >= 10


def test_steps_of_two_requests_fill_what_either_leaves() -> None:
    """One sector in each of 16 lines, four times: every half of a line is whole once all have been stored."""
    tv = Layout(((2, 16), 4, 4), ((4, 32), 1, 8))
    lines, once = Access("st.global.b128", tv, "f32"), Access("st.global.b128", tv(None, None, 0), "f32")
    tile = Layout(512)
    assert touched_by(tile, [lines], ARCHS["sm_90"]).units(64) == Units(32, 32)
    assert touched_by(tile, [once], ARCHS["sm_90"]).units(64) == Units(16, 0)


def test_extents_do_not_matter() -> None:
    tile = Layout((1 << 24, 25, 7), (404, 1, 1 << 40))
    access = Access.of("ld.global.b32@row", tile, "f32")
    assert touched_by(tile, [access], ARCHS["sm_90"]).method == "digit-classes"


def test_guards_and_swizzles_are_listed() -> None:
    tile = Layout((16, 32), (32, 1))
    guarded = replace(Access.of("ld.global.b32@row", tile, "f32"), active=Guard((8, 4)))
    found = touched_by(tile, [guarded], ARCHS["sm_90"])
    assert (found.units(64), found.method) == (Units(8, 0), "enumerated")
    swizzled = ComposedLayout(Swizzle(2, 3, 3), 0, tile)
    found = touched_by(swizzled, [Access.of("ld.global.b32@col", swizzled, "f32")], ARCHS["sm_90"])
    assert (found.units(64), found.method) == (Units(32, 32), "enumerated")
