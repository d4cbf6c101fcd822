"""Asynchronous copies, both sides at once: what they ask the L2 for, and what shared memory.

The idea.  `cp.async.16` goes past the L1, and a warp's request is not merged as a load's is.  Lanes that copy
the halves of one 32-byte sector into one 32-byte block of shared memory are served together, if both move by
the same distance modulo 32; every other lane requests its own sector, whatever other lanes request:

    512 bytes, from +0 to +0       16 sectors and 16 blocks, the same halves      16 sectors, as a load
    512 bytes, from +16 to +16     the same                                       17, as a load
    512 bytes, from +16 to +0      halves of a sector go to two blocks            32; a load takes 17
    512 bytes, scattered           whole sectors, their halves far apart          32; a load takes 16

So rows that start in the middle of a sector cost up to twice what they should, unless shared memory holds
them from the middle of a block too.

The tags of the L1 are read all the same, and count blocks of shared memory, one for every line that lanes
copy to it: `tag_sectors`.

Copies of 4 and 8 bytes go through the L1: they are read from the banks of its lines, and written to banks.
If at most A lanes read from a bank and at most B write to one, an instruction takes at least max(A, B)
wavefronts and at most A + B - 1, one of each side in step behind the other:

    32 words in a row, into a row                    A = 1, B = 1      1 wavefront
    8 words of 4 rows, a line apart, into a row      A = 4, B = 1      4
    32 words in a row, 16 bytes apart                A = 1, B = 4      4
    8 words of 4 rows by turns, 16 bytes apart       A = 4, B = 4      4 to 7; counted: 7

Notes.  Counted on an H200, one warp and one instruction per launch: sectors in tests/data/h200_copies.jsonl
(l1tex__m_xbar2l1tex_read_sectors.sum), some with `tags` (l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum).
Sectors of copies of 4 and 8 bytes are merged like those of loads; their wavefronts
(memory_l1_wavefronts_shared) are in tests/data/h200_word_copies.jsonl.  Where both sides conflict, which
number it is depends on which lanes meet; the rule is not known, but none is outside.

The counters of the pipe (l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld, _st) have no copies.  Its total
has those of 4 and 8 bytes, and the zeros that lanes of size 0 write: a store of their bytes, also of 16.  A
constant of 3 that it adds to a launch with a copy is that of three loads without lanes, which the compiler
puts in front of the end of a group; an instruction that no lane executes counts one "op_misc".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from layoutalg.errors import ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECTOR_BYTES, LINE_BYTES, WARP = 32, 128, 32


def copied_sectors(source: Any, target: Any, active: Any) -> NDArray[Any]:
    """Sectors that instructions `cp.async.16` ask for, one row of lanes each.

    `source` and `target` are byte addresses in global and shared memory, `active` says which lanes copy;
    all are arrays (instructions, lanes).  Lanes write different bytes.  Raises ShapeError for arrays of other
    or different shapes.

    >>> import numpy as np
    >>> lanes = 16 * np.arange(32)[None]
    >>> [int(copied_sectors(lanes + first, lanes, lanes >= 0)[0]) for first in (0, 16, 32)]
    [16, 32, 16]
    """
    at, to, on = _checked(source, target, active)
    return _different(on, at // SECTOR_BYTES, to // SECTOR_BYTES, (at - to) % SECTOR_BYTES)


def tag_sectors(source: Any, target: Any, active: Any) -> NDArray[Any]:
    """Sectors that the tags of the L1 count for instructions `cp.async.16`, one row of lanes each.

    They are blocks of 32 bytes of shared memory, each as often as lines of global memory go to it.  Arguments
    and errors as of `copied_sectors`.

    >>> import numpy as np
    >>> lanes = 16 * np.arange(32)[None]
    >>> [int(tag_sectors(lanes + first, lanes, lanes >= 0)[0]) for first in (0, 16, 32)]
    [16, 20, 16]
    """
    at, to, on = _checked(source, target, active)
    return _different(on, at // LINE_BYTES, to // SECTOR_BYTES)


def _checked(source: Any, target: Any, active: Any) -> tuple[Any, Any, Any]:
    import numpy as np

    at, to, on = np.asarray(source), np.asarray(target), np.asarray(active).astype(bool)
    if at.ndim != 2 or not at.shape == to.shape == on.shape:
        raise ShapeError(
            f"arrays of shapes {at.shape}, {to.shape} and {on.shape}: one shape (instructions, lanes) is "
            f"needed"
        )
    return at, to, on


def _different(on: Any, *parts: Any) -> NDArray[Any]:
    """The number of different combinations of `parts` that the active lanes of each instruction have."""
    import numpy as np

    earlier = np.tri(on.shape[1], k=-1, dtype=bool) & on[:, :, None] & on[:, None, :]
    for part in parts:
        earlier &= _equal(part)
    counts: NDArray[Any] = (on & ~earlier.any(axis=2)).sum(axis=1)
    return counts


def copied_wavefronts(
    source: Any, target: Any, active: Any, nbytes: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The least and the most wavefronts of shared memory that instructions `cp.async.4` or `.8` take.

    Arguments as of `copied_sectors`, one row of lanes each; `nbytes` is 4 or 8, and as many lanes as a line
    has words of so many bytes go at once.  Both are equal where lanes meet in banks on one side alone.
    Raises ShapeError for arrays of other or different shapes and for other `nbytes`.

    >>> import numpy as np
    >>> lanes = np.arange(32)[None]
    >>> rows = lanes // 8 * 1024 + lanes % 8 * 4
    >>> [[int(n[0]) for n in copied_wavefronts(x, 16 * lanes, lanes >= 0, 4)] for x in (4 * lanes, rows)]
    [[4, 4], [4, 7]]
    """
    import numpy as np

    at, to, on = np.asarray(source), np.asarray(target), np.asarray(active).astype(bool)
    if nbytes not in (4, 8) or at.ndim != 2 or not at.shape == to.shape == on.shape or at.shape[1] != WARP:
        raise ShapeError(
            f"copies of {nbytes} bytes, arrays of shapes {at.shape}, {to.shape} and {on.shape}: 4 or 8 bytes "
            f"and one shape (instructions, {WARP}) are needed"
        )
    banks = LINE_BYTES // nbytes
    on = on.reshape(-1, banks)
    pairs = on[:, :, None] & on[:, None, :]
    read, written = (
        (_equal(x.reshape(-1, banks) // nbytes % banks) & pairs).sum(axis=2).max(axis=1) for x in (at, to)
    )
    most = np.minimum(np.maximum(read + written - 1, 0), on.sum(axis=1))
    least = np.maximum(read, written)
    return least.reshape(len(at), -1).sum(axis=1), most.reshape(len(at), -1).sum(axis=1)


def _equal(x: Any) -> Any:
    """[instruction, i, j]: lanes i and j have the same."""
    return x[:, :, None] == x[:, None, :]
