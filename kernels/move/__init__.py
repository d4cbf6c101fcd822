"""Kernels that move data: copies, transposes and permutes of tensors with any strides.

    matrix               copies and transposes of matrices, extents at run time; matrix_plan, matrix_predict
    permute              copies and permutes of any strides, built for one problem
    problem              a problem as it is asked, and the few modes that are left of it
    plan                 which modes make the tile, how wide both sides move; tile, stage
    partition            which chunk or vector is number x, and where it lies on either side
    misaligned           what rows add to that which start anywhere, run backwards or are cut
    gather               how vectors are read from the tile
    certificate          why the tile lies in shared memory as it does
    permute_predict      what its accesses cost
    families, cases      the records of this room's families, and the problems that are timed

Elements are moved bit by bit, never computed with.
"""

from __future__ import annotations
