"""Numbers in 32-bit words: registers hold bits, and effects that compute take them apart and pack them.

    decode(words, "f16")    (lanes, n) uint32 -> (lanes, 2 n) float64
    encode(values, "f16")   the inverse, rounding to the nearest, ties to even

Integers decode to int64 and encode modulo their width.  A double is two words, low half first.
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
            return halves.view(numpy.float32).astype(numpy.float64)
        case "tf32":
            return (words & numpy.uint32(0xFFFFE000)).view(numpy.float32).astype(numpy.float64)
        case _ if element in _NUMPY:
            wide = numpy.int64 if element in ("s32", "s8", "u8") else numpy.float64
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
            keep = 16 if element == "bf16" else 13
            bits = numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)
            odd = bits >> keep & 1
            rounded = bits + (odd + (1 << (keep - 1)) - 1).astype(numpy.uint32)
            rounded = numpy.where(numpy.isnan(values), bits | 1 << (keep + 5), rounded)
            if element == "tf32":
                return (rounded >> keep << keep).astype(numpy.uint32)
            return numpy.ascontiguousarray((rounded >> 16).astype(numpy.uint16)).view(numpy.uint32)
        case _ if element in _NUMPY:
            return numpy.ascontiguousarray(values.astype(_NUMPY[element])).view(numpy.uint32)
        case _:
            raise UnknownNameError("element", element, WORD_ELEMS)
