"""Shared arrays of a reading: their accesses, their extents, and the memory that they may take.

Sources.  CUDA C++ Programming Guide, "Compute Capabilities": static and dynamic shared memory per block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from layoutalg.arch import Arch
from layoutalg.source.front import Declaration, Type
from layoutalg.source.machine import Touch
from layoutalg.source.rows import KernelReading


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A shared array: its declaration, and its accesses, those that are not read (`unread`) apart.

    `dims` are its extents, the first 0 where the launch gives it; elements are what the innermost one counts.
    """

    declared: Declaration
    touches: tuple[Touch, ...]
    unread: tuple[Touch, ...]
    dims: tuple[int, ...]
    element: Type

    @property
    def name(self) -> str:
        """The name in the source."""
        return self.declared.name

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
        """Elements, of a dynamic array those that are reached."""
        return self.reach if self.dynamic else prod(self.dims)


def shared_array(reading: KernelReading, declared: Declaration) -> SharedArray:
    """The array of a declaration, with all accesses of the reading to it."""
    dims, kind = [], declared.type
    while kind.kind == "array" and kind.to is not None:
        dims.append(kind.extent)
        kind = kind.to

    def own(touches: Sequence[Touch]) -> tuple[Touch, ...]:
        return tuple(t for t in touches if t.declared is not None and t.declared.key == declared.key)

    return SharedArray(declared, own(reading.touches), own(reading.unread), tuple(dims), kind)


# --- memory ---------------------------------------------------------------------------------------------


def static_bytes(reading: KernelReading, declared: Declaration) -> int:
    """The most static shared memory of a kernel that has the declaration."""
    kernels = (own for own in reading.together if any(d.key == declared.key for d in own))
    return max((sum(_up(d.type.bytes, d.type.align) for d in own) for own in kernels), default=0)


def _up(nbytes: int, align: int) -> int:
    return -(-nbytes // align) * align


def past_limit(array: SharedArray, reading: KernelReading, machine: Arch, more: int, dynamic: int) -> str:
    """The reason why `more` static bytes, or `dynamic` bytes of the launch, do not fit; "" where they do."""
    static = static_bytes(reading, array.declared) + (0 if array.dynamic else more)
    if not array.dynamic:
        limit = machine.static_shared_bytes_per_block
        if more and static > limit:
            return f"{static:,} bytes of static shared memory, and at most {limit:,} compile"
        return ""
    limit = machine.max_shared_bytes_per_block
    if static + dynamic > limit:
        most = f"a block of {machine.name} has at most {limit:,}"
        return f"{static + dynamic:,} bytes of shared memory, and {most}"
    return ""


def same_memory(array: SharedArray, reading: KernelReading) -> tuple[str, ...]:
    """Other arrays of the launch's memory, in a kernel that has this one: they start where it starts."""
    if not array.dynamic:
        return ()
    kernels = (own for own in reading.together if any(d.key == array.declared.key for d in own))
    others = {d.name for own in kernels for d in own if d.type.kind == "array" and d.type.extent == 0
              and d.key != array.declared.key}  # fmt: skip
    return tuple(sorted(others))
