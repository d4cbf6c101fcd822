"""Sizes on which a program shows what it does: several blocks, rings that go round, ragged and whole edges.

The idea.  What an extent decides is counted by the program itself: blocks along the sides of its grid, turns
of its loops.  An extent is drawn so that all of these are several, and a stage of a ring is used again:

    case 0      the larger half of what is drawn: two blocks and more
    case 1      the same, in whole tiles
    case 2      anything from the least on

and again from the first.  Extents that decide nothing, such as a leading dimension, reach as far as the rest.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from layoutalg.codegen.expr import Const, Expr, FloorDiv, Var, evaluate, substitute, variables
from layoutalg.codegen.program import For, Kernel, Let, walk
from layoutalg.errors import ArgumentTypeError, UndecidedError

DRAWS = 10_000
"""The most sizes that are drawn until the conditions of a program hold."""

SPAN = 160
"""The distance above its least up to which an extent is drawn that decides no count."""

BLOCKS = 3
"""Blocks that the largest extents give along a side of the grid."""

MOST_STEPS = 1 << 12
"""The most multiples of itself by which an extent is drawn above its least."""


def draw_sizes(kernel: Kernel, sizes: Mapping[str, int], rng: random.Random, case: int) -> dict[Var, int]:
    """Values of all integer parameters for which the conditions hold; those that `sizes` names are given.

    Raises ArgumentTypeError for a name that no parameter has, UndecidedError where no sizes were found.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("k", threads=32)
    >>> n = k.extent("n")
    >>> block = k.grid((n,), (100,))
    >>> [draw_sizes(k.build(), {}, random.Random(1), case)[n] for case in range(3)]
    [135, 200, 35]
    """
    scalars = {name for name, _ in kernel.scalars}
    params = [p for p in kernel.integers if p.name not in scalars]
    if unknown := set(sizes) - {p.name for p in params}:
        raise ArgumentTypeError(f"{kernel.name} has no extents {', '.join(sorted(unknown))}")
    counts = [(e, many) for e, many in _counts(kernel) if variables(e) and variables(e) <= set(params)]
    spans = {p: _span(p, params, counts) for p in params}
    widest = max(SPAN, *spans.values(), 0)
    tiles = {p: _tile(p, [e for e, _ in counts]) for p in params}
    for _ in range(DRAWS):
        drawn = {
            p: sizes[p.name] if p.name in sizes else _size(p, spans[p] or widest, tiles[p], case % 3, rng)
            for p in params
        }
        if all(evaluate(c, drawn) for c in kernel.conditions):
            return drawn
    conditions = ", ".join(map(str, kernel.conditions))
    raise UndecidedError(f"{DRAWS} draws of the sizes of {kernel.name} miss {conditions}; `sizes` gives some")


def _counts(kernel: Kernel) -> Iterator[tuple[Expr, int]]:
    """Blocks and turns, with how many of them the largest sizes should give."""
    yield from ((n, BLOCKS) for n in kernel.grid)
    turns = 2 * max((s.stages for s in kernel.shared), default=1) + 2
    lets: dict[Var, Expr] = {}
    for s in walk(kernel.body):
        match s:
            case Let(var, value):
                lets[var] = substitute(value, lets)
            case For(count=count):
                yield substitute(count, lets), turns


def _span(p: Var, params: list[Var], counts: list[tuple[Expr, int]]) -> int:
    """The distance above its least that an extent has to go; 0 for one that decides no count."""
    mine = [(e, many) for e, many in counts if p in variables(e)]
    if not mine:
        return 0
    least, steps = {q: q.facts.lo for q in params}, max(2, 8 // p.multiple)
    while steps < MOST_STEPS and p.facts.lo + steps * p.multiple < p.facts.hi:
        there = least | {p: p.facts.lo + steps * p.multiple}
        if all(evaluate(e, there) >= many for e, many in mine):
            break
        steps += max(1, steps // 4)
    return steps * p.multiple


def _tile(p: Var, counts: list[Expr]) -> int:
    """The largest number that an extent is divided by where something is counted."""
    return max((by for e in counts for by in _divisors(p, e)), default=1)


def _divisors(p: Var, e: Expr) -> Iterator[int]:
    match e:
        case FloorDiv(a, Const(by)) if p in variables(a):
            yield by
    for part in e.children:
        yield from _divisors(p, part)


def _size(p: Var, span: int, tile: int, kind: int, rng: random.Random) -> int:
    steps = max(2, span // p.multiple)
    drawn = min(p.facts.hi, p.facts.lo + p.multiple * rng.randrange(0 if kind == 2 else steps // 2, steps))
    rounded = -(-drawn // tile) * tile
    return rounded if kind == 1 and rounded <= p.facts.hi and rounded % p.multiple == 0 else drawn
