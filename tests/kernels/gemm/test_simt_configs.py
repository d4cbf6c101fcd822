"""The choice among tiles: it always fits, and follows the number of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.program.checks import check
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm.choice.heuristic import SIMT
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.programs.simt import build
from layoutalg.kernels.gemm.validate import check_config
from tests.simt import run
from tests.sweeps import each

extents = st.integers(1, 9000)
majors = st.sampled_from(("k", "mn"))


@given(extents, extents, extents, majors, majors, st.sampled_from(("f32", "f64")), st.integers(0, 5))
def test_every_problem_has_a_configuration_that_fits(
    m: int, n: int, k: int, a: str, b: str, dtype: str, more: int
) -> None:
    p = gemm_problem(
        m, n, k, dtype, a_major=a, b_major=b, lda=(k if a == "k" else m) + more,  # type: ignore[arg-type]
        ldb=(k if b == "k" else n) + more, ldd=n + more,
    )  # fmt: skip
    found = SIMT.configs(p)
    assert found
    for c in found:
        check_config(p, c)


@each("arch", ["sm_75", "sm_80", "sm_90"], sample=1)
@each("dtype", ["f32", "f64"], sample=1)
def test_every_configuration_passes_the_grammar(dtype: str, arch: str) -> None:
    p = gemm_problem(1000, 1001, 999, dtype, b_major="mn", reads_c=True, bias=True, activation="relu")
    found = SIMT.configs(p, arch)
    parts = next(c for c in found if c.splits > 1)
    for c in (*(c for c in found if c.splits == 1), parts):
        check(build(p, c), arch)


@each("number", range(len(SIMT.tiles)), sample=2)
def test_every_tile_multiplies(number: int) -> None:
    c = SIMT.tiles[number].config
    p = gemm_problem(c.tile_m - 3, c.tile_n + 4, 2 * c.tile_k + 1, "f32", b_major="mn")
    chosen = next(
        x for x in SIMT.configs(p) if (x.tile_m, x.tile_n, x.thread_m) == (c.tile_m, c.tile_n, c.thread_m)
    )
    done = run(p, chosen)
    np.testing.assert_array_equal(done.got, done.expected)


def test_large_products_take_the_tile_with_the_most_reuse_and_small_ones_many_blocks() -> None:
    def first(n: int) -> int:
        c = SIMT.configs(gemm_problem(n, n, n, "f32", b_major="mn"))[0]
        return c.tile_m * c.tile_n

    sizes = [first(n) for n in (128, 512, 1024, 4096)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 128 * 256


def test_other_types_are_refused() -> None:
    p: GemmProblem = gemm_problem(64, 64, 64, "f16")
    with pytest.raises(UnsupportedError, match="f32 and f64"):
        SIMT.configs(p)
