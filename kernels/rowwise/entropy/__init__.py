"""Cross entropy: losses of rows with a target each, in one read of them.

problem    the problem, and its definition
kernels    launches: losses, their sum, their mean
family     the record of the family: how it is verified and timed
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.entropy.family import CROSS_ENTROPY
from layoutalg.kernels.rowwise.entropy.kernels import room
from layoutalg.kernels.rowwise.entropy.problem import (
    IGNORE_INDEX,
    REDUCTIONS,
    CrossEntropyProblem,
    cross_entropy_problem,
    joined_losses,
)

__all__ = [
    "CROSS_ENTROPY",
    "IGNORE_INDEX",
    "REDUCTIONS",
    "CrossEntropyProblem",
    "cross_entropy_problem",
    "joined_losses",
    "room",
]
