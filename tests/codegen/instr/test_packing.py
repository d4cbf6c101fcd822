"""Elements in 32-bit words: decoding and encoding are NumPy's, and round to the nearest with ties to even."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.instr import WORD_ELEMS, decode, encode
from layoutalg.errors import UnknownNameError
from tests.sweeps import each

CARRIER = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "s32": "<i4", "s8": "<i1", "u8": "<u1"}
MANTISSA_BITS = {"f16": 10, "bf16": 7, "tf32": 10, "e4m3": 3, "e5m2": 2}
LOWEST_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}
RANDOM = np.random.default_rng(3)


def words(rows: int = 8, columns: int = 2) -> np.ndarray:
    return RANDOM.integers(0, 1 << 32, (rows, columns), dtype=np.uint32)


@each("element", CARRIER)
def test_decoding_reads_the_bytes_in_order_and_encoding_is_its_inverse(element: str) -> None:
    data = words(256)
    values = decode(data, element)
    wanted = np.frombuffer(data.tobytes(), dtype=CARRIER[element]).reshape(len(data), -1)
    assert wanted.shape[1] == data.shape[1] * WORD_ELEMS[element]
    np.testing.assert_array_equal(values, wanted)
    again = encode(values, element)
    assert again.dtype == np.uint32 and again.shape == data.shape
    np.testing.assert_array_equal(decode(again, element), values)
    if element in ("s32", "s8", "u8"):
        np.testing.assert_array_equal(again, data)


def test_a_word_holds_its_first_element_low_and_tf32_ignores_what_it_has_no_room_for() -> None:
    for element, data, values in (
        ("bf16", [0x3F804000], [2.0, 1.0]), ("s8", [0x0403FF01], [1, -1, 3, 4]),
        ("f64", [0, 0x3FF00000], [1.0]),
        ("tf32", [0x3F801FFF, 0x3F802000], [1.0, 1.0009765625]),
    ):  # fmt: skip
        assert decode(np.array([data], dtype=np.uint32), element).tolist() == [values]


def nearest(value: float, element: str) -> float:
    """The definition: the multiple of the last place that is nearest, the even one of two."""
    exact, bits = Fraction(value), MANTISSA_BITS[element]
    if exact == 0:
        return 0.0
    exponent = max(int(np.frexp(value)[1]) - 1, LOWEST_EXPONENT[element])
    unit = Fraction(2) ** (exponent - bits)
    return float(round(exact / unit) * unit)  # round() takes ties to even


def around(element: str) -> st.SearchStrategy[float]:
    """Values next to representable ones and to the ties between them."""
    bits = MANTISSA_BITS[element]
    whole = st.integers(-(1 << bits + 2), 1 << bits + 2).map(lambda i: i / 2)
    nudge = st.sampled_from([0.0, 2.0**-8, -(2.0**-8), 2.0**-30, -(2.0**-30)])
    scale = st.integers(-12, 4).map(lambda e: 2.0**e)
    return st.builds(lambda a, n, s: (a + n) * s, whole, nudge, scale)


@pytest.mark.parametrize("element", MANTISSA_BITS)
@given(st.data())
def test_encoding_rounds_once_to_the_nearest_ties_to_even(element: str, data: st.DataObject) -> None:
    n = int(WORD_ELEMS[element])
    values = data.draw(st.lists(around(element), min_size=n, max_size=n))
    got = decode(encode(np.array([values]), element), element)[0]
    assert got.tolist() == [nearest(v, element) for v in values]


def test_a_tie_that_only_float64_breaks_is_not_a_tie() -> None:
    """1 + 2^-8 is halfway between two bf16 numbers; a little more is not, though float32 cannot hold it."""
    tie = 1 + 2.0**-8
    assert decode(encode(np.array([[tie, tie + 2.0**-40]]), "bf16"), "bf16").tolist() == [[1.0, 1 + 2.0**-7]]
    tie = 1 + 2.0**-11
    assert decode(encode(np.array([[tie + 2.0**-40]]), "tf32"), "tf32").tolist() == [[1 + 2.0**-10]]


def byte_float(code: int, exponents: int) -> float:
    """The definition: sign, exponent and mantissa of an OCP 8-bit float, E5M2 or E4M3."""
    sign, exponent, bits = code >> 7, code >> 7 - exponents & (1 << exponents) - 1, 7 - exponents
    mantissa, bias = code & (1 << bits) - 1, (1 << exponents - 1) - 1
    if exponents == 5 and exponent == 31:
        size = np.nan if mantissa else np.inf
    elif exponents == 4 and code & 0x7F == 0x7F:
        size = np.nan
    elif exponent:
        size = (1 + mantissa / 2**bits) * 2.0 ** (exponent - bias)
    else:
        size = mantissa / 2**bits * 2.0 ** (1 - bias)
    return -size if sign else size


@pytest.mark.parametrize(("element", "exponents"), [("e4m3", 4), ("e5m2", 5)])
def test_every_8_bit_float_is_its_definition_and_what_lies_between_goes_to_the_nearest(
    element: str, exponents: int
) -> None:
    codes = np.arange(256, dtype=np.uint8)
    numbers = decode(codes.view(np.uint32)[None], element)[0]
    np.testing.assert_array_equal(numbers, [byte_float(code, exponents) for code in range(256)])
    back = encode(numbers[None], element).view(np.uint8)[0]
    known = ~np.isnan(numbers)
    np.testing.assert_array_equal(back[known], codes[known])
    assert np.isnan(decode(back.view(np.uint32)[None], element)[0, ~known]).all()
    positive = numbers[:128][np.isfinite(numbers[:128])]
    for low, high in pairwise(positive):
        middle = (low + high) / 2
        even = low if np.flatnonzero(positive == low)[0] % 2 == 0 else high
        some = np.array([[np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), -middle]])
        assert decode(encode(some, element), element)[0].tolist() == [low, even, high, -even]
    largest, step = positive[-1], positive[-1] - positive[-2]
    past = decode(encode(largest + step * np.array([[0.49, 0.51, 1, 1e9]]), element), element)[0]
    assert past[0] == largest and not np.isfinite(past[1:]).any()
    assert np.isnan(past[1:]).all() == (element == "e4m3")


def test_floats_of_4_bits_lie_two_in_a_byte_the_first_low_and_have_neither_infinity_nor_nan() -> None:
    sizes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    numbers = np.array([sizes + [-x for x in sizes]])
    words = encode(numbers, "e2m1")
    assert words.tolist() == [[0x76543210, 0xFEDCBA98]]
    assert decode(words, "e2m1").tolist() == numbers.tolist()
    assert encode(np.array([[np.inf, -np.inf, np.nan, -np.nan, 5.0, 7.0, -0.0, -0.3]]), "e2m1") == 0x987677F7
    assert np.signbit(decode(words, "e2m1")[0, 8])


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16", "tf32"])
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_what_is_no_number_stays_what_it_is(element: str) -> None:
    special = [np.inf, -np.inf, np.nan, -0.0, 0.0, 1e300 if element != "f64" else np.inf, -np.nan, 1.0]
    got = decode(encode(np.array([special]), element), element)[0]
    np.testing.assert_array_equal(got, [np.inf, -np.inf, np.nan, -0.0, 0.0, np.inf, np.nan, 1.0])
    assert np.signbit(got).tolist()[3:5] == [True, False]
    bits = np.array([[0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0xFF800001]], dtype=np.uint32)
    assert np.isnan(decode(encode(decode(bits, "f32"), element), element)).all()


def test_integers_are_taken_modulo_their_width_and_an_unknown_element_is_refused() -> None:
    values = np.array([[300, -300, 255, -1]])
    assert decode(encode(values, "u8"), "u8").tolist() == [[44, 212, 255, 255]]
    assert decode(encode(values, "s8"), "s8").tolist() == [[44, -44, -1, -1]]
    assert decode(encode(np.array([[1 << 31]]), "s32"), "s32").tolist() == [[-(1 << 31)]]
    with pytest.raises(UnknownNameError, match="element"):
        decode(words(), "f8")
    with pytest.raises(UnknownNameError, match="element"):
        encode(np.zeros((1, 4)), "f8")
