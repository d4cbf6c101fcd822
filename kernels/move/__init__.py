"""Kernels that move data: copies, transposes and permutes of tensors with any strides.

    tiled_copy           tiled_copy: copies with leading dimensions
    transpose            transpose: its program; transpose_plan: its configurations
    permute              permute: its program
    permute_modes        a problem as it is asked, and the few modes that are left of it
    permute_plan         which modes make the tile; permute_stage, permute_tile, permute_index, permute_reads
    permute_certificate  why the tile lies in shared memory as it does
    permute_predict      what its accesses cost
    permute_bench        beside the libraries
    refinement           relayout as a permute

Elements are moved bit by bit, never computed with.
"""

from __future__ import annotations
