"""Work that is counted: procedures with the worst inputs that can be generated, and the lines they execute.

A procedure that searches counts its work in a budget; what it executes besides must not grow without it.
`work_of` counts steps, which are the same on every machine, and stops past a limit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import sympy

from layoutalg import decide
from layoutalg.analysis import Access, Guard, analyze_access
from layoutalg.budget import metered
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.symbolic import solve_conflict_free, solve_sectors, symbolic_access
from tests.judges.exports import PUBLIC as algebra
from tests.work import counted

Question = Callable[[], Any]


class Work(NamedTuple):
    """What a question took: steps of Python, units counted, and how it ended."""

    steps: int
    units: int
    ended: str


def work_of(question: Question, most_steps: int) -> Work:
    """Ask, counting; raises Overrun past `most_steps`, whatever else is caught."""

    def ended() -> str:
        try:
            question()
        except LayoutAlgError as error:
            return type(error).__name__
        return "answered"

    with metered() as meter:
        how, steps = counted(ended, most_steps)
    return Work(steps, meter.units, how)


# Layouts on which closed forms fail.


def _strides(draw: random.Random, count: int, bits: int) -> tuple[int, ...]:
    kind = draw.randrange(3)
    if kind == 0:
        return tuple(draw.randint(1, 1 << bits) for _ in range(count))
    if kind == 1:  # long chains beside one that does not fit
        chain = [3 * draw.randint(1, 5) << 3 * i for i in range(count - 1)]
        return (*chain, draw.randint(1, 1 << bits))
    return tuple(3**20 + 7919 * k * k + 104729 * k**3 + draw.randrange(9) for k in range(count))


def _plain(draw: random.Random, count: int) -> Layout:
    bits = draw.choice((6, 20, 60, 300))
    extents = tuple(
        draw.choice((2, 3, 5, 8, 1 << draw.randint(1, 40), draw.randint(2, 1 << 20))) for _ in range(count)
    )
    return Layout(extents, _strides(draw, count, bits))


def _swizzled(draw: random.Random, count: int) -> ComposedLayout:
    bits = draw.randint(1, 4)
    swizzle = Swizzle(bits, draw.randint(0, 12), draw.choice((1, -1)) * draw.randint(bits, 9))
    return ComposedLayout(swizzle, draw.randrange(1 << 12), _plain(draw, count))


def _any(draw: random.Random, count: int) -> Layout | ComposedLayout:
    return draw.choice((_plain, _swizzled))(draw, count)


def _nested(draw: random.Random, count: int) -> ComposedLayout:
    layout: Any = _plain(draw, 3)
    for _ in range(min(count, 20)):
        outer: Any = draw.choice((_plain(draw, 3), Swizzle(2, draw.randint(0, 5), 3)))
        layout = ComposedLayout(outer, draw.randrange(9), layout)
    return layout  # type: ignore[no-any-return]


def _target(draw: random.Random, layout: Layout) -> int:
    return draw.randrange(algebra.cosize(layout))


def _coordinate(draw: random.Random, count: int) -> Question:
    layout = _plain(draw, count)
    target = _target(draw, layout)
    return lambda: decide.find_coordinate(layout, target)


def _overlap(draw: random.Random, count: int) -> Question:
    a, b = _plain(draw, count // 2 + 1), _plain(draw, count // 2 + 1)
    there = ComposedLayout(Swizzle(0, 0, 0), _target(draw, b), a)
    return lambda: decide.find_overlap(there, b)


def _one(function: Callable[[Any], Any], make: Callable[[random.Random, int], Any] = _any) -> Any:
    def question(draw: random.Random, count: int) -> Question:
        layout = make(draw, count)
        return lambda: function(layout)

    return question


def _two(function: Callable[[Any, Any], Any]) -> Any:
    def question(draw: random.Random, count: int) -> Question:
        a, b = _any(draw, count // 2 + 1), _any(draw, count // 2 + 1)
        return lambda: function(a, b)

    return question


def _same(draw: random.Random, count: int) -> Question:
    layout = _swizzled(draw, count)
    twice = ComposedLayout((layout.swizzles[0],) * 3, layout.offset, layout.inner)
    return lambda: decide.same_function(layout, twice)


def _bit(draw: random.Random, count: int) -> Question:
    layout, bit = _any(draw, count), draw.randrange(30)
    return lambda: decide.find_offset_bit(layout, bit)


def _carries(draw: random.Random, count: int) -> Question:
    """Extents that do not divide, under strides at which carries nearly cancel."""
    base = draw.randint(3, 99)
    radix = tuple(draw.choice((3, 5, base, 1 << 20)) for _ in range(count))
    weights, weight = [], 1
    for n in radix:
        weights.append(weight + (draw.random() < 0.2))
        weight *= n
    b = Layout((1 << 20, 1 << 17, 3), (draw.randint(1, base), base * draw.randint(1, 9), 1))
    return lambda: algebra.composition(Layout(radix, tuple(weights)), b)


def _analysis(draw: random.Random, count: int) -> Question:
    """Lanes in an order that follows no stride, over a tile that fits 64-bit arithmetic."""
    extents = tuple(draw.randint(2, 9) for _ in range(count))
    inner = Layout(extents, tuple(draw.randint(1, 1 << 20) for _ in range(count)))
    tile = (
        ComposedLayout(Swizzle(draw.randint(1, 3), draw.randint(0, 8), 4), 0, inner)
        if draw.random() < 0.6
        else inner
    )
    weights = [1]
    for extent in extents:
        weights.append(weights[-1] * extent)
    order = draw.sample(range(count), count)
    tv = Layout((tuple(extents[i] for i in order), 1), (tuple(weights[i] for i in order), 0))
    active = draw.choice((None, Guard((draw.randint(1, 9),)), lambda thread, value, turn: thread % 3 == 0))
    access = Access(draw.choice(("ld.shared.b32", "ld.global.b32")), tv, dtype("f32"), active=active)
    return lambda: analyze_access(tile, access)


def _solved(draw: random.Random, count: int) -> Question:
    side, symbol = draw.choice((8, 33, 65)), sympy.Symbol("ld", integer=True, positive=True)
    element = draw.choice(("u8", "f16", "f32"))
    layout = ((side, draw.choice((16, 65))), (symbol, draw.randint(1, count)))
    op = f"ld.{draw.choice(('shared', 'global'))}.b{dtype(element).bits}"
    access = symbolic_access(op, layout, element)
    if access.op.startswith("ld.shared"):
        return lambda: solve_conflict_free(layout, access, symbol)
    return lambda: solve_sectors(layout, access, symbol)


SEARCHES = ("image_size", "aliasing", "is_surjective", "gaps", "cycles", "extremes")
PROCEDURES: dict[str, Callable[[random.Random, int], Question]] = {
    "find_coordinate": _coordinate,
    "find_overlap": _overlap,
    "find_collision": _one(decide.find_collision, _plain),
    **{name: _one(getattr(decide, name)) for name in SEARCHES},
    "cosize": _one(algebra.cosize),
    "same_function": _same,
    "find_offset_bit": _bit,
    "normal_form": _one(algebra.normal_form, _nested),
    "image_size of nested": _one(decide.image_size, _nested),
    "analyze": _analysis,
    "solve": _solved,
    "composition": _two(algebra.composition),
    "composition with carries": _carries,
    "complement": _one(algebra.complement, _plain),
    "left_inverse": _one(algebra.left_inverse),
    "right_inverse": _one(algebra.right_inverse),
}
"""Procedures that may search, with the worst questions: (draw, number of modes) -> question."""
