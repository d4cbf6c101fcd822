"""Formulas as Python writes them: operators and functions on what stands for registers build a Value.

    x * alpha + b           Value("add", (Value("mul", (x, alpha)), b))
    maximum(x, 0.0)         Value("max", (x, 0.0))

Nothing is computed here: kernels map formulas to registers, and `instr.functions` names those of one number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError


class Arithmetic:
    """Python's operators on registers: each builds a Value."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Value:
        return Value("add", (_leaf(self), _leaf(other)))

    def __radd__(self, other: Operand) -> Value:
        return Value("add", (_leaf(other), _leaf(self)))

    def __sub__(self, other: Operand) -> Value:
        return Value("sub", (_leaf(self), _leaf(other)))

    def __rsub__(self, other: Operand) -> Value:
        return Value("sub", (_leaf(other), _leaf(self)))

    def __mul__(self, other: Operand) -> Value:
        return Value("mul", (_leaf(self), _leaf(other)))

    def __rmul__(self, other: Operand) -> Value:
        return Value("mul", (_leaf(other), _leaf(self)))

    def __truediv__(self, other: Operand) -> Value:
        return Value("div", (_leaf(self), _leaf(other)))

    def __rtruediv__(self, other: Operand) -> Value:
        return Value("div", (_leaf(other), _leaf(self)))

    def __neg__(self) -> Value:
        return Value("neg", (_leaf(self),))

    def __abs__(self) -> Value:
        return Value("abs", (_leaf(self),))

    def to(self, element: str | DType) -> Value:
        """The values rounded to the nearest of a narrower type, the last step of a formula; or as f32."""
        return Value(f"to {dtype(element).name}", (_leaf(self),))


@dataclass(frozen=True, slots=True)
class Value(Arithmetic):
    """An operation on registers, parameters and numbers, which is computed when it is mapped or stored.

    >>> print(1 / (exp(2.0) + 1))
    div(1, add(exp(2.0), 1))
    """

    op: str
    args: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.op}({', '.join(map(str, self.args))})"


Operand: TypeAlias = "Arithmetic | int | float"


def _leaf(x: object) -> Any:
    if isinstance(x, bool) or not isinstance(x, (Arithmetic, int, float)):
        kind = type(x).__name__
        raise ArgumentTypeError(f"{x!r} is a {kind}; registers, scalars of the kernel or numbers are needed")
    return x


def _function(name: str, text: str) -> Any:
    def function(x: Operand) -> Value:
        return Value(name, (_leaf(x),))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}\n\n    >>> {name}(2.0).op\n    {name!r}\n    "
    return function


exp = _function("exp", "e to the power of x, an approximation of the hardware.")
exp2 = _function("exp2", "2 to the power of x, an approximation of the hardware.")
log = _function("log", "The natural logarithm of x.")
log1p = _function("log1p", "The natural logarithm of 1 + x.")
normcdf = _function("normcdf", "The normal distribution function of x.")
tanh = _function("tanh", "The hyperbolic tangent of x.")
sqrt = _function("sqrt", "The square root of x, rounded to the nearest.")
rsqrt = _function("rsqrt", "1 / sqrt(x), an approximation of the hardware.")
rcp = _function("rcp", "1 / x, an approximation of the hardware.")
reciprocal = _function("reciprocal", "1 / x, rounded to the nearest.")


def maximum(x: Operand, y: Operand) -> Value:
    """The larger of two values; NaN where one is.

    >>> maximum(2, 3.5).args
    (2, 3.5)
    """
    return Value("max", (_leaf(x), _leaf(y)))


def minimum(x: Operand, y: Operand) -> Value:
    """The smaller of two values; NaN where one is.

    >>> minimum(2, 3.5).op
    'min'
    """
    return Value("min", (_leaf(x), _leaf(y)))
