"""Matrix products on a GPU.  Run by hand on one: python3 -m pytest tests/gpu"""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.kernels.gemm.problem import gemm_problem, matrices, scalar_words
from tests.gpu.gemm_launch import CONFIGS, launch_all, load_all, result, small_ways, steps
from tests.gpu.tools import STATUS, needs_gpu, sanitize
from tests.gpu.turing import check
from tests.kernels.gemm.cases import arguments, packed, unpacked

pytestmark = needs_gpu

UNIT = {"f16": 2.0**-11, "bf16": 2.0**-8, "tf32": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}
"""Unit roundoff of operands; sums are f32 (f64 for f64)."""


@pytest.mark.parametrize("name", CONFIGS)
def test_small_integers_are_exact(name: str) -> None:
    ways = list(small_ways(name, STATUS.arch))
    assert any(config.splits > 1 for _, config in ways)
    launch_all(ways)


def test_every_step_of_the_ladder_is_exact() -> None:
    launch_all(list(steps()))


def test_the_ptx_of_sm_75_gives_the_definition() -> None:
    assert check() >= 12


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(
    "size", [(1009, 1013, 1019), (1, 2053, 64), (2048, 1, 999), (640, 1280, 2304)], ids=str
)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("gemm_sm80", "f16"), ("gemm_sm80", "bf16"), ("gemm_simt", "f32"), ("gemm_simt", "f64")],
)
def test_random_numbers_are_within_the_error_bound(
    name: str, dtype: str, size: tuple[int, int, int], parts: bool
) -> None:
    """|D - AB| <= k u_sum |A||B| + u_out |AB|, against float64 on the rounded operands; D starts poisoned."""
    m, n, k = size
    p = gemm_problem(m, n, k, dtype, b_major="mn")
    rng, args = np.random.default_rng(3), arguments(p)
    args["a"], args["b"] = (packed(rng.standard_normal(x), dtype) for x in (p.a_elems, p.b_elems))
    args |= scalar_words(p, "alpha", 1)
    args["d"][:] = ~np.zeros_like(args["d"])
    choices = CONFIGS[name](p, STATUS.arch)
    config = next((c for c in choices if c.splits > 1), choices[0]) if parts else choices[0]
    found = unpacked(result(args, load_all([(p, config)])[0]), p.result.name).reshape(m, n)
    a, b = matrices(p, unpacked(args["a"], dtype), unpacked(args["b"], dtype))
    exact, magnitude = a @ b, np.abs(a) @ np.abs(b)
    sums = UNIT["f64" if dtype == "f64" else "f32"]
    bound = 2 * k * sums * magnitude + 2 * UNIT[dtype] * np.abs(exact) + 1e-30
    assert np.isfinite(found).all() and (np.abs(found - exact) <= bound).all()


SANITIZED = (
    "gemm_sm80 f16 256 512 256", "gemm_sm80 f16 131 136 72", "gemm_simt f32 256 256 64",
    "gemm_simt f32 131 67 29", "gemm_sm80 f16 131 136 1032 4", "gemm_simt f32 131 67 1029 3",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["memcheck", "racecheck", "synccheck"])
def test_the_sanitizer_finds_nothing(kind: str) -> None:
    sanitize(kind, "tests.gpu.gemm_launch", *" / ".join(SANITIZED).split())
