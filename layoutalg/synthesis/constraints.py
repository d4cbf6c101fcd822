"""Constraints on a layout, each written as a further access that it must serve.

The idea.  A constraint says that an access which nobody makes would also be possible on the layout:

    vectors stay whole     a lane could read N contiguous bytes anywhere        ld.shared.bN, one lane
    rows are stored whole  a warp could store a row of all banks at once        st.shared, 128 bytes

The first keeps the low bits of an offset where they are.  The second says that the kernel K of the bank map
meets the 32 words of a row in 0 alone, so K is a graph over the rows, { (N row, row) }, and the layout is
bank ^= N row within each row.  As accesses, they take part in the search, the certificate and its check
without a word about them there.

>>> from layoutalg.arch import ARCHS
>>> from layoutalg.dtype import dtype
>>> asked = with_constraints((64, 64), ["ldmatrix.x4"], dtype("f16"), "row", 16, True, ARCHS["sm_90"])
>>> [a if isinstance(a, str) else f"{a.op} {a.tv}" for a in asked]
['ldmatrix.x4', 'ld.shared.b128 (1,8,(8,64)):(0,64,(512,1))', 'st.shared.b32 ((32,64),2):((128,1),64)']
"""

from __future__ import annotations

from collections.abc import Iterable

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, TmaAccess
from layoutalg.arch import Arch
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.layout import IntTuple, Layout


def with_constraints(
    shape: IntTuple,
    accesses: Iterable[Access | TmaAccess | str],
    element: DType,
    order: Order,
    vector_bytes: int,
    whole_rows: bool,
    machine: Arch,
) -> list[Access | TmaAccess | str]:
    """The accesses, and one more for each constraint.

    Raises UnsupportedError for a vector that no load has, AlignmentError when the contiguous mode is no
    multiple of it.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> with_constraints((8, 8), ["ldmatrix.x1"], dtype("f16"), "row", 0, False, ARCHS["sm_90"])
    ['ldmatrix.x1']
    """
    if isinstance(accesses, (str, Access, TmaAccess)):
        raise ArgumentTypeError(f"accesses is the single {accesses!r}; a list of accesses is needed")
    out = list(accesses)
    if vector_bytes:
        op = f"ld.shared.b{8 * vector_bytes}"
        if op not in machine.instructions:
            raise UnsupportedError(
                f"vector_bytes is {vector_bytes!r}; vectors that a lane can read have 1, 2, 4, 8 or 16 bytes"
            )
        access = Access.along(op, storage_layout(shape, order), element, order)
        (threads, values), (steps, step) = _modes(access.tv)
        out.append(Access(op, Layout((1, values, threads), (0, step, steps)), element))
    if whole_rows:
        width = max(8 * machine.bank_bytes, element.bits)
        out.append(Access.along(f"st.shared.b{width}", storage_layout(shape, order), element, order))
    return out


def _modes(tv: Layout) -> tuple[tuple[IntTuple, IntTuple], tuple[IntTuple, IntTuple]]:
    """Shape and stride of the thread and the value mode."""
    shape, stride = tv.shape, tv.stride
    if not isinstance(shape, tuple) or not isinstance(stride, tuple):
        raise ArgumentTypeError(f"{tv} has no thread and value mode")
    return (shape[0], shape[1]), (stride[0], stride[1])
