"""The steps of softmax and layer norm on floats in registers: exponentials of differences, and moments.

The idea.  n values v of a lane belong to one statistic (accumulators = 1) or to n of them, side by side:

    softmax      fold("max")                   m = the largest value
                 rescale(k)                    s *= e^(old - m) where the maximum has grown
                 add_exp(n, k)                 s += e^(v - m)
                 apply_softmax(n, k)           v = e^(v - m) * r,   r = 1 / s  (reciprocal)
    layer norm   add_square(n, k)              q += (v - mean)^2
                 average(k)                    mean = sum / count
                 merge_moments(k)              (count, mean, q) of a part joins those of what came before it
                 apply_norm(n, k)              v = (v - mean) * r,  r = rsqrt(q / count + eps)

An online softmax keeps (m, s) and rescales; a stable variance keeps (mean, q) and merges.  A maximum of
-infinity, of values that are all -infinity so far, counts as 0 while sums are made: their exponentials are 0.
The last step uses the true one, so that such a row becomes NaN, as -inf - -inf is.

Notes.  e^x is 2^(x log2 e) by ex2.approx.ftz.f32.  It is approximate: within 2 units of the last place, the
bound of exp2f, which is this instruction; subnormal results are 0.  The simulator computes the nearest float
instead, so that results of the two agree within a bound, not to the bit.  Differences are taken before the
product, so that values near the largest float do not overflow.  All else is rounded to the nearest float on
both sides.

Sources: PTX ISA 9.0, 9.7.3.21 (ex2.approx); CUDA C++ Programming Guide, "Mathematical Functions" (exp2f);
M. Milakov, N. Gimelshein, "Online normalizer calculation for
softmax", 2018; T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a pairwise algorithm for
computing sample variances", 1979.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy

from layoutalg.codegen.instr.record import Instr, Operand, into, updated, value
from layoutalg.codegen.instr.reduce import tree
from layoutalg.codegen.instr.words import EXP2, Array, at, each, float_words, floats, ref
from layoutalg.errors import UnsupportedError

LOG2_E = 0x3FB8AA3B
"""log2 e as the word of the nearest float."""

_LOG2_E = "1.44269502f"
"""The same in C: nine digits tell every float apart."""


def _power(v: str, m: str) -> str:
    """e^(v - m)."""
    return f"exp2_approx(__fmul_rn(__fsub_rn({v}, {m}), {_LOG2_E}))"


def _finite_text(m: str) -> str:
    return f"{m} == -INFINITY ? 0.0f : {m}"


def _sums(d: str, n: int, k: int, parts: str) -> str:
    """The lines that add n floats, an array of this name, to k accumulators."""
    if k > 1 or n == 1:
        return each(n, [f"{at(d, 'i', k)} = __fadd_rn({at(d, 'i', k)}, {at(parts, 'i', n)});"])
    total = tree([f"{parts}[{i}]" for i in range(n)], lambda a, b: f"__fadd_rn({a}, {b})")
    return f"    {d} = __fadd_rn({d}, {total});\n"


def _array(name: str, n: int) -> str:
    return f"    float {name}{f'[{n}]' if n > 1 else ''};\n"


def _made(
    name: str, operands: tuple[Operand, ...], lines: str, effect: Any, uses: tuple[str, ...] = ()
) -> Instr:
    """The instruction of a helper all of whose operands are floats."""
    parameters = ", ".join(
        f"float {o.name}" if o.role == "value" else ref(o.name, o.words, "f32", const=o.role == "in")
        for o in operands
    )
    typed = tuple(replace(o, element="f32") for o in operands)
    return Instr(name, typed, f"void {name}({parameters}) {{\n{lines}}}", effect, uses=uses)


def _exp(values: Array, most: Array) -> Array:
    """e^(values - most) as the instructions compute it, except for the error of ex2.approx."""
    log2_e = floats(numpy.array(LOG2_E, dtype=numpy.uint32))
    power = numpy.exp2(((values - most) * log2_e).astype(numpy.float64)).astype(numpy.float32)
    tiny = numpy.finfo(numpy.float32).tiny
    return numpy.where(power < tiny, numpy.float32(0), power)


def _finite(m: Array) -> Array:
    return numpy.where(m == -numpy.inf, numpy.float32(0), m)


def _shares(n: int, k: int) -> None:
    if k not in (1, n):
        raise UnsupportedError(f"{n} values of {k} statistics: 1 or {n} are accepted")


def _column(x: Array, i: int) -> Array:
    return x[:, i : i + 1]


@functools.cache
def add_exp(n: int, k: int) -> Instr:
    """s += e^(v - m) of n values of k statistics, 1 or n; where m is -infinity it counts as 0.

    Raises UnsupportedError for another k.

    >>> add_exp(8, 1).name
    'add_exp_8_to_1'
    """
    _shares(n, k)
    name = f"add_exp_{n}_to_{k}"
    exp = [f"{at('e', 'i', n)} = {_power(at('v', 'i', n), 'most')};"]
    if k == 1:
        lines = f"    const float most = {_finite_text('m')};\n" + _array("e", n) + each(n, exp)
    else:
        lines = _array("e", n) + each(n, [f"const float most = {_finite_text(at('m', 'i', k))};", *exp])
    lines += _sums("s", n, k, "e")

    def effect(machine: Any, group: Any, s: Array, v: Array, m: Array) -> Array:
        with numpy.errstate(all="ignore"):
            e = _exp(floats(v), _finite(floats(m)))
            total = tree([_column(e, i) for i in range(n)], numpy.add) if k == 1 else e
            return float_words(floats(s) + total)

    return _made(name, (updated("s", k), into("v", n), into("m", k)), lines, effect, (EXP2,))


@functools.cache
def rescale(k: int) -> Instr:
    """s *= e^(old - m) for k sums whose maximum was `old` and is m; where m is -infinity s stays.

    >>> rescale(4).operands[1].name
    'old'
    """
    name = f"rescale_{k}"
    x = at("s", "i", k)
    lines = each(
        k,
        [
            f"const float most = {_finite_text(at('m', 'i', k))};",
            f"{x} = __fmul_rn({x}, {_power(at('old', 'i', k), 'most')});",
        ],
    )

    def effect(machine: Any, group: Any, s: Array, old: Array, m: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return float_words(floats(s) * _exp(floats(old), _finite(floats(m))))

    return _made(name, (updated("s", k), into("old", k), into("m", k)), lines, effect, (EXP2,))


@functools.cache
def apply_softmax(n: int, k: int) -> Instr:
    """v = e^(v - m) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_softmax(4, 4).name
    'apply_softmax_4_of_4'
    """
    _shares(n, k)
    name = f"apply_softmax_{n}_of_{k}"
    x = at("v", "i", n)
    lines = each(n, [f"{x} = __fmul_rn({_power(x, at('m', 'i', k))}, {at('r', 'i', k)});"])

    def effect(machine: Any, group: Any, v: Array, m: Array, r: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return float_words(_exp(floats(v), floats(m)) * floats(r))

    return _made(name, (updated("v", n), into("m", k), into("r", k)), lines, effect, (EXP2,))


@functools.cache
def reciprocal(k: int) -> Instr:
    """d[i] = 1 / d[i], rounded to the nearest, for k floats.

    >>> reciprocal(1).name
    'reciprocal_1'
    """

    def effect(machine: Any, group: Any, d: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return float_words(numpy.float32(1) / floats(d))

    lines = each(k, [f"{at('d', 'i', k)} = __frcp_rn({at('d', 'i', k)});"])
    return _made(f"reciprocal_{k}", (updated("d", k),), lines, effect)


@functools.cache
def add_square(n: int, k: int) -> Instr:
    """q += (v - mean)^2 of n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> add_square(8, 1).name
    'add_square_8_to_1'
    """
    _shares(n, k)
    name = f"add_square_{n}_to_{k}"
    square = [
        f"const float c = __fsub_rn({at('v', 'i', n)}, {at('mean', 'i', k)});",
        f"{at('e', 'i', n)} = __fmul_rn(c, c);",
    ]
    lines = _array("e", n) + each(n, square) + _sums("q", n, k, "e")

    def effect(machine: Any, group: Any, q: Array, v: Array, mean: Array) -> Array:
        with numpy.errstate(all="ignore"):
            square = (floats(v) - floats(mean)) ** 2
            total = tree([_column(square, i) for i in range(n)], numpy.add) if k == 1 else square
            return float_words(floats(q) + total)

    return _made(name, (updated("q", k), into("v", n), into("mean", k)), lines, effect)


@functools.cache
def merge_moments(k: int) -> Instr:
    """(count, mean, q) of k statistics joined with those of another part, which has `more` values.

    count and more are one float for all k; a part without values changes nothing.

    >>> merge_moments(1).name
    'merge_moments_1'
    """
    name = f"merge_moments_{k}"
    q, mean, q_b, mean_b = (at(x, "i", k) for x in ("q", "mean", "q_b", "mean_b"))
    lines = (
        "    const float all = __fadd_rn(count, more);\n"
        "    const float share = all > 0.0f ? __fmul_rn(more, __frcp_rn(all)) : 0.0f;\n"
    ) + each(
        k,
        [
            f"const float d = __fsub_rn({mean_b}, {mean}), step = __fmul_rn(d, share);",
            f"{q} = __fadd_rn({q}, __fadd_rn({q_b}, __fmul_rn(__fmul_rn(d, count), step)));",
            f"{mean} = __fadd_rn({mean}, step);",
        ],
    )
    lines += "    count = all;\n"

    def effect(
        machine: Any, group: Any, count: Array, mean: Array, q: Array, more: Array, mean_b: Array, q_b: Array
    ) -> tuple[Array, Array, Array]:
        with numpy.errstate(all="ignore"):
            n, b = floats(count), floats(more)
            every = n + b
            share = numpy.where(every > 0, b * (numpy.float32(1) / every), numpy.float32(0))
            d = floats(mean_b) - floats(mean)
            step = d * share
            square = floats(q) + (floats(q_b) + d * n * step)
            return float_words(every), float_words(floats(mean) + step), float_words(square)

    operands = (
        updated("count", 1), updated("mean", k), updated("q", k), into("more", 1), into("mean_b", k),
        into("q_b", k),
    )  # fmt: skip
    return _made(name, operands, lines, effect)


@functools.cache
def average(k: int) -> Instr:
    """d[i] /= count for k sums and one count; they stay where it is 0.

    >>> average(1).name
    'average_1'
    """
    d = at("d", "i", k)
    lines = "    const float share = count > 0.0f ? __frcp_rn(count) : 1.0f;\n"
    lines += each(k, [f"{d} = __fmul_rn({d}, share);"])

    def effect(machine: Any, group: Any, d: Array, count: Array) -> Array:
        with numpy.errstate(all="ignore"):
            n = floats(count)
            return float_words(floats(d) * numpy.where(n > 0, numpy.float32(1) / n, numpy.float32(1)))

    return _made(f"average_{k}", (updated("d", k), into("count", 1)), lines, effect)


@functools.cache
def deviation(k: int) -> Instr:
    """d[i] = 1 / sqrt(d[i] * scale + eps) for k floats: the reciprocal of a standard deviation.

    >>> deviation(1).name
    'deviation_1'
    """
    name = f"deviation_{k}"
    d = at("d", "i", k)
    lines = each(k, [f"{d} = __frsqrt_rn(__fadd_rn(__fmul_rn({d}, scale), eps));"])

    def effect(machine: Any, group: Any, d: Array, scale: Array, eps: Array) -> Array:
        with numpy.errstate(all="ignore"):
            variance = floats(d) * floats(scale) + floats(eps)
            return float_words(1 / numpy.sqrt(variance.astype(numpy.float64)))

    return _made(name, (updated("d", k), value("scale"), value("eps")), lines, effect)


@functools.cache
def apply_norm(n: int, k: int) -> Instr:
    """v = (v - mean) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_norm(8, 1).name
    'apply_norm_8_of_1'
    """
    _shares(n, k)
    name = f"apply_norm_{n}_of_{k}"
    x = at("v", "i", n)
    lines = each(n, [f"{x} = __fmul_rn(__fsub_rn({x}, {at('mean', 'i', k)}), {at('r', 'i', k)});"])

    def effect(machine: Any, group: Any, v: Array, mean: Array, r: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return float_words((floats(v) - floats(mean)) * floats(r))

    return _made(name, (updated("v", n), into("mean", k), into("r", k)), lines, effect)


@functools.cache
def multiply(n: int, k: int) -> Instr:
    """v[i] *= w[i] for n floats and as many factors, or one.  Raises UnsupportedError for another k.

    >>> multiply(4, 1).name
    'multiply_4_by_1'
    """
    _shares(n, k)
    name = f"multiply_{n}_by_{k}"
    lines = each(n, [f"{at('v', 'i', n)} = __fmul_rn({at('v', 'i', n)}, {at('w', 'i', k)});"])

    def effect(machine: Any, group: Any, v: Array, w: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return float_words(floats(v) * floats(w))

    return _made(name, (updated("v", n), into("w", k)), lines, effect)


@functools.cache
def add_one(n: int) -> Instr:
    """v[i] += b for n floats and one summand; for n summands see instr_reduce.fold.

    >>> add_one(4).name
    'add_one_4'
    """

    def effect(machine: Any, group: Any, v: Array, b: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return float_words(floats(v) + floats(b))

    lines = each(n, [f"{at('v', 'i', n)} = __fadd_rn({at('v', 'i', n)}, b);"])
    return _made(f"add_one_{n}", (updated("v", n), into("b", 1)), lines, effect)
