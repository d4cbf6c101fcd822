"""Kernels that move data: copies, transposes and permutes of tensors with any strides.

    problem              a problem as it is asked, and the few modes that are left of it
    tiles                which tiles there are, the units that their runs touch, what these cost
    plan                 which of them is taken; how wide both sides move
    stage                what the tile of a configuration is made of, in plain numbers
    partition            which chunk or vector is number x, and where it lies on either side
    misaligned           what rows add to that which start anywhere, run backwards or are cut
    gather               how vectors are read from the tile
    matrix_plan          configurations of copies and transposes of matrices
    programs             the kernels: copies and permutes of any strides, copies and transposes of matrices
    bound                the least that memory moves, whatever the order
    certificate          why the tile lies in shared memory as it does
    families, cases      the records of this room's families, and the problems that are timed

Elements are moved bit by bit, never computed with, but for those that a permute converts.
"""

from __future__ import annotations

from layoutalg.kernels.move.bound import LeastBytes, least_bytes
from layoutalg.kernels.move.cases import SEED
from layoutalg.kernels.move.certificate import certify
from layoutalg.kernels.move.families import MOVE_FAMILIES
from layoutalg.kernels.move.matrix_plan import CopyConfig, TransposeConfig, copy_configs, transpose_configs
from layoutalg.kernels.move.plan import best as best_permute
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
from layoutalg.kernels.move.programs import (
    build_copy,
    build_permute,
    build_transpose,
    copy_problem,
    transpose_problem,
)
from layoutalg.kernels.move.stage import PermuteConfig

__all__ = [
    "MOVE_FAMILIES",
    "SEED",
    "WIDTHS_BYTES",
    "CopyConfig",
    "LeastBytes",
    "Moves",
    "PermuteConfig",
    "PermuteProblem",
    "TransposeConfig",
    "best_permute",
    "build_copy",
    "build_permute",
    "build_transpose",
    "certify",
    "copy_configs",
    "copy_problem",
    "least_bytes",
    "move_problem",
    "normalise",
    "permute_configs",
    "permute_problem",
    "reference",
    "relayout_problem",
    "transpose_configs",
    "transpose_problem",
]
