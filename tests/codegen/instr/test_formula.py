"""Formulas of registers: what they compute, how they print, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen import instr as face
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
from layoutalg.codegen.printing.cuda import print_helpers
from layoutalg.codegen.printing.value_types import WORD
from layoutalg.errors import UnknownNameError, UnsupportedError
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
    a, b = words(4, "f32"), words(4, "f32")
    assert np.array_equal(floats(run(Apply(op, (X, Y)), 4, a, b)), EXACT[op](floats(a), floats(b)))


ONE_OPERAND = [
    ("neg", 0), ("abs", 0), ("sqrt", 0), ("reciprocal", 0), ("rsqrt", 1), ("exp2", 1), ("exp", 24),
    ("tanh", 1),
]  # fmt: skip
"""Operations and the units of the last place by which they may differ from the exact result."""


@each("op, bound", ONE_OPERAND)
def test_one_operand(op: str, bound: int) -> None:
    a = encode(np.abs(decode(words(4, "f32"), "f32")), "f32")
    functions: dict[str, Any] = {
        "neg": lambda x: -x, "abs": np.abs, "sqrt": np.sqrt, "reciprocal": lambda x: 1 / x,
        "rsqrt": lambda x: 1 / np.sqrt(x), "exp2": np.exp2, "exp": np.exp, "tanh": np.tanh,
    }  # fmt: skip
    exact = functions[op](floats(a).astype("f8"))
    found = run(Apply(op, (X,)), 4, a)
    assert np.abs(found.astype("i8") - exact.astype("f4").view("u4").astype("i8")).max() <= bound


def test_a_product_that_is_added_to_is_rounded_once() -> None:
    formula = Apply("add", (Y, Apply("mul", (X, Word(0, "f32")))))
    assert fused(formula) == Apply("fma", (X, Word(0, "f32"), Y))
    a, b, s = words(4, "f32"), words(4, "f32"), words(1, "f32")
    exact = floats(a).astype("f8") * floats(s).astype("f8") + floats(b).astype("f8")
    assert np.array_equal(floats(run(formula, 4, a, b, s)), exact.astype("f4"))


def test_one_value_for_all_elements() -> None:
    a, m = words(8, "f32"), words(1, "f32")
    assert np.array_equal(floats(run(Apply("sub", (X, M)), 8, a, m)), floats(a) - floats(m))


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
    a, b, c = [x.astype("i8") for x in args] + [np.zeros((1, 1), "i8")] * (3 - count)
    signed = [x.view("i4").astype("i8") for x in args]
    exact = {
        "add": a + b, "sub": a - b, "mul": a * b, "neg": -a, "fma": a * b + c,
        "max": np.maximum(*signed[:2]) if count > 1 else a,
        "min": np.minimum(*signed[:2]) if count > 1 else a,
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

REFUSED: dict[str, tuple[Formula, int, type[Exception], str]] = {
    "types": (Apply("add", (X, Input(1, "s32"))), 4, UnsupportedError, "add of f32 and s32: one type"),
    "no integers": (Apply("exp", (INT,)), 4, UnsupportedError, "exp of s32: f32"),
    "other types": (Apply("add", (Input(0, "f64"),) * 2), 2, UnsupportedError, "arithmetic on f64"),
    "an operation": (Apply("gelu", (X,)), 4, UnknownNameError, "gelu"),
    "a cast inside": (Apply("neg", (Cast(X, "f16"),)), 4, UnsupportedError, "is the last step"),
    "a cast to f64": (Cast(X, "f64"), 4, UnsupportedError, "from f32 to f16 or bf16"),
    "a cast of integers": (Cast(INT, "f16"), 4, UnsupportedError, "from s32 to f16"),
    "half a word": (Cast(X, "f16"), 3, UnsupportedError, "3 elements of f16"),
    "a gap": (Y, 4, UnsupportedError, "they count from 0"),
}  # fmt: skip


@each("name", list(REFUSED))
def test_refused(name: str) -> None:
    formula, n, kind, message = REFUSED[name]
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


def test_widened_values_are_those_of_the_narrow_type() -> None:
    x = words(4, "f16")
    assert (floats(run(Apply("widen", (Input(0, "f16"),)), 4, x)) == decode(x, "f16")[:, :4]).all()


def test_the_operations_compile() -> None:
    """Every operation, type and way of packing, through NVRTC, where it is there."""
    from layoutalg.codegen.gpu import compile_cubin, version
    from layoutalg.errors import LayoutAlgError

    try:
        version()
    except LayoutAlgError:
        pytest.skip("NVRTC is not installed")
    kinds: list[tuple[Formula, int]] = []
    for op, known in OPERATIONS.items():
        arity = max(i + 1 for i, x in enumerate("abc") if f"{{{x}}}" in known.text)
        for element in ("f32", "f16", "bf16", *(["s32"] if known.integers else [])):
            kinds.append((Apply(op, tuple(Input(i, element, single=i == 1) for i in range(arity))), 4))
    kinds += [(Cast(Input(0, a), b), n) for a in ("f32", *NARROW) for b in NARROW for n in (1, 2, 8)]
    kinds += [(Apply("add", (X, Number(v, "f32"))), 1) for v in (0.1, -1e30, float("inf"), float("nan"))]
    kinds += [(many(12), 4), (many(5), 1)]
    instrs, calls = [], []
    for i, (formula, n) in enumerate(kinds):
        instr = elementwise(formula, n)
        instrs.append(instr)
        refs = [f"x{i}_{j}" for j in range(len(instr.operands))]
        for ref, operand in zip(refs, instr.operands, strict=True):
            kind = WORD[operand.element]
            extent = f"[{operand.words}]" if operand.words > 1 else ""
            calls.append(f"{kind} {ref}{extent} = {{static_cast<{kind}>(p[0])}};")
        first = refs[0] + ("[0]" if instr.operands[0].words > 1 else "")
        calls.append(f"{instr.name}({', '.join(refs)}); p[{i}] = static_cast<u32>({first});")
    body = "\n".join(calls)
    source = "using u32 = unsigned int;\n" + print_helpers(instrs)
    source += f'\nextern "C" __global__ void probe(u32* p) {{\n{body}\n}}\n'
    assert compile_cubin(source, "probe", "sm_90a").image
    assert face.OPERATIONS is OPERATIONS
