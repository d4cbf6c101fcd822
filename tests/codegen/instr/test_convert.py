"""Conversions: the definition is NumPy's where that states one, the instruction computes the definition."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.instr import convert, converted
from layoutalg.codegen.instr.conversions import TYPES, bits_of
from layoutalg.codegen.instr.words import CODES, numbers_of
from layoutalg.errors import UnsupportedError
from tests.codegen.instr.probe import LANES, Case, packed, ran
from tests.sweeps import each, first

NUMPY = {
    "f64": "f8", "f32": "f4", "f16": "f2", "u8": "u1", "s8": "i1", "s16": "i2", "s32": "i4", "s64": "i8",
    "u16": "u2", "u32": "u4",
}  # fmt: skip
PAIRS = [(a, b) for a in TYPES for b in TYPES]
FLOATS = ("f64", "f32", "f16", "bf16", "e4m3", "e5m2", "e2m1")
WORD = {name: np.dtype(f"u{max(8, bits_of(name)) // 8}") for name in TYPES}


def drawn(element: str, n: int = 4000) -> Any:
    """Random bits, numbers near 100, and ends, as words."""
    rng = np.random.default_rng(TYPES.index(element))
    bits = rng.integers(0, 256, n * WORD[element].itemsize, np.uint8).view(WORD[element])
    near = converted((100 * rng.standard_normal(n)).view("u8"), "f64", element)
    ends = [np.nan, np.inf, -np.inf, -0.0, 0.5, -0.5, 65519.9, 65520.0, 2.0**31, 2.0**63, -(2.0**63), 1e-8]
    bits &= WORD[element].type((1 << bits_of(element)) - 1)
    return np.concatenate([bits, near, converted(np.array(ends).view("u8"), "f64", element)])


def exact(word: Any, element: str) -> Fraction | str:
    """The number of a word, or what it is instead."""
    value = converted(np.array([word], WORD[element]), element, "f64").view("f8")[0]
    if element == "s64":
        return Fraction(int(np.array([word], "u8").view("i8")[0]))
    return Fraction(value) if np.isfinite(value) else str(value)


@each("pair", [(a, b) for a, b in PAIRS if a in NUMPY and b in NUMPY], ids=str)
def test_the_definition_is_numpys_where_c_states_one(pair: tuple[str, str]) -> None:
    source, target = pair
    words = drawn(source)
    values = words.view(NUMPY[source])
    if source in FLOATS and target not in FLOATS:
        ends = np.iinfo(NUMPY[target])
        with np.errstate(all="ignore"):
            whole = np.trunc(values.astype("f8"))
        inside = (np.abs(whole) < 2.0**62) & (whole >= ends.min) & (whole <= ends.max)
        words, values = words[inside], values[inside]
        assert len(words) > 100
    with np.errstate(all="ignore"):
        expected = values.astype(NUMPY[target])
    found = converted(words, source, target).view(NUMPY[target])
    assert np.array_equal(found, expected, equal_nan=target in FLOATS)


@each("target", [name for name in TYPES if name in NUMPY and name not in FLOATS])
def test_floats_past_the_ends_of_an_integer_become_its_ends_and_nan_zero(target: str) -> None:
    ends = np.iinfo(NUMPY[target])
    values = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, float(ends.max) * 2, ends.min * 2.0 - 1])
    found = converted(values.view("u8"), "f64", target).view(NUMPY[target])
    low, high = ends.min, ends.max
    assert found.tolist() == [0, high, low, high, low, high, low]


@pytest.mark.deep
@each("source", ["f64", "f32", "s32", "s64"])
@each("target", ["f16", "bf16"])
def test_narrow_floats_are_rounded_once(source: str, target: str) -> None:
    """By fractions: the nearest of the two neighbours, the even one of equally near ones."""
    rng = np.random.default_rng(5)
    if source in FLOATS:
        middles = (rng.integers(128, 256, 300) + 0.5) * 2.0 ** rng.integers(-20, 7, 300)
        near = np.concatenate([middles, middles * (1 + 2.0**-40), middles * (1 - 2.0**-40), middles / 8])
        words = converted(near.view("u8"), "f64", source)
    else:
        shift = 5 if target == "f16" else 20 if source == "s32" else 50
        middles = (2 * rng.integers(128, 256, 300) + 1) << rng.integers(0, shift, 300)
        words = np.concatenate([middles + d for d in (-1, 0, 1)]).astype(NUMPY[source]).view(WORD[source])
    largest = np.array([0x7BFF if target == "f16" else 0x7F7F], "u2")
    for word, got in zip(words, converted(words, source, target), strict=True):
        number, found = exact(word, source), exact(got, target)
        if isinstance(found, str):
            assert isinstance(number, Fraction) and abs(number) > exact(largest[0], target)  # type: ignore[operator]
            continue
        assert isinstance(number, Fraction)
        for other in (int(got) - 1, int(got) + 1):
            beside = exact(np.uint16(other & 0xFFFF), target)
            if isinstance(beside, Fraction):
                closer, further = abs(found - number), abs(beside - number)
                assert closer < further or (closer == further and int(got) % 2 == 0), (word, got)


def nibbles(words: Any) -> Any:
    """Elements of 4 bits, a byte each."""
    raw = np.ascontiguousarray(words).view("u1")
    return np.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1)


def joined(codes: Any) -> Any:
    """The inverse, in bytes."""
    even = np.pad(codes, ((0, 0), (0, codes.shape[1] % 2)))
    return even[:, ::2] | even[:, 1::2] << 4


@each("element", CODES)
def test_a_float_of_8_or_4_bits_is_the_nearest_code(element: str) -> None:
    """By all codes: each is itself, of what lies between two the nearer one, the even one of a middle."""
    numbers, half = numbers_of(element), len(numbers_of(element)) // 2
    finite = np.flatnonzero(np.isfinite(numbers[:half]))
    assert np.array_equal(converted(numbers[finite].view("u8"), "f64", element), finite.astype("u1"))
    low, high = numbers[finite[:-1]], numbers[finite[1:]]
    middle = (low + high) / 2
    for shift, wanted in ((0, finite[:-1] + finite[:-1] % 2), (1e-9, finite[1:]), (-1e-9, finite[:-1])):
        for sign, bit in ((1, 0), (-1, half)):
            found = converted((sign * middle * (1 + shift)).view("u8"), "f64", element)
            assert np.array_equal(found, (wanted | bit).astype("u1"))
    ends = np.array([np.inf, -np.inf, 1e9, -0.0, np.nan, -np.nan])
    *known, nan, negative = converted(ends.view("u8"), "f64", element).tolist()
    assert known == [finite[-1], finite[-1] | half, finite[-1], half]
    if element == "e2m1":  # as cvt has it
        assert (nan, negative) == (7, 7)
    else:
        assert np.isnan(numbers[[nan, negative]]).all()


def test_integers_of_4_bits_wrap_and_saturate() -> None:
    """All numbers of 8 bits, and floats on both sides of each end."""
    every = np.arange(256, dtype="u1")
    assert np.array_equal(converted(every, "u8", "u4"), every & 15)
    assert np.array_equal(converted(every, "s8", "s4"), every & 15)
    signed = converted(every[:16], "s4", "s32").view("i4")
    assert signed.tolist() == [*range(8), *range(-8, 0)]
    floats = np.array([-9.0, -8.5, -1.5, 7.9, 15.9, 16.0, np.nan])
    assert converted(floats.view("u8"), "f64", "s4").tolist() == [8, 8, 15, 7, 7, 7, 0]
    assert converted(floats.view("u8"), "f64", "u4").tolist() == [0, 0, 0, 7, 15, 15, 0]


@pytest.mark.parametrize("part", first(1, range(4)))
def test_the_instruction_and_its_text_compute_the_definition(part: int) -> None:
    """Every pair of types, of numbers of elements that fill words and that do not."""
    cases, elements = list[Case](), list[Any]()
    for i, (source, target) in enumerate(PAIRS[part::4]):
        for n in ((1, 8), (2, 3), (4, 6))[i % 3]:
            instr, given = convert(n, source, target), drawn(source, LANES * n // 2 - 6).reshape(LANES, n)
            words = packed(given if bits_of(source) > 4 else joined(given))
            cases.append((instr, [np.zeros((LANES, instr.operands[0].words), "u4"), words], []))
            elements.append(converted(given, source, target))
    for (instr, (text, _), (found,)), wanted in zip(ran(cases), elements, strict=True):
        target = instr.name.rpartition("_")[2]
        for x in (text, found):
            used = -(-wanted.shape[1] * bits_of(target) // 8)
            got = x.view(wanted.dtype) if bits_of(target) > 4 else nibbles(x)
            got = got[:, : wanted.shape[1]]
            if target in FLOATS:  # of NaN what payload is left open
                got, numbers = (converted(y.copy(), target, "f64").view("f8") for y in (got, wanted))
                np.testing.assert_array_equal(got, numbers, err_msg=instr.name)
            else:
                np.testing.assert_array_equal(got, wanted, err_msg=instr.name)
            left = np.ascontiguousarray(x).view("u1")[:, used:]
            assert not left.any()


@each("pair", PAIRS, ids=str)
@each("shape", [(), (0,), (1, 1), (2, 3)])
def test_the_definition_keeps_the_shape(pair: tuple[str, str], shape: tuple[int, ...]) -> None:
    source, target = pair
    words = drawn(source, 8)[: int(np.prod(shape, dtype=int))].reshape(shape)
    for numbers in (words, words.T):
        found = converted(numbers, source, target)
        assert found.shape == numbers.shape and found.dtype == WORD[target]
        assert np.array_equal(found.ravel(), converted(numbers.ravel(), source, target))


def test_other_types_are_refused() -> None:
    for source, target in (("tf32", "f32"), ("f32", "c64"), ("b1", "f16")):
        for call in (partial(convert, 4), partial(converted, np.zeros(4, "u4"))):
            with pytest.raises(UnsupportedError, match="are accepted"):
                call(source, target)


def test_powers_of_two_are_sizes_rounded_up() -> None:
    """All 256 codes of ue8m0, what lies between two of them, and the ends."""
    codes = np.arange(256, dtype="u1")
    numbers = converted(codes, "ue8m0", "f64").view("f8")
    assert np.array_equal(numbers[:255], 2.0 ** (np.arange(255) - 127)) and np.isnan(numbers[255])
    for kind in ("f64", "f32"):
        assert np.array_equal(converted(converted(codes, "ue8m0", kind), kind, "ue8m0"), codes)
    for size in (-1.5, 1 + 2.0**-40, 2.0):
        found = converted((size * numbers[:254]).view("u8"), "f64", "ue8m0")
        assert np.array_equal(found, codes[1:255])
    ends = np.array([0.0, -0.0, 1e-300, np.inf, -np.inf, 1e300, np.nan])
    assert converted(ends.view("u8"), "f64", "ue8m0").tolist() == [0, 0, 0, 254, 254, 254, 255]
    integers = np.array([1, -3, (1 << 62) + 1], "i8")
    assert converted(integers.view("u8"), "s64", "ue8m0").tolist() == [127, 129, 190]
