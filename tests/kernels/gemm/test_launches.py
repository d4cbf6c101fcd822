"""The launches that compute a product: what they take, what they cost, and which problems share a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.codegen.gpu import compile_sequence
from layoutalg.codegen.program import SCRATCH, Global, check_argument
from layoutalg.errors import ResourceError
from layoutalg.kernels.gemm import Config, GemmProblem, SimtConfig, Sm80Config, gemm_problem, scalar_words
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.launches import covering, launches, shared_launches

SPLIT: tuple[tuple[GemmProblem, Config], ...] = (
    (gemm_problem(64, 128, 256), Sm80Config(64, 64, 32, 2, 2, 3, splits=3)),
    (gemm_problem(64, 64, 256, "s8", bias=True), Sm80Config(64, 64, 64, 2, 2, 2, splits=2, result_vec=4)),
    (gemm_problem(64, 64, 96, "f32", b_major="mn"), SimtConfig(64, 64, 16, 8, 4, 4, splits=4)),
    (
        gemm_problem(64, 32, 64, "f64", b_major="mn", reads_c=True),
        SimtConfig(
            64, 32, 16, 8, 2, 4, a_vector=2, b_vector=2, fragment=2, run_m=2, run_n=2, result_vec=2, pad=2,
            splits=2,
        ),
    ),
)  # fmt: skip


def test_a_whole_product_is_one_kernel_without_a_workspace() -> None:
    p, c = SPLIT[0][0], replace(SPLIT[0][1], splits=1)
    one = launches(p, c)
    assert len(one.kernels) == 1 and one.scratch_bytes == 0


EXTENT = st.integers(1, 5000)


@pytest.mark.deep
@settings(max_examples=8)
@given(EXTENT, EXTENT, EXTENT, st.integers(0, 9), st.booleans(), st.booleans())
def test_a_covering_kernel_takes_the_problem(
    m: int, n: int, k: int, more: int, simt: bool, reads_c: bool
) -> None:
    """Every argument of the problem is in the range that the wider kernel declares; its pointers align."""
    dtype = "f32" if simt else "f16"
    p = gemm_problem(m, n, k, dtype, b_major="mn", lda=k + more, ldb=n + more, ldd=n + more, reads_c=reads_c)
    choices: Any = SIMT.configs(p) if simt else SM80.configs(p)
    for c in {x.splits > 1: x for x in choices}.values():
        exact, wide = launches(p, c), launches(covering(p, c), c)
        given_args = {x: x for x in ("a", "b", "c", "d", SCRATCH)} | scalar_words(p, "alpha", 1)
        given_args |= scalar_words(p, "beta", 1)
        for one, other, args in zip(exact.kernels, wide.kernels, exact.arguments(given_args), strict=True):
            assert [x.name for x in one.params] == [x.name for x in other.params]
            for mine, widened in zip(one.params, other.params, strict=True):
                if isinstance(mine, Global) and isinstance(widened, Global):
                    assert mine.align_bytes == widened.align_bytes
                elif not isinstance(widened, Global):
                    check_argument(widened, args[widened.name])


def test_neighbours_share_kernels() -> None:
    c = SimtConfig(128, 256, 8, 16, 8, 4, edges=True)
    sizes = range(4224, 8193, 128)
    assert len({covering(gemm_problem(n, n, n, "f32"), c) for n in sizes}) == 1


def test_compiled_launches_keep_what_they_need() -> None:
    p, c = SPLIT[0]
    compiled = compile_sequence(launches(p, c, "sm_90a"), "sm_90a")
    assert [x.kernel.name for x in compiled.prepared] == ["gemm_sm80_f16", "gemm_combine_f16"]
    for x, kernel in zip(compiled.prepared, launches(p, c).kernels, strict=True):
        assert x.kernel.params == kernel.params and x.kernel.grid == kernel.grid
        assert x.cubin.spill_bytes == 0 and kernel.name in x.source
    words = scalar_words(p, "alpha", 1.0)
    ready = compiled.ready(words)
    assert [kernel.dependent for kernel in ready.kernels] == [False, True]
    assert (
        ready.buffers == (("a", "b", "scratch"), ("scratch", "d")) and ready.scratch_bytes == 3 * 4 * 64 * 128
    )


def test_shared_launches_compute_the_problem_with_the_kernels_of_a_larger_one() -> None:
    p, c = SPLIT[0]
    shared, exact = shared_launches(p, c), launches(p, c)
    assert shared.scalars == exact.scalars and shared.scratch_bytes == exact.scratch_bytes
    assert (
        shared.buffers == exact.buffers
        and shared.kernels == launches(covering(p, c), replace(c, splits=2)).kernels
    )


def test_a_way_that_cannot_work_is_refused_before_anything_is_compiled() -> None:
    (p, c), (q, d) = SPLIT[0], SPLIT[2]
    with pytest.raises(ResourceError, match="shared memory"):
        shared_launches(p, replace(c, stages=40))
    with pytest.raises(ResourceError, match="threads per block"):
        shared_launches(q, replace(d, tile_m=64 * 64, tile_n=64))


@pytest.mark.parametrize("c", [SimtConfig(64, 64, 8, 4, 4, 4), Sm80Config(64, 64, 32, 2, 2, 3)], ids=str)
def test_leading_dimensions_that_are_constants_are_not_widened(c: SimtConfig | Sm80Config) -> None:
    p = gemm_problem(100, 72, 40, "f32" if isinstance(c, SimtConfig) else "f16", lda=56, ldd=80)
    constant, free = covering(p, replace(c, edges=True, static_ld=True)), covering(p, replace(c, edges=True))
    assert (constant.lda, constant.ldb, constant.ldd) == (p.lda, p.ldb, p.ldd)
    assert free.lda > p.lda and free.ldd > p.ldd
