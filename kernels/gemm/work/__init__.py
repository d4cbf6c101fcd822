"""How the work of a product is shared out: rows in groups, k in parts, steps of k among blocks.

groups      groups of rows that have a B each
splitk      parts of k, and the kernel that adds them up
units       stream-K by definition: which steps of k each block computes
"""

from __future__ import annotations

from layoutalg.kernels.gemm.work.groups import (
    MOST_TOGETHER,
    Groups,
    group_words,
    grouped,
    most_row_tiles,
    room_for,
)
from layoutalg.kernels.gemm.work.splitk import (
    THREADS,
    Part,
    added,
    build_combine,
    check_splits,
    combine_vector,
    declare_part,
    declare_share,
    part_problem,
)
from layoutalg.kernels.gemm.work.units import part_count, share_of, slot_count

__all__ = [
    "MOST_TOGETHER",
    "THREADS",
    "Groups",
    "Part",
    "added",
    "build_combine",
    "check_splits",
    "combine_vector",
    "declare_part",
    "declare_share",
    "group_words",
    "grouped",
    "most_row_tiles",
    "part_count",
    "part_problem",
    "room_for",
    "share_of",
    "slot_count",
]
