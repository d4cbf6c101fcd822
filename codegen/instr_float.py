"""Arithmetic on registers: outer products, and what an epilogue does to its vectors.

Values live in 32-bit words (f64 in two).  Instructions are made for a number of elements and kept, so that
one kernel has one helper of each kind:

    fma_outer(8, 8, "f32")     d[i][j] += a[i] * b[j]
    scale(4, "f32")            v[i] *= alpha
    add_scaled(8, "f16")       v[i] += beta * c[i]            c packed, v float
    pack(8, "f16")             floats to packed elements, rounded to the nearest
    activate(4, "relu")        v[i] = max(v[i], 0)

Notes.  A fused multiply-add is computed in float64 and rounded once, which can differ from the hardware in
the last bit where the sum of product and addend needs more than 53 bits.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy

from layoutalg.codegen.instr import Instr, Operand, into, out, updated, value
from layoutalg.codegen.packing import Array, decode, encode
from layoutalg.errors import UnknownNameError, UnsupportedError

ONE_F32 = 0x3F800000
"""1.0f as a word."""

_UNPACK = {
    "f16": (
        "    float {x}{i}, {x}{j};\n"
        '    asm("{{.reg .b16 a, b; mov.b32 {{a, b}}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}}"\n'
        '        : "=f"({x}{i}), "=f"({x}{j}) : "r"({w}));\n'
    ),
    "bf16": (
        "    const float {x}{i} = __uint_as_float({w} << 16);\n"
        "    const float {x}{j} = __uint_as_float({w} & 0xFFFF0000u);\n"
    ),
}

_PACK = {"f16": "cvt.rn.f16x2.f32", "bf16": "cvt.rn.bf16x2.f32"}

ACTIVATIONS = ("none", "relu")
"""What an epilogue can apply to its result."""


def _ref(name: str, words: int, *, const: bool) -> str:
    if words == 1:
        return f"{'const ' if const else ''}u32& {name}"
    return f"{'const ' if const else ''}u32* {name}"


def _at(name: str, i: object, words: int) -> str:
    return name if words == 1 else f"{name}[{i}]"


@functools.cache
def fma_outer(m: int, n: int, element: str = "f32") -> Instr:
    """d[m][n] += a[m] * b[n], of f32 or f64 elements: m n fused multiply-adds a lane.

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
        f"    #pragma unroll\n    for (int i = 0; i < {m}; ++i)\n"
        f"        #pragma unroll\n        for (int j = 0; j < {n}; ++j)\n"
        f"            {step('i', 'j', f'i * {n} + j')}\n}}"
    )

    def effect(machine: Any, group: Any, d: Array, a: Array, b: Array) -> Array:
        left, right = decode(a, element), decode(b, element)
        with numpy.errstate(all="ignore"):
            total = decode(d, element) + (left[:, :, None] * right[:, None, :]).reshape(len(d), -1)
            return encode(total, element)

    return Instr(name, (updated("d", dw), into("a", words * m), into("b", words * n)), text, effect)


def _elementwise(name: str, operands: tuple[Operand, ...], lines: str, signature: str, effect: Any) -> Instr:
    return Instr(name, operands, f"void {name}({signature}) {{\n{lines}}}", effect)


@functools.cache
def scale(n: int, element: str = "f32") -> Instr:
    """v[i] *= alpha for n floats; alpha is the word of a float.

    >>> scale(4).name
    'scale_4_f32'
    """
    if element != "f32":
        raise UnsupportedError(f"scale of {element}: f32 is accepted")

    def effect(machine: Any, group: Any, v: Array, alpha: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f32") * decode(alpha, "f32"), "f32")

    lines = "".join(
        f"    {_at('v', i, n)} = __float_as_uint(__fmul_rn(__uint_as_float({_at('v', i, n)}), "
        "__uint_as_float(alpha)));\n" for i in range(n)
    )  # fmt: skip
    signature = f"{_ref('v', n, const=False)}, u32 alpha"
    return _elementwise(f"scale_{n}_{element}", (updated("v", n), value("alpha")), lines, signature, effect)


@functools.cache
def add_scaled(n: int, element: str) -> Instr:
    """v[i] += beta * c[i]: n floats, and n packed elements of f32, f16 or bf16.

    >>> add_scaled(8, "f16").operands[1].words
    4
    """
    per = {"f32": 1, "f16": 2, "bf16": 2}.get(element)
    if per is None or n % per:
        raise UnsupportedError(f"add_scaled of {n} {element}: f32, f16 and bf16 in whole words are accepted")
    words = n // per
    lines = ""
    for i in range(0, n, per):
        w = _at("c", i // per, words)
        if per == 1:
            lines += f"    const float c{i} = __uint_as_float({w});\n"
        else:
            lines += _UNPACK[element].format(x="c", i=i, j=i + 1, w=w)
        for j in range(i, i + per):
            v = _at("v", j, n)
            lines += (
                f"    {v} = __float_as_uint(__fmaf_rn(__uint_as_float(beta), c{j}, __uint_as_float({v})));\n"
            )

    def effect(machine: Any, group: Any, v: Array, c: Array, beta: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f32") + decode(beta, "f32") * decode(c, element), "f32")

    signature = f"{_ref('v', n, const=False)}, {_ref('c', words, const=True)}, u32 beta"
    operands = (updated("v", n), into("c", words), value("beta"))
    return _elementwise(f"add_scaled_{n}_{element}", operands, lines, signature, effect)


@functools.cache
def pack(n: int, element: str) -> Instr:
    """n floats to packed f16 or bf16 elements.

    >>> pack(8, "f16").operands[0].words
    4
    """
    if element not in _PACK or n % 2:
        raise UnsupportedError(f"pack of {n} {element}: f16 and bf16 in whole words are accepted")
    words = n // 2
    lines = "".join(
        f'    asm("{_PACK[element]} %0, %1, %2;" : "=r"({_at("d", i, words)})\n'
        f'        : "f"(__uint_as_float(v[{2 * i + 1}])), "f"(__uint_as_float(v[{2 * i}])));\n'
        for i in range(words)
    )

    def effect(machine: Any, group: Any, v: Array) -> Array:
        with numpy.errstate(all="ignore"):
            return encode(decode(v, "f32"), element)

    signature = f"{_ref('d', words, const=False)}, const u32* v"
    return _elementwise(f"pack_{n}_{element}", (out("d", words), into("v", n)), lines, signature, effect)


@functools.cache
def activate(n: int, activation: str) -> Instr:
    """v[i] = max(v[i], 0), NaN kept, for n floats.

    >>> activate(4, "relu").name
    'relu_4'
    """
    if activation != "relu":
        raise UnknownNameError("activation", activation, ACTIVATIONS)
    lines = "".join(
        f"    {_at('v', i, n)} = __uint_as_float({_at('v', i, n)}) < 0.0f ? 0u : {_at('v', i, n)};\n"
        for i in range(n)
    )

    def effect(machine: Any, group: Any, v: Array) -> Array:
        x = decode(v, "f32")
        return numpy.where(x < 0, numpy.uint32(0), v)

    return _elementwise(f"relu_{n}", (updated("v", n),), lines, _ref("v", n, const=False), effect)
