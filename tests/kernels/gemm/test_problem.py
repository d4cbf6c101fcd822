"""GEMM problems: how large the buffers are, where an element lies, and how a problem is written."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.kernels.gemm import BatchMode, GemmProblem, gemm_problem, matrices, parts
from layoutalg.kernels.gemm.problem import ACCUMULATORS, stored_problem
from tests.sweeps import each


def test_defaults_are_dense_and_of_one_type_and_a_problem_is_a_value() -> None:
    p = gemm_problem(3, 5, 7)
    assert (p.lda, p.ldb, p.ldc, p.ldd) == (7, 7, 5, 5)
    assert (p.operand.name, p.accumulator.name, p.result.name) == ("f16", "f32", "f16")
    assert (p.a_elems, p.b_elems, p.flops) == (21, 35, 210)
    assert not p.reads_c and p.epilogue.said("A B") == "alpha A B"
    assert {p} == {gemm_problem(3, 5, 7, "f16", accumulator="f32")} and isinstance(p, GemmProblem)


@each("element", ACCUMULATORS)
def test_every_type_has_a_sum_and_a_result(element: str) -> None:
    for sums in ACCUMULATORS[element]:
        p = gemm_problem(2, 2, 8, element, accumulator=sums)
        assert p.accumulator.name == sums and p.element == element and p.k * p.packed == 8
        assert p.flops == 64 and str(p).startswith(f"2 x 2 x 8 {element} TN" + " and" * (element == "b1"))
        assert gemm_problem(2, 2, 8, element, accumulator=sums, result=sums).result.name == sums
    usual = {"tf32": "f32", **dict.fromkeys(("s8", "s4", "u4", "b1"), "s32")}
    usual |= dict.fromkeys(("e4m3", "e5m2"), "bf16")
    default = usual.get(element, element)
    assert gemm_problem(2, 2, 8, element).result.name == default


@pytest.mark.parametrize("a_major", ["k", "mn"])
@pytest.mark.parametrize("b_major", ["k", "mn"])
def test_an_element_lies_where_its_major_and_the_steps_of_a_batch_say(a_major: str, b_major: str) -> None:
    batch = BatchMode(3, a=40, d=200), BatchMode(2, b=50, d=100)
    p = gemm_problem(3, 4, 5, "f32", a_major=a_major, b_major=b_major, lda=6, ldb=7, ldd=8, batch=batch)  # type: ignore[arg-type]
    a, b = matrices(p, np.arange(p.a_elems, dtype=np.float32), np.arange(p.b_elems, dtype=np.float32))
    assert np.broadcast_shapes(a.shape, (3, 2, 3, 5)) == (3, 2, 3, 5) and b.shape[-2:] == (5, 4)
    for i, j, m, n, k in np.ndindex(3, 2, 3, 4, 5):
        assert a[i, j, m, k] == 40 * i + (m * 6 + k if a_major == "k" else k * 6 + m)
        assert b[i, j, k, n] == 50 * j + (n * 7 + k if b_major == "k" else k * 7 + n)
    assert a.max() == p.a_elems - 1 and b.max() == p.b_elems - 1
    assert p.products == 6 and p.d_elems == 500 + 2 * 8 + 4 and p.flops == 6 * 2 * 3 * 4 * 5
    letters = {"k": "TN", "mn": "NT"}
    assert str(p) == f"3 x 2 x 3 x 4 x 5 f32 {letters[a_major][0]}{letters[b_major][1]}, lda 6, ldb 7, ldd 8"


def test_a_part_of_k_is_a_product_without_an_end() -> None:
    """Of f32 sums; those of ragged rows are added one by one."""
    p = gemm_problem(64, 72, 128, "f16", reads_c=True, bias=True, activation="relu", ldd=80)
    assert stored_problem(p, 2) == gemm_problem(
        64, 72, 128, "f16", result="f32", epilogue=stored_problem(p, 2).epilogue
    )
    assert not stored_problem(p, 2).epilogue.arrays
    assert parts.combine_vector(gemm_problem(64, 65, 32)) == 1
