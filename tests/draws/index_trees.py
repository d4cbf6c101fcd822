"""Random index expressions with what they mean: in Python, in C with signed and with unsigned variables.

The definition is spelled out here value by value, in Python integers with C's types beside them; what the
library computes over arrays is compared with it, and it with the host's compiler.
"""

from __future__ import annotations

import ctypes
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from layoutalg.errors import LayoutAlgError
from layoutalg.reading import parse_index
from layoutalg.testing import compile_shared

INT, UINT, LONG, ULONG = (32, False), (32, True), (64, False), (64, True)
Type = tuple[int, bool]
STRENGTH = {"*": 6, "/": 6, "%": 6, "+": 5, "-": 5, "<<": 4, ">>": 4, "&": 3, "^": 2, "|": 1}
EXACT: dict[str, Callable[[int, int], int]] = {
    "*": operator.mul, "/": operator.floordiv, "%": operator.mod, "+": operator.add, "-": operator.sub,
    "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_, "^": operator.xor, "|": operator.or_,
}  # fmt: skip
UNARY: dict[str, Callable[[int], int]] = {"+": operator.pos, "-": operator.neg, "~": operator.invert}


@dataclass(frozen=True)
class Value:
    """One lane: the value in Python, and in C for both kinds of variables; None where there is none."""

    exact: int | None
    signed: int | None
    unsigned: int | None


@dataclass(frozen=True)
class Tree:
    """A text, the strength of its outermost operator, its C types and its values at every lane."""

    text: str
    strength: int
    types: tuple[Type, Type]
    values: tuple[Value, ...]


def wrap(value: int, kind: Type) -> int:
    """`value` modulo the type's range."""
    bits, unsigned = kind
    low = value & ((1 << bits) - 1)
    return low if unsigned or not low >> (bits - 1) else low - (1 << bits)


def number(text: str, lanes: int) -> Tree:
    """A literal, typed as C does."""
    digits = text.rstrip("uUlL")
    suffix = text[len(digits) :].lower()
    value = int(digits, 0)
    kinds = [INT, UINT, LONG, ULONG]
    if "u" in suffix:
        kinds = [UINT, ULONG]
    elif digits.isdigit():
        kinds = [INT, LONG]
    if "l" in suffix:
        kinds = [k for k in kinds if k[0] == 64]
    kind = next(k for k in kinds if wrap(value, k) == value)
    return Tree(text, 9, (kind, kind), (Value(value, value, value),) * lanes)


def variable(name: str, values: range) -> Tree:
    """A variable with a value for every lane."""
    return Tree(name, 9, (INT, UINT), tuple(Value(v, v, v) for v in values))


def unary(symbol: str, a: Tree) -> Tree:
    """An operator in front; blanks keep two signs apart."""
    inner = a.text if a.strength >= 7 else f"({a.text})"
    gap = " " if inner[0] in "+-" else ""

    def one(v: Value) -> Value:
        def c(x: int | None, kind: Type) -> int | None:
            if x is None:
                return None
            result = UNARY[symbol](x)
            return wrap(result, kind) if kind[1] or wrap(result, kind) == result else None

        exact = None if v.exact is None else UNARY[symbol](v.exact)
        return Value(exact, c(v.signed, a.types[0]), c(v.unsigned, a.types[1]))

    return Tree(f"{symbol}{gap}{inner}", 7, a.types, tuple(map(one, a.values)))


def _common(symbol: str, a: Type, b: Type) -> Type:
    if symbol in ("<<", ">>"):
        return a
    bits = max(a[0], b[0])
    return bits, any(unsigned for width, unsigned in (a, b) if width == bits)


def _c(symbol: str, x: int | None, y: int | None, a: Type, b: Type) -> int | None:
    """What C computes, None where that is undefined."""
    if x is None or y is None:
        return None
    kind = _common(symbol, a, b)
    if symbol in ("<<", ">>"):
        if not 0 <= y < kind[0]:
            return None
        result = EXACT[symbol](x, y)
    else:
        x, y = wrap(x, kind), wrap(y, kind)
        if symbol in ("/", "%"):
            if y == 0:
                return None
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            result = quotient if symbol == "/" else x - y * quotient
        else:
            result = EXACT[symbol](x, y)
    return wrap(result, kind) if kind[1] or wrap(result, kind) == result else None


def _python(symbol: str, x: int | None, y: int | None) -> int | None:
    if x is None or y is None or (symbol in ("/", "%") and y == 0):
        return None
    return None if symbol in ("<<", ">>") and not 0 <= y < 256 else EXACT[symbol](x, y)


