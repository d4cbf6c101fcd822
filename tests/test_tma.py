"""The layouts of TMA's swizzle modes."""

from __future__ import annotations

import pytest

from layoutalg.analysis.access import TmaAccess
from layoutalg.dtype import dtype
from layoutalg.measure import size
from layoutalg.synthesis.tma import tma_layouts


@pytest.mark.parametrize(
    ("shape", "element", "order", "expected"),
    [
        ((64, 64), "f16", "row", ["(64,64):(64,1)", "Sw<3,3,3> o 0 o (64,64):(64,1)",
            "Sw<2,3,3> o 0 o (64,(32,2)):(32,(1,2048))", "Sw<1,3,3> o 0 o (64,(16,4)):(16,(1,1024))"]),
        ((64, 16), "f32", "row", ["(64,16):(16,1)", "Sw<2,2,3> o 0 o (64,16):(16,1)",
            "Sw<3,2,3> o 0 o (64,16):(16,1)", "Sw<1,2,3> o 0 o (64,(8,2)):(8,(1,512))"]),
        ((256, 8), "u8", "col", ["(256,8):(1,256)", "Sw<3,4,3> o 0 o ((128,2),8):((1,1024),128)",
            "Sw<2,4,3> o 0 o ((64,4),8):((1,512),64)", "Sw<1,4,3> o 0 o ((32,8),8):((1,256),32)"]),
    ],
)  # fmt: skip
def test_modes(shape: tuple[int, int], element: str, order: str, expected: list[str]) -> None:
    layouts = list(tma_layouts(shape, dtype(element), order, []))  # type: ignore[arg-type]
    assert [str(layout) for layout in layouts] == expected
    for layout in layouts:
        assert sorted(layout(i) for i in range(size(layout))) == list(range(size(layout)))


def test_a_copy_fixes_the_mode() -> None:
    copies = [TmaAccess((64, 32), 64), TmaAccess((32, 32), 64)]
    assert [str(layout) for layout in tma_layouts((64, 64), dtype("f16"), "row", copies)] == [
        "Sw<2,3,3> o 0 o (64,(32,2)):(32,(1,2048))"
    ]
    assert not list(tma_layouts((64, 64), dtype("f16"), "row", [TmaAccess((64, 64), 128), *copies]))


@pytest.mark.parametrize("span_bytes", [32, 64, 128])
def test_eight_rows_lie_in_different_bank_groups(span_bytes: int) -> None:
    """The 16-byte pieces of a column, over 8 spans of 16 bytes each, fill all 32 banks."""
    elems = span_bytes // 2
    copy = TmaAccess((64, elems), span_bytes)
    (layout,) = tma_layouts((64, elems), dtype("f16"), "row", [copy])
    starts = [layout(row, 0) * 2 // 16 % 8 for row in range(8)]
    assert len(set(starts)) == 8
