"""The map of places: it finds every element, and the nearest place of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given

from layoutalg.errors import DivisibilityError, ShapeError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.registers.fragments import PLACE
from layoutalg.registers.place_map import as_they_are, crosses, place_map
from tests.draws.fragments import at, conversions, is_bijective
from tests.sweeps import each

WARP = LinearLayout.identity(0, "warp")


def _places(layout: LinearLayout) -> dict[tuple[int, int, int], int]:
    """(register, lane, warp) -> element."""
    sizes = [1 << layout.in_bits[name] for name in PLACE]
    return {
        (r, n, w): layout(register=r, lane=n, warp=w)["n"]
        for r in range(sizes[0])
        for n in range(sizes[1])
        for w in range(sizes[2])
    }


@given(conversions())
def test_the_source_holds_there_what_the_destination_wants(pair: tuple[LinearLayout, LinearLayout]) -> None:
    src, dst = pair
    found, held = place_map(src, dst), _places(src)
    for place, element in _places(dst).items():
        assert held[at(found, *place)] == element


@given(conversions())
def test_values_cross_only_what_they_must(pair: tuple[LinearLayout, LinearLayout]) -> None:
    """A warp is crossed exactly if some warp wants what it does not hold; then the same for lanes."""
    src, dst = pair
    found = place_map(src, dst)
    warps, lanes = defaultdict(set), defaultdict(set)
    for (_, n, w), element in _places(src).items():
        warps[w].add(element)
        lanes[n, w].add(element)
    wanted = _places(dst).items()
    assert crosses(found, "warp") == any(element not in warps[w] for (_, _, w), element in wanted)
    if not crosses(found, "warp"):
        assert crosses(found, "lane") == any(element not in lanes[n, w] for (_, n, w), element in wanted)


@given(conversions())
def test_between_bijections_it_is_invert_and_compose(pair: tuple[LinearLayout, LinearLayout]) -> None:
    src, dst = pair
    if is_bijective(src):
        assert place_map(src, dst).columns == dst.invert_and_compose(src).columns


@given(conversions())
def test_what_is_packed_stays_together(pair: tuple[LinearLayout, LinearLayout]) -> None:
    found = place_map(*pair)
    for bits in range(min(found.in_bits["register"], found.out_bits["register"]) + 1):
        packing = as_they_are(found, bits)
        low, together = (1 << bits) - 1, True
        for r, n, w in _places(pair[1]):
            first, lane, warp = at(found, r & ~low, n, w)
            together &= first & low == 0 and at(found, r, n, w) == (first | r & low, lane, warp)
            if packing.bits == bits:
                assert at(packing.units, r >> bits, n, w) == (first >> bits, lane, warp)
        assert together == (packing.bits == bits)


def test_a_dimension_that_is_left_out_has_size_one() -> None:
    found = place_map(
        LinearLayout({"lane": [1], "register": [2]}, {"n": 4}),
        LinearLayout({"register": [2], "lane": [1]}, {"n": 4}),
    )
    assert found == LinearLayout.identity(1, "register") * LinearLayout.identity(1, "lane") * WARP


NOWHERE = LinearLayout({"register": [1], "lane": [0]}, {"n": 4})
N4 = LinearLayout({"register": [1], "lane": [2]}, {"n": 4})


@each(
    ("src", "ins", "n", "error", "part"),
    [
        (N4, {"register": [1], "lane": [2]}, 8, ShapeError, "different tensors"),
        (N4, {"lane": [1, 2]}, 4, ShapeError, "2 lanes, the destination 4"),
        (N4, {"lane": [1], "warp": [2]}, 4, ShapeError, "1 warps, the destination 2"),
        (N4, {"lane": [1], "block": [2]}, 4, UnsupportedError, "'block' of size 2"),
        (
            LinearLayout({"register": [1], "lane": [0]}, {"n": 4}),
            dict(N4.ins),
            4,
            DivisibilityError,
            "no place",
        ),
    ],
)
def test_what_cannot_be_converted_is_refused(
    src: LinearLayout, ins: Any, n: int, error: type[Exception], part: str
) -> None:
    with pytest.raises(error, match=part) as caught:
        place_map(src, LinearLayout(ins, {"n": n}))
    if isinstance(caught.value, DivisibilityError):
        assert caught.value.witness == 2
    alone = LinearLayout({"register": [1], "lane": [2], "block": []}, {"n": 4})
    assert place_map(alone, N4).columns == (1, 2)