def binary(symbol: str, a: Tree, b: Tree, *, spaced: bool = True) -> Tree:
    """An operator between two trees, with no more parentheses than it needs."""
    strength = STRENGTH[symbol]
    left = a.text if a.strength >= strength else f"({a.text})"
    right = b.text if b.strength > strength else f"({b.text})"
    kinds = (_common(symbol, a.types[0], b.types[0]), _common(symbol, a.types[1], b.types[1]))

    def one(v: Value, w: Value) -> Value:
        return Value(
            _python(symbol, v.exact, w.exact),
            _c(symbol, v.signed, w.signed, a.types[0], b.types[0]),
            _c(symbol, v.unsigned, w.unsigned, a.types[1], b.types[1]),
        )

    gap = " " if spaced or (symbol in "+-" and right[0] in "+-") else ""
    values = tuple(one(v, w) for v, w in zip(a.values, b.values, strict=True))
    return Tree(f"{left}{gap}{symbol}{gap}{right}", strength, kinds, values)


def expected(tree: Tree) -> list[int | None]:
    """The value at every lane on which all agree, C's unsigned numbers modulo their range; else None."""
    bits, unsigned = tree.types[1]

    def agreed(v: Value) -> bool:
        if v.exact is None or v.unsigned is None:
            return False
        apart = v.unsigned - v.exact
        return v.signed == v.exact and (apart % (1 << bits) if unsigned else apart) == 0

    return [v.exact if agreed(v) else None for v in tree.values]


def draw(rng: random.Random, leaves: int, lanes: int = 32) -> Tree:
    """A random tree of about `leaves` leaves."""
    if leaves <= 1:
        kind = rng.randrange(8)
        if kind < 4:
            return variable("lane", range(lanes))
        value = rng.choice([rng.randrange(8), rng.randrange(300), 1 << rng.randrange(34), (1 << 32) - 1])
        text = rng.choice([str(value), hex(value), bin(value)]) + rng.choice(
            ["", "", "", "u", "l", "ull", "LL"]
        )
        return number(text, lanes)
    if rng.random() < 0.15:
        return unary(rng.choice("+-~"), draw(rng, leaves - 1, lanes))
    cut = rng.randrange(1, leaves)
    left, right = draw(rng, cut, lanes), draw(rng, leaves - cut, lanes)
    if rng.random() < 0.5:  # more of what is agreed upon
        right = number(str(rng.choice([1, 2, 3, 4, 7, 8, 16, 31, 144])), lanes)
    return binary(rng.choice(sorted(STRENGTH)), left, right, spaced=rng.random() < 0.5)


def against_the_compiler(seed: int, cases: int, lanes: int = 32) -> tuple[list[str], int]:
    """Texts whose reading is not what C++ computes, and how many were accepted.

    An accepted text is put into constant expressions, with `lane` an int and with `lane` an unsigned int at
    every lane: what is undefined there does not compile.  Unsigned variables hold negative results modulo
    their range.
    """
    rng = random.Random(seed)
    kept: list[tuple[str, list[int]]] = []
    for _ in range(cases):
        tree = draw(rng, rng.randrange(1, 9), lanes)
        try:
            kept.append((tree.text, parse_index(tree.text)(lane=np.arange(lanes)).tolist()))
        except LayoutAlgError:
            continue
    lines = ["template <class T, T lane> struct At {"]
    for n, (text, _) in enumerate(kept):
        lines += [f"  static constexpr auto v{n} = {text};"]
    lines += ["};"]
    for n in range(len(kept)):
        for kind in ("int", "unsigned"):
            values = ", ".join(f"(long long)At<{kind}, {lane}>::v{n}" for lane in range(lanes))
            name = f"const long long {kind}{n}[]"
            lines += [f'extern "C" {{ extern {name}; {name} = {{{values}}}; }}']
        lines += [f'extern "C" int bits{n}() {{ return 8 * sizeof(At<unsigned, 1>::v{n}); }}']
    library = compile_shared("\n".join(lines), flags=("-std=c++20",))
    wrong = []
    for n, (text, got) in enumerate(kept):
        bits = getattr(library, f"bits{n}")()
        signed, unsigned = (
            (ctypes.c_longlong * lanes).in_dll(library, f"{kind}{n}") for kind in ("int", "unsigned")
        )
        same = [(x - y) % (1 << bits) == 0 for x, y in zip(got, unsigned, strict=True)]
        if list(signed) != got or not all(same):
            wrong.append(text)
    return wrong, len(kept)
