"""Functions of one number as instructions: an expression of the device language, and its meaning on arrays.

    f = ScalarFunction("leaky", {"f32": "x < 0.0f ? 0.1f * x : x"}, lambda x: np.where(x < 0, 0.1 * x, x))
    k.do(f.instr(4, "f32"), v)             v[i] = f(v[i]) for four floats

The idea.  `text` is an expression of `x` for each element type it is made for; `meaning` is the definition,
in float64 (int64 of integers).  The simulator rounds the meaning once; the device may differ from it by

    |device - meaning(x)| <= relative u |meaning(x)| + absolute

with u the roundoff of the type, and `slope` bounds how an error of x grows.  The number that arrives is exact
on both sides, so that a bound for a whole computation follows from these.

Sources: CUDA C++ Programming Guide, "Mathematical Functions" (normcdff 5 ulp, expf 2 ulp, normcdf 5 ulp, exp
1 ulp; division is rounded to the nearest); D. Hendrycks, K. Gimpel, "Gaussian error linear units", 2016.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from layoutalg.codegen.expr import check_name
from layoutalg.codegen.instr.record import Instr, updated
from layoutalg.codegen.instr.words import Array, at, decode, double_at, doubles, each, encode, ref
from layoutalg.errors import ArgumentTypeError, UnsupportedError

_FORMS: Mapping[str, tuple[str, str, str]] = {
    "f32": ("float", "{v}", "{v} = {f};"),
    "s32": ("int", "static_cast<int>({v})", "{v} = static_cast<u32>({f});"),
    "f64": ("double", "", ""),
}  # fmt: skip
"""The way a number leaves a helper's words and returns to them: its type, x, and the statement for `f` of x;
a double is two words."""


@dataclass(frozen=True)
class ScalarFunction:
    """A function of one number; `text` has its expression of `x` by element type: f32, f64, s32.

    Two are equal when they have the same name, texts and meaning.  Raises what `check_name` raises, and
    UnsupportedError for a text that is not one expression.

    >>> double = ScalarFunction("twice", {"f32": "x + x"}, lambda x: x + x, slope=2.0)
    >>> double.instr(4, "f32").name
    'twice_4_f32'
    """

    name: str
    texts: tuple[tuple[str, str], ...] | Mapping[str, str]
    meaning: Callable[[Any], Any]
    relative: float = 4.0
    absolute: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        check_name(self.name)
        texts = tuple(sorted(dict(self.texts).items()))
        object.__setattr__(self, "texts", texts)
        if not callable(self.meaning):
            raise ArgumentTypeError(f"the meaning of {self.name} is {self.meaning!r}: a function is needed")
        for element, text in texts:
            if element not in _FORMS:
                raise UnsupportedError(f"{self.name} of {element}: {', '.join(_FORMS)} are accepted")
            _check_expression(self.name, text)

    @property
    def elements(self) -> tuple[str, ...]:
        """The element types it has a text for."""
        return tuple(dict(self.texts))

    def instr(self, n: int, element: str) -> Instr:
        """v[i] = f(v[i]) for n numbers.  Raises UnsupportedError for a type without a text."""
        if element not in self.elements:
            raise UnsupportedError(f"{self.name} of {element}: it is stated for {', '.join(self.elements)}")
        return _instr(self, n, element)

    def __str__(self) -> str:
        return self.name


def _check_expression(name: str, text: str) -> None:
    depth = 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0 or letter in ';{}\n#"\\' or "//" in text or "/*" in text:
            break
    else:
        if text.strip() and depth == 0:
            return
    raise UnsupportedError(f"the text of {name}, {text!r}: one expression of x is needed")


@functools.cache
def _instr(f: ScalarFunction, n: int, element: str) -> Instr:
    kind, get, put = _FORMS[element]
    words = n * (2 if element == "f64" else 1)
    name = f"{f.name}_{n}_{element}"
    v, text = at("v", "i", words), dict(f.texts)[element]
    if element == "f64":
        apply = f"auto f = [](double x) {{ return {text}; }};"
        lines = f"    {apply}\n" + doubles(n, lambda i: f"f({double_at('v', i)})")
    else:
        lines = each(n, [f"const {kind} x = {get.format(v=v)};", put.format(v=v, f=text)])

    def effect(machine: Any, group: Any, v: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(numpy.asarray(f.meaning(decode(v, element))), element)

    floats = "f32" if element == "f32" else ""
    helper = f"void {name}({ref('v', words, floats)}) {{\n{lines}}}"
    return Instr(name, (updated("v", words, floats),), helper, effect)


def _relu(x: Any) -> Any:
    return numpy.where(x < 0, x.dtype.type(0), x)


def _gelu(x: Any) -> Any:
    return x * _normal_cdf(x)


def _silu(x: Any) -> Any:
    return x / (1.0 + numpy.exp(-x))


_erfc = numpy.frompyfunc(math.erfc, 1, 1)


def _normal_cdf(x: Any) -> Any:
    return 0.5 * numpy.asarray(_erfc(-x / math.sqrt(2.0)), dtype=numpy.float64)


RELU = ScalarFunction(
    "relu", {"f32": "x < 0.0f ? 0.0f : x", "f64": "x < 0.0 ? 0.0 : x", "s32": "x < 0 ? 0 : x"}, _relu,
    relative=0.0,
)  # fmt: skip
"""max(x, 0), NaN kept."""

GELU = ScalarFunction(
    "gelu", {"f32": "x * normcdff(x)", "f64": "x * normcdf(x)"}, _gelu, relative=12.0, absolute=2.0**-148,
    slope=1.13,
)  # fmt: skip
"""x times the normal distribution function of x: the exact one, not the approximation by tanh.

The meaning is off by 2 x^2 2^-53 of its value itself, since the argument of erfc is rounded.
"""

SILU = ScalarFunction(
    "silu", {"f32": "x / (1.0f + expf(-x))", "f64": "x / (1.0 + exp(-x))"}, _silu, relative=12.0,
    absolute=2.0**-120, slope=1.1,
)  # fmt: skip
"""x / (1 + e^-x); where e^-x is infinite it is 0, which `absolute` covers."""
