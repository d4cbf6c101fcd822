"""The division of a product's work: rows in groups, k in parts, steps of k among blocks.

groups      groups of rows that have a B each
splitk      parts of k, and the kernel that adds them up
units       stream-K by definition: the steps of k that each block computes
"""

from __future__ import annotations

from layoutalg.kernels.gemm.work.groups import (
    BOX_ROWS,
    MOST_TOGETHER,
    Groups,
    drawn_sizes,
    equal_sizes,
    group_begins,
    group_boxes,
    group_words,
    grouped,
    most_row_tiles,
    room_for,
    sizes_of,
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
    "BOX_ROWS",
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
    "drawn_sizes",
    "equal_sizes",
    "group_begins",
    "group_boxes",
    "group_words",
    "grouped",
    "most_row_tiles",
    "part_count",
    "part_problem",
    "room_for",
    "share_of",
    "sizes_of",
    "slot_count",
]
