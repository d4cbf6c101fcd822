"""Shared arrays of a reading: their accesses, their extents, and the memory that they may take.

Sources.  CUDA C++ Programming Guide, "Compute Capabilities": static and dynamic shared memory per block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from layoutalg.arch import Arch
from layoutalg.source.costs import Launch
from layoutalg.source.front import Declaration, Type
from layoutalg.source.machine import Touch
from layoutalg.source.rows import KernelReading
from layoutalg.source.terms import Sum, add, constant, values


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A shared array: its declaration, and its accesses, those that are not read (`unread`) apart.

    `dims` are its extents, the first 0 where the launch gives it; elements are what the innermost one counts.
    A part of the `whole` has `length` elements from `start` on, and its addresses count from there.
    """

    declared: Declaration
    touches: tuple[Touch, ...]
    unread: tuple[Touch, ...]
    dims: tuple[int, ...]
    element: Type
    start: int = 0
    length: int = 0
    whole: SharedArray | None = None

    @property
    def name(self) -> str:
        """The name in the source."""
        return self.declared.name

    @property
    def function(self) -> str:
        """The name of an index function for it."""
        return f"{self.name}_{self.start}_index" if self.start else f"{self.name}_index"

    @property
    def dynamic(self) -> bool:
        """Whether the launch gives its size."""
        return bool(self.dims) and self.dims[0] == 0

    @property
    def reach(self) -> int:
        """Elements from its start to the end of the last access that was read."""
        return -(-max((t.offset.high + t.width for t in self.touches), default=0) // self.element.bytes)

    @property
    def size(self) -> int:
        """Elements, of a part and of a dynamic array those that are reached."""
        return self.length or (self.reach if self.dynamic else prod(self.dims))


def shared_array(reading: KernelReading, declared: Declaration) -> SharedArray:
    """The array of a declaration, with all accesses of the reading to it."""
    dims, kind = [], declared.type
    while kind.kind == "array" and kind.to is not None:
        dims.append(kind.extent)
        kind = kind.to

    def own(touches: Sequence[Touch]) -> tuple[Touch, ...]:
        return tuple(t for t in touches if t.declared is not None and t.declared.key == declared.key)

    return SharedArray(declared, own(reading.touches), own(reading.unread), tuple(dims), kind)


def parts(array: SharedArray, launch: Launch) -> tuple[SharedArray, ...]:
    """The ranges of an array of one dimension between which no access moves; else the array itself."""
    spans = [(*span(touch, launch), touch) for touch in array.touches]
    spans = sorted((each for each in spans if each[0] < each[1]), key=lambda each: each[:2])
    if len(array.dims) != 1 or not spans:
        return (array,)
    groups: list[list[Touch]] = []
    starts, ends = list[int](), list[int]()
    for low, high, touch in spans:
        if not groups or low >= ends[-1]:
            groups.append([])
            starts.append(low)
            ends.append(high)
        groups[-1].append(touch)
        ends[-1] = max(ends[-1], high)
    made = []
    for before, low, end, touches in zip((0, *ends), starts, ends, groups, strict=False):
        bases = {touch.base.constant if touch.base.known else -1 for touch in touches}
        widest = max(array.element.bytes, *(touch.width for touch in touches))
        start = bases.pop() if len(bases) == 1 else -1
        start = start if before <= start <= low else max(before, low - low % widest)
        if start % array.element.bytes:
            return (array,)
        moved = tuple(replace(touch, offset=add(touch.offset, constant(-start))) for touch in touches)
        length = -(-(end - start) // array.element.bytes)
        first = start // array.element.bytes
        made.append(replace(array, touches=moved, start=first, length=length, whole=array))
    if len(made) == 1 and not made[0].start:
        return (replace(made[0], whole=None) if array.dynamic else array,)
    return tuple(made)


def span(touch: Touch, launch: Launch) -> tuple[int, int]:
    """The first byte that an access reaches and the one behind the last; from the bounds of its sum where
    its turns are too many, (0, 0) where no lane executes it."""
    import numpy as np

    at, on = reached(touch, launch)
    if at is None:
        return touch.offset.low, touch.offset.high + touch.width
    at = np.broadcast_to(at, on.shape)[on]
    return (int(at.min()), int(at.max()) + touch.width) if at.size else (0, 0)


MOST_LANES = 1 << 21
"""The lanes of an access that are enumerated."""


def reached(touch: Touch, launch: Launch, *sums: Sum) -> tuple[Any, ...]:
    """(offset, whether it is executed, other sums) of each turn and thread; None where these are too many."""
    import numpy as np

    asked = (touch.offset, *touch.conditions, *sums)
    named = frozenset().union(*(each.variables for each in asked))
    env, turns = dict(launch.threads), (dict(touch.turns) | launch.blocks).items()
    lanes = len(env["thread"])
    axes = [(name, count) for name, count in turns if name in named]
    total = prod(count for _, count in axes)
    if named - env.keys() - {name for name, _ in turns}:  # a size that is not given
        return None, None
    if total * lanes > MOST_LANES:
        return None, None
    number = np.arange(total)[:, None]
    for name, count in axes:
        env[name], number = number % count, number // count
    known: dict[int, Any] = {}
    on = np.ones((total, lanes), dtype=bool)
    for condition in touch.conditions:
        on &= np.asarray(values(condition, env, known)) != 0
    if any(count == 0 for _, count in turns):
        on &= False
    return values(touch.offset, env, known), on, *(values(each, env, known) for each in sums)


# --- memory ---------------------------------------------------------------------------------------------


def owners(reading: KernelReading, declared: Declaration) -> dict[str, tuple[Declaration, ...]]:
    """The kernels that have a declaration, each with all of its own."""
    pairs = zip(reading.kernels, reading.together, strict=True)
    return {name: own for name, own in pairs if any(d.key == declared.key for d in own)}


def past_limit(array: SharedArray, reading: KernelReading, machine: Arch, more: int, dynamic: int) -> str:
    """The reason why `more` static bytes, or `dynamic` bytes of the launch, do not fit; "" where they do."""
    sizes = (
        sum(-(-d.type.bytes // d.type.align) * d.type.align for d in own)
        for own in owners(reading, array.declared).values()
    )
    static = max(sizes, default=0)
    if array.dynamic:
        limit, total = machine.max_shared_bytes_per_block, static + dynamic
        words = f"shared memory, and a block of {machine.name} has at most {limit:,}"
    else:
        limit, total = machine.static_shared_bytes_per_block, static + more
        words = f"static shared memory, and at most {limit:,} compile"
    return f"{total:,} bytes of {words}" if total > limit and (more or array.dynamic) else ""


def same_memory(array: SharedArray, reading: KernelReading) -> tuple[str, ...]:
    """Other arrays of the launch's memory, in a kernel that has this one: they start where it starts."""
    kernels = owners(reading, array.declared).values() if array.dynamic else ()
    others = {d.name for own in kernels for d in own if d.type.kind == "array" and d.type.extent == 0
              and d.key != array.declared.key}  # fmt: skip
    return tuple(sorted(others))
