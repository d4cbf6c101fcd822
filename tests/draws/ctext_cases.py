"""Random index expressions as C: drawn where the widths of C's types matter, compiled, and compared.

A case is an expression and points of its domain.  Its text is compiled in four places: as a value, as what is
added to a pointer, as the condition of a branch and as the end of a loop.  In C++ every part of an expression
must have an unsigned type.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from layoutalg.codegen import expr
from layoutalg.codegen.expr.ctext import ctype, to_c
from layoutalg.codegen.expr.nodes import Expr, Var
from layoutalg.codegen.expr.trees import variables
from layoutalg.errors import IRError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import compile_shared

MOST = (1 << 64) - 1
EXTENTS = (
    2, 5, 32, 1 << 12, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 32, (1 << 32) + 1, 1 << 40, 1 << 63, MOST,
)  # fmt: skip
NUMBERS = (
    0, 1, 2, 3, 7, 8, 16, 100, 65535, 1500000000, (1 << 31) - 1, 1 << 31, 3 << 30, (1 << 32) - 1, 1 << 32,
    (1 << 33) + 5, 1 << 62, (1 << 63) - 1, 1 << 63, MOST,
)  # fmt: skip
SHORT = (1, 2, 3, 5, 8, 100, 65535, 1500000000, (1 << 31) - 1)
"""Literals that C reads as ints."""

TYPES = (
    "typedef unsigned char u8;\n"
    "typedef unsigned short u16;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"
)
"""The integer types generated text uses."""


def index_function(node: Expr, name: str = "f", parameters: Sequence[Var] | None = None) -> str:
    """C source of a function from variables to the expression's value.

    `parameters` are the function's, in their order: those of a layout in the order of its modes, so that
    `layoutalg.testing.check_index_function` can call it.  Without them they are the expression's variables,
    in the order in which they first occur in it.  Raises IRError for a variable that is not among the
    parameters, and for two parameters of one name.
    """
    order = _in_order(node) if parameters is None else tuple(parameters)
    for v in variables(node) - set(order):
        raise IRError("scope", node, f"{v.name} is not among the parameters of {name}")
    if len({v.name for v in order}) < len(order):
        raise IRError("name", node, f"two parameters of {name} have one name")
    signature = ", ".join(f"{ctype(v)} {v.name}" for v in order) or "void"
    return f"{TYPES}{ctype(node)} {name}({signature}) {{ return {to_c(node)}; }}\n"


def _in_order(node: Expr) -> tuple[Var, ...]:
    """The variables of an expression, in the order in which they first occur."""
    seen: dict[Expr, None] = {}
    waiting = [node]
    while waiting:
        next_one = waiting.pop()
        if next_one not in seen:
            seen[next_one] = None
            waiting += reversed(next_one.children)
    return tuple(v for v in seen if isinstance(v, Var))


@dataclass(frozen=True)
class Case:
    """An expression, and the values of its variables at some points."""

    node: expr.Expr
    points: tuple[dict[expr.Var, int], ...]

    @property
    def names(self) -> list[expr.Var]:
        """The variables in a fixed order."""
        return sorted(expr.variables(self.node), key=lambda v: v.name)


def draw_case(rng: random.Random, points: int = 6) -> Case:
    """An expression whose every node fits into 64 bits, with points at the ends of its ranges and inside."""
    pool: list[expr.Expr] = [
        expr.Var(name, rng.choice(EXTENTS) + 1, "let", rng.choice((0, 1))) for name in "abcd"
    ]
    pool += map(expr.Const, rng.choices(NUMBERS, k=3))
    if rng.random() < 0.5:  # mostly what C holds as a signed int
        pool = [rng.choice(pool), *map(expr.Const, rng.choices(SHORT, k=6))]
    while True:
        node = _draw(rng, pool, rng.choice((1, 2, 3, 3, 4)))
        node = expr.simplify(node) if rng.random() < 0.25 else node
        if _fits(node):
            break
    names = sorted(expr.variables(node), key=lambda v: v.name)
    ends = [{v: v.facts.lo for v in names}, {v: v.facts.hi for v in names}]
    drawn = [{v: _value(rng, v) for v in names} for _ in range(points - 2)]
    return Case(node, tuple(ends + drawn))


def _value(rng: random.Random, v: expr.Var) -> int:
    low, high = v.facts.lo, v.facts.hi
    near = [x for n in NUMBERS for x in (n - 1, n, n + 1) if low <= x <= high]
    return rng.choice([*near, low, high, rng.randint(low, high), rng.randint(low, high)])


def _fits(node: expr.Expr) -> bool:
    return all(n.facts.hi <= MOST for n in nodes(node))


def _draw(rng: random.Random, pool: Sequence[expr.Expr], depth: int) -> expr.Expr:
    """A value, or a truth value standing for one."""
    if depth == 0:
        return rng.choice(pool)

    def part() -> expr.Expr:
        return _draw(rng, pool, depth - 1 if rng.random() < 0.8 else 0)

    kind = rng.randrange(16)
    try:
        match kind:
            case 0 | 1:
                return expr.Add(part(), part())
            case 2 | 3:
                return expr.Mul(part(), part())
            case 4 | 5:
                divisor = part() if rng.random() < 0.5 else expr.Const(rng.choice(SHORT))
                return (expr.FloorDiv if kind == 4 else expr.Mod)(part(), divisor)
            case 6:
                return part() ^ part()
            case 7:
                return part() & part()
            case 8:
                return part() | part()
            case 9:
                return part() << rng.choice((0, 1, 4, 16, 30, 31, 32, 33, 63, 64, 70))
            case 10:
                return part() >> rng.choice((0, 1, 4, 16, 31, 32, 33, 63, 64, 70))
            case 11 | 12:
                return expr.Select(_draw_predicate(rng, pool, depth - 1), part(), part())
            case 13 | 14:
                return expr.Minus(part(), part())
            case _:
                return _draw_predicate(rng, pool, depth - 1)
    except IRError:  # a divisor that can be 0
        return rng.choice(pool)


def _draw_predicate(rng: random.Random, pool: Sequence[expr.Expr], depth: int) -> expr.Expr:
    compared = rng.choice((expr.Lt, expr.Le, expr.Eq))(_draw(rng, pool, depth), _draw(rng, pool, depth))
    if rng.random() < 0.7:
        return compared
    other = rng.choice((expr.Lt, expr.Le, expr.Eq))(_draw(rng, pool, depth), _draw(rng, pool, depth))
    return compared & other if rng.random() < 0.5 else compared | other


def source(cases: Sequence[Case], language: Literal["c", "c++"]) -> str:
    """A function of every case, and `all`, which calls each at its points; results are 4 words a point."""
    functions, calls, at = [], [], 0
    for n, case in enumerate(cases):
        parameters = ", ".join(f"{expr.ctype(v)} {v.name}" for v in case.names)
        functions.append(_function(case.node, f"f{n}", parameters, language))
        for point in case.points:
            arguments = "".join(f"{point[v]}ull, " for v in case.names)
            calls.append(f"    f{n}({arguments}out + {at});")
            at += 4
    start = 'extern "C" ' if language == "c++" else ""
    return "\n".join([TYPES, *functions, f"{start}void all(u64* out) {{", *calls, "}", ""])


def _function(node: expr.Expr, name: str, parameters: str, language: str) -> str:
    given = f"{parameters}, " if parameters else ""
    lines = [f"static void {name}({given}u64* out) {{"]
    if language == "c++":
        texts = dict.fromkeys(expr.to_c(n) for n in nodes(node) if not _is_int(n))
        lines += [
            f'    static_assert(decltype(+({text}))(-1) > decltype(+({text}))(0), "");' for text in texts
        ]
    text, more = expr.to_c(node), expr.to_c(expr.Lt(expr.Var("t", 1 << 63), node))
    lines += [
        f"    const {expr.ctype(node)} value = {text};",
        f"    const u8* const place = (const u8*)0 + {expr.summands(node)};",
        *("    out[0] = value; out[1] = (u64)place;", f"    out[2] = 0; if ({text}) {{ out[2] = 1; }}"),
        *(f"    out[3] = 0; for (u64 t = 0; {more}; ++t) {{ out[3] = t + 1; if (t > 5) break; }}", "}"),
    ]
    return "\n".join(lines)


def nodes(node: expr.Expr) -> set[expr.Expr]:
    """The expression and everything in it."""
    seen, waiting = {node}, [node]
    while waiting:
        new = set(waiting.pop().children) - seen
        seen |= new
        waiting += new
    return seen


def _is_int(node: expr.Expr) -> bool:
    """A short literal or a truth value alone is an int of C: nothing is computed with it."""
    return isinstance(node, expr.Const) or expr.is_predicate(node) or expr.to_c(node) == "0"


def expected(case: Case) -> list[int]:
    """The results of a case at its points, in Python's integers."""
    out: list[int] = []
    for point in case.points:
        value = int(expr.evaluate(case.node, point))
        out += [value, value, int(value != 0), min(value, 7)]
    return out


