"""Numbers in 32-bit words: as effects compute with them, and as the text of helpers does.

    decode(words, "f16")    (lanes, n) uint32 -> (lanes, 2 n) float64
    encode(values, "f16")   the inverse, rounding to the nearest, ties to even

Integers decode to int64 and encode modulo their width, the first from the low bits on.  A double is two
words, low half first.  What NaN a
NaN becomes is left open.  Device functions that the helpers of several instructions call:

    MAX_NAN     float max_nan(float a, float b)             NaN when either is
    EXP2        float exp2_approx(float x)                  subnormal results are 0
    RCP         float rcp_approx(float x)                   subnormal numbers are 0, results too
    PACK[t]     t x2 pack_tx2(float low, float high)        rounded to the nearest, ties to even
    LOW[t]      float low_t(t x2 w), HIGH[t]                one element of a packed word

`f16x2` and `bf16x2` are PTX's packed types: two elements in 32 bits, low half first.

Before sm_80 there is neither max.NaN nor a cvt of two floats: NaN is found by setp.nan, and each float is
rounded by itself, to bf16 in integers.

Source: PTX ISA 9.0, 9.7.3.12 (max.NaN), 9.7.3.21 (ex2.approx), 9.7.3.14 (rcp.approx), 9.7.9.21
(cvt), 9.7.5.2 (setp.nan).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.errors import UnknownNameError, UnsupportedError

Array = numpy.ndarray[Any, Any]

WORD_ELEMS = {
    "f64": 0.5,
    "f32": 1,
    "tf32": 1,
    "s32": 1,
    "f16": 2,
    "bf16": 2,
    "s8": 4,
    "u8": 4,
    "e4m3": 4,
    "e5m2": 4,
    "s4": 8,
    "u4": 8,
    "e2m1": 8,
    "b1": 32,
}
"""Elements in a 32-bit word."""

_NUMPY = {
    "f64": numpy.float64, "f32": numpy.float32, "s32": numpy.int32, "f16": numpy.float16, "s8": numpy.int8,
    "u8": numpy.uint8,
}  # fmt: skip


def decode(words: Array, element: str) -> Array:
    """The elements of words (lanes, n), in order: float64 or int64 of shape (lanes, n * elements per word).

    Raises UnknownNameError for an element that is not in WORD_ELEMS.

    >>> decode(numpy.array([[0x40003C00]], dtype=numpy.uint32), "f16").tolist()
    [[1.0, 2.0]]
    """
    words = numpy.ascontiguousarray(words)
    match element:
        case "bf16":
            halves = words.view(numpy.uint16).astype(numpy.uint32) << 16
            return decode(halves, "f32")
        case "tf32":
            return decode(words & numpy.uint32(0xFFFFE000), "f32")
        case "e4m3" | "e5m2":
            return numbers_of(element)[words.view(numpy.uint8)]
        case "s4" | "u4" | "e2m1":
            some = words.view(numpy.uint8)
            nibbles = numpy.stack([some & 15, some >> 4], axis=-1).reshape(*words.shape[:-1], -1)
            if element == "e2m1":
                return numbers_of(element)[nibbles]
            codes: Array = nibbles.astype(numpy.int64)
            return codes - (codes >> 3 << 4) if element == "s4" else codes
        case "b1":
            return numpy.unpackbits(words.view(numpy.uint8), axis=-1, bitorder="little").astype(numpy.int64)
        case _ if element in _NUMPY:
            wide = numpy.int64 if element in ("s32", "s8", "u8") else numpy.float64
            with numpy.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
                return words.view(_NUMPY[element]).astype(wide)
        case _:
            raise UnknownNameError("element", element, WORD_ELEMS)


def encode(values: Array, element: str) -> Array:
    """Words (lanes, n) of elements (lanes, n * elements per word); see `decode`.

    Past the largest number an e5m2 is infinite, an e4m3, which has no infinity, NaN, and an e2m1, which has
    neither, the largest number.

    Raises UnknownNameError for an element that is not in WORD_ELEMS.

    >>> hex(encode(numpy.array([[1.0, 2.0]]), "bf16")[0, 0])
    '0x40003f80'
    """
    match element:
        case "bf16" | "tf32":
            drop = 16 if element == "bf16" else 13
            bits = _to_odd(values).view(numpy.uint32)
            odd = bits >> drop & 1
            up = bits + (odd + (1 << (drop - 1)) - 1).astype(numpy.uint32)
            rounded: Array = numpy.where(numpy.isnan(values), bits | 1 << 22, up) >> drop
            if element == "tf32":
                return (rounded << drop).astype(numpy.uint32)
            return numpy.ascontiguousarray(rounded.astype(numpy.uint16)).view(numpy.uint32)
        case "e4m3" | "e5m2":
            return numpy.ascontiguousarray(nearest_codes(values, element)).view(numpy.uint32)
        case "s4" | "u4" | "e2m1":
            if element == "e2m1":
                values = nearest_codes(values, element)
            low, high = (values[..., i::2].astype(numpy.int64) & 15 for i in (0, 1))
            return numpy.ascontiguousarray((low | high << 4).astype(numpy.uint8)).view(numpy.uint32)
        case "b1":
            odd = (values.astype(numpy.int64) & 1).astype(numpy.uint8)
            return numpy.ascontiguousarray(numpy.packbits(odd, axis=-1, bitorder="little")).view(numpy.uint32)
        case _ if element in _NUMPY:
            return numpy.ascontiguousarray(values.astype(_NUMPY[element])).view(numpy.uint32)
        case _:
            raise UnknownNameError("element", element, WORD_ELEMS)


def floats(words: Array) -> Array:
    """The float32 numbers of words, one each: for effects that compute as the hardware does.

    >>> floats(numpy.array([0x3F800000], dtype=numpy.uint32)).tolist()
    [1.0]
    """
    return numpy.ascontiguousarray(words).view(numpy.float32)


def float_words(values: Array) -> Array:
    """The words of numbers, each rounded to float32.

    >>> hex(float_words(numpy.array([1.0]))[0])
    '0x3f800000'
    """
    return numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)


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


CODES: Mapping[str, tuple[int, int, int]] = MappingProxyType(
    {"e4m3": (4, 3, 127), "e5m2": (5, 2, 124), "e2m1": (2, 1, 8)}
)
"""Floats of 8 and of 4 bits: their bits of exponent and mantissa, and the codes of finite ones from 0 on."""


@functools.cache
def _sizes(element: str) -> Array:
    """The numbers of codes without a sign, as if none stood for an infinity or NaN."""
    exponents, bits, _ = CODES[element]
    codes = numpy.arange(1 << exponents + bits)
    exponent, mantissa = codes >> bits, codes & (1 << bits) - 1
    lowest = 2 - (1 << exponents - 1) - bits
    sizes: Array = (mantissa + ((exponent > 0) << bits)) * 2.0 ** (numpy.maximum(exponent, 1) - 1 + lowest)
    return sizes


@functools.cache
def numbers_of(element: str) -> Array:
    """The numbers of all codes of e4m3, e5m2 or e2m1, in their order.

    >>> numbers_of("e4m3")[[0, 1, 0x38, 0x7E]].tolist(), numbers_of("e2m1")[:8].tolist()
    ([0.0, 0.001953125, 1.0, 448.0], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    """
    sizes, finite = _sizes(element).copy(), CODES[element][2]
    sizes[finite:] = numpy.nan
    if element == "e5m2":
        sizes[finite] = numpy.inf
    return numpy.concatenate([sizes, -sizes])


def nearest_codes(values: Array, element: str) -> Array:
    """The codes of the nearest numbers; of two that are equally near the one whose code is even.

    Past the largest number is the code behind it, where there is one; NaN has the last code without a sign,
    which of an e2m1 is that of its largest number, as cvt has it.

    >>> nearest_codes(numpy.array([0.25, -0.75, 5.5, 1e9, numpy.nan]), "e2m1").tolist()
    [0, 10, 7, 7, 7]
    """
    sizes, (*_, finite), known = _sizes(element), CODES[element], ~numpy.isnan(values)
    near = sizes[: finite + 1]
    middles, size = (near[:-1] + near[1:]) / 2, numpy.abs(values)
    low, high = (numpy.searchsorted(middles, size, side) for side in ("left", "right"))
    codes = numpy.where(known, numpy.where(low % 2, high, low), len(sizes) - 1)
    signed = numpy.signbit(values) & (known | (element != "e2m1"))
    result: Array = (codes + signed * len(sizes)).astype(numpy.uint8)
    return result


def _to_odd(values: Array) -> Array:
    """The float32 next to each value whose last bit is 1, unless it is exact: may be rounded once more."""
    wide = numpy.asarray(values, dtype=numpy.float64)
    with numpy.errstate(over="ignore"):
        near = wide.astype(numpy.float32)
    bits, back = near.view(numpy.uint32), near.astype(numpy.float64)
    even = (back != wide) & (bits & 1 == 0) & ~numpy.isnan(wide)
    away = numpy.where(numpy.abs(back) < numpy.abs(wide), 1, -1).astype(numpy.uint32)
    return numpy.where(even, bits + away, bits).view(numpy.float32)


# --- text --------------------------------------------------------------------------------------------------


def _either(new: str, old: str) -> str:
    """Lines for GPUs from sm_80 on, and for those before."""
    return f"#if __CUDA_ARCH__ >= 800\n{new}#else\n{old}#endif\n"


def _with_nan(op: str) -> str:
    old = (
        f'"{{.reg .pred p; .reg .f32 t; {op}.f32 t, %1, %2; setp.nan.f32 p, %1, %2; "\n'
        '        "selp.f32 %0, 0f7FFFFFFF, t, p;}"'
    )
    registers = ': "=f"(d) : "f"(a), "f"(b));\n'
    return (
        f"float {op}_nan(float a, float b) {{\n    float d;\n"
        + _either(f'    asm("{op}.NaN.f32 %0, %1, %2;" {registers}', f"    asm({old}\n        {registers}")
        + "    return d;\n}"
    )


MAX_NAN, MIN_NAN = _with_nan("max"), _with_nan("min")

EXP2 = """float exp2_approx(float x) {
    float d;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}"""

RCP = """float rcp_approx(float x) {
    float d;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}"""

RSQRT = """float rsqrt_approx(float x) {
    float d;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}"""

ADDRESS = """u32 shared_address(const void* p) {
    return static_cast<u32>(__cvta_generic_to_shared(p));
}"""
"""An address in shared memory as PTX takes it."""

PACKED: Mapping[str, str] = MappingProxyType({"f16": "f16x2", "bf16": "bf16x2"})
"""PTX's name of two elements in a word."""


def _pack(element: str) -> str:
    pair = PACKED[element]
    registers = ': "=r"(d) : "f"(high), "f"(low));\n'
    old = (
        '    asm("{.reg .b16 l, h; cvt.rn.f16.f32 h, %1; cvt.rn.f16.f32 l, %2; mov.b32 %0, {l, h};}"\n'
        f"        {registers}"
    )
    if element == "bf16":
        old = (
            "    const u32 l = __float_as_uint(low), h = __float_as_uint(high);\n"
            "    d = low != low ? 0x7FFFu : (l + 0x7FFFu + (l >> 16 & 1u)) >> 16;\n"
            "    d |= high != high ? 0x7FFF0000u : (h + 0x7FFFu + (h >> 16 & 1u)) & 0xFFFF0000u;\n"
        )
    new = f'    asm("cvt.rn.{pair}.f32 %0, %1, %2;" {registers}'
    return (
        f"{pair} pack_{pair}(float low, float high) {{\n    {pair} d;\n{_either(new, old)}    return d;\n}}"
    )


def _half(element: str, which: str) -> str:
    if element == "bf16":
        bits = "w << 16" if which == "low" else "w & 0xFFFF0000u"
        return f"float {which}_bf16(bf16x2 w) {{ return __uint_as_float({bits}); }}"
    half = which[0]
    ptx = f"{{.reg .b16 l, h; mov.b32 {{l, h}}, %1; cvt.f32.f16 %0, {half};}}"
    body = f'float d;\n    asm("{ptx}" : "=f"(d) : "r"(w));\n    return d;'
    return f"float {which}_f16(f16x2 w) {{\n    {body}\n}}"


PACK: Mapping[str, str] = MappingProxyType({e: _pack(e) for e in PACKED})
"""Two floats to a word, by element: one instruction from sm_80 on, two roundings and a move before."""

LOW: Mapping[str, str] = MappingProxyType({e: _half(e, "low") for e in PACKED})
HIGH: Mapping[str, str] = MappingProxyType({e: _half(e, "high") for e in PACKED})
"""An element of a word as a float, by element."""

C_TYPE: Mapping[str, str] = MappingProxyType(
    {"": "u32", "f32": "float", "f16x2": "f16x2", "bf16x2": "bf16x2"}
)
"""The C type of an operand's words, by its element."""


def ref(name: str, words: int, element: str = "", *, const: bool = False) -> str:
    """A parameter of a helper: one word by reference, several by their address.

    >>> ref("v", 4, "f32", const=True), ref("d", 1)
    ('const float* v', 'u32& d')
    """
    return f"{'const ' if const else ''}{C_TYPE[element]}{'&' if words == 1 else '*'} {name}"


def at(name: str, i: object, words: int) -> str:
    """Word i of such a parameter.

    >>> at("v", "i", 4), at("d", "i", 1)
    ('v[i]', 'd')
    """
    return name if words == 1 else f"{name}[{i}]"


def holes(first: int, count: int) -> str:
    """`count` registers of an asm statement as a vector, from number `first` on.

    >>> holes(1, 2)
    '{%1, %2}'
    """
    return "{" + ", ".join(f"%{i}" for i in range(first, first + count)) + "}"


def words_of_vector(n: int, element: str) -> int:
    """32-bit words of n elements; two of a narrow type share one, and one has its own.

    Raises UnsupportedError for an odd number of several.

    >>> words_of_vector(8, "f16"), words_of_vector(1, "bf16"), words_of_vector(2, "f64")
    (4, 1, 4)
    """
    if element in PACKED and n % 2 and n != 1:
        raise UnsupportedError(f"{n} elements of {element}: whole words, or one element, are accepted")
    return -(-n // 2) if element in PACKED else 2 * n if element == "f64" else n


def each(n: int, lines: Sequence[str], i: str = "i") -> str:
    """The lines of a helper that do `lines` for i = 0 .. n - 1; one value needs no loop.

    >>> print(each(2, ["v[i] = 0;"]), end="")
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            v[i] = 0;
        }
    """
    if n == 1:
        return "".join(f"    {line}\n" for line in lines)
    body = "".join(f"        {line}\n" for line in lines)
    return f"    #pragma unroll\n    for (int {i} = 0; {i} < {n}; ++{i}) {{\n{body}    }}\n"


def doubles(n: int, value: Callable[[int], str], v: str = "v") -> str:
    """The lines of a helper that set double i of `v` to `value`; a loop would be more instructions of nvcc's.

    A double is two words, low half first.

    >>> print(doubles(1, lambda i: "0.0"), end="")
        const double x0 = 0.0;
        v[0] = __double2loint(x0);
        v[1] = __double2hiint(x0);
    """
    lines = []
    for i in range(n):
        lines.append(f"const double x{i} = {value(i)};")
        lines += [f"{v}[{2 * i}] = __double2loint(x{i});", f"{v}[{2 * i + 1}] = __double2hiint(x{i});"]
    return "".join(f"    {line}\n" for line in lines)


def double_at(name: str, i: int) -> str:
    """Double i of an array of words.

    >>> double_at("c", 1)
    '__hiloint2double(c[3], c[2])'
    """
    return f"__hiloint2double({name}[{2 * i + 1}], {name}[{2 * i}])"


def float_literal(number: float) -> str:
    """A float in C: the shortest decimal that is it, INFINITY, or the bits of a NaN.

    >>> float_literal(0.044715), float_literal(1.0), float_literal(float("-inf"))
    ('0.044715f', '1.0f', '-INFINITY')
    """
    single = numpy.float32(number)
    if numpy.isnan(single):
        return f"__uint_as_float(0x{int(single.view(numpy.uint32)):08X}u)"
    if numpy.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    return f"{single!s}f"
