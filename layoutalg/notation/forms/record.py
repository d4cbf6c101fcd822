"""Form: a notation of layouts, as a record of how it is read and written; Options: what a text leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles

if TYPE_CHECKING:
    from layoutalg.f2 import LinearLayout

Value: TypeAlias = "AnyLayout | Swizzle | LinearLayout"
"""The value of a text: a layout, a swizzle alone, or Triton's map of registers, lanes and warps."""

Unit: TypeAlias = Literal["elements", "bytes"]

OptionName: TypeAlias = Literal["shape", "element", "unit"]


@dataclass(frozen=True, slots=True)
class Options:
    """The facts that a text alone does not state: the tensor's shape, its element type, the unit of a
    swizzle's offsets, and the symbols that names stand for."""

    shape: tuple[int, ...] | None = None
    element: DType | None = None
    unit: Unit = "elements"
    symbols: Mapping[str, Any] | None = None

    def need_shape(self, form: str) -> tuple[int, ...]:
        """The shape, or an ArgumentTypeError that says which form needs one."""
        if self.shape is None:
            raise ArgumentTypeError(f"{form} needs the tensor's shape, as in (64,64): give shape")
        return self.shape

    def need_element(self, form: str, why: str) -> DType:
        """The element type, or an ArgumentTypeError that says which form needs it, and why."""
        if self.element is None:
            raise ArgumentTypeError(f"{form} {why}: give element, as in f16")
        return self.element


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A notation: its name, the beginning of its texts, its reader and writer, and what it can express.

    `recognises` matches the beginning of a text; None where another form's reader reads it.  `reads` and
    `writes` name the options that the reader and the writer look at.
    """

    name: str
    expresses: str
    recognises: re.Pattern[str] | None
    read: Callable[[str, Options], Value] | None
    write: Callable[[Value, Options], str] | None
    reads: frozenset[OptionName] = frozenset()
    writes: frozenset[OptionName] = frozenset()


def swizzle_in_elements(swizzle: Swizzle, bits: int) -> Swizzle:
    """A swizzle of byte addresses as one of offsets in elements of `bits` bits, a power of two.

    Raises ValueError where bits below one element would move.

    >>> print(swizzle_in_elements(Swizzle(3, 4, 3), 16))
    Sw<3,3,3>
    """
    base = swizzle.base + 3 - (bits.bit_length() - 1)
    if base < 0 and swizzle.bits:
        raise ValueError(f"{swizzle} moves bits below one element of {bits} bits")
    return Swizzle(swizzle.bits, max(base, 0), swizzle.shift)


def swizzle_in_bytes(swizzle: Swizzle, bits: int) -> Swizzle:
    """Inverse of `swizzle_in_elements`.  Raises ValueError where bits below one byte would move."""
    base = swizzle.base - 3 + (bits.bit_length() - 1)
    if base < 0 and swizzle.bits:
        raise ValueError(f"{swizzle} of elements of {bits} bits moves bits below one byte")
    return Swizzle(swizzle.bits, max(base, 0), swizzle.shift)


def joined(value: AnyLayout) -> AnyLayout:
    """The layout with a swizzle over swizzles, offset 0 between them, as one chain: what few forms can tell
    apart.

    >>> one = ComposedLayout(Swizzle(2, 0, 2), 5, Layout(8))
    >>> print(joined(ComposedLayout(Swizzle(1, 0, 1), 0, one)))
    Sw<1,0,1> o Sw<2,0,2> o 5 o 8:1
    """
    if isinstance(value, Layout):
        return value
    inner = joined(value.inner)
    over = value.swizzles and isinstance(inner, ComposedLayout) and inner.swizzles
    if over and value.offset == 0 and isinstance(inner, ComposedLayout):
        return ComposedLayout(Swizzles(*value.swizzles, *inner.swizzles), inner.offset, inner.inner)
    return ComposedLayout(value.outer, value.offset, inner)
