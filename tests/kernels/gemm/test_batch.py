"""Products in batches, and operands that start anywhere: verified, refused, and their kernels shared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen import to_cuda
from layoutalg.errors import AlignmentError, NotInjectiveError, ShapeError, UnsupportedError
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM75, SM80
from layoutalg.kernels.gemm.launches import called_launches, called_problem, covering, launches
from layoutalg.kernels.gemm.problem import BatchMode, gemm_problem, matrices
from layoutalg.kernels.gemm.validate import check_config

TWO = (BatchMode(3, a=40 * 40, c=0, d=2 * 40 * 72), BatchMode(2, b=72 * 40, d=40 * 72))
"""A matrix A for each of three, a B for each of two, one C for all."""


@pytest.mark.deep(but=("gemm-sm80-bf16-options4",))
@pytest.mark.parametrize(
    ("family", "dtype", "options"),
    [
        ("gemm-sm80", "f16", {"b_major": "mn", "batch": TWO}),
        ("gemm-sm80", "s8", {"batch": TWO[:1], "activation": "relu"}),
        ("gemm-simt", "f32", {"batch": TWO, "bias": "m"}),
        ("gemm-simt", "f64", {"batch": TWO[1:], "b_major": "k"}),
        ("gemm-sm80", "bf16", {"align_bytes": (2, 4, 8), "b_major": "mn"}),
        ("gemm-simt", "f32", {"align_bytes": (8, 4, 8), "batch": TWO}),
        ("gemm-simt", "f64", {"align_bytes": (8, 8, 8)}),
    ],
)
def test_a_batch_and_any_start_are_verified(family: str, dtype: str, options: dict[str, Any]) -> None:
    """Results, and what every access costs, counted off the program and traced."""
    found = FAMILIES[family]
    p = found.problem(40, 72, 40, dtype, reads_c=True, **({"bias": True} | options))
    verify(found, p).require()


def test_operands_of_a_batch_are_views_with_its_steps() -> None:
    import numpy as np

    p = gemm_problem(40, 72, 40, "f32", batch=TWO)
    a, b = matrices(p, np.arange(p.a_elems), np.arange(p.b_elems))
    assert a.shape == (3, 2, 40, 40) and b.shape == (3, 2, 40, 72)
    assert a[2, 1, 0, 0] == a[2, 0, 0, 0] == 2 * 1600 and b[0, 1, 0, 0] == b[2, 1, 0, 0] == 2880
    assert p.products == 6 and p.d_elems == 6 * 40 * 72 and p.c_elems == 40 * 72
    assert str(p) == "3 x 2 x 40 x 72 x 40 f32 TN" and p.flops == 6 * 2 * 40 * 72 * 40


def test_batches_that_make_no_results_are_refused() -> None:
    with pytest.raises(NotInjectiveError, match="one place for two coordinates"):
        gemm_problem(8, 8, 8, batch=[BatchMode(2, d=32)])
    with pytest.raises(NotInjectiveError):
        gemm_problem(8, 8, 8, batch=[BatchMode(2)])
    with pytest.raises(ShapeError, match="steps of 0 or more"):
        gemm_problem(8, 8, 8, batch=[BatchMode(2, a=-8, d=64)])
    with pytest.raises(ShapeError, match="an extent of the batch = 0"):
        gemm_problem(8, 8, 8, batch=[BatchMode(0, d=64)])


@pytest.mark.parametrize("family", ["gemm-simt", "gemm-sm80"])
def test_vectors_that_a_step_or_a_start_cuts_are_refused(family: str) -> None:
    found = FAMILIES[family]
    dtype = "f32" if family == "gemm-simt" else "f16"
    p = found.problem(64, 64, 64, dtype)
    c = found.choose(p)
    check_config(p, c)
    step = replace(p, batch=(BatchMode(2, a=4096, b=4097, d=4096),))
    with pytest.raises(AlignmentError, match="a step of b = 4097 cuts vectors"):
        check_config(step, c)
    with pytest.raises(AlignmentError, match="the start of b, at a multiple of 4 bytes, cuts vectors"):
        check_config(replace(p, align_bytes=(16, 4, 16)), c)
    for narrow in (step, replace(p, align_bytes=(4, 4, 4))):
        check_config(narrow, found.choose(narrow))


def test_parts_of_k_are_not_offered_to_a_batch() -> None:
    found = FAMILIES["gemm-sm80"]
    p = gemm_problem(64, 64, 4096)
    assert found.choose(p).splits > 1
    several = replace(p, batch=(BatchMode(2, a=1 << 18, b=1 << 18, d=4096),))
    c = found.choose(several)
    assert c.splits == 1
    with pytest.raises(UnsupportedError, match="parts of k of a batch"):
        launches(several, replace(c, splits=2))


def test_one_kernel_computes_every_batch() -> None:
    found = FAMILIES["gemm-sm80"]
    problems = [
        gemm_problem(72, 136, 80, batch=[BatchMode(n, a=a, b=0, d=136 * 72)])
        for n, a in ((2, 5760), (65535, 0))
    ]
    c = found.choose(problems[0])
    first, second = (called_launches(p, c) for p in problems)
    assert first.kernels == second.kernels and dict(second.scalars)["batch0"] == 65535
    wide = covering(problems[0], c)
    assert wide == replace(covering(problems[1], c)) and wide.batch[0].extent == 65535


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_sizes_of_a_class_have_the_same_kernels(dtype: str) -> None:
    """Classes: fewer rows or columns than a tile has; more than 16384 along a mode."""
    found = FAMILIES["gemm-simt" if dtype == "f32" else "gemm-sm80"]
    p = found.problem(96, 200, 72, dtype)
    c = replace(found.choose(p), edges=True)
    texts: dict[Any, list[tuple[int, int, int]]] = {}
    for m, n, k in ((96, 200, 72), (104, 8000, 4096), (16384, 256, 8), (20, 200, 72), (96, 20_000, 72)):
        q = found.problem(m, n, k, dtype)
        texts.setdefault(called_problem(q, c), []).append((m, n, k))
        assert (
            called_launches(q, c).kernels
            == launches(called_problem(q, c), replace(c, static_ld=False)).kernels
        )
    assert [len(x) for x in texts.values()] == [3, 1, 1]


@pytest.mark.deep(
    only=(
        "size0-choice0-bf16-sm_90", "size0-choice1-f32-sm_90", "size1-choice1-f32-sm_90",
        "size2-choice0-bf16-sm_90", "size2-choice1-f32-sm_90",
    )
)  # fmt: skip
@pytest.mark.parametrize(
    ("choice", "dtype", "arch"), [(SM80, "bf16", "sm_90"), (SIMT, "f32", "sm_90"), (SM75, "f16", "sm_75")]
)
@pytest.mark.parametrize("size", [(128, 32768, 512), (301, 20003, 511), (40_000, 24, 8_000)])
def test_kernels_of_large_extents_have_indices_that_64_bits_hold(
    choice: Any, dtype: str, arch: str, size: tuple[int, int, int]
) -> None:
    """The first choice, those in parts of k and, where there is one, by stream-K: all are printed."""
    p = gemm_problem(*size, dtype)
    found = choice.configs(p, arch)
    for config in {id(kind): kind for kind in (found[0], *(c for c in found if c.splits > 1))}.values():
        for kernel in called_launches(p, config, arch).kernels:
            assert to_cuda(kernel)
