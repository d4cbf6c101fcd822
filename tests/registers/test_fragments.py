"""Who holds a row: the kernel's answer is what walking over all places finds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import NotLinearError, ShapeError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import Layout, size
from layoutalg.registers import Fragment, fragment, holders, linear_fragment, register_layout
from tests.draws.fragments import M8N8_F64, M16N8, VOLTA_F32, accumulators, conversions, operand_a, wgmma
from tests.sweeps import each

TILES = [
    (M16N8, (16, 8)),
    (M8N8_F64, (8, 8)),
    (VOLTA_F32, (8, 8)),
    (accumulators(32), (16, 32)),
    (operand_a(8), (16, 32)),
    *((wgmma(n), (64, n)) for n in (8, 24, 64, 96, 200, 256)),
]
TILE = pytest.mark.parametrize(("tv", "shape"), TILES, ids=str)


def _counted(tile: Fragment, dim: int, index: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """The definition: every place, asked what it holds."""
    found = []
    for warp in range(tile.warps):
        for lane in range(tile.lanes):
            mine = [r for r in range(tile.registers) if tile.element(r, lane, warp)[dim] == index]
            if mine:
                found.append((warp, lane, tuple(mine)))
    return found


@TILE
def test_a_fragment_holds_what_its_thread_value_layout_says(tv: Layout, shape: tuple[int, int]) -> None:
    tile = fragment(tv, shape)
    threads = size(tv[0])
    assert tile.registers == size(tv[1]) and tile.lanes * tile.warps == threads
    for thread in range(threads):
        for value in range(tile.registers):
            index = tv(thread, value)
            warp, lane = divmod(thread, tile.lanes)
            assert tile.element(value, lane, warp) == (index % shape[0], index // shape[0])


@pytest.mark.deep(
    only=(
        "((4,8,4),(2,2,25)):((128,1,16),(64,8,512))-(64, 200)",
        "((4,8,4),(2,2,32)):((128,1,16),(64,8,512))-(64, 256)",
    )
)
@TILE
def test_holders_are_what_a_walk_finds(tv: Layout, shape: tuple[int, int]) -> None:
    tile = fragment(tv, shape)
    for dim, name in enumerate(("m", "n")):
        for index in {0, 1, shape[dim] // 2, shape[dim] - 1}:
            assert list(holders(tile, **{name: index}).places) == _counted(tile, dim, index)


@TILE
def test_every_element_has_one_place(tv: Layout, shape: tuple[int, int]) -> None:
    tile = fragment(tv, shape)
    for m in range(0, shape[0], 5):
        for n in range(0, shape[1], 3):
            ((warp, lane, (register,)),) = holders(tile, m=m, n=n).places
            assert tile.element(register, lane, warp) == (m, n)


@given(conversions(), st.data())
def test_holders_of_any_linear_layout(pair: tuple[LinearLayout, LinearLayout], data: st.DataObject) -> None:
    for layout in pair:
        tile = linear_fragment(layout)
        index = data.draw(st.integers(0, tile.shape[0] - 1))
        assert list(holders(tile, n=index).places) == _counted(tile, 0, index)


def test_a_register_layout_has_the_three_dimensions() -> None:
    layout = register_layout(wgmma(64), (64, 64), dims=("row", "col"))
    assert layout.in_bits == {"register": 5, "lane": 5, "warp": 2}
    assert layout.out_bits == {"row": 6, "col": 6}
    with pytest.raises(NotLinearError, match=r"has 48 registers per lane, which is not a power of two"):
        register_layout(wgmma(96), (64, 96))


def test_an_element_that_no_place_holds_has_no_holders() -> None:
    assert holders(linear_fragment(LinearLayout({"lane": [2]}, {"n": 4})), n=1).places == ()


TILE16, WIDE = fragment(M16N8, (16, 8)), fragment(wgmma(96), (64, 96))


@each(
    ("part", "call"),
    [
        ("no dimension 'k'; there are m, n", lambda: holders(TILE16, k=0)),
        (r"m=16 is outside \[0, 16\)", lambda: holders(TILE16, m=16)),
        (r"n=96 is outside \[0, 96\)", lambda: holders(WIDE, n=96)),
        ("register 4 is outside the 4", lambda: TILE16.element(4, 0, 0)),
        ("past the 64 elements", lambda: fragment(M16N8, (8, 8))),
        ("has 3 modes", lambda: fragment(Layout((32, 2, 2)), (16, 8))),
        ("not one extent for each", lambda: fragment(M16N8, (16, 8, 1))),
        ("the in dimensions block", lambda: linear_fragment(LinearLayout({"block": [1]}, {"n": 2}))),
    ],
)
def test_what_does_not_fit_is_refused(part: str, call: Callable[[], object]) -> None:
    with pytest.raises(ShapeError, match=part):
        call()


@each(
    ("tv", "shape", "message"),
    [
        (Layout((32, 3), (1, 32)), (16, 8), r"the extent 3 is not a power of two, and its mode does not run"),
        (Layout((32, (3, 2)), (1, (32, 96))), (32, 6), r"extent 3 is not a power of two"),
        (Layout((24, 2), (1, 24)), (24, 2), r"extent 24 is not a power of two"),
        (Layout((32, 4), (1, 32)), (12, 16), r"only its last extent may be no power of two"),
        (Layout((32, 2), (1, 1)), (64, 2), r"is not linear over F2: .* carries"),
    ],
)
def test_what_is_not_linear_is_refused(tv: Layout, shape: tuple[int, int], message: str) -> None:
    with pytest.raises(NotLinearError, match=message):
        fragment(tv, shape)
