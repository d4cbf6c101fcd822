"""Formulas of registers: what they compute, how they print, what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.instr.formula import (
    Apply,
    Cast,
    Formula,
    Input,
    Number,
    Word,
    element_of,
    elementwise,
    fused,
)
from layoutalg.codegen.instr.lanewise import OPERATIONS
from layoutalg.codegen.instr.words import PACKED, decode, encode
from layoutalg.errors import UnknownNameError, UnsupportedError
from tests.codegen.instr.probe import LANES, Case, ran
from tests.sweeps import each, first

RNG = np.random.default_rng(0)


def words(n: int, element: str) -> np.ndarray[Any, Any]:
    if element == "s32":
        return RNG.integers(0, 1 << 32, (LANES, n), dtype=np.uint32)
    values = RNG.standard_normal((LANES, n + (n == 1 and element in PACKED))) * 4
    return encode(values, element)


def run(formula: Formula, n: int, *args: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    instr = elementwise(formula, n)
    found: np.ndarray[Any, Any] = instr.effect(None, SimpleNamespace(lanes=LANES), *args)
    assert found.dtype == np.uint32 and found.shape == (LANES, instr.operands[0].words)
    return found


def floats(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(x).view(np.float32)


X, Y, M = Input(0, "f32"), Input(1, "f32"), Input(1, "f32", single=True)

EXACT: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum,
}  # fmt: skip


@each("op", list(EXACT))
def test_two_operands_are_rounded_once(op: str) -> None:
    a, b, m = words(4, "f32"), words(4, "f32"), words(1, "f32")
    assert np.array_equal(floats(run(Apply(op, (X, Y)), 4, a, b)), EXACT[op](floats(a), floats(b)))
    assert np.array_equal(floats(run(Apply(op, (X, M)), 4, a, m)), EXACT[op](floats(a), floats(m)))


ONE_OPERAND: list[tuple[str, int, Callable[[Any], Any]]] = [
    ("neg", 0, lambda x: -x), ("abs", 0, np.abs), ("sqrt", 0, np.sqrt), ("reciprocal", 0, lambda x: 1 / x),
    ("rsqrt", 1, lambda x: 1 / np.sqrt(x)), ("exp2", 1, np.exp2), ("exp", 24, np.exp), ("tanh", 1, np.tanh),
]  # fmt: skip
"""Operations, the units of the last place by which they may differ from the exact result, and that."""


@each("op, bound, function", ONE_OPERAND)
def test_one_operand(op: str, bound: int, function: Callable[[Any], Any]) -> None:
    a = encode(np.abs(decode(words(4, "f32"), "f32")), "f32")
    exact = function(floats(a).astype("f8")).astype("f4").view("u4").astype("i8")
    assert np.abs(run(Apply(op, (X,)), 4, a).astype("i8") - exact).max() <= bound


def test_a_product_that_is_added_to_is_rounded_once() -> None:
    formula = Apply("add", (Y, Apply("mul", (X, Word(0, "f32")))))
    assert fused(formula) == Apply("fma", (X, Word(0, "f32"), Y))
    a, b, s = words(4, "f32"), words(4, "f32"), words(1, "f32")
    exact = floats(a).astype("f8") * floats(s).astype("f8") + floats(b).astype("f8")
    assert np.array_equal(floats(run(formula, 4, a, b, s)), exact.astype("f4"))


LEAVES = {"f32": ("f32", *PACKED), "s32": ("s32",)}
MEANT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": np.maximum,
    "min": np.minimum, "neg": lambda a: -a, "fma": lambda a, b, c: a * b + c, "abs": np.abs,
    "widen": lambda a: a,
}  # fmt: skip


def drawn(rng: random.Random, kind: str, depth: int, operands: list[Input | Word]) -> Formula:
    """A formula of numbers and of operands, which it adds to the list."""
    if depth and rng.random() < 0.8:
        op = rng.choice([op for op in MEANT if kind == "f32" or OPERATIONS[op].integers])
        arity = MEANT[op].__code__.co_argcount if op not in ("max", "min", "abs") else 1 + (op != "abs")
        return Apply(op, tuple(drawn(rng, kind, depth - 1, operands) for _ in range(arity)))
    if rng.random() < 0.2:
        return Number(rng.randrange(-3, 4), kind)
    if len(operands) < 5 and rng.random() < 0.6:
        made, element = rng.choice((Input, Input, Word)), rng.choice(LEAVES[kind])
        index = sum(isinstance(x, made) for x in operands)
        operands.append(Input(index, element, rng.random() < 0.3) if made is Input else Word(index, kind))
        return operands[-1]
    return rng.choice(operands) if operands else Number(2, kind)


def meant(f: Formula, values: dict[Formula, Any]) -> Any:
    """The numbers of a formula, exactly."""
    match f:
        case Apply(op, args):
            return MEANT[op](*(meant(arg, values) for arg in args))
        case Number(number, _):
            return np.full((1, 1), int(number))
        case _:
            return values[f]


@pytest.mark.parametrize("seed", first(1, range(2)))
def test_a_formula_is_the_numbers_that_it_says_and_its_text_computes_them(seed: int) -> None:
    rng, numbers, cases, exact = random.Random(seed), np.random.default_rng(seed), list[Case](), list[Any]()
    while len(cases) < 24:
        kind, n, operands = rng.choice(("f32", "f32", "s32")), rng.choice((1, 2, 4, 8)), list[Input | Word]()
        formula = drawn(rng, kind, rng.choice((1, 2, 3)), operands)
        inputs = [x for x in operands if isinstance(x, Input)]
        values: dict[Formula, Any] = {
            x: numbers.integers(-3, 4, (LANES, 1 if x.single else n)) if isinstance(x, Input)
            else np.full((1, 1), rng.randrange(-3, 4)) for x in operands
        }  # fmt: skip
        result = np.broadcast_to(meant(formula, values), (LANES, n))
        if kind == "f32" and rng.random() < 0.5:
            formula = Cast(formula, rng.choice((*PACKED,)))
        instr = elementwise(formula, n)
        registers = [words_of(result * 0, formula), *(words_of(values[x], x) for x in inputs)]
        words_ = [values[x][0, 0].item() for x in operands if isinstance(x, Word)]
        given = [float(x) if kind == "f32" else x % (1 << 32) for x in words_]
        cases.append((instr, registers, given))
        exact.append(words_of(result, formula))
    for (instr, got, (found,)), wanted in zip(ran(cases), exact, strict=True):
        element = {pair: e for e, pair in PACKED.items()}.get(instr.operands[0].element, "")
        element = element or instr.operands[0].element or "s32"
        for x in (got[0], found):
            np.testing.assert_array_equal(decode(x, element), decode(wanted, element), err_msg=instr.text)


def words_of(numbers: Any, f: Formula) -> np.ndarray[Any, Any]:
    """Words of small numbers of the type of a formula; one narrow element has a word of its own."""
    element = element_of(f)
    if element in PACKED and numbers.shape[1] == 1:
        numbers = np.pad(numbers, ((0, 0), (0, 1)))
    return encode(np.asarray(numbers, "i8" if element == "s32" else "f8"), element)


def test_names_differ_where_texts_do() -> None:
    several = [
        elementwise(f, n)
        for n in (2, 4)
        for f in (Apply("sub", (X, Y)), Apply("sub", (Y, X)), Apply("sub", (X, M)), Cast(X, "f16"), X,
                  Apply("sub", (X, Number(1, "f32"))), Apply("sub", (X, Number(2, "f32"))),
                  Apply("mul", (X, Number(0.0, "f32"))), Apply("mul", (X, Number(-0.0, "f32"))))
    ]  # fmt: skip
    assert len({i.name for i in several}) == len({i.text for i in several}) == len(several)


INT = Input(0, "s32")

REFUSED: list[tuple[Formula, int, type[Exception], str]] = [
    (Apply("add", (X, Input(1, "s32"))), 4, UnsupportedError, "add of f32 and s32: one type"),
    (Apply("exp", (INT,)), 4, UnsupportedError, "exp of s32: f32"),
    (Apply("add", (Input(0, "f64"),) * 2), 2, UnsupportedError, "arithmetic on f64"),
    (Apply("gelu", (X,)), 4, UnknownNameError, "gelu"),
    (Apply("neg", (Cast(X, "f16"),)), 4, UnsupportedError, "is the last step"),
    (Cast(X, "f64"), 4, UnsupportedError, "from f32 to f16 or bf16"),
    (Cast(INT, "f16"), 4, UnsupportedError, "from s32 to f16"),
    (Cast(X, "f16"), 3, UnsupportedError, "3 elements of f16"),
    (Y, 4, UnsupportedError, "they count from 0"),
]


@each(("formula", "n", "kind", "message"), REFUSED)
def test_refused(formula: Formula, n: int, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        elementwise(formula, n)


def many(count: int) -> Formula:
    """The sum of many operands."""
    total: Formula = Input(0, "f32")
    for i in range(1, count):
        total = Apply("add", (total, Input(i, "f32")))
    return total


def test_many_operands_have_names_of_their_own() -> None:
    args = [words(2, "f32") for _ in range(12)]
    assert (floats(run(many(12), 2, *args)) == sum((floats(a) for a in args[1:]), floats(args[0]))).all()
    names = [o.name for o in elementwise(many(12), 2).operands]
    assert len(set(names)) == 13 and "i" not in names
    x = words(4, "f16")
    assert (floats(run(Apply("widen", (Input(0, "f16"),)), 4, x)) == decode(x, "f16")[:, :4]).all()
