"""Norms over columns: streams that are read twice, and slabs that one block holds.

    form        a form whose low modes are columns of one row of memory, reduced ones among them: a stream
    held        columns that one block holds
    stream_plan which rows of memory are one of a stream, and how blocks share it

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.columns.form import Stream, rows_of, stream_of, with_fold
from layoutalg.kernels.rowwise.columns.held import MOST_WORDS, HeldColumns, copy_us, held_columns, held_us
from layoutalg.kernels.rowwise.columns.stream_plan import Streamed, streamed

__all__ = [
    "MOST_WORDS",
    "HeldColumns",
    "Stream",
    "Streamed",
    "copy_us",
    "held_columns",
    "held_us",
    "rows_of",
    "stream_of",
    "streamed",
    "with_fold",
]
