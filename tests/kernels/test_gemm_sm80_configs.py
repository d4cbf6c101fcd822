"""Which configurations are tried, and that each of them is one that works."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm.heuristic import SM80
from layoutalg.kernels.gemm.problem import Major, gemm_problem
from layoutalg.kernels.gemm.validate import check_config

MAJORS: tuple[Major, Major] = ("k", "mn")
MAJOR = st.sampled_from(MAJORS)
EXTENT = st.integers(1, 600)


@given(EXTENT, EXTENT, EXTENT, MAJOR, MAJOR, st.sampled_from(("f16", "bf16")), st.booleans())
def test_every_problem_of_16_bits_has_a_configuration(
    m: int, n: int, k: int, a_major: Major, b_major: Major, dtype: str, reads_c: bool
) -> None:
    p = gemm_problem(m, n, k, dtype, a_major=a_major, b_major=b_major, reads_c=reads_c)
    found = SM80.configs(p)
    assert found
    for config in found:
        check_config(p, config)


def test_large_problems_take_large_tiles_and_small_ones_many() -> None:
    large, small = (
        SM80.configs(gemm_problem(8192, 8192, 8192))[0],
        SM80.configs(gemm_problem(512, 512, 512))[0],
    )
    assert large.tile_m * large.tile_n == 128 * 256
    assert small.tile_m * small.tile_n <= 64 * 128
    assert not large.edges and SM80.configs(gemm_problem(8191, 8192, 8192))[0].edges


def test_vectors_follow_the_leading_dimensions() -> None:
    tile = SM80.tiles[0].config
    assert SM80.fitted(gemm_problem(256, 256, 100), tile).a_bytes == 8
    assert SM80.fitted(gemm_problem(256, 256, 64, lda=66), tile).a_bytes == 4
    assert SM80.fitted(gemm_problem(256, 256, 99), tile).a_bytes == 2
    assert SM80.fitted(gemm_problem(256, 250, 64), tile).result_vec == 2
    assert SM80.fitted(gemm_problem(256, 256, 64, "tf32"), tile).tile_k == 32


def test_a_product_without_mma_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"no mma\.sync multiplies f64"):
        SM80.configs(gemm_problem(64, 64, 64, "f64"))
