"""The parts of a norm's kernel: what is fetched from anywhere, and stored, is a copy."""

from __future__ import annotations

import numpy as np

from layoutalg.codegen.instr import encode
from layoutalg.codegen.sim import simulate
from layoutalg.kernels.rowwise import NormConfig, norm_problem
from layoutalg.kernels.rowwise.norm_plan import form_of
from layoutalg.kernels.rowwise.programs.block import RowBlock
from layoutalg.kernels.rowwise.schedule import Hold, walk_of
from layoutalg.kernels.rowwise.unaligned import MaskedRows, SkewedColumns
from tests.sweeps import each

SHAPES = [((3, 300), 1, 4, 1, 32), ((3, 301), 1, 4, 1, 32), ((60, 48), 0, 4, 8, 8), ((60, 49), 0, 4, 8, 16)]
"""(shape, axis, vec, kept, sharing): whole rows, ragged ones, columns, skewed ones."""

HOLDS: list[tuple[Hold, int]] = [("registers", 0), ("shared", 0), ("shared", 2), ("global", 0), ("global", 4)]


@each("backwards", [False, True])
@each(("hold", "staged"), HOLDS, sample=2)
@each(("shape", "axis", "vec", "kept", "sharing"), SHAPES)
def test_visiting_all_vectors_copies(
    shape: tuple[int, ...], axis: int, vec: int, kept: int, sharing: int, hold: Hold, staged: int,
    *, backwards: bool,
) -> None:  # fmt: skip
    p = norm_problem("softmax", shape, axis, "f32")
    c = NormConfig(vec, kept, sharing, hold, 2, staged=staged)
    walk = walk_of(form_of(p), p.dtype, c)
    assert isinstance(walk, MaskedRows) == (shape == (3, 301))
    assert isinstance(walk, SkewedColumns) == (shape == (60, 49))
    b = RowBlock("copy", p, walk, c, [], writes=True)
    b.hold()
    if hold == "global":
        b.ahead(backwards=backwards)
    b.each(lambda v: b.store(b.floats(v), v), backwards=backwards and hold == "global")
    size = -(-shape[0] * shape[1] // 4) * 4
    src = encode(np.random.default_rng(2).standard_normal((1, size)), "f32")[0]
    dst = np.zeros_like(src)
    simulate(b.k.build(), {"src": src, "dst": dst}, seed=1)
    n = shape[0] * shape[1]
    np.testing.assert_array_equal(dst[:n], src[:n])
    assert not dst[n:].any()
