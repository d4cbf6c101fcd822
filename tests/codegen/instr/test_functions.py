"""Functions of one number: texts against meanings within the stated bounds, and what is refused."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen
from layoutalg.codegen.instr import FUNCTIONS, OPERATIONS, ScalarFunction, decode, encode
from layoutalg.codegen.terms import (
    Value,
    cos,
    erf,
    exp,
    exp2,
    fma,
    log,
    log1p,
    log2,
    maximum,
    minimum,
    reciprocal,
    rsqrt,
    sin,
    sqrt,
    tanh,
    where,
)
from layoutalg.errors import ArgumentTypeError, IRError, LayoutAlgError, UnknownNameError, UnsupportedError
from layoutalg.kernels.elements import agrees
from tests.codegen.instr.probe import LANES, Case, ran
from tests.sweeps import each


def bent_places(x: Any, y: Any) -> Any:
    """Roundoffs of 9, and of 1 / x."""
    return 64 + 4 * np.abs(y)


OWN = (
    ScalarFunction("roots", lambda x: 2 - abs(x) / (1 + sqrt(abs(x))) * rsqrt(2 + abs(x)), lambda x, y: 16),
    ScalarFunction("logs", lambda x: log(exp2(minimum(abs(x), 9)) + 1) + log1p(abs(x)), lambda x, y: 64),
    ScalarFunction("softplus", lambda x: maximum(x, 0) + log1p(exp(-abs(x))), absolute=2.0**-126),
    ScalarFunction("bent", lambda x: minimum(maximum(x, 3 - x), reciprocal(x) + 9), bent_places),
    ScalarFunction("bounded", lambda x: tanh(x) * 2, lambda x, y: 16 * abs(y)),
    ScalarFunction("chosen", lambda x: where(x < 0, where(x >= -1, x * 3, -3), x), lambda x, y: abs(y)),
    ScalarFunction("told", lambda x: where(x.eq(x), where(x.ne(1), x, 5), 2), lambda x, y: 0),
    ScalarFunction("waves", lambda x: sin(x) + cos(x) * erf(x), lambda x, y: 32),
    ScalarFunction("powers", lambda x: fma(abs(x), 2, log2(abs(x) + 1)), lambda x, y: 64 + 8 * abs(y)),
    ScalarFunction("clipped", lambda x: maximum(-5, minimum(x, 7)), lambda x, y: 0),
)
NARROW = tuple(f.narrow for f in FUNCTIONS.values() if f.narrow)
EVERY = (*FUNCTIONS.values(), *NARROW, *OWN)
"""Functions that have a name, and some with the other operations."""

ROUNDOFF = {"f32": 2.0**-24, "f64": 2.0**-53, "s32": 0.0}
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-30,
    -1e-30,
    88.0,
    -87.0,
    -89.0,
    200.0,
    -200.0,
    -14.5,
    -105.0,
    1e-45,
    -1e-45,
    65520.0,
    1e30,
    float(np.finfo("f4").max),
    float(np.finfo("f4").min),
    math.inf,
    -math.inf,
    math.nan,
)
DEFINITIONS: dict[str, Any] = {
    "relu": lambda x: x if math.isnan(x) else max(x, 0.0),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + float(np.exp(-x))),
}
"""PyTorch's, whose values at -infinity are not numbers but for relu."""


def drawn(n: int, element: str) -> Any:
    rng = np.random.default_rng(5)
    if element == "s32":
        return encode(rng.integers(-(2**31), 2**31, (LANES, n)), element)
    values = rng.standard_normal((LANES, n)) * 10.0 ** rng.integers(-3, 2, (LANES, n))
    values.flat[: len(SPECIAL)] = SPECIAL
    return encode(values, element)


def test_meanings_are_the_definitions_and_slopes_bound_how_errors_grow() -> None:
    x = np.concatenate([np.linspace(-9, 9, 181), SPECIAL])
    far = np.linspace(-20, 20, 400001)
    for f in (*FUNCTIONS.values(), *NARROW):
        with np.errstate(all="ignore"):
            wanted = np.array([DEFINITIONS[f.name](v) for v in x.tolist()])
            wanted = np.where((x == -math.inf) & (f in NARROW), 0, wanted)
            np.testing.assert_allclose(f.meaning(x), wanted, 1e-14, 1e-15)
        assert np.abs(np.diff(f.meaning(far)) / np.diff(far)).max() <= f.slope * (1 + 1e-9)


