"""A judge of derivations: reads every statement that a derivation makes, and computes whether it is true.

A statement is a chain of terms with relations between them, `A(B(5)) = A(7) = 8 != 7`, and may hold for
many values, `A(B(c)) = R(c) for every c < 12`.  Terms are CuTe notation (layouts, swizzles, `o`), integers
with Python's operators, calls of layoutalg's functions, and names.  The first statement about a name,
`A = (6,4):(4,1)`, defines it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from layoutalg.explanation.steps import Derivation
from layoutalg.layout import ComposedLayout, Layout, Swizzle, Swizzles, as_chain
from tests.judges.definitions import DEFINITIONS, judge, small
from tests.judges.exports import PUBLIC

MAX_CASES = 300
"""Values that a universal statement is tried on; past that, a sample with both ends."""

_TOKEN = re.compile(
    r"\s*(?:(?P<int>0b[01]+|[0-9]+)"
    r"|(?P<swizzle>Sw<-?[0-9]+,-?[0-9]+,-?[0-9]+>)"
    r"|(?P<name>[A-Za-z][A-Za-z0-9_]*_?|_)"
    r"|(?P<mark><<|>>|<=|>=|!=|//|[()\[\],:%*+\-&|^=<>])"
    r"|(?P<end>\Z))"
)
_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(type(a) is type(b) and a == b),
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_BINARY: tuple[dict[str, Callable[[Any, Any], Any]], ...] = (
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"<<": operator.lshift, ">>": operator.rshift},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "//": operator.floordiv, "%": operator.mod},
)


def _judged(name: str) -> Callable[..., Any]:
    """An operation of the library, whose every result must be right by definition."""

    def call(*operands: Any) -> Any:
        if name in DEFINITIONS and all(map(small, operands)):
            return DEFINITIONS[name](*operands)
        result = getattr(PUBLIC, name)(*operands)
        assert judge(name, result, *operands), f"{name}{operands} is not {result}"
        return result

    return call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: _judged(name)
    for name in ("ceil_div", "coalesce", "complement", "composition", "concat", "normal_form", "size")
}


class Judge:
    """What has been defined so far."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}

    def accept(self, statement: str) -> None:
        """Compute a statement; AssertionError when it is false."""
        body, marker, bound = statement.partition(" for every ")
        if not marker:
            self._chain(body, {})
            return
        variable, _, limit = bound.partition(" < ")
        count = _Reader(limit, self.names).whole()
        assert type(count) is int and count >= 0, statement
        cases = range(count)
        if count > MAX_CASES:
            cases = sorted({*range(100), *range(count - 100, count), *range(0, count, count // 100)})  # type: ignore[assignment]
        for value in cases:
            self._chain(body, {variable: value})

    def _chain(self, text: str, local: dict[str, Any]) -> None:
        reader = _Reader(text, {**self.names, **local})
        new = reader.token if reader.kind == "name" and reader.is_unknown() else None
        if new is not None:
            reader.advance()
            assert reader.token == "=", f"{text}: {new} is not defined"
            relation = "="
            reader.advance()
            left = self.names[new] = reader.composed()
        else:
            left = reader.composed()
        compared = new is not None
        while reader.token in _RELATIONS:
            relation = reader.token
            reader.advance()
            right = reader.composed()
            assert _RELATIONS[relation](_plain(left), _plain(right)), (
                f"{text} {local or ''}: {left} {relation} {right} is false"
            )
            left, compared = right, True
        assert reader.kind == "end", f"{text}: cannot read on at {reader.token!r}"
        assert compared, f"{text} states nothing"


def statements(derivation: Derivation) -> list[str]:
    """Every statement of a derivation, after computing that each one is true."""
    page = Judge()
    said = [statement for step in derivation.steps for statement in step.statements]
    for statement in said:
        page.accept(statement)
    return said


def _plain(value: Any) -> Any:
    """A chain of one swizzle is that swizzle, and a tuple of another type a tuple."""
    value = as_chain(value)
    if isinstance(value, Swizzles):
        return value.simplest()
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


class _Reader:
    """A cursor over one statement; every method returns the value of what it reads."""

    def __init__(self, text: str, names: dict[str, Any]) -> None:
        self.text, self.names, self.stop, self.operations = text, names, 0, 0
        self.kind = self.token = ""
        self.advance()

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.stop)
        assert match, f"{self.text}: cannot read {self.text[self.stop :]!r}"
        self.kind = match.lastgroup or "end"
        self.token, self.stop = match[self.kind], match.end()

    def is_unknown(self) -> bool:
        return self.token not in {*self.names, *FUNCTIONS, "True", "False", "None", "_", "o"}

    def take(self, mark: str) -> None:
        assert self.token == mark, f"{self.text}: {mark!r} was expected, not {self.token!r}"
        self.advance()

    def whole(self) -> Any:
        value = self.composed()
        assert self.kind == "end", f"{self.text}: cannot read on at {self.token!r}"
        return value

    def composed(self) -> Any:
        """Terms joined by `o`."""
        parts = [self.binary(0)]
        while self.kind == "name" and self.token == "o":
            self.advance()
            parts.append(self.binary(0))
        if len(parts) == 1:
            return parts[0]
        if all(isinstance(p, (Swizzle, Swizzles)) for p in parts):
            return Swizzles(*parts)
        result = parts.pop()
        while parts:
            part = parts.pop()
            if type(part) is not int:
                result = FUNCTIONS["composition"](part, result)
                continue
            outer = parts.pop()
            if isinstance(outer, Swizzle):
                chain = [outer]
                while parts and isinstance(parts[-1], Swizzle):
                    chain.insert(0, parts.pop())
                outer = tuple(chain)
            result = ComposedLayout(outer, part, result)
        return result

    def binary(self, level: int) -> Any:
        if level == len(_BINARY):
            return self.unary()
        value = self.binary(level + 1)
        while self.kind == "mark" and self.token in _BINARY[level]:
            apply = _BINARY[level][self.token]
            self.operations += 1
            self.advance()
            value = apply(value, self.binary(level + 1))
        return value

    def unary(self) -> Any:
        if self.token == "-":
            self.advance()
            return -self.unary()
        return self.postfix()

    def postfix(self) -> Any:
        value = self.primary()
        while self.token in ("(", "[", ":"):
            mark = self.token
            if mark == ":":
                assert isinstance(value, (int, tuple)), f"{self.text}: a shape was expected before ':'"
                self.advance()
                sign = -1 if self.token == "-" else 1
                if sign < 0:
                    self.advance()
                stride = self.primary()
                value = Layout(value, stride if sign > 0 else -stride)
                continue
            self.advance()
            arguments = self.items(")" if mark == "(" else "]")
            if mark == "[":
                value = value[arguments[0]]
            elif isinstance(value, Swizzles):
                value = value(*arguments)
            else:
                assert callable(value), f"{self.text}: {value!r} is no function"
                value = value(*arguments)
        return value

    def items(self, close: str) -> list[Any]:
        found: list[Any] = []
        while self.token != close:
            found.append(self.composed())
            if self.token != close:
                self.take(",")
        self.advance()
        return found

    def primary(self) -> Any:
        kind, token = self.kind, self.token
        if kind == "int":
            self.advance()
            return int(token, 0)
        if kind == "swizzle":
            self.advance()
            return Swizzle(*map(int, token[3:-1].split(",")))
        if kind == "name":
            self.advance()
            constants = {"True": True, "False": False, "None": None, "_": None}
            if token in constants:
                return constants[token]
            assert token in self.names or token in FUNCTIONS, f"{self.text}: {token} is not defined"
            return self.names[token] if token in self.names else FUNCTIONS[token]
        self.take("(")
        before = self.operations
        inside = self.items(")")
        if len(inside) == 1 and self.operations > before:
            return inside[0]  # parentheses around an operation, not a tuple of one
        return tuple(inside)