def wrong(cases: Sequence[Case], language: Literal["c", "c++"]) -> list[Case]:
    """The cases whose compiled text does not compute the expression."""
    counts = [4 * len(case.points) for case in cases]
    out = np.zeros(sum(counts), dtype=np.uint64)
    compile_shared(source(cases, language), language=language).all(out.ctypes)
    found, at = [], 0
    for case, count in zip(cases, counts, strict=True):
        if [int(x) for x in out[at : at + count]] != expected(case):
            found.append(case)
        at += count
    return found


def draw_function(rng: random.Random) -> tuple[AnyLayout, str]:
    """A layout and the text of its index function `place`, of one parameter a mode, arbitrarily named."""
    shape = [rng.choice((1, 2, 3, 4, 8, 12)) for _ in range(rng.choice((1, 2, 3)))]
    strides = [rng.choice((0, 1, 2, 5, 8, 64, 1 << 20, 1 << 33)) for _ in shape]
    layout: AnyLayout = Layout(tuple(shape), tuple(strides))
    if rng.random() < 0.4:
        layout = ComposedLayout(Swizzle(rng.choice((1, 2, 3)), rng.choice((0, 1, 3)), 3), 0, layout)
    names = rng.sample(("row", "col", "z", "a", "k", "b"), len(shape))
    crd = [expr.Var(name, extent) for name, extent in zip(names, shape, strict=True)]
    node = expr.as_expr(layout(*crd))
    node = expr.simplify(node) if rng.random() < 0.5 else node
    return layout, index_function(node, "place", crd)
