"""Conversions between element types: packed elements of one type to packed elements of another.

    convert(8, "f32", "f16")     d: four words of eight f16, from s: eight words
    converted(bits, "f32", "f16")     the definition, on arrays of words of an element's width

The rules, the same for the instruction and for the definition:

    to a float        rounded once, to the nearest, ties to even; past the largest number infinite; NaN stays
                      NaN, of what payload is left open
    float to integer  towards zero, as C; past the ends of the type the nearest end, NaN becomes 0
    integer to integer    modulo 2^n of the narrower type, as C, NumPy and PyTorch

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
from layoutalg.codegen.instr.words import HIGH, LOW, PACK, PACKED, Array, at, each, encode, ref
from layoutalg.errors import UnsupportedError

INTEGERS: Mapping[str, Any] = MappingProxyType(
    {"u8": numpy.uint8, "s8": numpy.int8, "s16": numpy.int16, "s32": numpy.int32, "s64": numpy.int64}
)
_FLOATS = {"f64": numpy.float64, "f32": numpy.float32, "f16": numpy.float16, "bf16": numpy.uint16}
CONVERTED = (*_FLOATS, *INTEGERS)
"""The types that are converted."""

WORD_BYTES = 4


def width_of(element: str) -> int:
    """Bytes of an element that is converted.  Raises UnsupportedError for others.

    >>> width_of("bf16")
    2
    """
    if element not in CONVERTED:
        raise UnsupportedError(f"conversions of {element}: {', '.join(CONVERTED)} are accepted")
    return numpy.dtype(_FLOATS.get(element) or INTEGERS[element]).itemsize


# --- the definition ------------------------------------------------------------------------------------


def converted(bits: Array, source: str, target: str) -> Array:
    """Words of `target`'s width, from an array of words of `source`'s; of the same shape.

    Raises UnsupportedError for types that are not converted.

    >>> halves = converted(numpy.array([0x3F800000, 0xC2C80000], "u4"), "f32", "f16")
    >>> [hex(x) for x in halves], converted(halves, "f16", "s8").view("i1").tolist()
    (['0x3c00', '0xd640'], [1, -100])
    >>> converted(numpy.array([1e9, -1.5, numpy.nan]).view("u8"), "f64", "u8").tolist()
    [255, 0, 0]
    """
    width_of(source)
    word = numpy.dtype(f"u{width_of(target)}")
    if source == target:
        return bits.view(word)
    with numpy.errstate(all="ignore"):
        if source in INTEGERS:
            values = bits.view(INTEGERS[source])
        elif source == "bf16":
            values = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            values = bits.view(_FLOATS[source])
        if target == "bf16":
            return _to_bf16(values)
        if target in INTEGERS and source not in INTEGERS:
            return _towards_zero(values.astype(numpy.float64), INTEGERS[target]).view(word)
        result: Array = numpy.asarray(values, INTEGERS.get(target) or _FLOATS[target], order="C")
        return result.view(word)


def _to_bf16(values: Array) -> Array:
    if values.dtype == numpy.int64:  # what a double cannot hold: only whether bits are lost below counts
        high, wide = values & ~0x7FF, numpy.abs(values.astype(numpy.float64)) >= 2.0**53
        values = numpy.where(wide & (high != values), high | 0x400, values)
    flat = values.astype(numpy.float64).ravel()
    words = encode(numpy.pad(flat, (0, flat.size % 2))[None, :], "bf16")
    result: Array = words[0].view(numpy.uint16)[: flat.size].reshape(values.shape)
    return result


def _towards_zero(values: Array, kind: Any) -> Array:
    ends = numpy.iinfo(kind)
    numbers = numpy.where(numpy.isnan(values), 0.0, values)
    low, high = numbers <= ends.min, numbers >= float(ends.max) + (ends.bits < 64)
    inside = numpy.where(low | high, 0.0, numbers).astype(numpy.int64)
    exact: Array = numpy.where(low, ends.min, numpy.where(high, ends.max, inside)).astype(kind)
    return exact


# --- the instruction -----------------------------------------------------------------------------------

_C_NAME = {"u8": "unsigned char", "s8": "signed char", "s16": "short", "s32": "int"}
_COMPUTED = {"f64": "double", "s64": "long long", "s32": "int", "u8": "int", "s8": "int", "s16": "int"}
"""The C type of an element; a float where nothing is said."""

_ODD = MappingProxyType(
    {
        "double": ("__double2float_rz(x)", "static_cast<double>(f) != x"),
        "int": ("__int2float_rz(x)", "__float2int_rz(f) != x"),
        "long long": ("__ll2float_rz(x)", "__float2ll_rz(f) != x"),
    }
)


def _odd(kind: str) -> str:
    """The text of a function that rounds to odd, to a float."""
    made, inexact = _ODD[kind]
    return (
        f"float to_odd({kind} x) {{\n    const float f = {made};\n"
        f"    return {inexact} ? __uint_as_float(__float_as_uint(f) | 1u) : f;\n}}"
    )


def _words(n: int, element: str) -> int:
    """32-bit words of n elements."""
    return -(-n * width_of(element) // WORD_BYTES)


def _place(words: int, offset: int, rounds: int) -> str:
    """The word at `offset` of round i, each of so many words."""
    if rounds == 1:
        return str(offset)
    first = f"{words} * i" if words > 1 else "i"
    return f"{first} + {offset}" if offset else first


def _read(element: str, low: str, high: str, part: int) -> str:
    """Element number `part` of a word, or the one of two words."""
    match element:
        case "f64":
            return f"__hiloint2double({high}, {low})"
        case "s64":
            return f"static_cast<long long>(static_cast<u64>({high}) << 32 | {low})"
        case "f32":
            return f"__uint_as_float({low})"
        case "f16" | "bf16":
            return f"{'high' if part else 'low'}_{element}({low})"
        case _:
            shift = 8 * width_of(element) * part
            return f"static_cast<{_C_NAME[element]}>({low}{f' >> {shift}' if shift else ''})"


def _truncation(kind: str, target: str) -> str:
    """The text of a function that makes a float or a double an integer of a type, in its low bits."""
    wide, ends = target == "s64", numpy.iinfo(INTEGERS[target])
    way = f"__{kind}2{'ll' if wide else 'int'}_rz(x)"
    if ends.bits < 32:
        way = f"min(max({way}, {ends.min}), {ends.max})"
    result = "u64" if wide else "u32"
    mask = f" & 0x{(1 << ends.bits) - 1:X}u" if ends.bits < 32 else ""
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
    bits = 8 * width_of(target)
    word = f"static_cast<u32>({x})"
    return f"({word} & 0x{(1 << bits) - 1:X}u)" if bits < 32 else word


def _float(source: str, target: str, x: str) -> str:
    """A number as a double, or as a float: of what is packed afterwards, one that is rounded to odd."""
    kind = _COMPUTED.get(source, "float")
    exact = kind == "float" or source in ("u8", "s8", "s16")
    if target == "f64":
        return {"long long": f"__ll2double_rn({x})"}.get(kind, f"static_cast<double>({x})")
    if exact:
        return x if kind == "float" else f"static_cast<float>({x})"
    if target in PACKED:
        return f"to_odd({x})"
    made = {"double": "double2float", "int": "int2float", "long long": "ll2float"}[kind]
    return f"__{made}_rn({x})"


@functools.cache
def convert(n: int, source: str, target: str) -> Instr:
    """d = n elements of `target` in packed words, from n of `source`.

    What does not fill a word lies in its low bits.  Raises UnsupportedError for types that are not converted.

    >>> convert(4, "f32", "f16").operands[0].words, convert(4, "u8", "f64").name
    (2, 'convert_4_u8_f64')
    """
    have, wide = width_of(source), width_of(target)
    words, read = _words(n, target), _words(n, source)
    per = max(1, min(n, WORD_BYTES // wide))
    together = max(1, min(n, WORD_BYTES // have))
    name, lines = f"convert_{n}_{source}_{target}", list[str]()
    group = max(per, together)
    group = n if n % group else group  # a round begins with a word of both
    rounds, kind = n // group, _COMPUTED.get(source, "float")
    for e in range(group):
        word, part = divmod(e * have, WORD_BYTES)
        low, high = (at("s", _place(group * have // WORD_BYTES, word + n, rounds), read) for n in (0, 1))
        lines.append(f"const {kind} x{e} = {_read(source, low, high, part // have)};")
    for e in range(0, group, per):
        word = e * wide // WORD_BYTES
        low, high = (at("d", _place(group * wide // WORD_BYTES, word + n, rounds), words) for n in (0, 1))
        lines += _written(source, target, range(e, min(e + per, group)), low, high)
    uses = [*(half[source] for half in (LOW, HIGH) if source in PACKED)]
    uses += [PACK[target]] if target in PACKED else []
    uses += [_odd(kind)] if target in PACKED and source in ("f64", "s32", "s64") else []
    uses += [_truncation(kind, target)] if target in INTEGERS and source not in INTEGERS else []
    text = f"void {name}({ref('d', words)}, {ref('s', read, const=True)}) {{\n{each(rounds, lines)}}}"

    def effect(machine: Any, group: Any, s: Array) -> Array:
        raw = numpy.ascontiguousarray(s).view(numpy.uint8)[:, : n * have]
        result = converted(numpy.ascontiguousarray(raw).view(f"u{have}"), source, target).view(numpy.uint8)
        return numpy.pad(result, ((0, 0), (0, -result.shape[1] % WORD_BYTES))).view(numpy.uint32)

    return Instr(name, (out("d", words), into("s", read)), text, effect, uses=tuple(uses))


def _written(source: str, target: str, elements: range, low: str, high: str) -> list[str]:
    """The lines that put elements into a word of the result, or one into two words."""
    xs, y = [f"x{e}" for e in elements], f"y{elements[0]}"
    if target == "f64":
        made = f"const double {y} = {_float(source, target, xs[0])};"
        return [made, f"{low} = __double2loint({y});", f"{high} = __double2hiint({y});"]
    if target == "s64":
        made = f"const u64 {y} = {_integer(source, target, xs[0])};"
        return [made, f"{low} = static_cast<u32>({y});", f"{high} = static_cast<u32>({y} >> 32);"]
    if target == "f32":
        return [f"{low} = __float_as_uint({_float(source, target, xs[0])});"]
    if target in PACKED:
        first, *rest = (_float(source, target, x) for x in xs)
        return [f"{low} = pack_{PACKED[target]}({first}, {rest[0] if rest else '0.0f'});"]
    bits = 8 * width_of(target)
    parts = [_integer(source, target, x) + (f" << {bits * k}" if k else "") for k, x in enumerate(xs)]
    return [f"{low} = {' | '.join(parts)};"]
