"""Guard: which lanes take part in an access, as bounds, so that closed forms understand it.

The idea.  Kernels predicate their edges with comparisons: `if (row < m && col < n)`, `if (tid < n)`, or by
lane.  Said as data, they cost nothing to analyse: the coordinate at which a warp starts decides which of its
lanes are inside, in a few intervals, and how many warps start in an interval is a count of digits.

    layout (128,64), Guard((100, 60))       rows 100..127 and columns 60..63 are left alone
    Guard(threads=200)                      thread < 200
    Guard(lanes=range(16))                  the first half of every warp

All conditions of a guard must hold.  They are asked of the first value of each instruction, as a predicate
would be.  Any other predicate is a callable (thread, value, iteration) -> bool; it is enumerated.

>>> guard = Guard((100, 60), threads=200)
>>> guard.admits((128, 64), 32, 199, 99 + 128 * 59), guard.admits((128, 64), 32, 199, 100)
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from layoutalg.errors import ArgumentTypeError, ShapeError
from layoutalg.layout import IntTuple, product, to_text


@dataclass(frozen=True, slots=True)
class Guard:
    """Lanes are active where every bound holds; an absent bound admits everything.

    `below` has one bound for each top-level mode of the layout, or None: the coordinate must be less.
    `threads` is a bound on the thread number, `lanes` the lanes of every warp that take part.  Raises
    ArgumentTypeError or ShapeError for anything else.

    >>> Guard((None, 7), lanes=range(2)).lanes
    (0, 1)
    """

    below: tuple[int | None, ...] = ()
    threads: int | None = None
    lanes: Iterable[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.below, tuple):
            raise ArgumentTypeError(f"below is {self.below!r}; a tuple with a bound or None a mode is needed")
        for bound in (*self.below, self.threads):
            if bound is not None and (type(bound) is not int or bound < 0):
                raise ShapeError(f"bound {bound!r} of a guard; a non-negative integer or None is needed")
        if self.lanes is not None:
            lanes = tuple(sorted(set(self.lanes)))
            if any(type(lane) is not int or lane < 0 for lane in lanes):
                raise ShapeError(f"lanes {lanes} of a guard; non-negative integers are needed")
            object.__setattr__(self, "lanes", lanes)

    def bounds(self, shape: IntTuple) -> list[tuple[int, int]]:
        """(mode, bound) of the modes that have one; raises ShapeError for more bounds than modes."""
        count = len(mode_sizes(shape))
        if len(self.below) > count:
            raise ShapeError(
                f"guard {self.below} has {len(self.below)} bounds, and shape {to_text(shape)} has {count} "
                f"modes"
            )
        return [(k, bound) for k, bound in enumerate(self.below) if bound is not None]

    def admits(self, shape: IntTuple, warp_lanes: int, thread: Any, index: Any) -> Any:
        """Whether the lane of `thread` at flat index `index` of `shape` is active; also for NumPy arrays.

        Raises ShapeError when there are more bounds than modes.
        """
        sides, bounds = mode_sizes(shape), dict(self.bounds(shape))
        out: Any = thread >= 0
        for k, side in enumerate(sides):
            coordinate = index % side if k + 1 < len(sides) else index
            index = index // side
            if k in bounds:
                out = out & (coordinate < bounds[k])
        if self.threads is not None:
            out = out & (thread < self.threads)
        if self.lanes is not None:
            lane = thread % warp_lanes
            inside: Any = lane < 0
            for one in self.lanes:
                inside = inside | (lane == one)
            out = out & inside
        return out


def mode_sizes(shape: IntTuple) -> tuple[int, ...]:
    """Sizes of the top-level modes.

    >>> mode_sizes((4, (2, 8)))
    (4, 16)
    """
    return tuple(product(mode) for mode in shape) if isinstance(shape, tuple) else (shape,)
