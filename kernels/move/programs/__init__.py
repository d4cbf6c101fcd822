"""The kernels that move data as programs.

permute    copies and permutes of any strides, built for one problem
matrix     copies and transposes of matrices, extents at run time, and their problems
"""

from __future__ import annotations

from layoutalg.kernels.move.programs.matrix import (
    build_copy,
    build_transpose,
    copy_problem,
    transpose_problem,
)
from layoutalg.kernels.move.programs.permute import build as build_permute

__all__ = ["build_copy", "build_permute", "build_transpose", "copy_problem", "transpose_problem"]
