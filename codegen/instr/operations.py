"""Operations on the numbers of a lane: the text of each in C beside its effect on arrays.

Text and effect round alike, so that what is simulated is what is printed; of the hardware's approximations
the effect is the nearest float.

Sources: PTX ISA 9.0, 9.7.3 (floating-point instructions); CUDA C++ Programming Guide, "Mathematical
Functions".
"""

from __future__ import annotations

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
    """

    text: str
    effect: Callable[..., Array]
    integers: str = ""
    doubles: str = ""
    uses: tuple[str, ...] = ()


def _fma(a: Array, b: Array, c: Array) -> Array:
    """Rounded once; of doubles, where the hardware rounds once too, twice."""
    if a.dtype != numpy.float32:
        return a * b + c
    product, addend = a.astype(numpy.float64) * b.astype(numpy.float64), c.astype(numpy.float64)
    return sum_to_odd(*numpy.broadcast_arrays(product, addend)).astype(numpy.float32)


def _nearest(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of floats, rounded once; results below the normal floats are 0."""

    def rounded(a: Array) -> Array:
        result = function(a.astype(numpy.float64)).astype(numpy.float32)
        return numpy.where(numpy.abs(result) < numpy.finfo(numpy.float32).tiny, result * 0, result)

    return rounded


def _exp(a: Array) -> Array:
    return _nearest(numpy.exp2)(a * numpy.float32(1.4426950408889634))


def _signed(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """A function that takes integers as signed ones."""

    def of_signed(a: Array, b: Array) -> Array:
        if a.dtype != numpy.uint32:
            return function(a, b)
        return function(a.view(numpy.int32), b.view(numpy.int32)).view(numpy.uint32)

    return of_signed


def _of_signed(name: str) -> str:
    return f"static_cast<u32>({name}(static_cast<int>({{a}}), static_cast<int>({{b}})))"


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": Operation("__fadd_rn({a}, {b})", numpy.add, "{a} + {b}", "__dadd_rn({a}, {b})"),
        "sub": Operation("__fsub_rn({a}, {b})", numpy.subtract, "{a} - {b}"),
        "mul": Operation("__fmul_rn({a}, {b})", numpy.multiply, "{a} * {b}", "{a} * {b}"),
        "div": Operation("__fdiv_rn({a}, {b})", numpy.divide),
        "fma": Operation("__fmaf_rn({a}, {b}, {c})", _fma, "{a} * {b} + {c}", "__fma_rn({a}, {b}, {c})"),
        "max": Operation("max_nan({a}, {b})", _signed(numpy.maximum), _of_signed("max"), uses=(MAX_NAN,)),
        "min": Operation("min_nan({a}, {b})", _signed(numpy.minimum), _of_signed("min"), uses=(MIN_NAN,)),
        "neg": Operation("-({a})", numpy.negative, "0u - {a}"),
        "widen": Operation("{a}", lambda a: a),
        "abs": Operation("fabsf({a})", numpy.abs),
        "sqrt": Operation("__fsqrt_rn({a})", numpy.sqrt),
        "reciprocal": Operation("__frcp_rn({a})", numpy.reciprocal),
        "rsqrt": Operation(
            "rsqrt_approx({a})", lambda a: (1 / numpy.sqrt(a.astype("f8"))).astype("f4"), uses=(RSQRT,)
        ),
        "exp2": Operation("exp2_approx({a})", _nearest(numpy.exp2), uses=(EXP2,)),
        "exp": Operation("exp2_approx(__fmul_rn({a}, 1.44269502f))", _exp, uses=(EXP2,)),
        "tanh": Operation("tanhf({a})", lambda a: numpy.tanh(a.astype("f8")).astype("f4")),
    }
)  # fmt: skip
"""Every operation by name."""
