"""A rotation as the layout of a shared tile: (m, n) of 48 columns, which no XOR keeps in its row."""

from __future__ import annotations

from layoutalg import codegen as cg
from layoutalg import make_tiled_copy, rotated_layout
from layoutalg.layout import Layout

SIDE = 48


def test_a_transposing_copy_through_a_rotation_is_right() -> None:
    by_row, by_column = Layout((2, SIDE), (SIDE, 1)), Layout((SIDE, 2), (1, SIDE))
    word = "UniversalCopy<uint32_t>"
    rows, columns = (make_tiled_copy(word, "f32", by, Layout((1, 1))) for by in (by_row, by_column))
    k = cg.Kernel("skewed_transpose", threads=2 * SIDE)
    m, n = k.extent("m"), k.extent("n")
    src = k.tensor("src", "f32", (m, n), (n, 1))
    dst = k.tensor("dst", "f32", (n, m), (m, 1), writable=True)
    tile = k.shared("tile", "f32", rotated_layout((SIDE, SIDE)))
    i, j = k.grid((m, n), (SIDE, SIDE))
    load, store = k.get_slice(rows), k.get_slice(columns)
    s = load.partition_S(cg.local_tile(src, (SIDE, SIDE), (i, j)))
    d = store.partition_D(cg.local_tile(dst, (SIDE, SIDE), (j, i)).transposed)
    k.store(k.load(s, where=s.inside), load.partition_D(tile))
    k.do(cg.BAR)
    k.store(k.load(store.partition_S(tile)), d, where=d.inside)
    kernel = k.build()
    assert len(cg.verify(kernel, lambda src: src.T, cases=2)) == 2
    assert "% 48" in cg.to_cuda(kernel)
