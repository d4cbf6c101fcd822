"""Functions of one number: texts against meanings within the stated bounds, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen import instr
from layoutalg.codegen.instr import GELU, ScalarFunction, decode, encode
from layoutalg.errors import ArgumentTypeError, IRError, LayoutAlgError, UnsupportedError
from tests.codegen.instr.probe import LANES, ran
from tests.sweeps import each

FUNCTIONS = [v for v in vars(instr).values() if isinstance(v, ScalarFunction)]

ROUNDOFF = {"f32": 2.0**-24, "f64": 2.0**-53, "s32": 0.0}
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 88.0, -87.0, -89.0, 200.0, -200.0, 1e30, math.inf, math.nan)
DEFINITIONS: dict[str, Any] = {
    "relu": lambda x: x if math.isnan(x) else max(x, 0.0),
    "gelu": lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)),
    "silu": lambda x: x / (1 + math.exp(-x)) if not x <= -700 else -0.0,
}


def drawn(n: int, element: str) -> Any:
    rng = np.random.default_rng(5)
    if element == "s32":
        return encode(rng.integers(-(2**31), 2**31, (LANES, n)), element)
    values = rng.standard_normal((LANES, n)) * 10.0 ** rng.integers(-3, 2, (LANES, n))
    values.flat[: len(SPECIAL)] = SPECIAL
    return encode(values, element)


def test_meanings_are_the_definitions_and_slopes_bound_how_errors_grow() -> None:
    x = np.concatenate([np.linspace(-9, 9, 181), [math.inf, math.nan]])
    far = np.linspace(-20, 20, 400001)
    for f in FUNCTIONS:
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f.meaning(x), [DEFINITIONS[f.name](v) for v in x.tolist()], rtol=1e-14)
        assert np.abs(np.diff(f.meaning(far)) / np.diff(far)).max() <= f.slope * (1 + 1e-9)


@each("n", [1, 4], sample=1)
@each(("f", "element"), [(f, e) for f in FUNCTIONS for e in f.elements], sample=1)
def test_a_text_is_its_meaning_within_its_bound(f: ScalarFunction, element: str, n: int) -> None:
    words = drawn(n, element)
    ((_, (got,), _),) = ran([(f.instr(n, element), [words], [])])
    x, y = decode(words, element), decode(got, element)
    with np.errstate(all="ignore"):
        wanted = np.asarray(f.meaning(x), dtype=float)
    with np.errstate(all="ignore"):
        own = 4 * x * x * 2.0**-53 if element == "f64" else 0.0  # of the meaning and of the host, see GELU
        units = (f.relative + 1) * ROUNDOFF[element] + own
        near = np.abs(y - wanted) <= units * np.abs(wanted) + f.absolute
    same = (y == wanted) | (np.isnan(y) & np.isnan(wanted))
    assert np.all(near | same), (x[~(near | same)], y[~(near | same)], wanted[~(near | same)])


def test_a_function_of_the_users_own_is_known_by_its_text() -> None:
    def meaning(x: Any) -> Any:
        return x * x

    one, same, other = (
        ScalarFunction("square", {"f32": text}, meaning) for text in ("x * x", "x * x", "x + x")
    )
    assert one == same and one.instr(2, "f32") is same.instr(2, "f32")
    assert one != other and one.instr(2, "f32").text != other.instr(2, "f32").text
    got = one.instr(2, "f32").effect(None, None, encode(np.array([[3.0, -0.5]]), "f32"))
    assert decode(got, "f32").tolist() == [[9.0, 0.25]]


NO_FUNCTIONS: list[tuple[str, dict[str, str], Any, type[LayoutAlgError]]] = [
    ("two words", {"f32": "x"}, abs, IRError),
    ("f", {"f16": "x"}, abs, UnsupportedError),
    *(("f", {"f32": text}, abs, UnsupportedError) for text in ("x; y", "x)", "(x", " ", "x // y")),
    ("f", {"f32": "x"}, "x", ArgumentTypeError),
]


@each(("name", "texts", "meaning", "error"), NO_FUNCTIONS)
def test_what_is_no_function_is_refused(
    name: str, texts: dict[str, str], meaning: Any, error: type[LayoutAlgError]
) -> None:
    with pytest.raises(error):
        ScalarFunction(name, texts, meaning)
    with pytest.raises(UnsupportedError, match="gelu of s32: it is stated for f32, f64"):
        GELU.instr(4, "s32")
