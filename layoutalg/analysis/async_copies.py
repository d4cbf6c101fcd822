"""Asynchronous copies, both sides at once: what they ask the L2 for, and what shared memory.

The idea.  `cp.async.16` goes past the L1, and a warp's request is not merged as a load's is.  Lanes 2 i and
2 i + 1 are served together if they copy the two halves of one 32-byte sector into the two halves of one
32-byte block of shared memory, and otherwise each asks for its own sector, whatever other lanes ask for:

    512 bytes, from +0       16 pairs, one sector each                     16 sectors, as a load
    512 bytes, from +16      every pair lies across two sectors            32 sectors; a load takes 17
    512 bytes, scattered     whole sectors, their halves far apart         32 sectors; a load takes 16

So rows that start in the middle of a sector cost up to twice what they should: shift what a lane copies, not
where the row starts.

Copies of 4 and 8 bytes go through the L1: they are read from the banks of its lines, and written to banks.
A lane that is number a of those that read from a bank, and number b of those that write to one, is served in
wavefront a + b.  So conflicts of both sides pass in step, one behind the other:

    32 words in a row, into a row                    a = 0, b = 0             1 wavefront
    8 words of 4 rows, a line apart, into a row      a = 0 .. 3, b = 0        4
    32 words in a row, 16 bytes apart                a = 0, b = 0 .. 3        4
    8 words of 4 rows by turns, 16 bytes apart       a, b = 0 .. 3            7: a + b = 0 .. 6

Notes.  Counted on an H200 (l1tex__m_xbar2l1tex_read_sectors.sum, one warp and one instruction a launch, all
lanes active): tests/data/h200_copies.jsonl.  What has not been counted is refused: halves of a sector that
go to neighbouring halves of two blocks.  Sectors of copies of 4 and 8 bytes are merged like those of loads;
their wavefronts (memory_l1_wavefronts_shared) are in tests/data/h200_word_copies.jsonl.  The rule gives all
of them in which the lanes of every bank, on either side, keep their order: 243 of 332.  Hardware orders the
others by a rule that is not known, and they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layoutalg.errors import ShapeError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECTOR_BYTES, COPY_BYTES, LINE_BYTES, WARP = 32, 16, 128, 32


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


def copied_wavefronts(source: Any, target: Any, active: Any, nbytes: int) -> NDArray[Any]:
    """Wavefronts of shared memory that instructions `cp.async.4` or `.8` take, one row of lanes each.

    Arguments as of `copied_sectors`; `nbytes` is 4 or 8, and as many lanes as a line has words of so many
    bytes go at once.  Raises ShapeError for arrays of other or different shapes and for other `nbytes`,
    UnsupportedError where lanes of one bank would not go in their order.

    >>> import numpy as np
    >>> lanes = np.arange(32)[None]
    >>> rows = lanes // 8 * 1024 + lanes % 8 * 4
    >>> targets = 4 * lanes, 16 * lanes
    >>> [int(copied_wavefronts(x, to, lanes >= 0, 4)[0]) for x in (4 * lanes, rows) for to in targets]
    [1, 4, 4, 4]
    """
    import numpy as np

    at, to, on = np.asarray(source), np.asarray(target), np.asarray(active)
    if nbytes not in (4, 8) or at.ndim != 2 or not at.shape == to.shape == on.shape or at.shape[1] != WARP:
        raise ShapeError(
            f"copies of {nbytes} bytes, arrays of shapes {at.shape}, {to.shape} and {on.shape}: 4 or 8 bytes "
            f"and one shape (instructions, {WARP}) are needed"
        )
    banks = LINE_BYTES // nbytes
    on = on.reshape(-1, banks).astype(bool)
    pairs = on[:, :, None] & on[:, None, :] & np.tri(banks, k=-1, dtype=bool)  # j < i, both active
    same = [_equal(x.reshape(-1, banks) // nbytes % banks) & pairs for x in (at, to)]
    step = same[0].sum(axis=2) + same[1].sum(axis=2)
    disordered = (same[0] | same[1]) & (step[:, None, :] >= step[:, :, None])
    if disordered.any():
        row = int(np.argwhere(disordered)[0][0]) * banks // WARP
        raise UnsupportedError(
            f"cp.async.{nbytes}, instruction {row}: conflicts on both sides bring lanes of one bank out of "
            f"order, and what hardware does then is not known; conflicts on one side are accepted"
        )
    ordered = np.sort(np.where(on, step, -1), axis=1)
    found = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) + (ordered[:, 0] >= 0)
    counts: NDArray[Any] = found.reshape(len(at), -1).sum(axis=1)
    return counts


def _equal(x: Any) -> Any:
    """[instruction, i, j]: lanes i and j have the same."""
    return x[:, :, None] == x[:, None, :]
