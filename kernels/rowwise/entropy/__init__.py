"""Cross entropy: losses of rows with a target each, in one read of them.

problem    the problem, and its definition
kernels    launches: losses, their sum, their mean
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.entropy.kernels import configs, launches, room
from layoutalg.kernels.rowwise.entropy.problem import (
    IGNORE_INDEX,
    REDUCTIONS,
    CrossEntropyProblem,
    cross_entropy_problem,
    joined_losses,
    losses,
)

__all__ = [
    "IGNORE_INDEX",
    "REDUCTIONS",
    "CrossEntropyProblem",
    "configs",
    "cross_entropy_problem",
    "joined_losses",
    "launches",
    "losses",
    "room",
]
