"""stmatrix: what it stores where, what that costs, and that its text is PTX."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg import Layout
from layoutalg import codegen as cg
from layoutalg.codegen.instr import LDG, LDS, STG, STMATRIX, STMATRIX_TRANS, WARP_SYNC, Instr
from layoutalg.codegen.program import Kernel
from layoutalg.errors import AlignmentError, SimulationError

ALL = {i.name: i for i in (*STMATRIX.values(), *STMATRIX_TRANS.values())}


def kernel(instr: Instr, pitch: int = 16) -> Kernel:
    """A warp stores matrices of the words of x, rows `pitch` bytes apart, and copies what lies there to y."""
    k, count = cg.Kernel("matrices", threads=32), instr.operands[1].words
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    tile = k.shared_buffer("tile", 1, Layout(8 * count * pitch), 8 * count * pitch, 16)
    v, w = k.reg("v", count), k.reg("w", 1)
    with k.Unroll("r", count) as r:
        k.do(LDG[4], v.slice(r, count=1), k.at(x, k.tid * count + r))
    k.do(instr, k.at(tile, k.tid % (8 * count) * pitch), v)
    k.do(WARP_SYNC)
    with k.Unroll("n", count) as n:
        at = n * 32 + k.tid
        k.do(LDS[4], w, k.at(tile, at // 4 * pitch + at % 4 * 4))
        k.do(STG[4], k.at(y, at), w)
    return k.build()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("group", ["block", "warp"])
def test_it_moves_what_its_atom_says(name: str, group: str) -> None:
    instr = ALL[name]
    count, turned = instr.operands[1].words, name.endswith("trans")
    x = np.random.default_rng(3).integers(0, 1 << 32, (32, count), dtype=np.uint64).astype(np.uint32)
    y = np.zeros(32 * count, np.uint32)
    run = cg.simulate(kernel(instr), {"x": x, "y": y}, group=group)
    halves = x.view(np.uint16).reshape(32, count, 2)
    for matrix in range(count):
        stored = y.view(np.uint16).reshape(count, 8, 8)[matrix]
        for lane in range(32):
            for j in range(2):
                at = (2 * (lane % 4) + j, lane // 4) if turned else (lane // 4, 2 * (lane % 4) + j)
                assert stored[at] == halves[lane, matrix, j]
    assert run.trace.total(instr.operands[0].op)[1] == count  # a wavefront per matrix of 128 bytes


def test_rows_in_one_bank_cost_as_the_analysis_says() -> None:
    y = np.zeros(128, np.uint32)
    run = cg.simulate(kernel(STMATRIX[4], pitch=128), {"x": np.zeros((32, 4), np.uint32), "y": y})
    assert run.trace.total("stmatrix.x4")[1] == 32


def test_rows_that_are_not_aligned_are_refused() -> None:
    with pytest.raises(AlignmentError, match="moves 16 bytes a lane"):
        cg.to_cuda(kernel(STMATRIX[4], pitch=24))
    with pytest.raises(SimulationError, match="no multiple of 16"):
        cg.simulate(
            kernel(STMATRIX[4], pitch=24), {"x": np.zeros((32, 4), np.uint32), "y": np.zeros(128, np.uint32)}
        )
