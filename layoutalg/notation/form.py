"""A notation of layouts as a record, what its texts leave out, and the tree of a text of names and brackets.

The idea.  A Form says how a text begins, how it is read and how it is written; Options are what a text alone
does not say.  Nothing of a text is executed.  `cute::Layout<cute::tuple<cute::C<128>,...>,...>`,
`make_layout(make_shape(Int<128>{}, 64))`, `cute.make_layout((8, 64), stride=(64, 1))` and
`#ttg.blocked<{order = [1, 0]}>` have one grammar:

    term       integer | name groups | "text" | group | integer:+integer
    group      ( arguments )   [ arguments ]   { arguments }   < arguments >     the last after a name, and
                                                                                 in source alone: a tiler
    arguments  (key =)? term, ...

In source, operators stand between terms, and each becomes the head of a term:

    term       term (o | : | + | - | * | / | % | @) term   - term      shape:stride, swizzle o offset o layout
               term ( arguments )   term [ arguments ]   term . name   a value that is called, or its member

The reader of a form says what a name, or an operator, means.

>>> term = read_term("Layout<Shape<_128,_64>>{}", "C++")
>>> term.head, term.groups[0].mark, term.groups[0].terms[0].head
('Layout', '<', 'Shape')
>>> read_term("Sw<3,3,3> o (8,n):(n,1)", "C++", operators=True).groups[0].terms[1].head
':'

Notes.  The reader is a loop with an explicit stack.  Integers have at most MAX_DIGITS digits, brackets nest
at most Most.NESTING deep, a text has at most Most.TEXT characters and Most.TOKENS integers and names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, ParseError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles
from layoutalg.limits import Most
from layoutalg.notation.symbols import MAX_DIGITS

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

    @property
    def present(self) -> tuple[OptionName, ...]:
        """The names of the options that a caller gave."""
        known: tuple[OptionName, ...] = ("shape", "element", "unit")
        return tuple(compress(known, (self.shape, self.element, self.unit != "elements")))

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


@dataclass(frozen=True, slots=True)
class Form:
    """A notation: its name, the beginning of its texts, its reader and its writer.

    `recognises` matches the beginning of a text; None where another form's reader reads it.  `reads` and
    `writes` name the options that the reader and the writer look at.
    """

    name: str
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


# --- names and brackets ----------------------------------------------------------------------------------

_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}

_TOKEN = re.compile(
    r"(?:[ \t\r\n]|//[^\n]*|\b(?:const|volatile|typename|struct|class)\b(?![.:(<])|[*&]+(?=[ \t\r\n]*[,>)]))*"
    r"(?:(?P<pair>[0-9]+[ \t]*:[ \t]*\+[ \t]*[0-9]+)(?![\w.])"
    r"|(?P<int>_?-?(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*)(?![\w.])"
    r"|(?P<pointer>(?:smem_)?ptr\[[0-9]{1,4}b\]\(unset\))"
    r"|(?P<name>(?:::)?[#!]?[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*)"
    r"|(?P<text>\"[^\"\\\n]*\"|'[^'\\\n]*')"
    r"|(?P<mark>[()\[\]{}<>,:=;?])"
    r"|(?P<member>(?:\.|->)[A-Za-z_]\w*)"
    r"|(?P<op>[-+*/%@])"
    r"|(?P<end>\Z))"
)
_IN_SOURCE = frozenset({"pointer", "member", "op"})
"""Kinds of tokens that stand in source alone."""

LEVELS = {"o": 1, ":": 2, "+": 3, "*": 4, "/": 4, "%": 4, "@": 5}
"""Operators between terms, and how strongly each binds."""

_CAST = re.compile(r"\((?:(?:unsigned|signed|long|short|int|std::size_t|size_t|u?int\d+_t)\s*)+\)\s*(?=-?\d)")
"""A cast in front of a template's number, as demanglers write it: C<(int)8>."""


@dataclass(frozen=True, slots=True)
class Group:
    """The content of a pair of brackets: `keys` has None for an argument without a key.

    `trailing` is True where a comma follows the last argument.
    """

    mark: str
    terms: tuple[Term, ...]
    keys: tuple[str | None, ...]
    trailing: bool


