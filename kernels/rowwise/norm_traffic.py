"""Bytes of memory that a softmax or layer norm moves.

The idea.  Each element is read once and written once, or read twice where what lies between two readings of
it is more than `KEPT_BYTES` of L2:

    softmax (65536,1024) f32 over 1       held: 2 x 256 MB
    softmax (8192,8192) f32 over 0        read twice: 3 x 256 MB

Notes.  This is a model, stated to be compared with `dram__bytes_read.sum` and `dram__bytes_write.sum`.  What
a second reading, which goes backwards, finds in L2 of the first one is not taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from layoutalg.arch import Arch
from layoutalg.kernels.limits import find_board
from layoutalg.kernels.rowwise.norm import NormLaunches
from layoutalg.kernels.rowwise.norm_plan import form_of
from layoutalg.kernels.rowwise.schedule import walk_of

KEPT_BYTES = 24 << 20
"""What is found in L2 again."""

RESIDENT_THREADS = 1024
"""Threads of a multiprocessor, with 64 registers each."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that memory is asked to read and to write."""

    read: int
    written: int


def traffic(launches: NormLaunches, arch: str | Arch = "sm_90") -> Traffic:
    """Bytes of memory read and written by all launches; see the module's notes.

    Raises UnsupportedError for an architecture without a board.

    >>> from layoutalg.kernels.rowwise.norm import plan
    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> traffic(plan(norm_problem("softmax", (65536, 1024), 1, "bf16")))
    Traffic(read=134217728, written=134217728)
    """
    p, c = launches.problem, launches.config
    w, size = walk_of(form_of(p), p.dtype, c), p.dtype.nbytes
    elements = p.axes.read_elems * size
    between = 0
    if c.splits > 1:
        between = elements
    elif c.hold == "global":
        resident = min(w.blocks, find_board(arch).sms * max(1, RESIDENT_THREADS // c.threads))
        between = resident * (elements // w.blocks)
    read = elements * (2 if between > KEPT_BYTES else 1)
    read += (p.weight + p.bias) * w.form.count * size
    scratch = launches.workspace_elems * 4
    return Traffic(read + (scratch if scratch > KEPT_BYTES else 0), prod(p.axes.shape) * size + scratch)
