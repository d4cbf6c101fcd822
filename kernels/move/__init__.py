"""Kernels that move data: copies, transposes and permutes of tensors with any strides.

    tiled_copy           tiled_copy: copies with leading dimensions
    transpose            transpose: its program; transpose_plan: its configurations
    permute              permute: its program
    problem              a problem as it is asked, and the few modes that are left of it
    plan                 which modes make the tile, how wide both sides move; tile, stage
    misaligned, gather   where chunks and vectors of the tile lie, and how vectors are read from it
    certificate          why the tile lies in shared memory as it does
    permute_predict      what its accesses cost
    permute_bench        beside the libraries

Elements are moved bit by bit, never computed with.
"""

from __future__ import annotations
