"""Modes of several strided sides, and their normal form: fewer modes that step through the same places.

The idea.  Moving a tensor, reducing it and normalising it are loops over one shape, with a stride per mode on
every side: a source, a destination, a weight.  What a kernel needs is the shortest such loop:

    (64,56,56) with strides (3136,56,1) on both sides              3136*64 : 1 on both sides, one mode
    (128,224,224,3), NHWC to NCHW                                  50176 : 3 -> 1,  3 : 1 -> 50176,  ...

Modes of extent 1 leave; a mode that runs backwards on the leading side is turned round, and the other sides
with it; modes are sorted by the leading side's strides, those that broadcast there last; neighbours that are
contiguous on all sides, and of one kind, become one.

Notes.  Comparison with CuTe: this is `coalesce` by profile, of several layouts at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from layoutalg.decide import find_collision
from layoutalg.errors import NotInjectiveError, ShapeError
from layoutalg.layout import Layout


@dataclass(frozen=True, slots=True)
class StridedMode:
    """A mode: its extent, its stride on every side, in elements, and its kind, such as being reduced."""

    extent: int
    strides: tuple[int, ...]
    kind: Hashable = None


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, the last mode fastest.

    >>> compact_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def lowest(shape: Sequence[int], strides: Sequence[int], offset: int) -> int:
    """The offset of the element that lies first in its buffer; coordinate 0 lies at `offset`.

    >>> lowest((4, 6), (6, -1), 5)
    0
    """
    return offset - sum((n - 1) * max(-d, 0) for n, d in zip(shape, strides, strict=True))


def buffer_elems(name: str, shape: Sequence[int], strides: Sequence[int], offset: int) -> int:
    """The length of a buffer that reaches to the last element.

    Raises ShapeError where an element lies in front of it, naming the side.

    >>> buffer_elems("source", (4, 6), (8, 1), 2)
    32
    """
    if prod(shape) and lowest(shape, strides, offset) < 0:
        shown = tuple(strides)
        raise ShapeError(f"the {name} of offset {offset} and strides {shown} starts before its buffer")
    return offset + sum((n - 1) * max(d, 0) for n, d in zip(shape, strides, strict=True)) + 1


def places(shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Return the places of a tensor's elements, relative to coordinate 0, as an array of its shape.

    >>> places((2, 3), (4, 1)).tolist()
    [[0, 1, 2], [4, 5, 6]]
    """
    import numpy

    steps = zip(numpy.indices(shape), strides, strict=True)
    return sum((index * d for index, d in steps), numpy.zeros(shape, int))


def check_written(what: str, shape: Sequence[int], strides: Sequence[int]) -> None:
    """Raise NotInjectiveError for a destination that has the same place for two coordinates.

    >>> check_written("a sum", (4, 6), (6, 1))
    """
    written = [(n, abs(d)) for n, d in zip(shape, strides, strict=True) if n != 1]
    if not written or any(n == 0 for n, _ in written):
        return
    target = Layout(tuple(n for n, _ in written), tuple(d for _, d in written))
    clash = find_collision(target)
    if clash is not None:
        raise NotInjectiveError(
            f"the destination {target} of {what} has one place for two coordinates, {clash[0]} and "
            f"{clash[1]}",
            layout=target,
            a=clash[0],
            b=clash[1],
        )


def normal_form(modes: Iterable[StridedMode], lead: int = 0) -> tuple[StridedMode, ...]:
    """The fewest modes that step through the same places together; side number `lead` orders them.

    Strides on the leading side are >= 0 afterwards: a loop over what was turned round starts at the other
    end, which is `lowest` of every side.

    >>> rows = StridedMode(4, (6, 6)), StridedMode(6, (1, 1))
    >>> normal_form(rows)
    (StridedMode(extent=24, strides=(1, 1), kind=None),)
    >>> normal_form([StridedMode(4, (6, -6)), StridedMode(6, (1, 1), "reduced")], lead=1)
    (StridedMode(extent=6, strides=(1, 1), kind='reduced'), StridedMode(extent=4, strides=(-6, 6), kind=None))
    """
    joined: list[StridedMode] = []
    turned = (_forwards(m, lead) for m in modes if m.extent != 1)
    for m in sorted(turned, key=lambda m: _rank(m, lead)):
        low = joined[-1] if joined else None
        if low is not None and low.kind == m.kind and m.strides == tuple(low.extent * d for d in low.strides):
            joined[-1] = StridedMode(low.extent * m.extent, low.strides, low.kind)
        else:
            joined.append(m)
    return tuple(joined)


def _forwards(m: StridedMode, lead: int) -> StridedMode:
    """The mode so that it runs forwards on the leading side, or on the first one with a stride."""
    first = next((d for d in (m.strides[lead], *m.strides) if d), 0)
    return m if first >= 0 else StridedMode(m.extent, tuple(-d for d in m.strides), m.kind)


def _rank(m: StridedMode, lead: int) -> tuple[Any, ...]:
    """The sort key: the leading stride, broadcasts last, then the strides of the other sides."""
    others = tuple(abs(d) for k, d in enumerate(m.strides) if k != lead)
    return (m.strides[lead] == 0, m.strides[lead], str(m.kind), others)
