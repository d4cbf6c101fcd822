"""One operand of a SIMT GEMM: copies cover their tile once, and land without bank conflicts."""

from __future__ import annotations

from itertools import product

import numpy as np

from layoutalg.kernels.gemm.problem import Major, gemm_problem
from layoutalg.kernels.gemm.simt_plan import LADDER, SimtConfig, half, thread_row
from tests.sweeps import each


@each("name", LADDER)
@each(("a", "b"), [*product(("k", "mn"), repeat=2)])
def test_a_tile_is_copied_once(name: str, a: Major, b: Major) -> None:
    c = LADDER[name][1]
    p = gemm_problem(c.tile_m, c.tile_n, c.tile_k, "f32", a_major=a, b_major=b)
    for side in ("a", "b"):
        h = half(p, c, "a" if side == "a" else "b")
        step, tid = np.indices((h.passes, h.threads))
        near, far = h.walk(tid, step)
        seen = far * h.near + near
        seen = (seen[..., None] + np.arange(h.vector)).ravel()
        assert np.array_equal(np.sort(seen), np.arange(h.rows * h.deep))


@each("name", LADDER)
def test_the_threads_of_a_block_own_every_row_equally_often(name: str) -> None:
    c: SimtConfig = LADDER[name][1]
    p = gemm_problem(c.tile_m, c.tile_n, c.tile_k, "f32")
    for h, warps in ((half(p, c, "a"), c.warps_m), (half(p, c, "b"), c.warps_n)):
        warp, lane, e = np.indices((warps, h.lanes, h.thread))
        rows = warp * h.lanes * h.thread + lane * h.run + thread_row(h, e)
        assert np.array_equal(np.sort(rows.ravel()), np.arange(h.rows))
