"""tiled_copy: one thread-value layout covers the tile; cp.async where the architecture and width allow it."""

from __future__ import annotations

import pytest

from layoutalg.kernels.move.matrix_plan import copy_configs as configs
from layoutalg.kernels.move.matrix_plan import row_copy
from layoutalg.kernels.move.programs.matrix import copy_problem as problem
from layoutalg.kernels.registry import find_family
from layoutalg.layout import Layout, product
from tests.sweeps import each

DTYPES = ("u8", "f16", "f32", "f64", "c128")


@each("leading", [4096, 4097, 4100])
@each("dtype", DTYPES)
def test_the_thread_value_layout_visits_every_element_once(dtype: str, leading: int) -> None:
    p = problem(4096, 4096, dtype, leading, leading)
    for c in configs(p):
        tv = row_copy(c, p.dtype).tidfrg("dst", Layout((c.tile_m, c.tile_n)))
        everything = list(range(c.tile_m * c.tile_n))
        assert product(tv[0].shape) == c.threads
        assert sorted(tv(i) for i in everything) == everything


def test_asynchronous_copies_need_sm_80_and_four_bytes() -> None:
    def ways(leading: int, dtype: str, arch: str) -> list[str]:
        return [c.via for c in configs(problem(64, 64, dtype, leading, leading), arch)]

    assert ways(64, "f32", "sm_80") == ["registers", "cp.async"]
    assert ways(64, "f32", "sm_75") == ["registers"]
    assert ways(65, "u8", "sm_90") == ["registers"]
    assert ways(65, "f32", "sm_90") == ["registers", "cp.async"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_aligned_copies_are_predicted_ideal(dtype: str) -> None:
    p = problem(4096, 4096, dtype)
    for c in configs(p):
        for op, cost in find_family("tiled_copy").predict(p, c).items():
            assert cost.total == cost.ideal, op


def test_the_narrower_side_decides_the_vector() -> None:
    assert configs(problem(64, 64, "f32", 64, 66))[0].vec == 2
