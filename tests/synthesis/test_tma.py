"""The layouts of TMA's swizzle modes: what check_tma calls legal, and what an H200 wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.algebra import Order
from layoutalg.analysis import TmaAccess
from layoutalg.arch import ARCHS, SWIZZLE_MODES
from layoutalg.decide import is_injective
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ShapeError
from layoutalg.layout import ComposedLayout, IntTuple, Layout, Swizzle, coordinate_at, size
from layoutalg.legality import check_tma
from layoutalg.synthesis.tma import TmaTile, tma_layouts
from tests.sweeps import each

HOPPER = ARCHS["sm_90"]
ANY_BYTES = 1 << 20

DATA = Path(__file__).parents[1] / "data" / "h200_tma_writes.jsonl"
WRITES = [
    row for row in map(json.loads, DATA.read_text("utf-8").splitlines()) if set(row["element_strides"]) == {1}
]


def tiles(
    shape: IntTuple, element: str, order: Order, copies: list[TmaAccess] | None = None, extra: int = 0
) -> list[TmaTile]:
    return list(tma_layouts(shape, dtype(element), order, copies or [], HOPPER, extra))


def test_a_copy_fixes_the_mode() -> None:
    copies = [TmaAccess((64, 32), 64), TmaAccess((32, 32), 64)]
    (found,) = tiles((64, 64), "f16", "row", copies)
    assert str(found.layout) == "Sw<2,3,3> o 0 o (64,(32,2)):(32,(1,2048))"
    assert not tiles((64, 64), "f16", "row", [TmaAccess((64, 64), 128), *copies])
    narrow = [TmaAccess((64, 16), 64)]
    (gaps,) = tiles((64, 64), "f16", "row", narrow, 8192)
    assert str(gaps.layout) == "Sw<2,3,3> o 0 o (64,(16,4)):(32,(1,2048))" and gaps.extra_bytes == 8192


@each("row", WRITES, ids=lambda r: f"{r['element']}-{r['box']}-{r['mode']}-{r['address']}")
def test_what_an_h200_wrote(row: dict[str, Any]) -> None:
    """A tile of one box: every 16-byte chunk lies where it was written, gaps included."""
    what, mode = dtype(row["element"]), SWIZZLE_MODES[row["mode"]]
    box = tuple(row["box"])
    copy = TmaAccess(box, mode.row_bytes if mode.swizzle.bits else 0)
    (found,) = tiles(box, row["element"], "col", [copy], ANY_BYTES)
    tensor = Layout(tuple(row["dims"]), (1, *(s // what.nbytes for s in row["strides_bytes"])))
    chunk = 16 // what.nbytes
    written: dict[int, int | None] = dict(row["chunks"])
    for i in range(0, size(found.layout), chunk):
        crd = coordinate_at(i, box)
        place = mode.swizzle(mode.swizzle(found.layout(i) * what.nbytes) + row["address"])
        inside = all(x < n for x, n in zip(crd, row["dims"], strict=True))
        assert written.pop(place) == (tensor(*crd) * what.nbytes if inside else None)
    assert not written


def in_leaves(extent: int, stride: int) -> tuple[IntTuple, IntTuple]:
    """A side as leaves of at most 256 elements, which is what a box may have."""
    return ((256, extent // 256), (stride, 256 * stride)) if extent > 256 else (extent, stride)


@given(
    st.tuples(st.integers(0, 8), st.integers(0, 10)).map(lambda logs: (1 << logs[0], 1 << logs[1])),
    st.sampled_from(("u8", "f16", "f32", "f64")),
    st.booleans(),
    st.sampled_from((0, 1024, ANY_BYTES)),
)
def test_check_tma_accepts_every_layout(
    shape: tuple[int, int], element: str, turned: bool, extra: int
) -> None:
    """One box a column block, at its own address, a multiple of 128 bytes: S(S(x) + address)."""
    what, (rows, run) = dtype(element), shape
    order: Order = "col" if turned else "row"
    tile = (run, rows) if turned else shape
    if run * what.bits % 128:
        with pytest.raises(AlignmentError, match="not a multiple of 16 bytes"):
            tiles(tile, element, order, extra=extra)
        return
    found = tiles(tile, element, order, extra=extra)
    assert found
    for layout, extra_bytes in found:
        assert is_injective(layout) and extra_bytes <= extra
        bits = layout.swizzles[0].bits if isinstance(layout, ComposedLayout) else 0
        mode = 16 << bits if bits else 0
        inner = min(run, 8 * mode // what.bits or run)
        (row_leaves, row_strides), (leaves, strides) = in_leaves(rows, run), in_leaves(inner, 1)
        box: IntTuple = (leaves, row_leaves) if turned else (row_leaves, leaves)
        tensor = Layout(box, (strides, row_strides) if turned else (row_strides, strides))
        report = check_tma(tensor, box, element, mode=mode)
        tile_bytes = size(layout) * what.nbytes
        if (tile_bytes + extra_bytes) * inner // run > HOPPER.max_shared_bytes_per_block:
            assert report.broken == ("tma.shared_size",)
            continue
        copy = report.require()
        assert copy.shared_bytes * (run // inner) == tile_bytes + extra_bytes and copy.layout is not None
        swizzle = Swizzle(bits, 4, 3)
        for block in range(run // inner):
            first = block * inner * (1 if turned else rows)
            address = swizzle(layout(first) * what.nbytes)
            assert address % 128 == 0
            for i in range(0, rows * inner, max(1, rows * inner // 32)):
                place = swizzle(swizzle(copy.layout(i) * what.nbytes) + address)
                at = first + (i % inner + i // inner * run if turned else i)
                assert layout(at) * what.nbytes == place


@given(
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda logs: (1 << logs[0], 1 << logs[1])),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from(("u8", "f16", "f32")),
    st.sampled_from((0, 32, 64, 128)),
)
def test_a_tile_of_boxes_holds_each_box_as_it_is_written(
    box: tuple[int, int], counts: tuple[int, int], element: str, mode: int
) -> None:
    """Box by box, at its own address: S(S(x) + address), x where check_tma says the box puts its elements."""
    shape = (box[0] << counts[0], box[1] << counts[1])
    what, swizzle = dtype(element), SWIZZLE_MODES["none" if mode == 0 else f"{mode}B"].swizzle
    alone = check_tma(Layout(shape, (shape[1], 1)), box, element, mode=mode)
    try:
        (found,) = tiles(shape, element, "row", [TmaAccess(box, mode)], ANY_BYTES)
    except (AlignmentError, ShapeError):
        pitch = mode or box[1] * what.nbytes
        assert not alone.legal or (counts != (0, 0) and box[0] * pitch % 128)
        return
    written = alone.require().layout
    assert written is not None
    for first in ((i, j) for i in range(0, shape[0], box[0]) for j in range(0, shape[1], box[1])):
        address = swizzle(found.layout(*first) * what.nbytes)
        assert address % 128 == 0
        for i in range(box[0]):
            for j in range(0, box[1], 16 // what.nbytes):
                place = swizzle(swizzle(written(i, j) * what.nbytes) + address)
                assert found.layout(first[0] + i, first[1] + j) * what.nbytes == place


@each(
    ("shape", "copy", "error", "message"),
    [
        ((8, 4), None, AlignmentError, "rows of 8 bytes are not a multiple of 16 bytes"),
        ((64, 64), TmaAccess((64, 4), 32), ShapeError, r"tma\.box_inner"),
        ((64, 64), TmaAccess((64, 64), 64), ShapeError, r"tma\.box_inner"),
        ((64, 64), TmaAccess((64, 48), 128), ShapeError, "does not divide the tile"),
        ((64, 64), TmaAccess((64,), 128), ShapeError, "does not divide the tile"),
        ((8, 16), TmaAccess((2, 16), 32), ShapeError, "take 64 bytes each; .* multiples of 128 bytes"),
    ],
)  # fmt: skip
def test_bad_input(
    shape: tuple[int, int], copy: TmaAccess | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tiles(shape, "f16", "row", [copy] if copy else [])
