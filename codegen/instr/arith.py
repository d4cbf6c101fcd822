"""Arithmetic on registers: outer products, and what an epilogue does to its vectors.

Values live in 32-bit words (f64 in two).  Instructions are made for a number of elements and kept, so that
one kernel has one helper of each kind:

    fma_outer(8, 8, "f32")     d[i][j] += a[i] * b[j]
    scale(4, "f32")            v[i] *= alpha
    add_scaled(8, "f16")       v[i] += beta * c[i]            c packed, v float
    pack(8, "f16")             floats to packed elements, rounded to the nearest; unpack the other way
    add_same(8, "f16")         v[i] += c                      c one element

Notes.  A fused multiply-add of floats is rounded once, as by the hardware; of doubles the simulator rounds
product and sum, which can differ in the last bit.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from layoutalg.codegen.instr.packing import Array, decode, encode
from layoutalg.codegen.instr.record import Instr, Operand, Requires, into, out, updated, value
from layoutalg.errors import UnsupportedError

ONE_F32 = 0x3F800000
"""1.0f as a word."""

_UNPACK = {
    "f16": (
        "    float c{i}, c{j};\n"
        '    asm("{{.reg .b16 a, b; mov.b32 {{a, b}}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}}"\n'
        '        : "=f"(c{i}), "=f"(c{j}) : "r"({w}));\n'
    ),
    "bf16": (
        "    const float c{i} = __uint_as_float({w} << 16);\n"
        "    const float c{j} = __uint_as_float({w} & 0xFFFF0000u);\n"
    ),
}

PACK_TEXT = {"f16": "cvt.rn.f16x2.f32", "bf16": "cvt.rn.bf16x2.f32"}
"""The PTX instruction that rounds two floats to a word, by element."""


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


def _ref(name: str, words: int, *, const: bool) -> str:
    if words == 1:
        return f"{'const ' if const else ''}u32& {name}"
    return f"{'const ' if const else ''}u32* {name}"


def _at(name: str, i: object, words: int) -> str:
    return name if words == 1 else f"{name}[{i}]"


@functools.cache
def fma_outer(m: int, n: int, element: str = "f32") -> Instr:
    """d[m][n] += a[m] * b[n], of f32 or f64 elements: m n fused multiply-adds a lane.

    The rows are walked boustrophedon: every multiply-add keeps an operand of the one before it, which saves
    a read of the register file.  Raises UnsupportedError for other elements.

    >>> fma_outer(8, 8).name
    'fma_outer_8x8_f32'
    """
    name = f"fma_outer_{m}x{n}_{element}"
    if element == "f32":
        dw = m * n

        def step(i: object, j: object, ij: object) -> str:
            a, b, d = _at("a", i, m), _at("b", j, n), _at("d", ij, dw)
            return (
                f"{d} = __float_as_uint(__fmaf_rn(__uint_as_float({a}), __uint_as_float({b}), "
                f"__uint_as_float({d})));"
            )

        words = 1
    elif element == "f64":
        dw = 2 * m * n

        def step(i: object, j: object, ij: object) -> str:
            def get(x: str, at: object) -> str:
                return f"__hiloint2double({x}[2 * ({at}) + 1], {x}[2 * ({at})])"

            return (
                f"{{ const double x = __fma_rn({get('a', i)}, {get('b', j)}, {get('d', ij)}); "
                f"d[2 * ({ij})] = __double2loint(x); d[2 * ({ij}) + 1] = __double2hiint(x); }}"
            )

        words = 2
    else:
        raise UnsupportedError(f"fma_outer of {element}: f32 and f64 are accepted")
    signature = (
        f"void {name}({_ref('d', dw, const=False)}, {_ref('a', words * m, const=True)}, "
        f"{_ref('b', words * n, const=True)})"
    )
    text = (
        f"{signature} {{\n"
        f"    #pragma unroll\n    for (int i = 0; i < {m}; ++i) {{\n"
        f"        #pragma unroll\n        for (int s = 0; s < {n}; ++s) {{\n"
        f"            const int j = i % 2 ? {n - 1} - s : s;\n"
        f"            {step('i', 'j', f'i * {n} + j')}\n        }}\n    }}\n}}"
    )

    def effect(machine: Any, group: Any, d: Array, a: Array, b: Array) -> Array:
        left, right = decode(a, element), decode(b, element)
        with numpy.errstate(all="ignore"):
            products = (left[:, :, None] * right[:, None, :]).reshape(len(d), -1)
            addends = decode(d, element)
            return encode((sum_to_odd if element == "f32" else numpy.add)(products, addends), element)

    return Instr(name, (updated("d", dw), into("a", words * m), into("b", words * n)), text, effect)


def _elementwise(
    name: str, operands: tuple[Operand, ...], lines: str, signature: str, effect: Any, sm: int = 70
) -> Instr:
    return Instr(name, operands, f"void {name}({signature}) {{\n{lines}}}", effect, Requires(sm=sm))


@functools.cache
def scale(n: int, element: str = "f32") -> Instr:
    """v[i] *= alpha for n floats, or n integers modulo 2^32; alpha is a word of the same kind.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> scale(4).name
    'scale_4_f32'
    """
    _known("scale", element, ("f32", "s32"))

    def effect(machine: Any, group: Any, v: Array, alpha: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, element) * decode(alpha, element), element)

    def line(v: str) -> str:
        if element == "s32":
            return f"{v} *= alpha;"
        return f"{v} = __float_as_uint(__fmul_rn(__uint_as_float({v}), __uint_as_float(alpha)));"

    lines = "".join(f"    {line(_at('v', i, n))}\n" for i in range(n))
    signature = f"{_ref('v', n, const=False)}, u32 alpha"
    return _elementwise(f"scale_{n}_{element}", (updated("v", n), value("alpha")), lines, signature, effect)


@functools.cache
def add_scaled(n: int, element: str) -> Instr:
    """v[i] += beta * c[i]: n floats and n packed elements of f32, f16 or bf16; or integers modulo 2^32.

    One f16 or bf16 element lies zero-extended in its word.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> add_scaled(8, "f16").operands[1].words
    4
    """
    _known("add_scaled", element, ("f32", "s32", "f16", "bf16"))
    per = _per_word(n, element)
    words = -(-n // per)
    lines = ""
    for i in range(0, n, per):
        w = _at("c", i // per, words)
        if element == "f32":
            lines += f"    const float c{i} = __uint_as_float({w});\n"
        elif element != "s32":
            lines += _UNPACK[element].format(i=i, j=i + 1, w=w)
        for j in range(i, min(n, i + per)):
            v = _at("v", j, n)
            if element == "s32":
                lines += f"    {v} += beta * {w};\n"
                continue
            sum_ = f"__fmaf_rn(__uint_as_float(beta), c{j}, __uint_as_float({v}))"
            lines += f"    {v} = __float_as_uint({sum_});\n"
    kind = "s32" if element == "s32" else "f32"

    def effect(machine: Any, group: Any, v: Array, c: Array, beta: Array) -> Array:
        with numpy.errstate(all="ignore"):
            left = decode(beta, kind) * decode(c, element)[:, :n]
            total = left + decode(v, kind) if kind == "s32" else sum_to_odd(left, decode(v, kind))
            return encode(total, kind)

    signature = f"{_ref('v', n, const=False)}, {_ref('c', words, const=True)}, u32 beta"
    operands = (updated("v", n), into("c", words), value("beta"))
    return _elementwise(f"add_scaled_{n}_{element}", operands, lines, signature, effect)


@functools.cache
def unpack(n: int, element: str) -> Instr:
    """n packed f16 or bf16 elements, in whole words or one, to floats.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> unpack(4, "f16").operands[1].words
    2
    """
    _known("unpack", element, ("f16", "bf16"))
    _per_word(n, element)
    words, lines = -(-n // 2), ""
    for i in range(0, n, 2):
        lines += _UNPACK[element].format(i=i, j=i + 1, w=_at("c", i // 2, words))
        lines += "".join(f"    {_at('v', x, n)} = __float_as_uint(c{x});\n" for x in range(i, min(n, i + 2)))

    def effect(machine: Any, group: Any, c: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(c, element)[:, :n], "f32")

    signature = f"{_ref('v', n, const=False)}, {_ref('c', words, const=True)}"
    return _elementwise(f"unpack_{n}_{element}", (out("v", n), into("c", words)), lines, signature, effect)


@functools.cache
def pack(n: int, element: str) -> Instr:
    """n floats to packed f16 or bf16 elements.

    Raises UnsupportedError for elements and numbers of them that are not accepted.

    >>> pack(8, "f16").operands[0].words
    4
    """
    _known("pack", element, ("f16", "bf16"))
    _per_word(n, element)
    words = -(-n // 2)
    high = [f"__uint_as_float(v[{2 * i + 1}])" if n > 1 else "0.0f" for i in range(words)]
    low = [f"__uint_as_float({_at('v', 2 * i, n)})" for i in range(words)]
    lines = "".join(
        f'    asm("{PACK_TEXT[element]} %0, %1, %2;" : "=r"({_at("d", i, words)})\n'
        f'        : "f"({high[i]}), "f"({low[i]}));\n'
        for i in range(words)
    )

    def effect(machine: Any, group: Any, v: Array) -> Array:
        values = decode(v, "f32")
        with numpy.errstate(all="ignore"):
            return encode(values if n > 1 else numpy.pad(values, ((0, 0), (0, 1))), element)

    signature = f"{_ref('d', words, const=False)}, {_ref('v', n, const=True)}"
    operands = (out("d", words), into("v", n))
    return _elementwise(f"pack_{n}_{element}", operands, lines, signature, effect, sm=80)


@functools.cache
def add_same(n: int, element: str) -> Instr:
    """v[i] += c for n floats and one element c of f32, f16 or bf16, or n integers modulo 2^32.

    Raises UnsupportedError for elements that are not accepted.

    >>> add_same(8, "f16").name
    'add_same_8_f16'
    """
    _known("add_same", element, ("f32", "s32", "f16", "bf16"))
    kind = "s32" if element == "s32" else "f32"
    lines = ""
    if element == "f32":
        lines += "    const float c0 = __uint_as_float(c);\n"
    elif element != "s32":
        lines += _UNPACK[element].format(i=0, j=1, w="c")
    for i in range(n):
        v = _at("v", i, n)
        added = f"{v} + c" if kind == "s32" else f"__float_as_uint(__fadd_rn(__uint_as_float({v}), c0))"
        lines += f"    {v} = {added};\n"

    def effect(machine: Any, group: Any, v: Array, c: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, kind) + decode(c, element)[:, :1], kind)

    signature = f"{_ref('v', n, const=False)}, const u32& c"
    operands = (updated("v", n), into("c", 1))
    return _elementwise(f"add_same_{n}_{element}", operands, lines, signature, effect)


def _known(what: str, element: str, accepted: tuple[str, ...]) -> None:
    if element not in accepted:
        raise UnsupportedError(f"{what} of {element}: {', '.join(accepted)} are accepted")


def _per_word(n: int, element: str) -> int:
    """Elements of a word; n of them must fill words, or be one."""
    per = 2 if element in ("f16", "bf16") else 1
    if n % per and n != 1:
        raise UnsupportedError(f"{n} elements of {element}: whole words, or one element, are accepted")
    return per
