"""Random layouts for index functions, and random functions in C, to test printing and reading with."""

from __future__ import annotations

import random

from layoutalg import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles, parse, size
from tests.draws import random_layouts

LIMIT = 1 << 14
"""Most coordinates of a layout that is drawn."""


def read(text: str) -> AnyLayout:
    """The layout of a text."""
    found = parse(text)
    assert isinstance(found, (Layout, ComposedLayout))
    return found


def tile(rng: random.Random) -> AnyLayout:
    """A layout as kernels have them: plain, nested, padded, broadcast, reversed, or under swizzles."""
    binary = rng.random() < 0.5
    sizes = (
        [1 << rng.randint(0, 5) for _ in range(rng.randint(1, 4))] if binary else random_layouts.extents(rng)
    )
    strides = random_layouts.in_order(rng, sizes, rng.choice(((0,), (0,), (0, 1, 4, 8))))
    kind = rng.random()
    if kind < 0.1:
        strides = [d * (rng.random() < 0.6) for d in strides]
    elif kind < 0.2:
        strides = [d * rng.choice((1, -1)) for d in strides]
    shape = random_layouts.nested(rng, sizes)
    plain = Layout(shape, random_layouts.alike(shape, [*strides]))
    if rng.random() < 0.5 or any(d < 0 for d in strides):
        return plain
    first = _swizzle(rng)
    if binary and rng.random() < 0.4:
        return ComposedLayout(Swizzles(first, _swizzle(rng)), 0, plain)
    return ComposedLayout(first, rng.choice((0, 0, 0, 8, 64)), plain)


def _swizzle(rng: random.Random) -> Swizzle:
    """A swizzle as CuTe has them: its fields do not overlap."""
    bits = rng.randint(1, 3)
    return Swizzle(bits, rng.randint(0, 5), rng.choice((1, 1, 1, -1)) * rng.randint(bits, 5))


def tiles(seed: int, count: int) -> list[AnyLayout]:
    """So many layouts of at most LIMIT coordinates."""
    rng = random.Random(seed)
    out: list[AnyLayout] = []
    while len(out) < count:
        drawn = tile(rng)
        if size(drawn) <= LIMIT:
            out.append(drawn)
    return out


TYPES = (
    *("int", "unsigned", "long long", "unsigned long long", "short", "unsigned char"),
    *("bool", "signed char", "uint16_t"),
)


_SYMBOLS = ("+", "-", "*", "/", "%", "&", "^", "|", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||")


def _operand(rng: random.Random, names: list[str]) -> str:
    numbers = (
        str(rng.randint(0, 70)),
        f"{rng.randint(0, 9)}u",
        hex(rng.randint(0, 300)),
        "5ll",
        "2147483648",
    )
    return rng.choice((*names, *numbers))


def expression(rng: random.Random, depth: int, names: list[str]) -> str:
    """An expression of C, with every operator that is read."""
    draw = rng.random()
    if depth == 0 or draw < 0.15:
        return _operand(rng, names)
    if draw < 0.7:
        symbol = rng.choice(_SYMBOLS)
        a, b = expression(rng, depth - 1, names), expression(rng, depth - 1, names)
        b = f"({b} & 7)" if symbol in ("<<", ">>") else b
        return f"{a} {symbol} {b}" if rng.random() < 0.3 else f"({a} {symbol} {b})"
    inner = expression(rng, depth - 1, names)
    if draw < 0.8:
        return f"{rng.choice('-~!+')}({inner})"
    if draw < 0.88:
        return f"({inner} ? {expression(rng, depth - 1, names)} : {expression(rng, depth - 1, names)})"
    return f"({rng.choice(TYPES)})({inner})" if draw < 0.95 else f"static_cast<{rng.choice(TYPES)}>({inner})"


def _statements(rng: random.Random, depth: int, names: list[str]) -> str:
    out = ""
    for _ in range(rng.randint(0, 3)):
        draw = rng.random()
        if draw < 0.4:
            name = f"v{len(names)}"
            out += f"{rng.choice((*TYPES, 'auto'))} {name} = {expression(rng, 2, names)}; "
            names.append(name)
        elif draw < 0.6:
            symbol = rng.choice(("=", "+=", "^=", "*=", "-=", "&=", "|="))
            out += f"{rng.choice(names)} {symbol} {expression(rng, 2, names)}; "
        elif depth and draw < 0.75:
            sides = [_statements(rng, depth - 1, [*names]) for _ in range(2)]
            out += f"if ({expression(rng, 2, names)}) {{ {sides[0]} }} else {{ {sides[1]} }} "
        elif depth and draw < 0.85:
            count, inner = rng.randint(0, 3), _statements(rng, depth - 1, [*names])
            out += f"for (int k = 0; k < {count}; ++k) {{ {inner} }} "
        elif depth and draw < 0.9:
            out += f"if ({expression(rng, 2, names)}) return {expression(rng, 2, names)}; "
    return out


def function(rng: random.Random, name: str) -> str:
    """A function of two parameters i and j in C."""
    names = ["i", "j"]
    body = _statements(rng, 2, names) + f"return {expression(rng, 3, names)};"
    return f"{rng.choice(TYPES[:6])} {name}({rng.choice(TYPES)} i, {rng.choice(TYPES)} j) {{ {body} }}"
