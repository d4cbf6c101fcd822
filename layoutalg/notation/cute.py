"""Reading CuTe's text: layouts, swizzles, composed layouts, shapes and tilers.

The idea.  What CuTe prints is what people paste, so `parse_cute` reads it as it stands, with or without the
`_` in front of static integers, and `str` writes it back: parse_cute(str(x)) == x for every value.

    integer   8   _8   -1   _-1
    tuple     ((2,4),8)        (4)        ()
    layout    ((2,4),8):((1,16),2)
    swizzle   Sw<3,4,3>
    composed  Sw<3,4,3> o 0 o (8,64):(64,1)         outer o offset o inner, swizzles may be chained
    in smem   Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)
    tensor    gmem_ptr[16b](0x7f0000000000) o (8,64):(64,1)     Sw<3,4,3>_smem_ptr[16b](0x400) o 8:1
              ArithTuple(0,_0) o (8,64):(1@1,1@0)               its layout: offsets count from where it begins
    tiler     (4:1,_,(2,2))                         `_` alone keeps a mode
    bases     (4,8):(1@0,1@1)     3@1@0             strides along modes of a coordinate, see scaled_basis
    symbols   (n,8):(1,4*n+m)                       polynomials in the names given as `symbols`
    dynamic   (192,?):(1,192)   ?{div=64}           of the CuTe DSL, also S<3,4,3>; see symbols.py

A swizzle over `smem_ptr[Nb](unset)` permutes BYTE addresses while the layout counts N-bit elements.  The
two are brought to one unit here, at the door: a field at byte bit M is at element bit M + 3 - log2 N, so
the example reads as Sw<3,3,3> o 0 o (8,64):(64,1), the same function in elements.  A swizzle that would
move bits below one element is refused.

A swizzled pointer to an address permutes that very address.  Where the address is a multiple of the
swizzle's period, offsets count from it and the swizzle is that of `unset`; elsewhere they count from the
multiple below, and the rest of the address is the offset under the swizzle.

>>> print(parse_cute("Sw<_3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)"))
Sw<3,3,3> o 0 o (8,64):(64,1)

Notes.  The reader is a loop with an explicit stack: hostile nesting ends in a ParseError.  Integers have
at most MAX_DIGITS digits.  Comparison with CuTe: C++ and DSL only print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias, cast

from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, UnsupportedError, shown
from layoutalg.layout import (
    MAX_DEPTH,
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    ScaledBasis,
    Swizzle,
    Swizzles,
    congruent_trees,
    flatten_tree,
    has_bases,
    is_symbolic,
)
from layoutalg.notation.symbols import MAX_DIGITS, Dynamic, parse_polynomial

ParsedTiler: TypeAlias = "Layout | int | tuple[ParsedTiler, ...] | None"

_BLANKS = " \t\r\n"
"""Characters that may stand between tokens; no other blank of Unicode may."""

_TOKEN = re.compile(
    r"[ \t\r\n]*(?:(?P<int>_?-?[0-9]+)(?![*+\-A-Za-z0-9])"
    r"|(?P<sw>Sw?<|SW_(?=[0-9]))"
    r"|(?P<pointer>_?(?:(?:[gsr]mem_)?(?:sub)?ptr\[[0-9]{1,4}b\]|tmem_\[[0-9]{1,4}b\])\([^()\n]{0,200}\)"
    r"|counting_iter\([0-9]{1,40}\)|raw_ptr\([^()\n]{0,200}\))"
    r"|(?P<origin>ArithTuple(?=\())"
    r"|(?P<dynamic>\?(?:\{[a-z0-9= ]{0,40}\})?)"
    r"|(?P<any>_)"
    r"|(?P<o>o)(?![A-Za-z0-9_])"
    r"|(?P<poly>-?[A-Za-z0-9][A-Za-z0-9_*+\-]*)"
    r"|(?P<mark>[(),:<>@])"
    r"|(?P<end>\Z))"
)


class _Reader:
    """A cursor over the tokens of one text."""

    def __init__(
        self, text: str, symbols: Mapping[str, Any] | None = None, *, known_extents: bool = False
    ) -> None:
        if not isinstance(text, str):
            raise ArgumentTypeError(f"parse of {shown(text)}: a {type(text).__name__} is not a text")
        if symbols is not None and not isinstance(symbols, Mapping):
            raise ArgumentTypeError(f"parse: symbols are {shown(symbols)}; a mapping from names is needed")
        self.text = text
        self.symbols = symbols
        self.known_extents = known_extents
        self.dynamic: Dynamic | None = None
        self.start = self.stop = 0
        self.kind = self.token = ""
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.stop)
        if match is None:
            gap = len(self.text[self.stop :]) - len(self.text[self.stop :].lstrip(_BLANKS))
            self.start = self.stop + gap
            self.kind, self.token = "bad", self.text[self.start]
            return
        self.kind = match.lastgroup or "end"
        self.start, self.stop = match.start(self.kind), match.end()
        self.token = match[self.kind]

    def fail(self, expected: str, position: int | None = None) -> NoReturn:
        at = self.start if position is None else position
        shown = repr(self.text[at : at + 12]) if at < len(self.text) else "the end"
        self.refuse(f"expected {expected} at position {at}, found {shown}", at)

    def refuse(self, why: object, position: int) -> NoReturn:
        shown = self.text if len(self.text) <= 80 else f"{self.text[:77]}..."
        raise ParseError(f"cannot read {shown!r}: {why}", text=self.text, position=position) from None

    def is_mark(self, mark: str) -> bool:
        return self.kind == "mark" and self.token == mark

    def take(self, mark: str) -> None:
        if not self.is_mark(mark):
            self.fail(repr(mark))
        self.advance()

    def integer(self) -> int:
        if self.kind != "int":
            self.fail("an integer")
        if len(self.token) > MAX_DIGITS:
            self.fail(f"an integer of at most {MAX_DIGITS} digits")
        value = int(self.token.removeprefix("_"))
        self.advance()
        return value

    def leaf(self, *, bases: bool) -> Any:
        """An integer or a polynomial; with `bases`, also value@mode@mode."""
        start = self.start
        value = self.polynomial() if self.kind == "poly" else self.integer()
        return self.based(value, start) if bases else value

    def unknown(self, *, bases: bool) -> Any:
        """A dynamic leaf, an extent or, with `bases`, a stride; the cursor stands on its `?`."""
        start, words = self.start, self.token[2:-1].split()
        multiple = 1
        for word in words:
            if word.startswith("div=") and word[4:].isdigit() and len(word) < 24 and int(word[4:]):
                multiple = int(word[4:])
            elif word not in ("i32", "i64"):
                self.refuse(
                    f"expected ?, ?{{i64}} or ?{{div=N}} at position {start}, found {self.token!r}", start
                )
        self.advance()
        dynamic = cast("Dynamic", self.dynamic)
        return self.based(dynamic.stride(multiple), start) if bases else dynamic.extent(multiple)

    def based(self, value: Any, start: int) -> Any:
        """A value, or the value along modes that are written behind it."""
        modes: list[int] = []
        while self.is_mark("@"):
            self.advance()
            modes.insert(0, self.integer())
        try:
            return ScaledBasis(value, *modes) if modes else value
        except LayoutAlgError as error:
            self.refuse(error, start)

    def polynomial(self) -> Any:
        """A polynomial in the symbols that were given."""
        try:
            value = parse_polynomial(self.token, self.symbols or {})
        except ParseError as error:
            self.refuse(error.message, self.start + (error.position or 0))
        self.advance()
        return value

    def term(self, *, layouts: bool, bases: bool = False) -> ParsedTiler:
        """Read an integer or a tuple; with `layouts`, also `_` and layouts, at any depth."""
        stack: list[list[ParsedTiler]] = []
        starts: list[int] = []
        while True:
            start = self.start
            value: ParsedTiler
            if self.is_mark("("):
                if len(stack) >= MAX_DEPTH:
                    self.fail(f"at most {MAX_DEPTH} nested parentheses")
                self.advance()
                if not self.is_mark(")"):
                    stack.append([])
                    starts.append(start)
                    continue
                self.advance()
                value = ()
            elif layouts and self.kind == "any":
                self.advance()
                value = None
            elif self.kind == "int" or (self.kind == "poly" and self.symbols is not None):
                value = self.leaf(bases=bases)
            elif self.kind == "dynamic" and self.dynamic is not None:
                value = self.unknown(bases=bases)
            else:
                self.fail("an integer, '(' or '_'" if layouts else "an integer or '('")
            while True:
                if layouts and self.is_mark(":"):
                    value = self.layout_after(value, start)
                if not stack:
                    return value
                stack[-1].append(value)
                if self.is_mark(","):
                    self.advance()
                    if len(stack[-1]) > 1 or not self.is_mark(")"):  # Python writes (8,)
                        break
                if not self.is_mark(")"):
                    self.fail("',' or ')'")
                self.advance()
                value, start = tuple(stack.pop()), starts.pop()

    def layout_after(self, shape: ParsedTiler, start: int) -> Layout:
        """The layout whose shape was just read; the cursor stands on its ':'."""
        pure = _as_int_tuple(shape)
        if pure is None:
            self.fail("a shape of integers before ':'", start)
        if self.known_extents and any(map(is_symbolic, flatten_tree(pure))):
            self.fail("extents that are integers", start)
        self.advance()
        at = self.start
        stride = cast("IntTuple", self.term(layouts=False, bases=True))
        if not congruent_trees(pure, stride):
            self.fail("a stride of the same form as the shape", at)
        try:
            return Layout(pure, stride)
        except LayoutAlgError as error:
            self.refuse(error, start)

    def swizzle(self) -> Swizzle:
        start = self.start
        if self.token == "SW_":  # as pycute prints it
            match = re.compile(r"SW_([0-9]{1,9})_([0-9]{1,9})_(-?[0-9]{1,9})").match(self.text, start)
            if match is None:
                self.fail("a swizzle such as SW_3_4_3")
            values, self.stop = [*map(int, match.groups())], match.end()
            self.advance()
        else:
            self.advance()
            values = [self.integer()]
            for _ in range(2):
                self.take(",")
                values.append(self.integer())
            self.take(">")
        try:
            return Swizzle(*values)
        except LayoutAlgError as error:
            self.refuse(error, start)

    def end(self) -> None:
        if self.kind != "end":
            self.fail("the end of the text")


def _as_int_tuple(value: ParsedTiler) -> IntTuple | None:
    """`value` itself when it is made of integers and symbols only, else None."""
    leaves: tuple[object, ...] = flatten_tree(value)  # type: ignore[arg-type]
    return value if all(type(v) is int or is_symbolic(v) for v in leaves) else None  # type: ignore[return-value]


def parse_int_tuple(text: str) -> IntTuple:
    """Read a shape, stride or coordinate.

    Raises ParseError.

    >>> parse_int_tuple("((_2,4),8)")
    ((2, 4), 8)
    """
    reader = _Reader(text)
    value = cast("IntTuple", reader.term(layouts=False))
    reader.end()
    return value


def parse_tiler(text: str) -> ParsedTiler:
    """Read a tiler: a layout, an integer, `_` (None: the mode is kept), or a tuple of tilers.

    Raises ParseError.

    >>> parse_tiler("(_4:_1,_,(2,2))")
    (Layout(4, 1), None, (2, 2))
    """
    reader = _Reader(text)
    value = reader.term(layouts=True)
    reader.end()
    return value


def parse_cute(text: str, symbols: Mapping[str, Any] | None = None) -> AnyLayout | Swizzle:
    """Read a Layout, a Swizzle or a ComposedLayout from CuTe's notation.

    `symbols` gives the sympy symbol for each name that extents and strides may contain.  Raises ParseError
    with the position and what was expected there.

    >>> parse_cute("((2,4),8):((1,16),2)")
    Layout(((2, 4), 8), ((1, 16), 2))
    >>> parse_cute("Sw<3,4,3>")
    Swizzle(3, 4, 3)
    >>> import sympy
    >>> print(parse_cute("(n,8):(1,4*n)", symbols={"n": sympy.Symbol("n", integer=True, positive=True)}))
    (n,8):(1,4*n)
    """
    reader = _Reader(text, symbols)
    reader.dynamic = Dynamic()
    parts = _parts(reader)
    if len(parts) == 1 and isinstance(parts[0][1], Swizzle):
        return parts[0][1]
    pointer = _pointer_of(reader, parts)
    inner, levels = _levels(reader, parts)
    if pointer is not None:
        levels.append(pointer)
    result: AnyLayout = inner
    for start, outer, offset in levels:
        try:
            result = ComposedLayout(outer, offset, result)
        except LayoutAlgError as error:
            reader.refuse(error, start)
    return result


def parse_open(text: str, symbols: Mapping[str, Any]) -> tuple[Swizzles, Any, Layout]:
    """(swizzles, offset, layout) of a layout, perhaps under swizzles, whose strides and offset hold symbols.

    Raises ParseError for extents that hold them, and UnsupportedError for a layout under an outer layout.

    >>> import sympy
    >>> parse_open("Sw<3,3,3> o 8*n o (8,8):(8,1)", {"n": sympy.Symbol("n", integer=True)})
    (Swizzles(Swizzle(3, 3, 3)), 8*n, Layout((8, 8), (8, 1)))
    """
    reader = _Reader(text, symbols, known_extents=True)
    parts = _parts(reader)
    if len(parts) == 1 and isinstance(parts[0][1], Swizzle):
        reader.fail("an offset and a layout under the swizzle", len(text))
    inner, levels = _levels(reader, parts)
    if not levels:
        return Swizzles(), 0, inner
    _, outer, offset = levels[0]
    if len(levels) > 1 or isinstance(outer, Layout):
        raise UnsupportedError(f"{text}: symbols are read under swizzles, not under outer layouts")
    return outer, offset, inner


_Part: TypeAlias = "tuple[int, Swizzle | Layout | int | str | tuple[Any, ...]]"
_Level: TypeAlias = "tuple[int, Layout | Swizzles, Any]"


def _parts(reader: _Reader) -> list[_Part]:
    """The parts between the `o`s, each with its position: a str is a pointer, a tuple a coordinate."""
    parts: list[_Part] = []
    while True:
        start = reader.start
        part: Swizzle | Layout | int | str | tuple[Any, ...]
        joined = False
        if reader.kind == "sw":
            part = reader.swizzle()
            joined = reader.kind == "pointer" and reader.token[0] == "_"
        elif reader.kind == "pointer" and not (reader.token[0] == "_" and not parts):
            part = reader.token
            reader.advance()
        else:
            origin = reader.kind == "origin"
            if origin:
                reader.advance()
            value = reader.term(layouts=not origin)
            origin |= isinstance(value, tuple) and not parts and reader.kind == "o"
            offset = isinstance(value, int) or (reader.kind == "o" and is_symbolic(value))
            if not isinstance(value, Layout) and not offset and not origin:
                reader.fail("':' and a stride")
            part = cast("Layout | int | tuple[Any, ...]", value)
        parts.append((start, part))
        if joined:
            continue
        if reader.kind != "o":
            break
        reader.advance()
    reader.end()
    return parts


def _pointer_of(reader: _Reader, parts: list[_Part]) -> _Level | None:
    """Take off where a tensor begins, a pointer or a coordinate; what a swizzled pointer does to offsets."""
    start, first = parts[0]
    if len(parts) > 1 and isinstance(first, tuple):
        at, layout = parts[1]
        if not isinstance(layout, Layout) or not has_bases(layout):
            reader.fail("strides along modes, such as 1@0, behind where coordinates begin", at)
        del parts[0]
        return None
    if len(parts) > 1 and isinstance(first, str):
        del parts[0]
        return None
    if len(parts) < 3 or not isinstance(first, Swizzle) or not isinstance(parts[1][1], str):
        return None
    at, pointer = parts[1]
    bits, address = _address(reader, cast("str", pointer), at)
    if not address:
        return None  # read as unset is, below other swizzles too
    swizzle = _in_elements(reader, first, bits, at)
    rest = address % first.period * 8
    if rest % bits:
        reader.fail(f"an address that is a multiple of {bits} bits", at)
    del parts[:2]
    return start, Swizzles(swizzle), rest // bits


def _address(reader: _Reader, pointer: str, position: int) -> tuple[int, int]:
    """(bits of an element, address) of a pointer; 0 for an address that is not a number."""
    match = re.fullmatch(r"_?[a-z_]*\[([0-9]+)b\]\((?:0x([0-9a-fA-F]{1,16})|[^()]*)\)", pointer)
    if match is None:
        reader.fail(
            "a pointer with the bits of its elements, such as smem_ptr[16b](unset), under a swizzle", position
        )
    return int(match[1]), int(match[2] or "0", 16)


def _levels(reader: _Reader, parts: list[_Part]) -> tuple[Layout, list[_Level]]:
    """The innermost layout, and (position, outer, offset) of what stands before it, from the right."""
    start, inner = parts.pop()
    if not isinstance(inner, Layout):
        reader.fail("a layout, shape:stride, as the innermost part", start)
    levels: list[_Level] = []
    while parts:
        start, offset = parts.pop()
        if len(levels) >= MAX_DEPTH:
            reader.fail(f"at most {MAX_DEPTH} composed layouts inside each other", start)
        if isinstance(offset, (Swizzle, Layout, tuple)):
            reader.fail("an offset, as in 'Sw<3,4,3> o 0 o (8,64):(64,1)'", start)
        chain: list[Swizzle] = []
        outer: Layout | None = None
        while parts and outer is None and isinstance(parts[-1][1], (Swizzle, Layout)):
            at, part = parts[-1]
            if isinstance(part, Swizzle):
                chain.insert(0, part)
            elif isinstance(part, Layout) and not chain:
                outer = part
            else:
                reader.fail("an offset after a layout", at)
            parts.pop()
        if outer is None and not chain:
            reader.fail("a swizzle or a layout before the offset", start)
        if isinstance(offset, str):
            bits, _ = _address(reader, offset, start)
            if outer is not None:
                reader.fail("an integer offset under an outer layout", start)
            chain = [_in_elements(reader, s, bits, start) for s in chain]
            offset = 0
        levels.append((start, outer or Swizzles(*chain), offset))
    return inner, levels


def _in_elements(reader: _Reader, swizzle: Swizzle, bits: int, position: int) -> Swizzle:
    """A swizzle of byte addresses as one of addresses in elements of `bits` bits."""
    if bits == 0 or bits & (bits - 1):
        reader.fail("a power of two of bits in smem_ptr", position)
    base = swizzle.base + 3 - (bits.bit_length() - 1)
    if base < 0:
        if swizzle.bits:
            reader.fail(f"elements of at most {8 << swizzle.base} bits under {swizzle}", position)
        base = 0
    return Swizzle(swizzle.bits, base, swizzle.shift)
