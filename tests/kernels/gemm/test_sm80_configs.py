"""Which configurations are tried, and that each of them is one that works."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import Access, analyze
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.problem import Major, gemm_problem
from layoutalg.kernels.gemm.programs.sm80 import operand_plan
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.layout import Layout
from tests.sweeps import each

MAJOR = st.sampled_from(("k", "mn"))
EXTENT = st.integers(1, 9000)


@given(
    EXTENT, EXTENT, EXTENT, MAJOR, MAJOR, st.sampled_from(("f16", "bf16", "f32", "f64")), st.integers(0, 5),
    st.booleans(),
)  # fmt: skip
def test_every_problem_has_a_configuration_that_fits(
    m: int, n: int, k: int, a: Major, b: Major, dtype: str, more: int, reads_c: bool
) -> None:
    lead: dict[str, Any] = {
        "lda": (k if a == "k" else m) + more,
        "ldb": (k if b == "k" else n) + more,
        "ldd": n + more,
    }
    p = gemm_problem(m, n, k, dtype, a_major=a, b_major=b, reads_c=reads_c, **lead)
    choice: Any = SIMT if dtype in ("f32", "f64") else SM80
    found = choice.configs(p)
    assert found
    for config in found:
        check_config(p, config)


def test_large_problems_take_large_tiles_and_small_ones_many() -> None:
    large, small = (SM80.configs(gemm_problem(n, n, n))[0] for n in (8192, 512))
    assert large.tile_m * large.tile_n == 128 * 256 and small.tile_m * small.tile_n <= 64 * 128
    assert not large.edges and SM80.configs(gemm_problem(8191, 8192, 8192))[0].edges


def test_vectors_follow_the_leading_dimensions() -> None:
    tile = SM80.tiles[0].config
    assert SM80.fitted(gemm_problem(256, 256, 100), tile).a_bytes == 8
    assert SM80.fitted(gemm_problem(256, 256, 64, lda=66), tile).a_bytes == 4
    assert SM80.fitted(gemm_problem(256, 256, 99), tile).a_bytes == 2
    assert SM80.fitted(gemm_problem(256, 250, 64), tile).result_vec == 2
    assert SM80.fitted(gemm_problem(256, 256, 64, "tf32"), tile).tile_k == 32


def test_a_product_without_mma_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"no mma\.sync multiplies f32"):
        SM80.configs(gemm_problem(64, 64, 64, "f32"))


@each("arch", ("sm_80", "sm_86", "sm_89", "sm_90"), sample=1)
def test_what_is_chosen_for_an_architecture_is_built_for_it(arch: str) -> None:
    """Warps of 64 x 64 multiply s4 where tensor cores do: past the limit of sums of a function, elsewhere."""
    family = FAMILIES["gemm-sm80"]
    for dtype in ("s4", "u4", "b1"):
        p = family.problem(4096, 4096, 4096, dtype)
        c = family.choose(p, arch)
        assert family.launches(p, c, arch).kernels
        assert family.called is not None and family.called(p, c, arch).kernels
        assert family.shared is not None and family.shared(p, c, arch).kernels


@each(
    ("dtype", "arch", "rows", "k"),
    [
        ("f64", "sm_90", 16, 4), ("f64", "sm_80", 8, 4), ("s8", "sm_80", 16, 0),
        ("s4", "sm_80", 16, 0), ("b1", "sm_90", 16, 0),
    ],
)  # fmt: skip
def test_other_types_are_offered_tiles(dtype: str, arch: str, rows: int, k: int) -> None:
    found = SM80.configs(gemm_problem(4096, 4096, 4096, dtype), arch)
    assert {(c.mma_m, c.mma_k) for c in found} == {(rows, k)} and found[0].tile_m * found[0].tile_n > 64 * 64
    for c in found:
        check_config(gemm_problem(4096, 4096, 4096, dtype), c, arch)


def test_a_mma_that_is_a_call_has_small_warps() -> None:
    for p in (gemm_problem(4096, 4096, 4096, "s4"), gemm_problem(64, 64, 64, "b1", arithmetic="xor")):
        assert {(c.warp_m, c.warp_n) for c in SM80.configs(p, "sm_90")} == {(32, 32)}


@each(("dtype", "major"), [("f64", "k"), ("f64", "mn"), ("tf32", "mn"), ("s4", "k"), ("b1", "k")])
def test_fragments_are_loaded_without_conflicts(dtype: str, major: Major) -> None:
    p = gemm_problem(4096, 4096, 4096, dtype, a_major=major, b_major=major)
    for c in SM80.configs(p):
        for side in ("a", "b"):
            plan = operand_plan(p, c, side)
            shape = Layout((plan.tile.rows, plan.tile.deep))
            op = plan.read.atom.src_op or f"ld.shared.b{plan.tile.element.bits}"
            report: Any = analyze(plan.layout, Access(op, plan.read.tidfrg("src", shape), plan.tile.element))
            assert report.excess == 0, (str(c), str(plan.layout))