@dataclass(frozen=True, slots=True)
class Term:
    """An integer, a name with groups behind it, a quoted text, or a group alone (`head` is None)."""

    head: int | str | None
    start: int
    groups: tuple[Group, ...] = ()
    quoted: bool = False


@dataclass(slots=True)
class _Open:
    """A group that is being read, and the term to which it belongs."""

    mark: str
    term: Term
    terms: list[Term] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    key: str | None = None
    trailing: bool = False
    left: list[tuple[Term, str]] = field(default_factory=list)
    """Operands and operators that wait for what is on their right."""

    @property
    def waits(self) -> bool:
        """Whether a key or an operator waits for a term."""
        return self.key is not None or bool(self.left)


_BLANKS = re.compile(r"[ \t\r\n]*")


def first(text: str, start: int = 0) -> int:
    """The position of the first character from `start` on that is not blank.

    >>> first("  8:1")
    2
    """
    return _BLANKS.match(text, start).end()  # type: ignore[union-attr]  # it matches everywhere


def where(text: str, position: int) -> str:
    """A position as line and column, both from 1.

    >>> where("a\\nbc", 3)
    'line 2, column 2'
    """
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def refuse(text: str, family: str, why: object, position: int) -> NoReturn:
    """Raise the ParseError of a text of a known family."""
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    raise ParseError(
        f"cannot read {shown!r} as {family}: {why} at {where(text, position)}", text=text, position=position
    ) from None


def check_length(text: str) -> None:
    """Refuse a text past Most.TEXT by a ResourceError."""
    Most.TEXT.guard(len(text), "length of a text in characters")


def read_term(text: str, family: str, start: int = 0, *, operators: bool = False) -> Term:
    """The one term of a text from `start` on; `family` names the text in errors.

    Raises ParseError with line and column, ResourceError for a text past Most.TEXT.
    """
    group = read_arguments(text, family, start, operators=operators)
    if len(group.terms) != 1 or group.keys[0] is not None or group.trailing:
        refuse(text, family, f"expected one term, found {len(group.terms)}", start)
    return group.terms[0]


def read_arguments(text: str, family: str, start: int = 0, *, operators: bool = False) -> Group:
    """The terms of a text, divided by commas, some of them with keys.  Raises as `read_term` does.

    With `operators`, they stand between terms, and `:` is one.

    >>> read_arguments("shape=(8, 64), itemsize=2", "NumPy").keys
    ('shape', 'itemsize')
    """
    check_length(text)
    plain = _CAST.sub(lambda cast: " " * len(cast[0]), text)
    stack = [_Open("", Term(None, start))]
    count = 0
    at, last = start, None  # `last` is the term after which groups, a comma or a bracket may stand

    def fail(expected: str) -> NoReturn:
        shown = repr(text[begin : begin + 12]) if begin < len(text) else "the end"
        refuse(text, family, f"expected {expected}, found {shown}", begin)

    while True:
        match = _TOKEN.match(plain, at)
        if match is None or match.lastgroup is None or (match.lastgroup in _IN_SOURCE and not operators):
            begin = at + len(plain[at:]) - len(plain[at:].lstrip())
            fail("',' or a closing bracket" if last else "a name, an integer or a bracket")
        kind, begin, at = match.lastgroup, match.start(match.lastgroup), match.end()
        token = match[kind]
        top = stack[-1]
        if token == ";" and len(stack) == 1 and last:
            continue
        if operators and last is not None and (token in LEVELS or (kind == "int" and token[0] == "-")):
            minus = token not in LEVELS  # 4-2 is 4 and -2
            operator = "+" if minus else token
            top.left.append((_folded(top, last, LEVELS[operator]), operator))
            last = _leaf(text, family, kind, token, begin) if minus else None
        elif operators and token == "-":
            sign = Term(-1, begin)
            top.left.append((sign, "*") if last is None else (_folded(top, last, LEVELS["+"]), "+"))
            if last is not None:
                top.left.append((sign, "*"))
            last = None
        elif kind == "pointer" and last is None:
            bits = Term(int(token[token.index("[") + 1 : token.index("b")]), begin)
            last = Term("smem_ptr_flag_bits", begin, (Group("<", (bits,), (None,), False),))
        elif operators and last is not None and (kind == "member" or token[:2] == "::"):
            last = Term(f".{token.lstrip('.:->')}", begin, (_of(last),))
        elif last is None and kind in ("int", "name", "text", "pair"):
            last, count = _leaf(text, family, kind, token, begin), count + 1
            Most.TOKENS.guard(count, "integers and names of a text")
        elif last is None and token == "?":
            last = Term("?", begin)
        elif token == "{" and top.mark == "<" and last is not None and last.head is None:
            _add(top, last)  # MLIR writes <[64:+4] {order = [1, 0]}> without a comma
            _open(stack, token, Term(None, begin), fail)
            last = None
        elif operators and last is not None and _is_called(last, token):
            _open(stack, token, Term(f"{token}{_CLOSING[token]}", last.start, (_of(last),)), fail)
            last = None
        elif token in ("(", "[", "{", "<") and (_may_open(last, token) or (operators and last is None)):
            _open(stack, token, last or Term(None, begin), fail)
            last = None
        elif kind == "mark" and token in ("=", ":") and last is not None and not last.groups:
            if not isinstance(last.head, str) or top.key is not None:
                fail("',' or a closing bracket")
            top.key, last = last.head, None
        elif token == "," and last is not None:
            _add(top, last)
            top.trailing, last = True, None
        elif len(stack) > 1 and token == _CLOSING[top.mark] and (last is not None or not top.waits):
            if last is not None:
                _add(top, last)
            elif top.terms and top.mark == "<":
                fail("a name, an integer or a bracket")
            stack.pop()
            group = Group(top.mark, tuple(top.terms), tuple(top.keys), top.trailing)
            last = replace(top.term, groups=(*top.term.groups, group))
        elif kind == "end" and len(stack) == 1 and last is not None:
            _add(top, last)
            return Group("", tuple(top.terms), tuple(top.keys), top.trailing)
        else:
            closing = f"',' or {_CLOSING[top.mark]!r}" if top.mark else "',' or the end"
            fail(closing if last else "a name, an integer or a bracket")


