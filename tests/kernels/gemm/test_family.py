"""GEMM problems: what is accepted, how large the buffers are, and where an element lies."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels.gemm.problem import ACCUMULATORS, GemmProblem, gemm_problem, matrices
from tests.sweeps import each


def test_defaults_are_dense_and_of_one_type() -> None:
    p = gemm_problem(3, 5, 7)
    assert (p.lda, p.ldb, p.ldc, p.ldd) == (7, 7, 5, 5)
    assert (p.operand.name, p.accumulator.name, p.result.name) == ("f16", "f32", "f16")
    assert (p.a_elems, p.b_elems, p.flops) == (21, 35, 210)
    assert not p.reads_c and not p.bias and p.activation == "none"


@each("element", ACCUMULATORS)
def test_every_type_has_a_sum_and_a_result(element: str) -> None:
    for sums in ACCUMULATORS[element]:
        p = gemm_problem(2, 2, 8, element, accumulator=sums)
        assert p.accumulator.name == sums and p.element == element and p.k * p.packed == 8
        assert p.flops == 64 and str(p).startswith(f"2 x 2 x 8 {element} TN" + " and" * (element == "b1"))
        assert gemm_problem(2, 2, 8, element, accumulator=sums, result=sums).result.name == sums
    default = {"tf32": "f32", "s8": "s32", "s4": "s32", "u4": "s32", "b1": "s32"}.get(element, element)
    assert gemm_problem(2, 2, 8, element).result.name == default


@pytest.mark.parametrize("a_major", ["k", "mn"])
@pytest.mark.parametrize("b_major", ["k", "mn"])
def test_an_element_lies_where_its_major_says(a_major: str, b_major: str) -> None:
    p = gemm_problem(3, 4, 5, "f32", a_major=a_major, b_major=b_major, lda=6, ldb=7)  # type: ignore[arg-type]
    a, b = matrices(p, np.arange(p.a_elems, dtype=np.float32), np.arange(p.b_elems, dtype=np.float32))
    assert a.shape == (3, 5) and b.shape == (5, 4)
    for m, n, k in np.ndindex(3, 4, 5):
        assert a[m, k] == (m * 6 + k if a_major == "k" else k * 6 + m)
        assert b[k, n] == (n * 7 + k if b_major == "k" else k * 7 + n)
    assert a.max() == p.a_elems - 1 and b.max() == p.b_elems - 1
    letter = {"k": "TN", "mn": "NT"}
    assert str(p) == f"3 x 4 x 5 f32 {letter[a_major][0]}{letter[b_major][1]}, lda 6, ldb 7"


@each(
    ("arguments", "error", "message"),
    [
        ({"m": 0}, ShapeError, "m = 0: a positive integer"),
        ({"k": True}, ShapeError, "k = True: a positive integer"),
        ({"n": 2.0}, ShapeError, r"n = 2\.0: a positive integer"),
        ({"lda": 4}, ShapeError, "lda = 4 is less than the row length 8"),
        ({"ldb": 7, "b_major": "k"}, ShapeError, "ldb = 7 is less than the row length 8"),
        ({"ldd": 3}, ShapeError, "ldd = 3 is less than the row length 8"),
        ({"lda": 0}, ShapeError, "lda = 0: a positive integer"),
        ({"dtype": "u8"}, UnsupportedError, "GEMM of u8"),
        ({"dtype": "f12"}, UnknownNameError, "f12"),
        ({"accumulator": "f64"}, UnsupportedError, "f16 products are added up in f32 or f16, not f64"),
        ({"dtype": "bf16", "accumulator": "bf16"}, UnsupportedError, "not bf16"),
        ({"result": "f64"}, UnsupportedError, "a result of f64 from f16: f16 and f32 are accepted"),
        ({"a_major": "m"}, UnsupportedError, "a_major = 'm': 'k' and 'mn' are accepted"),
        ({"activation": "swish"}, UnsupportedError, "activation 'swish'"),
        ({"dtype": "s4", "k": 33}, ShapeError, "k = 33 of s4: rows are whole bytes, multiples of 2"),
        ({"dtype": "u4", "k": 32, "ldb": 35}, ShapeError, "ldb = 35 of u4"),
        ({"dtype": "b1", "k": 100}, ShapeError, "k = 100 of b1: rows are whole bytes, multiples of 8"),
        ({"dtype": "s4", "k": 32, "a_major": "mn"}, UnsupportedError, "2 elements of s4 share a byte"),
        (
            {"dtype": "b1", "k": 32, "arithmetic": "or"},
            UnsupportedError,
            "'or': 'and' and 'xor' are accepted",
        ),
        ({"dtype": "s8", "arithmetic": "xor"}, UnsupportedError, "of s8: bits alone have a choice"),
    ],
    ids=lambda x: str(x) if isinstance(x, dict) else "",
)
def test_what_makes_no_product_is_refused(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        gemm_problem(**{"m": 8, "n": 8, "k": 8, **arguments})  # type: ignore[arg-type]


def test_a_problem_is_a_value() -> None:
    assert gemm_problem(1, 2, 3) == gemm_problem(1, 2, 3, "f16", accumulator="f32")
    assert isinstance(hash(gemm_problem(1, 2, 3)), int) and isinstance(gemm_problem(1, 2, 3), GemmProblem)
