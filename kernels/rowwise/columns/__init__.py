"""Columns of norms and reductions: streams that are read twice, slabs that one block holds, two passes.

    form        a form whose low modes are columns of one row of memory, reduced ones among them: a stream
    held        columns that one block holds
    stream_plan which rows of memory are one of a stream, and how blocks share it
    two_passes  what the first of two passes of a reduction keeps, so that columns are whole vectors

Entered from kernels.rowwise.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.columns.form import Stream, rows_of, stream_of, with_fold
from layoutalg.kernels.rowwise.columns.held import MOST_WORDS, HeldColumns, copy_us, held_columns, held_us
from layoutalg.kernels.rowwise.columns.stream_plan import MOST_JOINING, Streamed, streamed
from layoutalg.kernels.rowwise.columns.two_passes import Beside, Later, first_pass, second_pass

__all__ = [
    "MOST_JOINING",
    "MOST_WORDS",
    "Beside",
    "HeldColumns",
    "Later",
    "Stream",
    "Streamed",
    "copy_us",
    "first_pass",
    "held_columns",
    "held_us",
    "rows_of",
    "second_pass",
    "stream_of",
    "streamed",
    "with_fold",
]
