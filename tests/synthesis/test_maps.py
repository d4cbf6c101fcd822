"""From a kernel to a layout and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import ARCHS
from layoutalg.f2 import basis, complement, rank, to_f2
from layoutalg.layout import Swizzle, size
from layoutalg.synthesis.patterns import BitTile, make_tile
from layoutalg.synthesis.search import kernel_of, layout_of_kernel, swizzled_tile

SM90 = ARCHS["sm_90"]


@st.composite
def tiles(draw: st.DrawFn) -> tuple[BitTile, int]:
    """A tile and the word bits that vectors keep."""
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(3, 6))
    width = draw(st.sampled_from((8, 16, 32, 64)))
    tile = make_tile((1 << rows, 1 << columns), width, draw(st.sampled_from(("row", "col"))), SM90)
    least = max(0, tile.word_shift)
    return tile, draw(st.integers(least, max(least, min(2, tile.word_bits))))


@given(tiles(), st.data())
def test_the_layout_of_a_kernel_has_that_kernel(drawn: tuple[BitTile, int], data: st.DataObject) -> None:
    tile, keep = drawn
    dim = max(0, tile.word_bits - keep)
    bank_dim = min(tile.bank_bits - keep, dim)
    vectors = data.draw(st.lists(st.integers(0, (1 << dim) - 1), max_size=dim))
    kernel = basis(vectors)[: dim - bank_dim]
    kernel = basis(kernel + complement(kernel, dim)[: dim - bank_dim - len(kernel)])
    layout = layout_of_kernel(tile, kernel, keep)
    assert kernel_of(tile, layout) == tuple(vector << keep for vector in kernel)
    assert sorted(layout(i) for i in range(size(layout))) == list(range(size(tile.base)))
    low = keep - tile.word_shift
    goes = dict(zip(to_f2(tile.base), to_f2(layout), strict=True))
    assert all(goes[1 << j] == 1 << j for j in range(low))
    assert all(goes[1 << j] % (1 << low) == 0 for j in range(low, tile.element_bits))


def test_a_swizzle_of_words_is_one_of_elements() -> None:
    for width, expected in ((8, "Sw<2,3,3>"), (16, "Sw<2,2,3>"), (32, "Sw<2,1,3>"), (64, "Sw<2,0,3>")):
        tile = make_tile((64, 64), width, "row", SM90)
        swizzled = swizzled_tile(tile, Swizzle(2, 1, 3))
        assert str(swizzled.swizzles[0]) == expected
        rows = tuple(1 << j for j in range(5, tile.word_bits))
        assert kernel_of(tile, tile.base) == rows
        assert rank(kernel_of(tile, swizzled)) == len(rows)
