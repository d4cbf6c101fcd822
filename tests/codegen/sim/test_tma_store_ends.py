"""Where the rows of a TMA store end: in whole chunks of 16 bytes, as measured."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg import Layout
from layoutalg import codegen as cg
from layoutalg.codegen import simulate
from layoutalg.codegen.language import local_tile
from layoutalg.errors import ShapeError, SimulationError
from tests.tiles.boxes import Boxes, copy_program

WRITTEN = {
    ("bf16", 97): 104, ("bf16", 98): 104, ("bf16", 100): 104, ("bf16", 101): 104, ("bf16", 103): 104,
    ("bf16", 104): 104, ("bf16", 105): 112, ("f32", 97): 100, ("f32", 98): 100, ("f32", 100): 100,
    ("f32", 101): 104, ("f32", 103): 104, ("f32", 104): 104, ("f32", 105): 108,
}  # fmt: skip
"""By element and extent, where the elements end that a store of wider boxes into rows of 136 wrote.

MEASURED on an H200, 2026-11-23, by stores of a matrix product."""


@pytest.mark.parametrize(("element", "n"), WRITTEN, ids=str)
def test_a_row_is_written_to_the_end_of_its_chunk(element: str, n: int) -> None:
    boxes, nbytes = Boxes((n, 6), (32, 4), element), {"bf16": 2, "f32": 4}[element]
    src = np.full(boxes.shape, 5, dtype=f"u{nbytes}")
    dst = np.full_like(src, 7)
    simulate(copy_program(boxes), {"src": src, "dst": dst})
    end = WRITTEN[element, n]
    assert end == boxes.pitch
    assert (dst[:, :n] == 5).all() and (dst[:, n:end] == 0).all()


def test_a_store_past_the_end_of_the_array_is_found() -> None:
    boxes = Boxes((100, 6), (32, 4), "bf16")
    src = np.zeros(boxes.shape, dtype=np.uint16)
    with pytest.raises(SimulationError, match=r"stores byte .* of dst through map_dst, which has 1244"):
        simulate(copy_program(boxes), {"src": src, "dst": src.copy().reshape(-1)[:-2]})


def test_a_launch_whose_rows_end_within_a_chunk_is_refused() -> None:
    k = cg.Kernel("copy", threads=32)
    m, n = k.extent("m", 64), k.extent("n", 64)
    x, y = k.tensor("x", "f16", (m, n), (64, 1)), k.tensor("y", "f16", (m, n), (64, 1), writable=True)
    load, save = k.tensor_map("load", x, (8, 64)), k.tensor_map("save", y, (8, 64))
    tile, full = k.shared("tile", "f16", Layout((8, 64), (64, 1)), align_bytes=128), k.mbarrier("full")
    k.init(full)
    place = k.grid((m,), (8,))
    with k.If(k.thread.eq(0)):
        k.expect(full[0], load.box_bytes)
        k.tma_load(load, local_tile(x, (8, 64), (*place, 0)), tile, full[0])
        k.wait(full[0], 0)
        k.tma_store(save, tile, local_tile(y, (8, 64), (*place, 0)))
        k.bulk_commit()
        k.bulk_wait(0)
    kernel, src = k.build(), np.arange(20 * 64, dtype=np.float16)
    dst = np.zeros_like(src)
    cg.simulate(kernel, {"x": src, "y": dst, "m": 20, "n": 40})
    assert (dst.reshape(20, 64)[:, :40] == src.reshape(20, 64)[:, :40]).all()
    with pytest.raises(ShapeError, match="n"):
        cg.simulate(kernel, {"x": src, "y": dst, "m": 20, "n": 41})
