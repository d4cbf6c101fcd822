"""Arithmetic on registers: each effect is its definition, and each text computes the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import (
    ONE,
    add_same,
    add_scaled,
    convert,
    decode,
    encode,
    fma_outer,
    fold,
    scale,
    scale_and_add,
)
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program.checks import check
from layoutalg.errors import UnsupportedError
from tests.codegen.instr.probe import LANES, Case, ran, word
from tests.sweeps import each

RANDOM = np.random.default_rng(11)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 65504.0, 65520.0, 1e-8, 2.0**-24, 3.0e38, 1.0, -1.0])


def drawn(n: int, element: str = "f32") -> np.ndarray:
    """Words of random numbers of `element`, some of them special, none beyond float32."""
    values = RANDOM.standard_normal((LANES, n)) * 10.0 ** RANDOM.integers(-6, 6, (LANES, n))
    at = RANDOM.random((LANES, n)) < 0.2
    values[at] = RANDOM.choice(SPECIAL, int(at.sum()))
    with np.errstate(over="ignore"):
        return encode(values, element)


def whole(n: int) -> np.ndarray:
    """Words of doubles whose products and sums are exact."""
    return encode(RANDOM.integers(-1000, 1000, (LANES, n)).astype(float), "f64")


def rounded(value: Fraction) -> float:
    """The definition of rounding to float32: the nearest of the neighbours, the even one of two."""
    near = np.float32(value.numerator / value.denominator)
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    best = min(abs(Fraction(float(x)) - value) for x in around)
    tied = [x for x in around if abs(Fraction(float(x)) - value) == best]
    return float(min(tied, key=lambda x: int(x.view(np.uint32)) & 1))


@each(("m", "n"), [(1, 1), (2, 3), (8, 8)])
@each("element", ["f32", "f64"])
def test_an_outer_product_is_added_exactly_where_it_can_be(m: int, n: int, element: str) -> None:
    a, b = (RANDOM.integers(-1000, 1000, (LANES, x)).astype(float) for x in (m, n))
    d = RANDOM.integers(-1000, 1000, (LANES, m * n)).astype(float)
    got = fma_outer(m, n, element).effect(None, None, *(encode(x, element) for x in (d, a, b)))
    wanted = d.reshape(LANES, m, n) + a[:, :, None] * b[:, None, :]
    np.testing.assert_array_equal(decode(got, element).reshape(wanted.shape), wanted)


def test_a_multiply_add_of_floats_is_rounded_once() -> None:
    a, b = (RANDOM.standard_normal((LANES, 8)).astype(np.float32).astype(float) for _ in "ab")
    d = (RANDOM.standard_normal((LANES, 64)) * 2.0 ** RANDOM.integers(-30, 30, (LANES, 64))).astype("f4")
    got = decode(fma_outer(8, 8).effect(None, None, *(encode(x, "f32") for x in (d, a, b))), "f32")
    for lane, i, j in itertools.product(range(LANES), range(8), range(8)):
        exact = Fraction(a[lane, i]) * Fraction(b[lane, j]) + Fraction(float(d[lane, 8 * i + j]))
        assert got[lane, 8 * i + j] == rounded(exact)


def test_a_sum_that_float64_rounds_to_a_tie_is_rounded_once() -> None:
    """1 + 2^-24 is halfway between two floats; the product's last bit, below float64's, breaks the tie."""
    x = 1 + 2.0**-23
    a, b, d = np.array([[2.0**-80]]), np.array([[1.0]]), np.array([[x]])
    for sign, wanted in ((1.0, np.float32(1 + 2.0**-22)), (-1.0, np.float32(x))):
        half = np.array([[2.0**-24 * (1 + sign * 2.0**-23)]])
        got = fma_outer(1, 1).effect(None, None, *(encode(v, "f32") for v in (d, half, b)))
        assert decode(got, "f32")[0, 0] == wanted
    tiny = fma_outer(1, 1).effect(None, None, *(encode(v, "f32") for v in (d, a, b)))
    assert decode(tiny, "f32")[0, 0] == x


@pytest.mark.parametrize("n", [1, 2, 8])
def test_scaling_is_a_product_a_float(n: int) -> None:
    v = drawn(n)
    got = scale(n).effect(None, None, v, word(-0.37))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got.view(np.float32), v.view(np.float32) * np.float32(-0.37))


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_adding_a_scaled_vector_or_one_number(element: str) -> None:
    v, c, one = drawn(4), drawn(4, element), drawn(2, element)[:, :1]
    got = decode(add_scaled(4, element).effect(None, None, v, c, word(0.75)), "f32")
    values, others = decode(v, "f32"), decode(c, element)
    with np.errstate(all="ignore"):
        for x, y, z in zip(values.flat, others.flat, got.flat, strict=True):
            rough = np.float32(x + 0.75 * y)
            exact = np.isfinite(rough) and np.isfinite([x, y]).all()
            wanted = rounded(Fraction(x) + Fraction(3, 4) * Fraction(y)) if exact else rough
            np.testing.assert_array_equal(z, wanted)
        added = (values + decode(one, element)[:, :1]).astype(np.float32)
    np.testing.assert_array_equal(decode(add_same(4, element).effect(None, None, v, one), "f32"), added)


@each("element", ["f16", "bf16"])
@each("n", [1, 2, 8])
def test_packing_converts_in_order_and_unpacking_undoes_it(n: int, element: str) -> None:
    v = drawn(n)
    with np.errstate(all="ignore"):
        wanted = decode(encode(decode(np.hstack([v, v][: 2 if n == 1 else 1]), "f32"), element), element)[
            :, :n
        ]
    packed = convert(n, "f32", element).effect(None, None, v)
    np.testing.assert_array_equal(decode(packed, element)[:, :n], wanted)
    np.testing.assert_array_equal(
        decode(convert(n, element, "f32").effect(None, None, packed), "f32"), wanted
    )


def test_what_is_not_offered_is_refused() -> None:
    for kind, words in ONE.items():
        assert decode(np.array([words], dtype=np.uint32), kind).tolist() == [[1.0]]
    asked: tuple[tuple[Callable[..., object], tuple[Any, ...]], ...] = (
        (fma_outer, (2, 2, "f16")), (scale, (2, "f16")), (add_scaled, (3, "f16")), (add_scaled, (2, "s8")),
        (add_same, (2, "s8")),
    )  # fmt: skip
    for make, sizes in asked:
        with pytest.raises(UnsupportedError):
            make(*sizes)


# --- the text ------------------------------------------------------------------------------------------


CASES: list[Case] = [
    (fma_outer(2, 3), [drawn(6), drawn(2), drawn(3)], []),
    (fma_outer(1, 1), [drawn(1), drawn(1), drawn(1)], []),
    (fma_outer(3, 4), [drawn(12), drawn(3), drawn(4)], []),
    (fma_outer(2, 1, "f64"), [whole(n) for n in (2, 2, 1)], []),
    (scale(4), [drawn(4)], [1.7]),
    (scale(1), [drawn(1)], [-3.0]),
    *((add_scaled(4, e), [drawn(4), drawn(4, e)], [0.3]) for e in ("f32", "f16", "bf16")),
    (add_scaled(2, "f16"), [drawn(2), drawn(2, "f16")], [1.0]),
    *((scale_and_add(2, e), [drawn(2), drawn(2, e)], [0.3]) for e in ("f32", "f16", "bf16")),
    *((convert(n, "f32", e), [drawn(n // 2), drawn(n)], []) for e in ("f16", "bf16") for n in (2, 8)),
    *((convert(n, e, "f32"), [drawn(n), drawn(max(2, n), e)], []) for e in ("f16", "bf16") for n in (1, 4)),
    *((add_same(3, e), [drawn(3), drawn(2, e)[:, :1]], []) for e in ("f32", "f16", "bf16")),
]  # fmt: skip


def test_the_texts_compute_the_effects() -> None:
    for instr, got, (wanted, *_) in ran(CASES):
        element = instr.name.rpartition("_")[2] if instr.name.startswith(("convert", "fma")) else "f32"
        np.testing.assert_array_equal(decode(got[0], element), decode(wanted, element), err_msg=instr.name)


def test_epilogues_of_doubles_are_numpys_and_so_are_their_texts() -> None:
    """Of whole numbers, whose products and sums are exact, and of what is no number."""
    cases: list[Case] = []
    wanted: list[Any] = []
    for n, factor in ((1, -3.0), (3, 0.5), (4, np.inf)):
        words = np.array([factor]).view(np.uint32).tolist()
        v, c, one = (decode(whole(x), "f64") for x in (n, n, 1))
        v.flat[:4] = np.nan, np.inf, -np.inf, -0.0
        with np.errstate(invalid="ignore"):
            wanted += [v * factor, v + factor * c, v + one]
        v, c, one = (encode(x, "f64") for x in (v, c, one))
        cases += [(scale(n, "f64"), [v], words), (add_scaled(n, "f64"), [v, c], words)]
        cases.append((add_same(n, "f64"), [v, one], []))
    for (instr, got, (found,)), numbers in zip(ran(cases), wanted, strict=True):
        for x in (got[0], found):
            np.testing.assert_array_equal(decode(x, "f64"), numbers, err_msg=instr.name)


def test_packing_and_maxima_need_no_instruction_of_sm_80() -> None:
    """Older GPUs round each float by itself, and look for NaN: the same numbers by other instructions."""
    k = KernelBuilder("k", LANES)
    d, v = k.reg("d", 4), k.reg("v", 8)
    k.do(convert(8, "f32", "bf16"), d, v)
    k.do(convert(2, "f32", "f16"), d[0], v.slice(0, count=2))
    k.do(convert(4, "f32", "e4m3"), d[0], v.slice(0, count=4))
    k.do(fold("max", 2, 1), v[0], v.slice(1, count=2))
    built = k.build()
    check(built, "sm_70")
    text = to_cuda(built, "sm_75")
    for op in ("cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32", "max.NaN.f32"):
        line = text.index(op)
        assert text.rindex("#if __CUDA_ARCH__ >= 800", 0, line) > text.rfind("#else", 0, line)
    assert text.index("#if __CUDA_ARCH__ >= 890") < text.index("cvt.rn.satfinite.e4m3x2.f32")
