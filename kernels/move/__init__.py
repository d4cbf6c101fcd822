"""Kernels that move data: copies, transposes and permutes of tensors with any strides.

    problem              a problem, and its normal form with as few modes as possible
    tiles                candidate tiles, the sectors that they touch, and their cost
    plan                 the choice of a tile, and the vector widths of both sides
    stage                the derived quantities of a configuration's tile
    partition            the position of the x-th chunk or vector in source and destination
    gather               reading vectors from the tile
    matrix_plan          configurations of copies and transposes of matrices
    permute              the kernels of copies and permutes of any strides, built for one problem
    matrix               those of copies and transposes of matrices, extents at run time
    families             the Family records, with the least traffic of any order

Elements are copied bitwise, except those that a permute converts.
"""

from __future__ import annotations

from layoutalg.kernels.move.families import MOVE_FAMILIES, least_bytes
from layoutalg.kernels.move.matrix import build_transpose
from layoutalg.kernels.move.matrix_plan import CopyConfig, TransposeConfig, copy_configs, transpose_configs
from layoutalg.kernels.move.partition import MOVED
from layoutalg.kernels.move.permute import build as build_permute
from layoutalg.kernels.move.plan import configs as permute_configs
from layoutalg.kernels.move.problem import (
    WIDTHS_BYTES,
    Moves,
    PermuteProblem,
    move_problem,
    normalise,
    permute_problem,
    reference,
    relayout_problem,
)
from layoutalg.kernels.move.stage import PermuteConfig
