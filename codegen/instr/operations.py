"""Operations on the numbers of a lane: the text of each in C beside its effect on arrays.

Text and effect round alike, so that what is simulated is what is printed; of the hardware's approximations
the effect is the nearest float.

Sources: PTX ISA 9.0, 9.7.3 (floating-point instructions); CUDA C++ Programming Guide, "Mathematical
Functions".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy

from layoutalg.codegen.instr.words import EXP2, MAX_NAN, MIN_NAN, RSQRT, Array


def sum_to_odd(x: Array, y: Array) -> Array:
    """x + y in float64, an inexact sum with its last bit 1: rounding it to float32 rounds the exact sum.

    Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd", 2008.
    """
    near = numpy.ascontiguousarray(x + y)
    part = near - x
    error = (x - (near - part)) + (y - part)
    bits = near.view(numpy.int64)
    even = numpy.isfinite(error) & (error != 0) & (bits & 1 == 0)
    outwards = numpy.where((error > 0) == (near > 0), 1, -1)
    return numpy.where(even, bits + outwards, bits).view(numpy.float64)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation in C, of floats `a`, `b`, `c`, and its effect on arrays; the same of integers, of doubles.

    Each text is an expression, "" where there is none; that of floats may call the functions whose texts are
    `uses`.  Arrays are float32, uint32 for integers modulo 2^32, or float64.

    `plain` is the operation as C writes it, of any type, with {f} for the f behind a function of floats; its
    value is `exact`, on arrays of float64 or int64.
    """

    text: str
    effect: Callable[..., Array]
    integers: str = ""
    doubles: str = ""
    uses: tuple[str, ...] = ()
    plain: str = ""
    exact: Callable[..., Array] | None = None


def _fma(a: Array, b: Array, c: Array) -> Array:
    """Rounded once; of doubles, where the hardware rounds once too, twice."""
    if a.dtype != numpy.float32:
        return a * b + c
    product, addend = a.astype(numpy.float64) * b.astype(numpy.float64), c.astype(numpy.float64)
    return sum_to_odd(*numpy.broadcast_arrays(product, addend)).astype(numpy.float32)


def _infix(sign: str, rounded: str, effect: Callable[..., Array], doubles: str = "") -> Operation:
    """An operation that C writes between its operands."""
    plain = f"{{a}} {sign} {{b}}"
    return Operation(f"{rounded}({{a}}, {{b}})", effect, plain if sign != "/" else "", doubles, plain=plain)


def _best(sign: str, function: Callable[[Array, Array], Array]) -> Operation:
    """The maximum (`sign` <) or the minimum: NaN where one is."""

    def effect(a: Array, b: Array) -> Array:
        if a.dtype != numpy.uint32:
            return function(a, b)
        return function(a.view(numpy.int32), b.view(numpy.int32)).view(numpy.uint32)

    def exact(a: Array, b: Array) -> Array:
        return numpy.where((a < b if sign == "<" else b < a) | (b != b), b, a)

    name, helper = ("max", MAX_NAN) if sign == "<" else ("min", MIN_NAN)
    integers = f"static_cast<u32>({name}(static_cast<int>({{a}}), static_cast<int>({{b}})))"
    plain = f"{{a}} {sign} {{b}} || {{b}} != {{b}} ? {{b}} : {{a}}"
    return Operation(f"{name}_nan({{a}}, {{b}})", effect, integers, "", (helper,), plain, exact)


def _function(
    name: str, exact: Callable[..., Array], text: str = "", effect: Callable[..., Array] | None = None,
    uses: tuple[str, ...] = (),
) -> Operation:  # fmt: skip
    """A function of C's library; its effect on floats, and its text, unless others are given."""

    def nearest(a: Array) -> Array:
        return exact(a.astype(numpy.float64)).astype(numpy.float32)

    own = f"{name}{{f}}({{a}})"
    return Operation(text or own.format(f="f", a="{a}"), effect or nearest, uses=uses, plain=own, exact=exact)


def _normal(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of floats, rounded once; results below the normal floats are 0."""

    def rounded(a: Array) -> Array:
        result = function(a.astype(numpy.float64)).astype(numpy.float32)
        return numpy.where(numpy.abs(result) < numpy.finfo(numpy.float32).tiny, result * 0, result)

    return rounded


def _exp(a: Array) -> Array:
    return _normal(numpy.exp2)(a * numpy.float32(1.4426950408889634))


_erfc = numpy.frompyfunc(math.erfc, 1, 1)


def _normcdf(x: Array) -> Array:
    """The normal distribution function; off by x^2 2^-53 of it, since the argument of erfc is rounded."""
    return 0.5 * numpy.asarray(_erfc(-x / math.sqrt(2.0)), dtype=numpy.float64)


def _rsqrt(a: Array) -> Array:
    return 1 / numpy.sqrt(a)


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": _infix("+", "__fadd_rn", numpy.add, "__dadd_rn({a}, {b})"),
        "sub": _infix("-", "__fsub_rn", numpy.subtract),
        "mul": _infix("*", "__fmul_rn", numpy.multiply, "{a} * {b}"),
        "div": _infix("/", "__fdiv_rn", numpy.divide),
        "fma": Operation("__fmaf_rn({a}, {b}, {c})", _fma, "{a} * {b} + {c}", "__fma_rn({a}, {b}, {c})"),
        "max": _best("<", numpy.maximum),
        "min": _best(">", numpy.minimum),
        "neg": Operation("-({a})", numpy.negative, "0u - {a}", plain="-{a}"),
        "widen": Operation("{a}", lambda a: a),
        "abs": _function("fabs", numpy.abs, effect=numpy.abs),
        "sqrt": _function("sqrt", numpy.sqrt, "__fsqrt_rn({a})", numpy.sqrt),
        "reciprocal": Operation("__frcp_rn({a})", numpy.reciprocal, plain="1 / {a}"),
        "rsqrt": _function("rsqrt", _rsqrt, "rsqrt_approx({a})", uses=(RSQRT,)),
        "exp2": _function("exp2", numpy.exp2, "exp2_approx({a})", _normal(numpy.exp2), (EXP2,)),
        "exp": _function("exp", numpy.exp, "exp2_approx(__fmul_rn({a}, 1.44269502f))", _exp, (EXP2,)),
        "log": _function("log", numpy.log),
        "log1p": _function("log1p", numpy.log1p),
        "tanh": _function("tanh", numpy.tanh),
        "normcdf": _function("normcdf", _normcdf),
    }
)  # fmt: skip
"""Every operation by name."""
