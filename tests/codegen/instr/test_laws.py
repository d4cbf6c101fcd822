"""The laws of the operations of formulas, on all pairs of small integers and ends, and of conversions.

Effects are held to Python's integers, and the printed text, on the host, to the effects.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.instr import Apply, Formula, Input, Number, elementwise, largest
from layoutalg.errors import UnsupportedError
from tests.codegen.instr.probe import LANES, Case, ran
from tests.sweeps import each

SMALL = [*range(-16, 16), -(1 << 31), (1 << 31) - 1]
"""All integers of 5 bits, and the ends of those of 32."""

N = 40
PAIRS = [(a, b) for a in SMALL for b in SMALL]
PAIRS += PAIRS[: LANES * N - len(PAIRS)]
A, B = (np.array([pair[i] for pair in PAIRS], "i4").reshape(LANES, N) for i in (0, 1))


def wrapped(x: int, kind: str) -> int:
    """An integer modulo 2^32, as one of a type."""
    x %= 1 << 32
    return x - (1 << 32) if kind == "s32" and x >> 31 else x


def quotient(a: int, b: int) -> int:
    """The law of // and %: a = (a // b) b + a % b, with a remainder between 0 and b; by 0 both are 0."""
    if b == 0:
        return 0
    q = a // b
    assert 0 <= abs(a - q * b) < abs(b) and (a - q * b) * b >= 0
    return q


MEANT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": max, "min": min,
    "floordiv": quotient, "mod": lambda a, b: a - quotient(a, b) * b if b else 0,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: (a | b) - (a & b),
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "shl": lambda a, b: a * 2 ** (b & 31), "shr": lambda a, b: a // 2 ** (b & 31),
    "neg": lambda a, b: -a, "abs": lambda a, b: abs(a), "not": lambda a, b: -1 - a,
}  # fmt: skip


def formula(op: str, kind: str) -> Formula:
    """An operation of two operands, or of the first."""
    x, y = Input(0, kind), Input(1, kind)
    if op in ("shl", "shr"):
        return Apply(op, (x, Apply("and", (y, Number(31, kind)))))
    made = Apply(op, (x,) if op in ("neg", "abs", "not") else (x, y))
    return Apply("to_u32", (made,)) if op in ("lt", "le", "eq", "ne") else made


@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_integers_are_pythons_modulo_2_to_the_32_and_so_are_the_texts(kind: str) -> None:
    cases: list[Case] = []
    for op in MEANT:
        instr = elementwise(formula(op, kind), N)
        inputs = [A.view("u4"), B.view("u4")][: len(instr.operands) - 1]
        cases.append((instr, [np.zeros((LANES, N), "u4"), *inputs], []))
    for op, (instr, got, (found,)) in zip(MEANT, ran(cases), strict=True):
        pairs = [(wrapped(int(a), kind), wrapped(int(b), kind)) for a, b in zip(A.flat, B.flat, strict=True)]
        exact = np.array([MEANT[op](a, b) % (1 << 32) for a, b in pairs], "u4").reshape(LANES, N)
        np.testing.assert_array_equal(found, exact, err_msg=op)
        np.testing.assert_array_equal(got[0], exact, err_msg=instr.text)


def test_a_choice_is_its_first_value_where_its_predicate_holds() -> None:
    x, y = Input(0, "s32"), Input(1, "f32")
    floats = B.astype("f4")
    both = Apply("and", (Apply("lt", (x, Number(3, "s32"))), Apply("le", (Number(-2.0, "f32"), y))))
    either = Apply("xor", (both, Apply("not", (Apply("eq", (y, y)),))))
    instr = elementwise(Apply("where", (either, y, Apply("to_f32", (x,)))), N)
    exact = np.where((A < 3) & (floats >= -2), floats, A.astype("f4"))
    for _, got, (found,) in ran([(instr, [np.zeros((LANES, N), "u4"), A.view("u4"), floats.view("u4")], [])]):
        for result in (got[0], found):
            np.testing.assert_array_equal(result.view("f4"), exact)