OPERATORS = {"add", "sub", "mul", "div", "neg", "abs", "lt", "le", "eq", "ne"}
OF_BITS = {"and", "or", "xor", "not", "shl", "shr", "floordiv", "mod"}
"""Operators, of numbers and of integers or predicates."""


def test_an_operation_has_a_function_and_is_tried() -> None:
    """Beside operators, and what formulas become by themselves."""
    named = {name.removesuffix("imum") for name in codegen._PLACES["terms"].split()}
    made = {"widen", "to_f32", "to_s32", "to_u32"}
    assert named | OPERATORS | OF_BITS | made == set(OPERATIONS)
    assert named | OPERATORS == {op for f in EVERY for op in re.findall(r"(\w+)\(", str(f.formula))}
    assert named | OPERATORS == {op for op, own in OPERATIONS.items() if own.plain}


def test_texts_are_the_meanings_within_their_bounds() -> None:
    made = [(f, element, n) for f in EVERY for element in f.elements for n in (1, 4)]
    cases: list[Case] = [(f.instr(n, element), [drawn(n, element)], []) for f, element, n in made]
    with np.errstate(all="ignore"):
        both = list(ran(cases))
        for (f, element, _), (_, (words,), _), (_, (got,), (seen,)) in zip(made, cases, both, strict=True):
            x = decode(words, element)
            wanted = np.asarray(f.meaning(x), dtype=float)
            # the error of the meaning and of the host, in gelu
            own = np.nan_to_num(x * x) * 2.0**-51 if element == "f64" else 0.0
            lost = ROUNDOFF[element] * (f.places(x, wanted) + np.abs(wanted))
            lost = lost + (own + f.relative) * np.abs(wanted) + f.absolute
            for y in (decode(got, element), decode(seen, element)):
                off = ~agrees(y, wanted, lost, element)
                assert not off.any(), (f.name, element, x[off], y[off], wanted[off])


def test_a_narrow_function_is_off_by_less_than_half_a_place_of_its_results() -> None:
    """From the smallest results of f16 to where the tail is below all floats."""
    x = np.unique(np.concatenate([np.geomspace(2.0**-30, 16, 1 << 14), np.linspace(0, 14, 1 << 14)]))
    x = np.concatenate([-x, x]).astype("f4").reshape(LANES, -1)
    for f, of in zip(NARROW, (f for f in FUNCTIONS.values() if f.narrow), strict=True):
        words = f.instr(x.shape[1], "f32").effect(None, None, encode(x, "f32"))
        wanted = of.meaning(x.astype("f8"))
        off = np.abs(decode(words, "f32") - wanted)
        assert f.rounded_to("bf16") is f is of.rounded_to("f16") and of.rounded_to("f32") is of
        assert (off <= f.relative * np.abs(wanted) + f.absolute).all()
        assert f.relative + f.absolute * 2**24 < 2.0**-9


def test_a_function_is_known_by_its_formula() -> None:
    one, same, other = (
        ScalarFunction("square", formula) for formula in (lambda x: x * x, lambda x: x * x, lambda x: x + x)
    )
    assert ScalarFunction("zero", lambda x: x * 0.0) != ScalarFunction("zero", lambda x: x * -0.0)
    assert one == same and one.instr(2, "f32") is same.instr(2, "f32")
    assert one != other and one.instr(2, "f32").text != other.instr(2, "f32").text
    got = one.instr(2, "f32").effect(None, None, encode(np.array([[3.0, -0.5]]), "f32"))
    assert decode(got, "f32").tolist() == [[9.0, 0.25]]
    assert one(other(3)) == Value("mul", (Value("add", (3, 3)),) * 2)


NO_FUNCTIONS: list[tuple[str, Any, type[LayoutAlgError]]] = [
    ("two words", abs, IRError),
    *(("f", formula, ArgumentTypeError) for formula in ("x", lambda x: 2.0, lambda x: exp("x"))),
    ("f", lambda x: x.to("f16"), UnknownNameError),
    ("f", lambda x: x + True, ArgumentTypeError),
]


@each(("name", "formula", "error"), NO_FUNCTIONS)
def test_what_is_no_function_is_refused(name: str, formula: Any, error: type[LayoutAlgError]) -> None:
    with pytest.raises(error):
        ScalarFunction(name, formula)
    with pytest.raises(UnsupportedError, match="gelu of s32: it is stated for f32, f64"):
        FUNCTIONS["gelu"].instr(4, "s32")
