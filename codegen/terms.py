"""Formulas as Python writes them: operators and functions on what stands for registers build a Value.

    x * alpha + b           Value("add", (Value("mul", (x, alpha)), b))
    maximum(x, 0.0)         Value("max", (x, 0.0))

Nothing is computed here: kernels map formulas to registers, and `instr.functions` names those of one number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.codegen.expr import Expr
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, IRError


def _operator(op: str) -> Callable[[Any, Operand], Value]:
    def operator(self: Any, other: Operand) -> Value:
        return Value(op, (_leaf(self), _leaf(other)))

    return operator


def _reversed(op: str) -> Callable[[Any, Operand], Value]:
    def operator(self: Any, other: Operand) -> Value:
        return Value(op, (_leaf(other), _leaf(self)))

    return operator


def _unary(op: str) -> Callable[[Any], Value]:
    def operator(self: Any) -> Value:
        return Value(op, (_leaf(self),))

    return operator


class Arithmetic:
    """Python's operators on registers: each builds a Value.

    `//` and `%` are of integers, rounded down as Python's; `&`, `|`, `^` and `~` of integers or predicates.
    """

    __slots__ = ()

    __add__, __radd__ = _operator("add"), _reversed("add")
    __sub__, __rsub__ = _operator("sub"), _reversed("sub")
    __mul__, __rmul__ = _operator("mul"), _reversed("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reversed("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reversed("floordiv")
    __mod__, __rmod__ = _operator("mod"), _reversed("mod")
    __and__, __rand__ = _operator("and"), _reversed("and")
    __or__, __ror__ = _operator("or"), _reversed("or")
    __xor__, __rxor__ = _operator("xor"), _reversed("xor")
    __lshift__, __rlshift__ = _operator("shl"), _reversed("shl")
    __rshift__, __rrshift__ = _operator("shr"), _reversed("shr")
    __neg__, __abs__, __invert__ = _unary("neg"), _unary("abs"), _unary("not")
    __lt__, __gt__ = _operator("lt"), _reversed("lt")
    __le__, __ge__ = _operator("le"), _reversed("le")
    eq, ne = _operator("eq"), _operator("ne")

    def __bool__(self) -> bool:
        raise IRError(
            "no truth value", self, f"'{self}' is decided when the kernel runs; where chooses by it"
        )

    def to(self, element: str | DType) -> Value:
        """The values as another type: rounded once to floats, towards zero and to the nearest end from floats
        to integers, modulo 2^n from integers to integers.  A type narrower than 32 bits is the last step.
        """
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


Operand: TypeAlias = "Arithmetic | Expr | int | float"
"""The parts of a formula; an index is an integer without a sign."""


def _leaf(x: object) -> Any:
    if isinstance(x, bool) or not isinstance(x, (Arithmetic, Expr, int, float)):
        kind = type(x).__name__
        raise ArgumentTypeError(
            f"{x!r} is a {kind}; registers, scalars of the kernel, indices or numbers are needed"
        )
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
log2 = _function("log2", "The logarithm of x to the base 2.")
log1p = _function("log1p", "The natural logarithm of 1 + x.")
normcdf = _function("normcdf", "The normal distribution function of x.")
erf = _function("erf", "The error function of x.")
tanh = _function("tanh", "The hyperbolic tangent of x.")
sin = _function("sin", "The sine of x, in radians.")
cos = _function("cos", "The cosine of x, in radians.")
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


def fma(x: Operand, y: Operand, z: Operand) -> Value:
    """x y + z, rounded once; a product that is added to is one too.

    >>> print(fma(2, 3.5, 1))
    fma(2, 3.5, 1)
    """
    return Value("fma", (_leaf(x), _leaf(y), _leaf(z)))


def where(condition: Arithmetic | Expr, x: Operand, y: Operand) -> Value:
    """x where a comparison holds, y where it does not: two values of one type.

    >>> print(where(Value("lt", (0, 1)), 2, 3.5))
    where(lt(0, 1), 2, 3.5)
    """
    return Value("where", (_leaf(condition), _leaf(x), _leaf(y)))
