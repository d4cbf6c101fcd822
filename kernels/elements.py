"""Elements: the arrays that carry their bits, the numbers that bits stand for, and what rounding loses.

The idea.  Whatever elements are, arrays of words of their width carry them; definitions compute with numbers.
A family bounds the error of each of its results, element by element; `agrees` compares, and knows that a
result past the largest number of its type is infinite, and that NaN has to be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.instr import WORD_ELEMS, decode, encode
from layoutalg.dtype import DTYPES
from layoutalg.errors import ArgumentTypeError, shown

CARRIER: Mapping[int, str] = MappingProxyType(
    {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
)
"""NumPy types that carry elements of a width in bytes; they are moved, never computed with."""

TORCH_CARRIER = MappingProxyType({1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"})
"""PyTorch's types that carry them."""

ELEMENT = MappingProxyType(
    {
        "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int8": "s8", "uint8": "u8",
        "int16": "s16", "int32": "s32", "int64": "s64",
    }
)  # fmt: skip
"""Element types by NumPy's names."""

NUMPY_NAME = MappingProxyType({short: long for long, short in ELEMENT.items() if short != "bf16"})
"""NumPy's names of the elements that it knows."""

INTEGERS = MappingProxyType(
    {short: long for long, short in ELEMENT.items() if short in ("s8", "u8", "s16", "s32", "s64")}
)
"""NumPy's names of integers."""

WORD_BYTES, UNIT_BYTES = 4, 16


def numbers_of(bits: Any, element: str) -> Any:
    """The numbers, as float64, that an array of words of an element's width carries; of the same shape.

    >>> import numpy
    >>> numbers_of(numpy.array([0x3F80, 0x4000, 0xC000], "u2"), "bf16").tolist()
    [1.0, 2.0, -2.0]
    """
    import numpy

    padded = numpy.pad(bits.ravel().view("u1"), (0, -bits.nbytes % WORD_BYTES))
    return decode(padded.view("u4")[None, :], element)[0][: bits.size].astype(float).reshape(bits.shape)


def bits_of(numbers: Any, element: str) -> Any:
    """Numbers rounded to the nearest of an element type, as words of its width; of the same shape.

    >>> import numpy
    >>> [hex(x) for x in bits_of(numpy.array([1.0, 2.0, -2.0]), "f16")]
    ['0x3c00', '0x4000', '0xc000']
    """
    import numpy

    padded = numpy.pad(numbers.ravel(), (0, int(-numbers.size % max(1, WORD_ELEMS[element]))))
    with numpy.errstate(all="ignore"):
        words = encode(padded[None, :], element)[0]
    return words.view(CARRIER[int(WORD_BYTES / WORD_ELEMS[element])])[: numbers.size].reshape(numbers.shape)


def values_of(bits: Any, element: str) -> Any:
    """Return the values of words of an element's width: float64 for floats, int64 for integers; same shape.

    >>> import numpy
    >>> values_of(numpy.array([255, 1], "u1"), "s8").tolist()
    [-1, 1]
    """
    if element not in INTEGERS:
        return numbers_of(bits, element)
    return bits.view(INTEGERS[element]).astype("int64")


def words_of(values: Any, element: str) -> Any:
    """The inverse: floats are rounded, integers taken modulo their width.

    >>> import numpy
    >>> words_of(numpy.array([-1, 256]), "u8").tolist()
    [255, 0]
    """
    if element not in INTEGERS:
        return bits_of(values, element)
    integers = values.astype(INTEGERS[element])
    return integers.view(CARRIER[integers.itemsize])