@pytest.mark.parametrize("kind", ["s32", "u32"])
def test_a_conversion_of_floats_of_all_exponents_is_towards_zero_and_to_the_nearest_end(kind: str) -> None:
    """And back: a float of an integer is the nearest."""
    codes = np.arange(1 << 12, dtype="u4").reshape(LANES, -1) << 20 | 0x7A5A5
    words = np.where(codes & 0x7F800000 == 0x7F800000, codes & 0xFFF00000, codes)  # of NaN a quiet one
    words = np.where(words & 0x7FC00000 == 0x7F800000, words & 0xFF800000, words)
    there, back = Input(0, "f32"), Input(0, kind)
    n = words.shape[1]
    cases: list[Case] = [
        (elementwise(Apply(f"to_{kind}", (there,)), n), [np.zeros((LANES, n), "u4"), words], []),
        (elementwise(Apply("to_f32", (back,)), N), [np.zeros((LANES, N), "u4"), A.view("u4") * 77777], []),
    ]
    (_, got, (found,)), (_, floats, (near,)) = ran(cases)
    least, most = (-(1 << 31), (1 << 31) - 1) if kind == "s32" else (0, (1 << 32) - 1)
    values = words.view("f4").astype("f8")
    exact = np.where(np.isnan(values), 0, np.clip(np.trunc(values), least, most)).astype("i8")
    for result in (got[0], found):
        np.testing.assert_array_equal(result.view("i4" if kind == "s32" else "u4"), exact)
    wanted = (A.view("u4") * 77777).view("i4" if kind == "s32" else "u4").astype("f4")
    for result in (floats[0], near):
        np.testing.assert_array_equal(result.view("f4"), wanted)


U, S, WHOLE = Input(0, "u32"), Input(0, "s32"), (1 << 32) - 1
BELOW = [
    (Apply("and", (U, Number(6, "u32"))), 6), (Apply("mod", (U, Number(9, "u32"))), 8),
    (Apply("min", (U, Number(3, "u32"))), 3), (Apply("min", (S, Number(3, "s32"))), WHOLE),
    (Apply("shr", (U, Number(28, "u32"))), 15), (Apply("mod", (S, Number(9, "s32"))), 8),
    (Apply("where", (Apply("lt", (U, Number(4, "u32"))), Number(2, "u32"), Number(5, "u32"))), 5),
    (Apply("add", (U, Number(1, "u32"))), WHOLE), (Apply("shr", (S, Number(28, "s32"))), WHOLE),
    (Apply("and", (S, Number(-1, "s32"))), WHOLE),
]  # fmt: skip
"""Formulas, and the largest number that each can be."""


@each(("made", "most"), BELOW)
def test_no_number_of_a_formula_is_above_its_largest(made: Formula, most: int) -> None:
    assert largest(made) == most
    effect = elementwise(made, N).effect(None, SimpleNamespace(lanes=LANES), A.view("u4"))
    assert effect.max() <= largest(made)


X = Input(0, "f32")
REFUSED: list[tuple[Formula, str]] = [
    (Apply("where", (X, X, X)), "where by a value of f32: a comparison is needed"),
    (Apply("where", (Apply("eq", (X, X)), X, Input(1, "s32"))), "one type is needed"),
    (Apply("shl", (S, Number(32, "s32"))), "may be 32: the fact that it is below 32 is missing"),
    (Apply("shr", (U, Input(1, "u32"))), "may be 4294967295: the fact that it is below 32"),
    (Apply("and", (X, X)), "and of f32: s32, u32, bool is needed"),
    (Apply("sin", (U,)), "sin of u32: f32 is needed"),
    (Apply("eq", (X, X)), "registers hold no predicates"),
    (Apply("add", (Input(0, "u8"), Input(0, "u8"))), "arithmetic on u8: .* convert it first"),
    (Apply("mul", (Input(0, "e2m1"), Input(0, "e2m1"))), "arithmetic on e2m1: .* convert it first"),
]


@each(("made", "message"), REFUSED)
def test_what_has_no_meaning_is_refused(made: Formula, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        elementwise(made, 4)


def test_the_largest_shift_is_below_the_width() -> None:
    instr = elementwise(Apply("shl", (Input(0, "u32"), Number(31, "u32"))), 1)
    word: Any = instr.effect(None, SimpleNamespace(lanes=1), np.array([[3]], "u4"))
    assert word[0, 0] == 1 << 31
