"""What softmax and layer norm do to floats in registers: exponentials of differences, and moments.

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
from typing import Any

import numpy

from layoutalg.codegen.instr.packing import Array
from layoutalg.codegen.instr.record import Instr, into, updated, value
from layoutalg.codegen.instr.reduce import tree
from layoutalg.errors import UnsupportedError

LOG2_E = 0x3FB8AA3B
"""log2 e as the word of the nearest float."""

_EXP2 = (
    "const float {d}_log2 = __fmul_rn(__fsub_rn({v}, {m}), __uint_as_float(0x3FB8AA3Bu));\n"
    "float {d};\n"
    'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"({d}) : "f"({d}_log2));\n'
)
_FINITE = "{m} == __uint_as_float(0xFF800000u) ? 0.0f : {m}"


def _ref(name: str, words: int, const: str = "") -> str:
    return f"{const}u32{'&' if words == 1 else '*'} {name}"


def _at(name: str, i: object, words: int) -> str:
    return name if words == 1 else f"{name}[{i}]"


def _get(name: str, i: object, words: int) -> str:
    return f"__uint_as_float({_at(name, i, words)})"


def _put(name: str, i: object, words: int, value: str) -> str:
    return f"{_at(name, i, words)} = __float_as_uint({value});\n"


def _each(n: int, text: str) -> str:
    """The lines of a helper that do `text` for i = 0 .. n - 1; one value needs no loop."""
    lines = text.splitlines()
    if n == 1:
        return "".join(f"    {line}\n" for line in lines)
    body = "".join(f"        {line}\n" for line in lines)
    return f"    #pragma unroll\n    for (int i = 0; i < {n}; ++i) {{\n{body}    }}\n"


def _sums(d: str, n: int, k: int, parts: str) -> str:
    """The lines that add n floats, an array of this name, to k accumulators."""
    if k > 1 or n == 1:
        return _each(n, _put(d, "i", k, f"__fadd_rn({_get(d, 'i', k)}, {_at(parts, 'i', n)})"))
    total = tree([f"{parts}[{i}]" for i in range(n)], lambda a, b: f"__fadd_rn({a}, {b})")
    return "    " + _put(d, 0, 1, f"__fadd_rn({_get(d, 0, 1)}, {total})")


def _array(name: str, n: int) -> str:
    return f"    float {name}{f'[{n}]' if n > 1 else ''};\n"


def _floats(words: Array) -> Array:
    return numpy.ascontiguousarray(words).view(numpy.float32)


def _words(values: Array) -> Array:
    return numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)


def _exp(values: Array, most: Array) -> Array:
    """e^(values - most) as the instructions have it, but for the error of ex2.approx."""
    log2_e = numpy.array(LOG2_E, dtype=numpy.uint32).view(numpy.float32)
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
    exp = (
        f"const float most = {_FINITE.format(m=_get('m', 'i', k))};\n"
        f"{_EXP2.format(v=_get('v', 'i', n), m='most', d='power')}{_at('e', 'i', n)} = power;\n"
    )
    lines = _array("e", n) + _each(n, exp) + _sums("s", n, k, "e")

    def effect(machine: Any, group: Any, s: Array, v: Array, m: Array) -> Array:
        with numpy.errstate(all="ignore"):
            e = _exp(_floats(v), _finite(_floats(m)))
            total = tree([_column(e, i) for i in range(n)], numpy.add) if k == 1 else e
            return _words(_floats(s) + total)

    text = f"void {name}({_ref('s', k)}, {_ref('v', n, 'const ')}, {_ref('m', k, 'const ')}) {{\n"
    operands = (updated("s", k), into("v", n), into("m", k))
    return Instr(name, operands, f"{text}{lines}}}", effect)


@functools.cache
def rescale(k: int) -> Instr:
    """s *= e^(old - m) for k sums whose maximum was `old` and is m; where m is -infinity s stays.

    >>> rescale(4).operands[1].name
    'old'
    """
    name = f"rescale_{k}"
    lines = _each(
        k,
        f"const float most = {_FINITE.format(m=_get('m', 'i', k))};\n"
        f"{_EXP2.format(v=_get('old', 'i', k), m='most', d='factor')}"
        + _put("s", "i", k, f"__fmul_rn({_get('s', 'i', k)}, factor)"),
    )

    def effect(machine: Any, group: Any, s: Array, old: Array, m: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return _words(_floats(s) * _exp(_floats(old), _finite(_floats(m))))

    text = f"void {name}({_ref('s', k)}, {_ref('old', k, 'const ')}, {_ref('m', k, 'const ')}) {{\n"
    operands = (updated("s", k), into("old", k), into("m", k))
    return Instr(name, operands, f"{text}{lines}}}", effect)


@functools.cache
def apply_softmax(n: int, k: int) -> Instr:
    """v = e^(v - m) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_softmax(4, 4).name
    'apply_softmax_4_of_4'
    """
    _shares(n, k)
    name = f"apply_softmax_{n}_of_{k}"
    product = f"__fmul_rn(power, {_get('r', 'i', k)})"
    lines = _each(
        n,
        _EXP2.format(v=_get("v", "i", n), m=_get("m", "i", k), d="power") + _put("v", "i", n, product),
    )

    def effect(machine: Any, group: Any, v: Array, m: Array, r: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return _words(_exp(_floats(v), _floats(m)) * _floats(r))

    text = f"void {name}({_ref('v', n)}, {_ref('m', k, 'const ')}, {_ref('r', k, 'const ')}) {{\n"
    operands = (updated("v", n), into("m", k), into("r", k))
    return Instr(name, operands, f"{text}{lines}}}", effect)


@functools.cache
def reciprocal(k: int) -> Instr:
    """d[i] = 1 / d[i], rounded to the nearest, for k floats.

    >>> reciprocal(1).name
    'reciprocal_1'
    """

    def effect(machine: Any, group: Any, d: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return _words(numpy.float32(1) / _floats(d))

    lines = _each(k, _put("d", "i", k, f"__frcp_rn({_get('d', 'i', k)})"))
    return Instr(
        f"reciprocal_{k}", (updated("d", k),), f"void reciprocal_{k}({_ref('d', k)}) {{\n{lines}}}", effect
    )


@functools.cache
def add_square(n: int, k: int) -> Instr:
    """q += (v - mean)^2 of n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> add_square(8, 1).name
    'add_square_8_to_1'
    """
    _shares(n, k)
    name = f"add_square_{n}_to_{k}"
    square = (
        f"const float c = __fsub_rn({_get('v', 'i', n)}, {_get('mean', 'i', k)});\n"
        f"{_at('e', 'i', n)} = __fmul_rn(c, c);\n"
    )
    lines = _array("e", n) + _each(n, square) + _sums("q", n, k, "e")

    def effect(machine: Any, group: Any, q: Array, v: Array, mean: Array) -> Array:
        with numpy.errstate(all="ignore"):
            square = (_floats(v) - _floats(mean)) ** 2
            total = tree([_column(square, i) for i in range(n)], numpy.add) if k == 1 else square
            return _words(_floats(q) + total)

    text = f"void {name}({_ref('q', k)}, {_ref('v', n, 'const ')}, {_ref('mean', k, 'const ')}) {{\n"
    operands = (updated("q", k), into("v", n), into("mean", k))
    return Instr(name, operands, f"{text}{lines}}}", effect)


@functools.cache
def merge_moments(k: int) -> Instr:
    """(count, mean, q) of k statistics joined with those of another part, which has `more` values.

    count and more are one float for all k; a part without values changes nothing.

    >>> merge_moments(1).name
    'merge_moments_1'
    """
    name = f"merge_moments_{k}"
    apart = f"__fadd_rn({_get('q_b', 'i', k)}, __fmul_rn(__fmul_rn(d, n), step))"
    lines = (
        "    const float n = __uint_as_float(count), b = __uint_as_float(more), all = __fadd_rn(n, b);\n"
        "    const float share = all > 0.0f ? __fmul_rn(b, __frcp_rn(all)) : 0.0f;\n"
        "    count = __float_as_uint(all);\n"
    ) + _each(
        k,
        f"const float d = __fsub_rn({_get('mean_b', 'i', k)}, {_get('mean', 'i', k)});\n"
        "const float step = __fmul_rn(d, share);\n"
        + _put("q", "i", k, f"__fadd_rn({_get('q', 'i', k)}, {apart})")
        + _put("mean", "i", k, f"__fadd_rn({_get('mean', 'i', k)}, step)"),
    )

    def effect(
        machine: Any, group: Any, count: Array, mean: Array, q: Array, more: Array, mean_b: Array, q_b: Array
    ) -> tuple[Array, Array, Array]:
        with numpy.errstate(all="ignore"):
            n, b = _floats(count), _floats(more)
            every = n + b
            share = numpy.where(every > 0, b * (numpy.float32(1) / every), numpy.float32(0))
            d = _floats(mean_b) - _floats(mean)
            step = d * share
            square = _floats(q) + (_floats(q_b) + d * n * step)
            return _words(every), _words(_floats(mean) + step), _words(square)

    signature = (
        f"u32& count, {_ref('mean', k)}, {_ref('q', k)}, u32 more, {_ref('mean_b', k, 'const ')}, "
        f"{_ref('q_b', k, 'const ')}"
    )
    operands = (
        updated("count", 1), updated("mean", k), updated("q", k), into("more", 1), into("mean_b", k),
        into("q_b", k),
    )  # fmt: skip
    return Instr(name, operands, f"void {name}({signature}) {{\n{lines}}}", effect)


@functools.cache
def average(k: int) -> Instr:
    """d[i] /= count for k sums and one count; they stay where it is 0.

    >>> average(1).name
    'average_1'
    """
    lines = _each(k, _put("d", "i", k, f"__fmul_rn({_get('d', 'i', k)}, share)"))

    def effect(machine: Any, group: Any, d: Array, count: Array) -> Array:
        with numpy.errstate(all="ignore"):
            n = _floats(count)
            return _words(_floats(d) * numpy.where(n > 0, numpy.float32(1) / n, numpy.float32(1)))

    text = (
        f"void average_{k}({_ref('d', k)}, const u32& count) {{\n"
        "    const float n = __uint_as_float(count), share = n > 0.0f ? __frcp_rn(n) : 1.0f;\n"
        f"{lines}}}"
    )
    return Instr(f"average_{k}", (updated("d", k), into("count", 1)), text, effect)


@functools.cache
def deviation(k: int) -> Instr:
    """d[i] = 1 / sqrt(d[i] * scale + eps) for k floats: the reciprocal of a standard deviation.

    >>> deviation(1).name
    'deviation_1'
    """
    name = f"deviation_{k}"
    variance = f"__fmul_rn({_get('d', 'i', k)}, __uint_as_float(scale))"
    lines = _each(k, _put("d", "i", k, f"__frsqrt_rn(__fadd_rn({variance}, __uint_as_float(eps)))"))

    def effect(machine: Any, group: Any, d: Array, scale: Array, eps: Array) -> Array:
        with numpy.errstate(all="ignore"):
            variance = _floats(d) * _floats(scale) + _floats(eps)
            return _words(1 / numpy.sqrt(variance.astype(numpy.float64)))

    text = f"void {name}({_ref('d', k)}, u32 scale, u32 eps) {{\n{lines}}}"
    return Instr(name, (updated("d", k), value("scale"), value("eps")), text, effect)


@functools.cache
def apply_norm(n: int, k: int) -> Instr:
    """v = (v - mean) * r for n values of k statistics, 1 or n.  Raises UnsupportedError for another k.

    >>> apply_norm(8, 1).name
    'apply_norm_8_of_1'
    """
    _shares(n, k)
    name = f"apply_norm_{n}_of_{k}"
    centred = f"__fsub_rn({_get('v', 'i', n)}, {_get('mean', 'i', k)})"
    lines = _each(n, _put("v", "i", n, f"__fmul_rn({centred}, {_get('r', 'i', k)})"))

    def effect(machine: Any, group: Any, v: Array, mean: Array, r: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return _words((_floats(v) - _floats(mean)) * _floats(r))

    text = f"void {name}({_ref('v', n)}, {_ref('mean', k, 'const ')}, {_ref('r', k, 'const ')}) {{\n{lines}}}"
    return Instr(name, (updated("v", n), into("mean", k), into("r", k)), text, effect)


@functools.cache
def multiply(n: int, k: int) -> Instr:
    """v[i] *= w[i] for n floats and as many factors, or one.  Raises UnsupportedError for another k.

    >>> multiply(4, 1).name
    'multiply_4_by_1'
    """
    _shares(n, k)
    name = f"multiply_{n}_by_{k}"
    lines = _each(n, _put("v", "i", n, f"__fmul_rn({_get('v', 'i', n)}, {_get('w', 'i', k)})"))

    def effect(machine: Any, group: Any, v: Array, w: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return _words(_floats(v) * _floats(w))

    text = f"void {name}({_ref('v', n)}, {_ref('w', k, 'const ')}) {{\n{lines}}}"
    return Instr(name, (updated("v", n), into("w", k)), text, effect)


@functools.cache
def add_one(n: int) -> Instr:
    """v[i] += b for n floats and one summand; for n summands see instr_reduce.fold.

    >>> add_one(4).name
    'add_one_4'
    """

    def effect(machine: Any, group: Any, v: Array, b: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return _words(_floats(v) + _floats(b))

    lines = _each(n, _put("v", "i", n, f"__fadd_rn({_get('v', 'i', n)}, __uint_as_float(b))"))
    return Instr(
        f"add_one_{n}", (updated("v", n), into("b", 1)),
        f"void add_one_{n}({_ref('v', n)}, const u32& b) {{\n{lines}}}", effect,
    )  # fmt: skip
