"""Edge tiles are walked completely and once."""

from __future__ import annotations

import numpy as np

from layoutalg.kernels.matrix import matrix_problem
from layoutalg.kernels.predict import edge_walks, element_steps
from tests.sweeps import each


@each("along_n", [True, False])
@each(("m", "n"), [(1, 1), (64, 64), (65, 64), (64, 65), (130, 70), (10, 200)])
def test_edge_walks_visit_exactly_the_elements_outside_full_tiles(m: int, n: int, along_n: bool) -> None:
    seen = np.zeros((m, n), dtype=int)
    steps = element_steps(64, 32, 128, along_n=along_n)
    for e in edge_walks(matrix_problem(m, n, "f32", turned=True), 64, 32, *steps):
        assert e.active.shape[1] == 32
        np.add.at(seen, (e.m[e.active], e.n[e.active]), 1)
        assert (e.m % 64 == e.row).all()
        assert (e.n % 32 == e.column).all()
        step = (e.n if along_n else e.m)[0]
        assert (np.diff(step) == 1).all()
    seen[: m // 64 * 64, : n // 32 * 32] += 1
    assert (seen == 1).all()
