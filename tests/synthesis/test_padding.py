"""Padding: the pitches that are tried, and that trying more would change nothing."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access, SharedReport, analyze_access
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.layout import Layout
from layoutalg.synthesis.padding import pads_of, reports_if_free
from tests.sweeps import each

SM90 = ARCHS["sm_90"]


TURN = [(f"(4,32):({32 + n},1)", 16 * n) for n in range(1, 32)]


@each(
    ("shape", "op", "element", "order", "limit", "layouts"),
    [
        ((8, 64), "st.shared.b128", "f16", "row", 256, [("(8,64):(72,1)", 128), ("(8,64):(80,1)", 256)]),
        ((64, 8), "ld.shared.b32", "f32", "col", 64, [("(64,8):(1,65)", 32), ("(64,8):(1,66)", 64)]),
        ((8, 16), "ld.shared.b8", "s4", "row", 8, [("(8,16):(18,1)", 8)]),
        ((1, 64), "ld.shared.b32", "f32", "row", 4096, []),
        ((4, 32), "ld.shared.b32", "f32", "row", 1 << 20, TURN),
    ],
)
def test_pads_keep_vectors_aligned_and_stay_within_the_limit_and_one_turn_of_the_banks(
    shape: Any, op: str, element: str, order: Any, limit: int, layouts: list[tuple[str, int]]
) -> None:
    access = Access.default(op, storage_layout(shape, order), element)
    tried = pads_of(shape, [access], dtype(element), order, limit, SM90)
    assert [(str(storage_layout(shape, order, pad)), extra) for pad, extra in tried] == layouts


@given(st.sampled_from((3, 8, 20)), st.sampled_from((8, 20, 32)), st.integers(0, 31), st.data())
def test_a_turn_of_the_banks_changes_nothing(rows: int, columns: int, pad: int, data: st.DataObject) -> None:
    mapping = data.draw(st.sampled_from(("row", "col")))
    access = Access.along("ld.shared.b32", Layout((rows, columns), (columns, 1)), dtype("f32"), mapping)
    near, far = (analyze_access(storage_layout((rows, columns), "row", p), access) for p in (pad, pad + 32))
    assert isinstance(near, SharedReport) and isinstance(far, SharedReport)
    assert (near.total, near.worst) == (far.total, far.worst)


def test_reports_only_where_all_are_free() -> None:
    tile = Layout((32, 32), (33, 1))
    column = Access.along("ld.shared.b32", tile, dtype("f32"), "col")
    reports = reports_if_free(tile, [column, column], SM90)
    assert reports is not None and [r.total for r in reports] == [32, 32]
    assert reports_if_free(Layout((32, 32), (32, 1)), [column], SM90) is None
