"""Products of 8-bit floats: types, factors and accumulation of calls, as defined and in the simulator."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg import errors
from layoutalg.kernels.elements import bits_of, numbers_of
from layoutalg.ops import matmul, plan_matmul
from tests.sweeps import each

TYPES = ("e4m3", "e5m2")


def drawn(rng: random.Random, m: int, n: int, k: int) -> tuple[Any, Any, dict[str, Any]]:
    """A and B in any order, the types that their bytes carry."""
    values, types = np.random.default_rng(rng.randrange(1 << 30)), [rng.choice(TYPES) for _ in "ab"]
    a, b = (
        bits_of(values.standard_normal(shape), of) for shape, of in zip(((m, k), (k, n)), types, strict=True)
    )
    left, right = (np.asfortranarray(x) if rng.random() < 0.5 else x for x in (a, b))
    return left, right, {"a_dtype": types[0], "b_dtype": types[1]}


def factors(kind: str, m: int, n: int, k: int, rng: np.random.Generator) -> dict[str, Any]:
    """Factors of a kind: one each, of rows and columns, of blocks; stored either way."""
    shapes = {
        "none": (), "one": ((), (1, 1)), "vectors": ((m, 1), (1, n)), "rows": ((m, 1), (1,)),
        "blocks": ((m, -(-k // 128)), (-(-k // 128), -(-n // 128))),
    }[kind]  # fmt: skip
    return {
        name: np.asfortranarray(rng.uniform(0.5, 2, shape).astype("f4"))
        for name, shape in zip(("scale_a", "scale_b"), shapes, strict=False)
    }


def defined(a: Any, b: Any, of: dict[str, Any], scales: dict[str, Any]) -> Any:
    """The product in float64, element by element."""
    left, right = (
        numbers_of(np.ascontiguousarray(a), of["a_dtype"]),
        numbers_of(np.ascontiguousarray(b), of["b_dtype"]),
    )
    k, n = right.shape
    scale_a, scale_b = (scales.get(x, np.ones(())).astype(float) for x in ("scale_a", "scale_b"))
    if (
        scale_a.ndim == 2
        and scale_a.shape[1] == -(-k // 128)
        and scale_b.shape == (-(-k // 128), -(-n // 128))
    ):
        left = left * np.repeat(scale_a, 128, axis=1)[:, :k]
        right = right * np.repeat(np.repeat(scale_b, 128, axis=0)[:k], 128, axis=1)[:, :n]
        return left @ right
    return left @ right * scale_a * scale_b


@pytest.mark.deep
@each("kind", ("none", "one", "vectors", "rows", "blocks"))
@each("seed", range(8), sample=1)
def test_a_product_is_its_definition(kind: str, seed: int) -> None:
    rng = random.Random(f"{kind} {seed}")
    m, n, k = rng.randint(2, 70), rng.randint(2, 150), rng.randint(2, 150)
    k = 16 * -(-k // 16) if kind == "blocks" else k
    a, b, of = drawn(rng, m, n, k)
    scales = factors(kind, m, n, k, np.random.default_rng(seed))
    exact = defined(a, b, of, scales)
    fast = kind != "blocks" and rng.random() < 0.5
    for to in ("float32", "float16"):
        for simulate in (False, True)[: 1 + (to == "float32")]:
            got = matmul(a, b, out_dtype=to, fast_accumulation=fast, simulate=simulate, **of, **scales)
            assert got.dtype == to
            np.testing.assert_allclose(got, exact, rtol=2e-3 if to == "float16" else 1e-6, atol=1e-4)


def test_the_result_is_of_a_type_that_the_library_has() -> None:
    a, b = np.zeros((4, 32), "u1"), np.zeros((32, 8), "u1")
    assert matmul(a, b, a_dtype="e4m3", b_dtype="float8_e5m2").dtype == np.float32
    with pytest.raises(errors.UnsupportedError, match="as bfloat16: float32 and float16"):
        matmul(a, b, a_dtype="e4m3", b_dtype="e5m2", out_dtype="bfloat16")


@each("scales", ({}, {"scale_a": np.ones((3, 0), "f4"), "scale_b": np.ones((0, 1), "f4")}))
def test_no_k_and_no_products_are_as_numpy_has_them(scales: dict[str, Any]) -> None:
    of: dict[str, Any] = {"a_dtype": "e4m3", "b_dtype": "e4m3"}
    bias = np.arange(4, dtype="f4")
    none = matmul(np.zeros((3, 0), "u1"), np.zeros((0, 4), "u1"), bias=bias, **scales, **of)
    np.testing.assert_array_equal(none, np.tile(bias, (3, 1)))
    assert matmul(np.zeros((0, 3, 8), "u1"), np.zeros((8, 4), "u1"), **of).shape == (0, 3, 4)


X = np.zeros((64, 256), "u1")
OF: dict[str, Any] = {"a_dtype": "e4m3", "b_dtype": "e4m3"}
ONES = np.ones((64, 2), "f4"), np.ones((2, 1), "f4")


@each(
    ("options", "said"),
    [
        ({}, "a holds uint8 elements"), ({"a_dtype": "e4m3"}, "b holds uint8 elements"),
        ({**OF, "b_dtype": "f16"}, "b_dtype is 'f16': uint8 and"), ({**OF, "a_dtype": "f9"}, "unknown dtype"),
        ({**OF, "scale_a": np.ones(3, "f4")}, r"scale_a has shape \(3,\): one factor, or \(64, 1\)"),
        ({**OF, "scale_b": np.ones((64, 1), "f4")}, r"scale_b has shape \(64, 1\): one factor, or \(1, 64\)"),
        ({**OF, "scale_a": np.ones(1)}, "scale_a holds float64: factors are float32"),
        ({**OF, "scale_a": ONES[0]}, "may have one per block"), ({**OF, "tf32": True}, "tf32 of float8"),
        ({**OF, "scale_a": ONES[0], "scale_b": ONES[1], "fast_accumulation": True}, "of blocks with fast"),
        ({**OF, "fast_accumulation": 1}, "fast_accumulation is 1: True or False"),
        ({**OF, "scale_a": ONES[0][::-1], "scale_b": ONES[1]}, "scale_a has strides"),
        ({**OF, "out_dtype": "float64"}, "as float64: float32 and float16 are accepted"),
        ({**OF, "alpha": 1e300}, "alpha is 1e[+]300, which f32 cannot hold"),
    ],
)  # fmt: skip
def test_what_is_no_product_of_8_bit_floats_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.LayoutAlgError, match=said):
        matmul(X, X.T, **options)


def test_other_operands_are_refused_and_other_types_are_never_fast() -> None:
    with pytest.raises(errors.ArgumentTypeError, match="a holds float8_e4m3fn, b float32"):
        matmul(X, X.T.astype("f4"), a_dtype="e4m3")
    with pytest.raises(errors.ArgumentTypeError, match="a holds float32, and a_dtype is 'e4m3'"):
        matmul(X.astype("f4"), X.T.astype("f4"), a_dtype="e4m3")
    with pytest.raises(errors.UnsupportedError, match="fast_accumulation of float32"):
        matmul(X.astype("f4"), X.T.astype("f4"), fast_accumulation=True)


def test_operands_that_wgmma_does_not_read_are_copied_along_k() -> None:
    plan = plan_matmul(X, X.T, arch="sm_90", **OF)
    assert plan.copies == () and plan.problem.promoted
    assert plan_matmul(X, np.zeros((256, 4096), "u1"), arch="sm_90", **OF).copies == ("b",)
    ragged = plan_matmul(np.zeros((4096, 4095), "u1"), np.zeros((4096, 4095), "u1").T, arch="sm_90", **OF)
    assert ragged.copies == ("a", "b") and ragged.problem.lda == 4096
    with pytest.raises(errors.UnsupportedError, match="copy=True moves it first"):
        plan_matmul(X, np.zeros((256, 64), "u1"), copy=False, arch="sm_90", **OF)


def test_factors_of_rows_stay_those_of_rows_in_a_transposed_product() -> None:
    out = np.zeros((64, 64), "f4").T
    rows = np.ones((64, 1), "f4")
    plan = plan_matmul(X, X.T, out, scale_a=rows, arch="sm_90", **OF)
    assert plan.problem.epilogue.arrays == {"scale_a": "n"} and plan.copies == ()
    blocks = plan_matmul(X, X.T, out, scale_a=ONES[0], scale_b=ONES[1], arch="sm_90", **OF)
    assert blocks.copies == ("out",) and blocks.problem.scale_strides == (2, 1, 1, 1)
    assert plan_matmul(X, X.T, arch="sm_89", **OF).family == "gemm-sm80"
