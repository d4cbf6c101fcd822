"""Bytes of memory that the launches of a norm or a reduction are predicted to move.

A reduction reads each element that exists once, and writes its results and, where it is split, the values
between its passes.  A norm reads each element once and writes it once, or reads it twice where what lies
between two readings of it is more than the L2 keeps, see `read_again`.  A second launch goes backwards, and
finds some of it at the end of the first in L2:

    softmax (65536,1024) f32 over 1       held: 2 x 256 MB
    softmax (65536,1024) f32 over 0       read twice: 3 x 256 MB less 16 MB

This is a model, which tests/gpu/memory_bytes.py compares with `dram__bytes_read.sum` and
`dram__bytes_write.sum` of random cases.  It does not say that half lines which are asked for at several
times may come again, nor that sectors may be written back before they are filled: rows of 16 bytes, 16 of
them side by side, read up to 29 % and wrote up to 22 % more.  The half lines of each round of such a block,
counted alone, are 1.209 of the tensor: twice that is 30 % more than is predicted, once that 21 % more than
is written.  One case is not a law.  Nor does it say what blocks that read twice in one launch find: up to a
third less was read.
"""

from __future__ import annotations

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.kernels.family import Traffic
from layoutalg.kernels.model import stated_machine
from layoutalg.kernels.rowwise.programs import NormLaunches
from layoutalg.kernels.rowwise.ways import KEPT_SHARE, ReducePlan, form_of, read_again, walk_of


def norm_traffic(launches: NormLaunches, arch: str | Arch = DEFAULT_ARCH) -> Traffic:
    """Bytes of memory that all launches of a norm read and write; see the module's text.

    Raises UnsupportedError for an architecture without a board.

    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> from layoutalg.kernels.rowwise.programs.norm import plan
    >>> norm_traffic(plan(norm_problem("softmax", (65536, 1024), 1, "bf16")))
    Traffic(read=134217728, written=134217728)
    """
    p, c, m = launches.problem, launches.config, stated_machine(arch)
    again = int(read_again(p, walk_of(form_of(p), p.dtype, c), c, m))
    scratch, size = launches.workspace_elems * 4, p.dtype.nbytes
    read = p.axes.read_elems * size * len(p.read) + again + len(p.parameters) * p.axes.count * size
    return Traffic(
        read + (scratch if scratch > int(KEPT_SHARE * m.l2_bytes) else 0), p.written_bytes + scratch
    )


def reduce_traffic(plan: ReducePlan, arch: str | Arch = DEFAULT_ARCH) -> Traffic:
    """Bytes of memory that all passes of a reduction read and write.  Raises as `norm_traffic` does.

    >>> from layoutalg.kernels.rowwise import plans, reduce_problem
    >>> reduce_traffic(plans(reduce_problem((1 << 26,), 0, "sum", "f32"))[0])
    Traffic(read=268435456, written=1060)
    """
    p, between = plan.problem, 4 * plan.workspace_elems
    kept_bytes = KEPT_SHARE * stated_machine(arch).l2_bytes
    return Traffic(p.read_bytes + (between if between > kept_bytes else 0), p.written_bytes + between)
