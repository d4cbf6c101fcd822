"""Formulas of registers: what they compute, how they print, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import compile_cubin, version
from layoutalg.codegen.instr.arithmetic.formula import (
    NARROW,
    OPERATIONS,
    Apply,
    Cast,
    Formula,
    Input,
    Number,
    Word,
    elementwise,
    fused,
)
from layoutalg.codegen.instr.words import decode, encode
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.errors import LayoutAlgError, UnknownNameError, UnsupportedError
from tests.sweeps import each

LANES = 64
RNG = np.random.default_rng(0)


def words(n: int, element: str) -> np.ndarray[Any, Any]:
    if element == "s32":
        return RNG.integers(0, 1 << 32, (LANES, n), dtype=np.uint32)
    values = RNG.standard_normal((LANES, n + (n == 1 and element in NARROW))) * 4
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


@each("element", list(NARROW))
@each("n", [1, 2, 8])
def test_narrow_values(element: str, n: int) -> None:
    a, b = words(n, element), words(n, "f32")
    formula = Cast(Apply("add", (Input(0, element), Y)), element)
    found = decode(run(formula, n, a, b), element)[:, :n]
    exact = (decode(a, element)[:, :n].astype("f4") + floats(b)).astype("f4")
    padded = exact if n > 1 else np.pad(exact, ((0, 0), (0, 1)))
    assert np.array_equal(found, decode(encode(padded, element), element)[:, :n])
    wide = floats(run(Apply("mul", (Input(0, element), Number(2.0, "f32"))), n, a))
    assert np.array_equal(wide, 2 * decode(a, element)[:, :n].astype("f4"))


@each("op", ["add", "sub", "mul", "max", "min", "neg", "fma"])
def test_integers(op: str) -> None:
    count = {"neg": 1, "fma": 3}.get(op, 2)
    args = [words(4, "s32") for _ in range(count)]
    found = run(Apply(op, tuple(Input(i, "s32") for i in range(count))), 4, *args)
    signed = [x.view("i4").astype("i8") for x in args] + [np.zeros((LANES, 4), "i8")] * (3 - count)
    a, b, c = signed
    exact = {
        "add": a + b, "sub": a - b, "mul": a * b, "neg": -a, "fma": a * b + c, "max": np.maximum(a, b),
        "min": np.minimum(a, b),
    }[op]  # fmt: skip
    assert np.array_equal(found, (exact % (1 << 32)).astype("u4"))


def test_names_differ_where_texts_do() -> None:
    several = [
        elementwise(f, n)
        for n in (2, 4)
        for f in (Apply("sub", (X, Y)), Apply("sub", (Y, X)), Apply("sub", (X, M)), Cast(X, "f16"), X,
                  Apply("sub", (X, Number(1, "f32"))), Apply("sub", (X, Number(2, "f32"))))
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


def test_the_operations_compile() -> None:
    """Every operation, type and way of packing, through NVRTC, where it is there."""
    try:
        version()
    except LayoutAlgError:
        pytest.skip("NVRTC is not installed")
    kinds: list[tuple[Formula, int]] = [(many(12), 4), (many(5), 1)]
    for op, known in OPERATIONS.items():
        arity = max(i + 1 for i, x in enumerate("abc") if f"{{{x}}}" in known.text)
        for element in ("f32", "f16", "bf16", *(["s32"] if known.integers else [])):
            kinds.append((Apply(op, tuple(Input(i, element, single=i == 1) for i in range(arity))), 4))
    kinds += [(Cast(Input(0, a), b), n) for a in ("f32", *NARROW) for b in NARROW for n in (1, 2, 8)]
    kinds += [(Apply("add", (X, Number(v, "f32"))), 1) for v in (0.1, -1e30, float("inf"), float("nan"))]
    instrs = [elementwise(*kind) for kind in kinds]
    k = KernelBuilder("probe", 32)
    for i, instr in enumerate(instrs):
        k.do(instr, *(k.reg(f"x{i}_{j}", o.words) for j, o in enumerate(instr.operands)))
    assert compile_cubin(print_kernel(k.build()), "probe", "sm_90a").image
