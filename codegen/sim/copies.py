"""cp.async: copies that are started, closed into groups, and land when their thread waits.

The idea.  Each thread has its own queue.  `start` adds a copy, `commit` closes what was started since the
last commit into the thread's next group, `wait(n)` lands every group but the n newest.  Data lands at the
latest moment the program allows, its wait, so that a program that relies on an earlier one fails.

    start start commit start commit wait(1)      lands the first two, the third is still in flight

Notes.  Lanes of a group of warps usually agree; each lane's tickets are kept apart, so that they need not.

Source: PTX ISA 9.0, 9.7.9.25.3 (cp.async, cp.async.commit_group, cp.async.wait_group).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from layoutalg.codegen.sim.hazards import Array

_DONE, _OPEN = -2, -1


@dataclass(slots=True, eq=False)
class _Copy:
    """The copies of one instruction: per lane the number of its group, and how to land a set of lanes."""

    ticket: Array
    land: Callable[[Array], None]


class CopyQueue:
    """The asynchronous copies of a group of warps, `lanes` wide; masks are bool arrays over the lanes.

    >>> queue, landed, every = CopyQueue(2), [], numpy.ones(2, dtype=bool)
    >>> for name in "abc":
    ...     queue.start(every, lambda lanes, name=name: landed.append(name))
    ...     queue.commit(every)
    >>> queue.wait(every, 1)
    >>> landed
    ['a', 'b']
    """

    def __init__(self, lanes: int) -> None:
        self._closed: Array = numpy.zeros(lanes, dtype=numpy.int64)  # groups each lane has closed
        self._copies: list[_Copy] = []

    def start(self, mask: Array, land: Callable[[Array], None]) -> None:
        """Start a copy in the lanes of `mask`; `land(lanes)` will perform it for some of them."""
        self._copies.append(_Copy(numpy.where(mask, _OPEN, _DONE), land))

    def commit(self, mask: Array) -> None:
        """Close the open copies of the lanes of `mask` into their next group."""
        for copy in self._copies:
            numpy.copyto(copy.ticket, self._closed, where=mask & (copy.ticket == _OPEN))
        self._closed += mask

    def wait(self, mask: Array, newest: int) -> None:
        """Land, oldest first, the closed copies of the lanes of `mask` but those of the `newest` groups."""
        due = numpy.where(mask, self._closed - newest, 0)
        for copy in self._copies:
            lanes = (copy.ticket >= 0) & (copy.ticket < due)
            if lanes.any():
                copy.land(lanes)
                copy.ticket[lanes] = _DONE
        self._copies = [copy for copy in self._copies if (copy.ticket != _DONE).any()]

    def never_committed(self) -> int | None:
        """A lane with a copy that no commit has closed, or None."""
        for copy in self._copies:
            lanes = copy.ticket == _OPEN
            if lanes.any():
                return int(lanes.argmax())
        return None

    def first_unfinished(self) -> int | None:
        """A lane with a copy that it has not waited for, or None."""
        for copy in self._copies:
            lanes = copy.ticket != _DONE
            if lanes.any():
                return int(lanes.argmax())
        return None

    def clear(self) -> None:
        """Forget everything: a new block starts."""
        self._copies.clear()
        self._closed[:] = 0