def _leaf(text: str, family: str, kind: str, token: str, begin: int) -> Term:
    if kind == "name":
        return Term(token.removeprefix("::"), begin)
    if kind == "text":
        return Term(token[1:-1], begin, quoted=True)
    if kind == "pair":  # 64:+4, a pair of integers
        parts = (_leaf(text, family, "int", part.strip(" \t+"), begin) for part in token.split(":"))
        return Term(None, begin, (Group("(", tuple(parts), (None, None), False),))
    digits = token.lstrip("_").rstrip("uUlL")
    if len(digits) > MAX_DIGITS:
        refuse(text, family, f"an integer of more than {MAX_DIGITS} digits", begin)
    return Term(int(digits, 16 if digits.lstrip("-")[:2] in ("0x", "0X") else 10), begin)


def _may_open(last: Term | None, mark: str) -> bool:
    """Whether a group may stand here: alone, or behind a name; `{}` behind types and `_8` too."""
    if last is None:
        return mark != "<"
    if last.quoted or last.head is None:
        return False
    return mark == "{" if isinstance(last.head, int) else mark in "({<"


def _open(stack: list[_Open], mark: str, term: Term, fail: Callable[[str], NoReturn]) -> None:
    if len(stack) > Most.NESTING.number:
        fail(f"at most {Most.NESTING.number} nested brackets")
    stack.append(_Open(mark, term))


def _of(term: Term) -> Group:
    """A term as what is called, or has a member."""
    return Group("", (term,), (None,), False)


def _is_called(last: Term, mark: str) -> bool:
    """Whether brackets behind a term hold coordinates of its value: behind brackets that had arguments."""
    if mark == "[":
        return not isinstance(last.head, int)
    return mark == "(" and bool(last.groups) and last.groups[-1].mark in ("(", "[", "{")


def _folded(group: _Open, last: Term, level: int) -> Term:
    """The term that ends with `last`, with the operators before it that bind at least as strongly."""
    while group.left and LEVELS[group.left[-1][1]] >= level:
        before, operator = group.left.pop()
        chained = operator in "o+*" and before.head == operator
        parts = (*(before.groups[0].terms if chained else (before,)), last)
        last = Term(operator, before.start, (Group("", parts, (None,) * len(parts), False),))
    return last


def _add(group: _Open, term: Term) -> None:
    group.terms.append(_folded(group, term, 0))
    group.keys.append(group.key)
    group.key, group.trailing = None, False
