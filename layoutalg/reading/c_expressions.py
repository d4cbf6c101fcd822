"""Expressions of C as functions from the values of names to a term, with C's types.

Read are integers, names, the operators of C without assignments, casts, conditions, calls of functions in the
same text, and of min, max, __umul24, __mul24 and __ldg.

>>> from layoutalg.reading.c_tokens import tokens
>>> from layoutalg.reading.terms import INT, variable
>>> reader = Expressions(tokens("row * 64 + (col ^ row)"), 0, 9, {}, lambda *_: None)
>>> reader.scopes[0] |= {"row": "row", "col": "col"}
>>> reader.expression()({"row": variable("row", INT), "col": variable("col", INT)}).op
'+'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from layoutalg.limits import Most
from layoutalg.reading.c_tokens import Token, refuse
from layoutalg.reading.statements import Environment, Expression, chain
from layoutalg.reading.terms import (
    BOOL,
    INT,
    LONG,
    UNSIGNED,
    UNSIGNED_LONG,
    CType,
    Term,
    apply,
    converted,
    number,
)

_BINARY = (
    {"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", "<=", ">", ">="}, {"<<", ">>"}, {"+", "-"},
    {"*", "/", "%"},
)  # fmt: skip
"""Operators of two operands, the loosest first."""

_STRENGTH = {symbol: level for level, symbols in enumerate(_BINARY) for symbol in symbols}
_UNARY = {"-": "neg", "+": "pos", "~": "inv", "!": "!"}
_CASTS = ("static_cast", "reinterpret_cast", "const_cast")
_BUILT_IN = {"__umul24": ("u24", UNSIGNED), "__mul24": ("s24", INT)}

_WIDTHS = {
    "int8_t": CType(8, True), "uint8_t": CType(8, False), "int16_t": CType(16, True), "u8": CType(8, False),
    "uint16_t": CType(16, False), "u16": CType(16, False), "int32_t": INT, "uint32_t": UNSIGNED,
    "u32": UNSIGNED, "uint": UNSIGNED, "int64_t": LONG, "uint64_t": UNSIGNED_LONG, "u64": UNSIGNED_LONG,
    "size_t": UNSIGNED_LONG, "ptrdiff_t": LONG, "ssize_t": LONG, "bool": BOOL, "intptr_t": LONG,
    "uintptr_t": UNSIGNED_LONG, "int_fast32_t": LONG, "uint_fast32_t": UNSIGNED_LONG,
}  # fmt: skip
"""Types of one word; on Linux a long has 64 bits."""

_PLAIN = frozenset({"char", "short", "int", "long", "signed", "unsigned"})
IGNORED = frozenset(
    {"const", "constexpr", "static", "inline", "extern", "register", "volatile", "typename", "consteval",
     "__device__", "__host__", "__global__", "__forceinline__", "__noinline__", "__inline__", "__restrict__",
     "CUTE_HOST_DEVICE", "CUTE_DEVICE", "CUTLASS_HOST_DEVICE", "CUTLASS_DEVICE", "__constant__",
     "__always_inline", "mutable", "explicit", "virtual"}
)  # fmt: skip
"""Words of a declaration that change no value."""

_INTEGER = re.compile(
    r"(?P<digits>0[xX][0-9a-fA-F]+(?:'[0-9a-fA-F]+)*|0[bB][01]+(?:'[01]+)*|0(?:'?[0-7]+)*"
    r"|[1-9][0-9]*(?:'[0-9]+)*)(?P<suffix>(?:[uU](?:ll?|LL?)?|(?:ll?|LL?)[uU]?)?)"
)
"""An integer as C++ spells it: digits are parted by ', since _ begins a suffix that the text defines."""

Call = Callable[[Token, Sequence[Term]], "Term | None"]


