"""Asynchronous copies of 16 bytes, both sides at once: what they ask the L2 for.

The idea.  `cp.async.16` goes past the L1, and a warp's request is not merged as a load's is.  Lanes 2 i and
2 i + 1 are served together if they copy the two halves of one 32-byte sector into the two halves of one
32-byte block of shared memory, and otherwise each asks for its own sector, whatever other lanes ask for:

    512 bytes, from +0       16 pairs, one sector each                     16 sectors, as a load
    512 bytes, from +16      every pair lies across two sectors            32 sectors; a load takes 17
    512 bytes, scattered     whole sectors, their halves far apart         32 sectors; a load takes 16

So rows that start in the middle of a sector cost up to twice what they should: shift what a lane copies, not
where the row starts.

Notes.  Counted on an H200 (l1tex__m_xbar2l1tex_read_sectors.sum, one warp and one instruction a launch, all
lanes active): tests/data/h200_copies.jsonl.  What has not been counted is refused: halves of a sector that go
to neighbouring halves of two blocks.  Copies of 4 and 8 bytes pass through the L1 and are merged like loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layoutalg.errors import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECTOR_BYTES, COPY_BYTES = 32, 16


def copied_sectors(source: Any, target: Any, active: Any) -> NDArray[Any]:
    """Sectors that instructions `cp.async.16` ask for, one row of lanes each.

    `source` and `target` are byte addresses in global and shared memory, `active` says which lanes copy;
    all are arrays (instructions, lanes).  A lane without a partner asks alone.  Raises ShapeError for arrays
    of other or different shapes, UnsupportedError for what has not been counted.

    >>> import numpy as np
    >>> lanes = 16 * np.arange(32)[None]
    >>> [int(copied_sectors(lanes + first, lanes, lanes >= 0)[0]) for first in (0, 16, 32)]
    [16, 32, 16]
    """
    import numpy as np

    at, to, on = np.asarray(source), np.asarray(target), np.asarray(active)
    if at.ndim != 2 or not at.shape == to.shape == on.shape or at.shape[1] % 2:
        raise ShapeError(
            f"arrays of shapes {at.shape}, {to.shape} and {on.shape}: one shape (instructions, lanes) is "
            f"needed, with an even number of lanes"
        )
    even, odd = slice(0, None, 2), slice(1, None, 2)
    first, second = at[:, even], at[:, odd]
    here, there = to[:, even], to[:, odd]
    halves = (first // SECTOR_BYTES == second // SECTOR_BYTES) & (first != second) & on[:, even] & on[:, odd]
    together = halves & (here // SECTOR_BYTES == there // SECTOR_BYTES)
    if (halves & ~together & (abs(here - there) == COPY_BYTES)).any():
        raise UnsupportedError(
            "cp.async.16 of the halves of a sector to neighbouring halves of two 32-byte blocks of shared "
            "memory: not counted on hardware; blocks that start at multiples of 32 bytes are accepted"
        )
    asked: NDArray[Any] = on.sum(axis=1) - together.sum(axis=1)
    return asked
