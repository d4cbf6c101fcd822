"""Numbers in 32-bit words: registers hold bits, and effects that compute take them apart and pack them.

    decode(words, "f16")    (lanes, n) uint32 -> (lanes, 2 n) float64
    encode(values, "f16")   the inverse, rounding to the nearest, ties to even

Integers decode to int64 and encode modulo their width.  A double is two words, low half first.  What NaN a
NaN becomes is left open.
"""

from __future__ import annotations

from typing import Any

import numpy

from layoutalg.errors import UnknownNameError

Array = numpy.ndarray[Any, Any]

WORD_ELEMS = {"f64": 0.5, "f32": 1, "tf32": 1, "s32": 1, "f16": 2, "bf16": 2, "s8": 4, "u8": 4}
"""Elements in a 32-bit word."""

_NUMPY = {
    "f64": numpy.float64, "f32": numpy.float32, "s32": numpy.int32, "f16": numpy.float16, "s8": numpy.int8,
    "u8": numpy.uint8,
}  # fmt: skip


def decode(words: Array, element: str) -> Array:
    """The elements of words (lanes, n), in order: float64 or int64 of shape (lanes, n * elements a word).

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
        case _ if element in _NUMPY:
            wide = numpy.int64 if element in ("s32", "s8", "u8") else numpy.float64
            with numpy.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
                return words.view(_NUMPY[element]).astype(wide)
        case _:
            raise UnknownNameError("element", element, WORD_ELEMS)


def encode(values: Array, element: str) -> Array:
    """Words (lanes, n) of elements (lanes, n * elements a word); see `decode`.

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
        case _ if element in _NUMPY:
            return numpy.ascontiguousarray(values.astype(_NUMPY[element])).view(numpy.uint32)
        case _:
            raise UnknownNameError("element", element, WORD_ELEMS)


def _to_odd(values: Array) -> Array:
    """The float32 next to each value whose last bit is 1, unless it is exact: may be rounded once more."""
    wide = numpy.asarray(values, dtype=numpy.float64)
    with numpy.errstate(over="ignore"):
        near = wide.astype(numpy.float32)
    bits, back = near.view(numpy.uint32), near.astype(numpy.float64)
    even = (back != wide) & (bits & 1 == 0) & ~numpy.isnan(wide)
    away = numpy.where(numpy.abs(back) < numpy.abs(wide), 1, -1).astype(numpy.uint32)
    return numpy.where(even, bits + away, bits).view(numpy.float32)
