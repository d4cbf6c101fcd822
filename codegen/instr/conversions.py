"""Conversions between element types: packed elements of one type to packed elements of another.

    convert(8, "f32", "f16")     d: four words of eight f16, from s: eight words
    converted(bits, "f32", "f16")     the definition, on arrays of words of an element's width

The rules, the same for the instruction and for the definition:

    to a float        rounded once, to the nearest, ties to even; past the largest number infinite; NaN stays
                      NaN, of what payload is left open
    float to integer  towards zero, as C; past the ends of the type the nearest end, NaN becomes 0
    integer to integer    modulo 2^n of the narrower type, as C, NumPy and PyTorch
    to ue8m0          the size rounded up to a power of two from 2^-127 to 2^127; 0 becomes the least one
    to e4m3, e5m2, e2m1   rounded once; past the largest number that number, as cvt's only way; NaN stays
                      NaN, and becomes the largest number of e2m1, which has none

C leaves a float past the ends of an integer open, and so do NumPy and PyTorch, whose answers differ by
device; PTX's cvt takes the nearest end.  f16 and bf16 are made of floats: a double or a wide integer goes
there by a float rounded to odd (towards zero, its last bit 1 where that is inexact), which leaves one
rounding.  PyTorch rounds such numbers twice, to f32 first.

Sources: PTX ISA 9.0, 9.7.9.21 (cvt); S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums:
proved algorithms using rounding to odd", 2008.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.instr.record import Instr, into, out
from layoutalg.codegen.instr.words import (
    CODES,
    HIGH,
    LOW,
    PACK,
    PACKED,
    Array,
    at,
    each,
    encode,
    nearest_codes,
    numbers_of,
    ref,
)
from layoutalg.dtype import DTYPES
from layoutalg.errors import UnsupportedError

INTEGERS: Mapping[str, Any] = MappingProxyType(
    {
        "u8": numpy.uint8, "s8": numpy.int8, "s16": numpy.int16, "s32": numpy.int32, "s64": numpy.int64,
        "u16": numpy.uint16, "u32": numpy.uint32, "u4": numpy.uint8, "s4": numpy.int8,
    }
)  # fmt: skip
"""Integers, and the arrays that hold them: those of 4 bits have a byte each there."""

_FLOATS = {"f64": numpy.float64, "f32": numpy.float32, "f16": numpy.float16}
CONVERTED = (*_FLOATS, "bf16", "u8", "s8", "s16", "s32", "s64")
"""The types that whole tensors are converted between."""

POWERS = "ue8m0"
"""Powers of two without a sign: 2^(code - 127), the last code is NaN."""

ROUNDED = (*CODES, POWERS)
TYPES = (*CONVERTED, "u16", "u32", "s4", "u4", *ROUNDED)
"""All types that are converted."""

WORD_BITS = 32


def bits_of(element: str) -> int:
    """Bits of an element that is converted.  Raises UnsupportedError for others.

    >>> bits_of("bf16")
    16
    """
    if element not in TYPES:
        raise UnsupportedError(f"conversions of {element}: {', '.join(TYPES)} are accepted")
    return DTYPES[element].bits


def _ends(element: str) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    signed, bits = element.startswith("s"), bits_of(element)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


# --- the definition ------------------------------------------------------------------------------------


def converted(bits: Array, source: str, target: str) -> Array:
    """Words of `target`'s width, from an array of words of `source`'s; of the same shape, 4 bits in a byte.

    Raises UnsupportedError for types that are not converted.

    >>> halves = converted(numpy.array([0x3F800000, 0xC2C80000], "u4"), "f32", "f16")
    >>> [hex(x) for x in halves], converted(halves, "f16", "s8").view("i1").tolist()
    (['0x3c00', '0xd640'], [1, -100])
    >>> converted(numpy.array([1e9, -1.5, numpy.nan]).view("u8"), "f64", "u8").tolist()
    [255, 0, 0]
    """
    bits_of(source)
    word = numpy.dtype(f"u{max(8, bits_of(target)) // 8}")
    if source == target:
        return bits.view(word)
    with numpy.errstate(all="ignore"):
        values = _numbers(bits, source)
        if target == "bf16":
            return _to_bf16(values)
        if target == POWERS:
            return _to_powers(_with_odd_ends(values).astype(numpy.float64))
        if target in CODES:
            most = numbers_of(target)[CODES[target][2] - 1]
            return nearest_codes(numpy.clip(values.astype(numpy.float64), -most, most), target)
        if target in INTEGERS and source not in INTEGERS:
            values = _towards_zero(values.astype(numpy.float64), target)
        result: Array = numpy.asarray(values, INTEGERS.get(target) or _FLOATS[target], order="C")
        words: Array = result.view(word) & word.type((1 << bits_of(target)) - 1)
        return words


def _numbers(bits: Array, source: str) -> Array:
    """The numbers of words of a type."""
    if source == "s4":
        signed: Array = (bits << 4).view(numpy.int8) >> 4
        return signed
    if source == "bf16":
        return (bits.astype(numpy.uint32) << 16).view(numpy.float32)
    if source in CODES:
        return numbers_of(source)[bits]
    if source == POWERS:
        return numpy.where(bits == 255, numpy.nan, numpy.ldexp(1.0, bits.astype(int) - 127))
    numbers: Array = bits.view(INTEGERS.get(source) or _FLOATS[source])
    return numbers


def _with_odd_ends(values: Array) -> Array:
    """Integers that a double holds, in place of those that it cannot: only whether bits are lost counts."""
    if values.dtype != numpy.int64:
        return values
    high, wide = values & ~0x7FF, numpy.abs(values.astype(numpy.float64)) >= 2.0**53
    return numpy.where(wide & (high != values), high | 0x400, values)


def _to_powers(values: Array) -> Array:
    part, exponent = numpy.frexp(numpy.abs(values))
    codes = numpy.clip(exponent - (part == 0.5) + 127, 0, 254) * (values != 0)
    codes = numpy.where(numpy.isinf(values), 254, numpy.where(numpy.isnan(values), 255, codes))
    return codes.astype(numpy.uint8)


def _to_bf16(values: Array) -> Array:
    flat = _with_odd_ends(values).astype(numpy.float64).ravel()
    words = encode(numpy.pad(flat, (0, flat.size % 2))[None, :], "bf16")
    result: Array = words[0].view(numpy.uint16)[: flat.size].reshape(values.shape)
    return result


def _towards_zero(values: Array, target: str) -> Array:
    least, most = _ends(target)
    numbers = numpy.where(numpy.isnan(values), 0.0, values)
    low, high = numbers <= least, numbers >= float(most) + (bits_of(target) < 64)
    inside = numpy.where(low | high, 0.0, numbers).astype(numpy.int64)
    exact: Array = numpy.where(low, least, numpy.where(high, most, inside)).astype(INTEGERS[target])
    return exact


# --- the instruction -----------------------------------------------------------------------------------

_C_NAME = {
    "u8": "unsigned char", "s8": "signed char", "s16": "short", "s32": "int", "u16": "u16", "u32": "u32",
}  # fmt: skip
_COMPUTED = {"f64": "double", "s64": "long long", "u32": "u32"} | dict.fromkeys(
    ("s32", "u8", "s8", "s16", "u16", "s4", "u4"), "int"
)
"""The C type of an element; a float where nothing is said."""

_OPERAND = {"f32": "f32", **PACKED}
"""The words of operands that are not just bits."""

_EXACT = ("u8", "s8", "s16", "u16", "s4", "u4")
"""Integers that a float holds."""

_ODD = MappingProxyType(
    {
        "double": ("__double2float_rz(x)", "static_cast<double>(f) != x"),
        "int": ("__int2float_rz(x)", "__float2int_rz(f) != x"),
        "long long": ("__ll2float_rz(x)", "__float2ll_rz(f) != x"),
        "u32": ("__uint2float_rz(x)", "__float2uint_rz(f) != x"),
    }
)


def _odd(kind: str) -> str:
    """The text of a function that rounds to odd, to a float."""
    made, inexact = _ODD[kind]
    return (
        f"float to_odd({kind} x) {{\n    const float f = {made};\n"
        f"    return {inexact} ? __uint_as_float(__float_as_uint(f) | 1u) : f;\n}}"
    )


_FROM = MappingProxyType(
    {
        # with the exponent of a float, at 2^-120 times the number: a product that is exact
        "e4m3": """float from_e4m3(u32 code) {
    const float x = __uint_as_float((code & 0x7Fu) << 20) * 0x1p120f;
    return (code & 0x7Fu) == 0x7Fu ? __uint_as_float(0x7FFFFFFFu) : code & 0x80u ? -x : x;
}""",
        "e5m2": "float from_e5m2(u32 code) { return low_f16(code << 8 & 0xFF00u); }",  # half of an f16
        "e2m1": """float from_e2m1(u32 code) {
    const float x = __uint_as_float((code & 7u) << 22) * 0x1p126f;
    return code & 8u ? -x : x;
}""",
        "ue8m0": """float from_ue8m0(u32 code) {
    const u32 part = code & 0xFFu;
    return __uint_as_float(part == 0xFFu ? 0x7FFFFFFFu : part == 0u ? 0x00400000u : part << 23);
}""",
    }
)
"""A number of a code, its lowest bits."""


def _to(element: str) -> tuple[str, ...]:
    """The texts of functions, of which the last makes two floats two codes, of e2m1 eight."""
    if element == POWERS:
        return _TO_UE8M0
    if element == "e2m1":
        return PACK["f16"], *_TO_E2M1, _OCTET
    least, mantissa, largest = _NARROW[element]
    whole = f"""u32 to_{element}(float x) {{
    const float size = fminf(fabsf(x), {largest}.0f);
    const float power = fmaxf(__uint_as_float(__float_as_uint(size) & 0x7F800000u), 0x1p{least}f);
    const float sum = __fmaf_rn(power, 0x1.8p{23 - mantissa}f, size);
    const float code = __fmul_rn(__fmaf_rn(power, -0x1.8p{23 - mantissa}f, sum), 0x1p{-126 - least}f);
    return (x == x ? __float_as_uint(code) >> {23 - mantissa} : 0x7Fu) | __float_as_uint(x) >> 24 & 0x80u;
}}"""
    return (
        whole,
        f"""u32 to_{element}x2(float low, float high) {{
#if __CUDA_ARCH__ >= 890
    u16 codes;
    asm("cvt.rn.satfinite.{element}x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    return codes;
#else
    return to_{element}(low) | to_{element}(high) << 8;
#endif
}}""",
    )


_NARROW = MappingProxyType({"e4m3": (-6, 3, 448), "e5m2": (-14, 2, 57344)})
"""The least exponent, the bits of the mantissa and the largest number of a float of 8 bits."""

# Next to 1.5 * 2^(23 - m) powers the last bit of a float is that of m bits of mantissa: a sum rounds once, to
# an even code at a tie.  The difference has the bits of the code, once its least power is that of a float.
_TO_E2M1 = (
    """float e2m1_rounded(float x) {
    const float power = fmaxf(__uint_as_float(__float_as_uint(x) & 0x7F800000u), 1.0f);
    return __fmaf_rn(power, -0x1.8p22f, __fmaf_rn(power, 0x1.8p22f, x));
}""",
    """u32 high_bytes(u32 low, u32 high) { return __byte_perm(low, high, 0x7531); }""",
    # The bits of an f16 times 2^-14, whose least power is that of a code's, are those of the code from 9 on.
    """u32 e2m1_bytes(const float* x) {
    u32 low, high;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(low)
        : "r"(pack_f16x2(e2m1_rounded(x[0]), e2m1_rounded(x[2]))), "r"(0x04000400u));
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(high)
        : "r"(pack_f16x2(e2m1_rounded(x[4]), e2m1_rounded(x[6]))), "r"(0x04000400u));
    return high_bytes(low, high);
}""",
    # past 6, which a NaN becomes, there are more bits; that is rare
    """u32 e2m1_codes(float* x) {
    u32 even = e2m1_bytes(x), odd = e2m1_bytes(x + 1);
    if ((even | odd) & 0x70707070u) {
        #pragma unroll
        for (int i = 0; i < 8; ++i) {
            x[i] = fmaxf(fminf(x[i], 6.0f), -6.0f);
        }
        even = e2m1_bytes(x), odd = e2m1_bytes(x + 1);
    }
    const u32 low = high_bytes(pack_f16x2(x[0], x[2]), pack_f16x2(x[4], x[6]));
    const u32 high = high_bytes(pack_f16x2(x[1], x[3]), pack_f16x2(x[5], x[7]));
    return even >> 1 & 0x07070707u | low >> 4 & 0x08080808u | odd << 3 & 0x70707070u | high & 0x80808080u;
}""",
)

_TO_UE8M0 = (
    """u32 to_ue8m0(float x) {
    const u32 bits = __float_as_uint(fabsf(x)), up = bits > 0x00400000u ? (bits + 0x7FFFFFu) >> 23 : 0u;
    return x == x ? min(up, 254u) : 255u;
}""",
    "u32 to_ue8m0x2(float low, float high) { return to_ue8m0(low) | to_ue8m0(high) << 8; }",
)

_HAS_E2M1 = (
    "#if __CUDA_ARCH__ >= 1000 && (defined(__CUDA_ARCH_SPECIFIC__) || defined(__CUDA_ARCH_FAMILY_SPECIFIC__))"
)
"""The targets that have its cvt, such as sm_100a and sm_120f."""

_OCTET = f"""u32 to_e2m1x8(float a, float b, float c, float d, float e, float f, float g, float h) {{
    float x[8] = {{a, b, c, d, e, f, g, h}};
{_HAS_E2M1}
    u16 codes[2];
    #pragma unroll
    for (int i = 0; i < 2; ++i) {{
        asm("{{.reg .b8 x, y; cvt.rn.satfinite.e2m1x2.f32 x, %2, %1; "
            "cvt.rn.satfinite.e2m1x2.f32 y, %4, %3; mov.b16 %0, {{x, y}};}}"
            : "=h"(codes[i]) : "f"(x[4 * i]), "f"(x[4 * i + 1]), "f"(x[4 * i + 2]), "f"(x[4 * i + 3]));
    }}
    return codes[0] | codes[1] << 16;
#else
    return e2m1_codes(x);
#endif
}}"""


def _read(element: str, low: str, high: str, part: int) -> str:
    """Element number `part` of a word, or the one of two words."""
    match element:
        case "f64":
            return f"__hiloint2double({high}, {low})"
        case "s64":
            return f"static_cast<long long>(static_cast<u64>({high}) << 32 | {low})"
        case "f32":
            return low
        case "f16" | "bf16":
            return f"{'high' if part else 'low'}_{element}({low})"
    shift = bits_of(element) * part
    moved = f"{low}{f' >> {shift}' if shift else ''}"
    match element:
        case "e4m3" | "e5m2" | "e2m1" | "ue8m0":
            return f"from_{element}({moved})"
        case "u4":
            return f"static_cast<int>({moved} & 15u)"
        case "s4":
            up = 28 - shift
            return f"static_cast<int>({low}{f' << {up}' if up else ''}) >> 28"
    return f"static_cast<{_C_NAME[element]}>({moved})"


def truncation(kind: str, target: str) -> str:
    """The text of a function that makes a float or a double an integer of a type, in its low bits."""
    wide, bits, (least, most) = target == "s64", bits_of(target), _ends(target)
    way = f"__{kind}2{'ll' if wide else 'uint' if target == 'u32' else 'int'}_rz(x)"
    if bits < 32:
        way = f"min(max({way}, {least}), {most})"
    result = "u64" if wide else "u32"
    mask = f" & 0x{(1 << bits) - 1:X}u" if bits < 32 else ""
    nan = "0ull" if wide else "0u"
    return (
        f"{result} truncated_{target}({kind} x) {{\n"
        f"    return x == x ? static_cast<{result}>({way}){mask} : {nan};\n}}"
    )


def _integer(source: str, target: str, x: str) -> str:
    """A number as the low bits of an integer of a type."""
    if source not in INTEGERS:
        return f"truncated_{target}({x})"
    if target == "s64":
        return f"static_cast<u64>(static_cast<long long>({x}))"
    bits, word = bits_of(target), f"static_cast<u32>({x})"
    return f"({word} & 0x{(1 << bits) - 1:X}u)" if bits < 32 else word


def _float(source: str, target: str, x: str) -> str:
    """A number as a double, or as a float: of what is packed afterwards, one that is rounded to odd."""
    kind = _COMPUTED.get(source, "float")
    if target == "f64":
        return {"long long": f"__ll2double_rn({x})"}.get(kind, f"static_cast<double>({x})")
    if source in _EXACT:
        return f"static_cast<float>({x})"
    if target in PACKED or target in ROUNDED:
        return f"to_odd({x})"
    made = {
        "double": "double2float", "int": "int2float", "long long": "ll2float", "u32": "uint2float"
    }[kind]  # fmt: skip
    return f"__{made}_rn({x})"


@functools.cache
def convert(n: int, source: str, target: str) -> Instr:
    """d = n elements of `target` in packed words, from n of `source`.

    What does not fill a word lies in its low bits.  Raises UnsupportedError for types that are not converted.

    >>> convert(4, "f32", "f16").operands[0].words, convert(4, "u8", "f64").name
    (2, 'convert_4_u8_f64')
    """
    have, wide, name = bits_of(source), bits_of(target), f"convert_{n}_{source}_{target}"
    if source == target and source in ROUNDED:
        source = target = "u4" if wide == 4 else "u8"  # the codes as they are, of what is infinite too
    words, read = -(-n * wide // WORD_BITS), -(-n * have // WORD_BITS)
    per = max(1, min(n, WORD_BITS // wide))
    together = max(1, min(n, WORD_BITS // have))
    lines = list[str]()
    group = max(per, together)
    group = n if n % group else group  # a round begins with a word of both
    rounds, kind = n // group, _COMPUTED.get(source, "float")
    steps = group * have // WORD_BITS, group * wide // WORD_BITS  # words of a round
    ahead = ["" if rounds == 1 else f"{step} * i + " if step > 1 else "i + " for step in steps]
    for e in range(group):
        word, part = divmod(e * have, WORD_BITS)
        low, high = (at("s", f"{ahead[0]}{word + n}".removesuffix(" + 0"), read) for n in (0, 1))
        lines.append(f"const {kind} x{e} = {_read(source, low, high, part // have)};")
    for e in range(0, group, per):
        word = e * wide // WORD_BITS
        low, high = (at("d", f"{ahead[1]}{word + n}".removesuffix(" + 0"), words) for n in (0, 1))
        lines += _written(source, target, range(e, min(e + per, group)), low, high)
    rounded = target in PACKED or target in ROUNDED
    uses = [LOW[source], HIGH[source]] if source in PACKED else []
    uses += [*([LOW["f16"]] if source == "e5m2" else []), *([_FROM[source]] if source in _FROM else [])]
    uses += [PACK[target]] if target in PACKED else []
    uses += [_odd(kind)] if rounded and kind != "float" and source not in _EXACT else []
    uses += [*_to(target)] if target in ROUNDED else []
    uses += [truncation(kind, target)] if target in INTEGERS and source not in INTEGERS else []
    kinds = _OPERAND.get(target, ""), _OPERAND.get(source, "")
    parameters = f"{ref('d', words, kinds[0])}, {ref('s', read, kinds[1], const=True)}"
    text = f"void {name}({parameters}) {{\n{each(rounds, lines)}}}"

    def effect(machine: Any, group: Any, s: Array) -> Array:
        result = converted(_taken(s, n, have), source, target)
        raw = _joined(result) if wide == 4 else result.view(numpy.uint8)
        return numpy.pad(raw, ((0, 0), (0, -raw.shape[1] % 4))).view(numpy.uint32)

    operands = out("d", words, kinds[0]), into("s", read, kinds[1])
    return Instr(name, operands, text, effect, uses=tuple(uses))


def _taken(words: Array, n: int, bits: int) -> Array:
    """The first n elements of words, each in a number of its width, or of 8 bits."""
    raw = numpy.ascontiguousarray(words).view(numpy.uint8)
    if bits == 4:
        return numpy.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1)[:, :n]
    return numpy.ascontiguousarray(raw[:, : n * bits // 8]).view(f"u{bits // 8}")


def _joined(nibbles: Array) -> Array:
    """The bytes of pairs of 4 bits."""
    pairs = numpy.pad(nibbles, ((0, 0), (0, nibbles.shape[1] % 2)))
    joined: Array = pairs[:, ::2] | pairs[:, 1::2] << 4
    return joined


def _written(source: str, target: str, elements: range, low: str, high: str) -> list[str]:
    """The lines that put elements into a word of the result, or one into two words."""
    xs, y = [f"x{e}" for e in elements], f"y{elements[0]}"
    to_float = target in _FLOATS or target in PACKED or target in ROUNDED
    if to_float and (source in _COMPUTED or target == "f64"):
        xs = [_float(source, target, x) for x in xs]
    if target == "f64":
        line = f"const double {y} = {xs[0]};"
        return [line, f"{low} = __double2loint({y});", f"{high} = __double2hiint({y});"]
    if target == "s64":
        line = f"const u64 {y} = {_integer(source, target, xs[0])};"
        return [line, f"{low} = static_cast<u32>({y});", f"{high} = static_cast<u32>({y} >> 32);"]
    if target == "f32":
        return [f"{low} = {xs[0]};"]
    pairs, bits = list(zip(xs[::2], [*xs[1::2], "0.0f"], strict=False)), bits_of(target)
    if target in PACKED:
        return [f"{low} = pack_{PACKED[target]}({', '.join(pairs[0])});"]
    if target in ROUNDED:
        each = 8 if target == "e2m1" else 2
        groups = [[*xs[i : i + each], *["0.0f"] * each][:each] for i in range(0, len(xs), each)]
        bits, made = each * bits, [f"to_{target}x{each}({', '.join(group)})" for group in groups]
    else:
        made = [_integer(source, target, x) for x in xs]
    parts = [x + (f" << {bits * k}" if k else "") for k, x in enumerate(made)]
    return [f"{low} = {' | '.join(parts)};"]
