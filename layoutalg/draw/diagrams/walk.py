"""A pointer that walks through a swizzled tile: S(a + b) = S(a) ^ S(b), step by step.

The idea.  A swizzle S is linear over F2: S(a ^ b) = S(a) ^ S(b).  Where a and b have no bit in common, a + b
is a ^ b; so a thread computes S(a) once, and a step by b costs one XOR with S(b), which is a constant.  The
walk shows where that holds, and where a carry breaks it.

>>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
>>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
>>> walk = pointer_walk(tile, (3, 0), (0, 16), 4)
>>> [(step.offset, step.by_xor, step.carries) for step in walk]
[(216, 216, False), (200, 200, False), (248, 248, False), (232, 232, False)]
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.draw.picture import EIGHTS_LEGEND, Cell, Panel, Picture, extents
from layoutalg.errors import ArgumentTypeError, ShapeError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzles
from layoutalg.limits import Most

MAX_TILE = 4096
"""Most vectors of the tile beside it."""


@dataclass(frozen=True, slots=True)
class WalkStep:
    """A step of a walk: its coordinate, `a` and `b` with their sum before the swizzle, and the `offset`
    after it; `by_xor` is S(a) ^ S(b), and `carries` is whether a and b share a bit."""

    coordinate: tuple[int, int]
    a: int
    b: int
    offset: int
    by_xor: int

    @property
    def carries(self) -> bool:
        """Whether a + b is another number than a ^ b."""
        return self.a & self.b != 0


def pointer_walk(
    layout: AnyLayout, start: tuple[int, int], step: tuple[int, int], count: int
) -> tuple[WalkStep, ...]:
    """`count` steps from a coordinate of a swizzled layout of two modes.

    Raises ArgumentTypeError for a layout without a swizzle, ShapeError for another number of modes or a walk
    that leaves the tile, ResourceError for steps past Most.PARTS.

    >>> tile = ComposedLayout(Layout(8), 0, Layout(8))
    >>> pointer_walk(tile, (0, 0), (0, 1), 2)
    Traceback (most recent call last):
    layoutalg.errors.ArgumentTypeError: 8:1 o 0 o 8:1 has no swizzle to walk through
    """
    if not isinstance(layout, ComposedLayout) or isinstance(layout.outer, Layout) or not layout.swizzles:
        raise ArgumentTypeError(f"{layout} has no swizzle to walk through")
    Most.PARTS.integer(count, "steps of a walk")
    if not isinstance(layout.shape, tuple) or len(layout.shape) != 2:
        raise ShapeError(f"a walk through {layout}: rows and columns are needed, two modes")
    sides = extents(layout.shape)
    plain = ComposedLayout(Swizzles(), layout.offset, layout.inner)
    swizzle = layout.outer
    steps = []
    for n in range(count):
        at = (start[0] + n * step[0], start[1] + n * step[1])
        if not all(0 <= x < extent for x, extent in zip(at, sides, strict=True)):
            raise ShapeError(
                f"step {n} of the walk is at {at[0]},{at[1]}, outside of the {sides[0]} x "
                f"{sides[1]} tile {layout}"
            )
        a = plain(*start)
        b = plain(*at) - a
        steps.append(WalkStep(at, a, b, layout(*at), swizzle(a) ^ swizzle(b) if b >= 0 else -1))
    return tuple(steps)


def walk_picture(layout: AnyLayout, start: tuple[int, int], step: tuple[int, int], count: int) -> Picture:
    """The steps of a walk as a table, in decimal and binary, and the tile with the steps in it.

    Raises as `pointer_walk` does.

    >>> from layoutalg.layout import Swizzle
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> [cell.text for cell in walk_picture(tile, (3, 0), (0, 16), 4).panels[0].cells[1]]
    ['3,16', '16', '208', '200', '200', '11010000', '11001000']
    """
    steps = pointer_walk(layout, start, step, count)
    bits = max(max(s.a + s.b, s.offset).bit_length() for s in steps)
    rows = tuple(
        (
            Cell(f"{s.coordinate[0]},{s.coordinate[1]}"),
            Cell(str(s.b)),
            Cell(str(s.a + s.b)),
            Cell(str(s.offset), _hue(layout, s.offset)),
            Cell(_by_xor(s), marked=s.by_xor != s.offset),
            Cell(f"{s.a + s.b:0{bits}b}"),
            Cell(f"{s.offset:0{bits}b}"),
        )
        for s in steps
    )
    heads = ("at", "b", "a + b", "S(a + b)", "S(a) ^ S(b)", "a + b, bits", "S, bits")
    table = Panel(f"steps from a = {steps[0].a}", tuple(str(n) for n in range(count)), heads, rows)
    carried = sum(s.carries or s.b < 0 for s in steps)
    wrong = sum(s.by_xor != s.offset for s in steps)
    notes = [
        f"S is {layout.outer if isinstance(layout, ComposedLayout) else ''}, linear over F2; where a and b "
        f"share no bit, S(a + b) = S(a) ^ S(b): a step is one XOR"
    ]
    if carried:
        notes.append(
            f"{carried} of {count} steps share a bit with a, so that a + b carries: {wrong} "
            f"of them differ (!)"
        )
    else:
        notes.append(f"no step shares a bit with a: S(a) is computed once, and {count} constants do the rest")
    return Picture(
        f"walk through {layout}", (table, *_tile(layout, steps)), tuple(notes), legend=EIGHTS_LEGEND
    )


def _by_xor(step: WalkStep) -> str:
    """S(a) ^ S(b), with a mark where it is another offset; nothing where b is negative."""
    if step.b < 0:
        return "!"
    return str(step.by_xor) + (" !" if step.by_xor != step.offset else "")


def _tile(layout: AnyLayout, steps: tuple[WalkStep, ...]) -> tuple[Panel, ...]:
    """The tile in the vectors that the swizzle keeps whole, with the number of each step."""
    unit = _unit(layout)
    rows, columns = extents(layout.shape)
    if columns % unit or rows * columns // unit > MAX_TILE:
        return ()
    at = {(s.coordinate[0], s.coordinate[1] // unit): n for n, s in enumerate(steps)}
    low, high = min(r for r, _ in at) // 8 * 8, (max(r for r, _ in at) // 8 + 1) * 8
    chosen = range(low, min(high, rows))
    vectors = range(columns // unit)
    cells = tuple(
        tuple(
            Cell(str(at.get((r, c), "")), _hue(layout, layout(r, c * unit)), marked=(r, c) in at)
            for c in vectors
        )
        for r in chosen
    )
    names = tuple(str(c * unit) for c in vectors)
    return (Panel("the tile, a cell per vector that stays whole", tuple(map(str, chosen)), names, cells),)


def _unit(layout: AnyLayout) -> int:
    swizzles = layout.swizzles if isinstance(layout, ComposedLayout) else ()
    return 1 << min((swizzle.base for swizzle in swizzles if swizzle.bits), default=0)


def _hue(layout: AnyLayout, offset: int) -> int:
    return offset // _unit(layout) % 8 * 4