class Expressions:
    """A cursor over tokens; scopes map names to the keys of an environment."""

    def __init__(
        self, stream: Sequence[Token], start: int, stop: int, types: Mapping[str, CType], call: Call
    ) -> None:
        self.tokens = stream
        self.at = start
        self.stop = stop
        self.types = types
        self.call = call
        self.scopes: list[dict[str, str]] = [{}]
        self.depth = 0

    # --- the cursor ------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The next token; past the end an empty one."""
        if self.at < self.stop:
            return self.tokens[self.at]
        last = self.tokens[self.stop - 1] if self.stop else Token("", "", 1, 1, 0)
        return Token("end", "", last.line, last.column + len(last.text), last.position + len(last.text))

    def peek(self, ahead: int = 1) -> str:
        """The text of a later token."""
        return self.tokens[self.at + ahead].text if self.at + ahead < self.stop else ""

    def take(self) -> Token:
        """The next token, which is passed."""
        token = self.token
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Pass the next token if it is this one."""
        if self.token.text == text and self.token.kind != "end":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """Pass this token, or refuse what is there."""
        if self.token.text != text:
            refuse(self.token, f"stands where {text!r} is expected")
        return self.take()

    # --- types -----------------------------------------------------------------------------------------

    def type_here(self) -> CType | bool | None:
        """The type that begins here, which is passed; None for auto; False where none begins."""
        start = self.at
        while self.token.text in IGNORED:
            self.at += 1
        if self.token.text == "std" and self.peek() == "::":
            self.at += 2
        words: list[str] = []
        while self.token.text in _PLAIN:
            words.append(self.take().text)
            while self.token.text in IGNORED:
                self.at += 1
        if words:
            return _plain_type(words)
        word = self.token.text
        if word == "auto" or word in _WIDTHS or word in self.types:
            self.at += 1
            while self.token.text in IGNORED:
                self.at += 1
            return None if word == "auto" else _WIDTHS.get(word) or self.types[word]
        self.at = start
        return False

    # --- expressions -----------------------------------------------------------------------------------

    def expression(self) -> Expression:
        """A condition, or what binds tighter."""
        self.depth += 1
        Most.NESTING.guard(self.depth, "nesting of an expression")
        left = self._binary(0)
        if self.token.text == "?":
            position = self.take().place
            then = self.expression()
            self.expect(":")
            other = self.expression()
            condition = left

            def chosen(env: Environment) -> Term:
                return apply("?", (condition(env), then(env), other(env)), position)

            left = chosen
        self.depth -= 1
        return left

    def _binary(self, level: int) -> Expression:
        first, rest = self._unary(), []
        while (strength := _STRENGTH.get(self.token.text, -1)) >= level and self.token.kind == "mark":
            token = self.take()
            rest.append((token.text, self._binary(strength + 1), token.place))
        return chain(first, rest)

    def _unary(self) -> Expression:
        token = self.token
        if token.text in _UNARY and token.kind == "mark":
            self.at += 1
            self.depth += 1
            Most.NESTING.guard(self.depth, "nesting of an expression")
            operand = self._unary()
            self.depth -= 1
            symbol = _UNARY[token.text]
            return lambda env: apply(symbol, (operand(env),), token.place)
        if token.text in ("++", "--", "*", "&", "&&"):
            refuse(token, "stands where a value is expected; a value that changes or a pointer is not read")
        if token.text == "(":
            start = self.at
            self.at += 1
            ctype = self.type_here()
            if ctype is not False and self.token.text == ")":
                self.at += 1
                self.depth += 1
                Most.NESTING.guard(self.depth, "nesting of an expression")
                operand = self._unary()
                self.depth -= 1
                return _cast(operand, ctype)
            self.at = start
        return self._postfix()

    def _postfix(self) -> Expression:
        token = self.take()
        if token.kind == "number":
            made = literal(token)
            return self._after(token, lambda env: made)
        if token.text == "(":
            inner = self.expression()
            self.expect(")")
            return self._after(token, inner)
        if token.kind != "name":
            refuse(token, "stands where a value is expected")
        if token.text in ("true", "false"):
            truth = number(int(token.text == "true"), BOOL)
            return lambda env: truth
        if token.text in _CASTS:
            self.expect("<")
            ctype = self.type_here()
            if ctype is False:
                refuse(self.token, "is a type that is not read")
            self.expect(">")
            self.expect("(")
            operand = self.expression()
            self.expect(")")
            return _cast(operand, ctype)
        self.at -= 1
        ctype = self.type_here()
        if ctype is not False:
            self.expect("(")
            operand = self.expression()
            self.expect(")")
            return _cast(operand, ctype)
        self.at += 1
        while self.token.text == "::" and self.at + 1 < self.stop:  # a qualified name is its last part
            self.at += 1
            token = self.take()
        if self.token.text == "(":
            return self._call(token)
        while self.token.text == "." and self._has_part(f"{token.text}.{self.peek()}"):
            self.at += 1
            token = token._replace(text=f"{token.text}.{self.take().text}")
        return self._after(token, self._name(token))

    def _after(self, token: Token, value: Expression) -> Expression:
        if self.token.text in ("[", "(", ".", "->", "++", "--", "<<<"):
            refuse(self.token, "is not read after a value; an index function computes with integers alone")
        return value

    def _has_part(self, name: str) -> bool:
        """Whether a dotted name is known, or begins one that is: threadIdx.x."""
        return any(known == name or known.startswith(f"{name}.") for scope in self.scopes for known in scope)

    def _name(self, token: Token) -> Expression:
        key = next((scope[token.text] for scope in reversed(self.scopes) if token.text in scope), None)
        if key is None:
            known = ", ".join(dict.fromkeys(n for scope in self.scopes for n in scope)) or "none"
            refuse(token, f"is a name without a value that is known; known are {known}")

        def value(env: Environment) -> Term:
            if key not in env:
                refuse(token, "may have no value here")
            return env[key]

        return value

    def _call(self, token: Token) -> Expression:
        self.expect("(")
        arguments: list[Expression] = []
        if not self.accept(")"):
            while True:
                arguments.append(self.expression())
                if self.accept(")"):
                    break
                self.expect(",")
        call = self.call

        def value(env: Environment) -> Term:
            values = [a(env) for a in arguments]
            if token.text in _BUILT_IN and len(values) == 2:
                op, ctype = _BUILT_IN[token.text]
                made = apply(op, (converted(values[0], ctype), converted(values[1], ctype)), token.place)
                return converted(made, ctype)
            if token.text in ("min", "max") and len(values) == 2:
                return apply(token.text, (values[0], values[1]), token.place)
            if token.text == "__ldg":
                refuse(token, "reads memory, whose values are not in the text")
            result = call(token, values)
            if result is None:
                refuse(token, "is a function that is not in the text")
            return result

        return value


def _cast(operand: Expression, ctype: CType | bool | None) -> Expression:
    wanted = ctype if isinstance(ctype, CType) else None
    return lambda env: converted(operand(env), wanted)


def _plain_type(words: list[str]) -> CType:
    signed = "unsigned" not in words
    if "char" in words:
        return CType(8, signed)
    if "short" in words:
        return CType(16, signed)
    return CType(64 if "long" in words else 32, signed)


def literal(token: Token) -> Term:
    """An integer as C spells it, with its type; raises ParseError for any other number.

    >>> print(literal(Token("number", "0xffffffffu", 1, 1, 0)).ctype)
    unsigned int
    """
    match = _INTEGER.fullmatch(token.text)
    if match is None or len(token.text) > 70:
        refuse(token, "is not an integer")
    digits, suffix = match["digits"].replace("'", "").lower(), match["suffix"].lower()
    base = 16 if digits[:2] == "0x" else 2 if digits[:2] == "0b" else 8 if digits[:1] == "0" else 10
    value = int(digits, base)
    choices = [INT, UNSIGNED, LONG, UNSIGNED_LONG]
    if "u" in suffix:
        choices = [UNSIGNED, UNSIGNED_LONG]
    elif base == 10:
        choices = [INT, LONG]
    if "l" in suffix:
        choices = [c for c in choices if c.bits == 64]
    ctype = next((c for c in choices if value <= c.greatest), None)
    if ctype is None or value >= 1 << 62:
        refuse(token, "is past the integers that are read, which end at 2^62")
    return number(value, ctype)