def in_units(elems: int, nbytes: int) -> int:
    """Elements of a width in bytes that fill the 16-byte units which hold so many.

    >>> in_units(5, 2), in_units(4, 4)
    (8, 4)
    """
    return -(-elems * nbytes // UNIT_BYTES) * UNIT_BYTES // nbytes


def set_bits(elems: int, nbytes: int) -> Any:
    """Words of set bits, NaN as floats, in whole units: what a destination holds before its results."""
    import numpy

    return numpy.full(in_units(max(elems, 1), nbytes) * nbytes, 255, numpy.uint8).view(CARRIER[nbytes])


def whole_units(array: Any) -> Any:
    """A copy of a flat array that is whole 16-byte units long, zeros behind it.

    >>> import numpy
    >>> whole_units(numpy.array([1, 2], "u2")).tolist()
    [1, 2, 0, 0, 0, 0, 0, 0]
    """
    import numpy

    units = numpy.zeros(in_units(array.size, array.itemsize), array.dtype)
    units[: array.size] = array
    return units


def kind_of(dtype: object) -> str:
    """NumPy's name of a type of elements: of a type of NumPy's or PyTorch's, its name, or "f16", "bf16", ...
    A type of another byte order than the machine's has NumPy's short name, such as ">f4".

    Raises ArgumentTypeError for what is not a type.

    >>> import numpy
    >>> kind_of("f16"), kind_of(numpy.float32), kind_of("float64"), kind_of("bfloat16")
    ('float16', 'float32', 'float64', 'bfloat16')
    """
    text = str(dtype).removeprefix("torch.")
    ours = {short: long for long, short in ELEMENT.items()}
    if text in DTYPES:
        return ours.get(text, text)
    if text in ELEMENT:
        return text
    import numpy

    try:
        kind: Any = numpy.dtype(dtype)  # type: ignore[call-overload]
    except TypeError as error:
        raise ArgumentTypeError(f"dtype {shown(dtype)}: a type such as 'float32' is needed") from error
    return str(kind.name if kind.isnative else kind.str)


# --- rounding -----------------------------------------------------------------------------------------

HALF_PLACE = MappingProxyType(
    {"f64": 2.0**-53, "f32": 2.0**-24, "tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8}
)
"""The relative size of half of a type's last place: half the distance of neighbouring numbers near 1."""

SMALLEST_SUM = MappingProxyType({"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133})
"""The least positive number of a type."""

ROUNDS_TO_INFINITY = MappingProxyType(
    {
        "f64": math.inf, "f32": (2 - 2.0**-24) * 2.0**127, "f16": 65520.0, "bf16": (2 - 2.0**-8) * 2.0**127,
        "s32": math.inf,
    }
)  # fmt: skip
"""The least number that rounds to infinity in each type."""


def agrees(found: Any, exact: Any, allowed: Any, element: str) -> Any:
    """Return whether each result of a type is allowed by its definition, for arrays of float64 of one shape.

    A result must be NaN where the definition is NaN, infinite where it is, otherwise within `allowed`; where
    the definition is past the largest number of the type, or within `allowed` of that, it may be infinite.
    A number that may be off by infinity may be anything.

    >>> import numpy
    >>> exact = numpy.array([1.0, numpy.nan, numpy.inf, -7e4])
    >>> agrees(numpy.array([1.25, 1.0, numpy.inf, -numpy.inf]), exact, numpy.full(4, 0.5), "f16").tolist()
    [True, False, True, True]
    """
    import numpy

    with numpy.errstate(all="ignore"):
        near = (numpy.abs(found - exact) <= allowed) | numpy.isposinf(allowed)
        past = numpy.abs(exact) + allowed >= ROUNDS_TO_INFINITY[element]
        over = numpy.isinf(found) & (numpy.sign(found) == numpy.sign(exact)) & past
    special = numpy.where(numpy.isnan(exact), numpy.isnan(found), found == exact)
    return numpy.where(numpy.isfinite(exact), near | over, special)


def largest_share(found: Any, exact: Any, allowed: Any) -> float:
    """The largest error in units of the allowed one, among results that are numbers.

    >>> import numpy
    >>> largest_share(numpy.array([1.25, numpy.nan]), numpy.array([1.0, numpy.nan]), numpy.array([0.5, 0.5]))
    0.5
    """
    import numpy

    with numpy.errstate(all="ignore"):
        shares = numpy.abs(found - exact) / numpy.maximum(allowed, numpy.finfo(float).tiny)
    return float(shares[numpy.isfinite(shares)].max(initial=0.0))
