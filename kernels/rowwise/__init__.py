"""Kernels that compute along some modes of a tensor: reductions, softmax, norms.

    axes, problems     what is asked: a tensor of which some modes are reduced, and its normal form
    walk, unaligned    which thread reads what: layouts, and the arithmetic where rows start anywhere
    block, block_reduce     the kernel that is being written, and what its threads exchange
    reduce_plan, reduce     sum, max, mean: configurations, and the program
    norm_plan, schedule, norm     softmax and norms: the same, and where elements stay between two visits
    families, trials, bounds, cases     the records of this room's families; data on which they are verified,
                       bounds of their results, problems that are timed

Numbers are f32 inside; `kernels.rounding` bounds the results.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.norm import NormLaunches, arguments
from layoutalg.kernels.rowwise.norm_plan import NormConfig
from layoutalg.kernels.rowwise.problems import (
    FOLD,
    OPS,
    AxesProblem,
    NormProblem,
    ReduceProblem,
    axes_problem,
    checked_eps,
    find_axes,
    norm_problem,
    normed,
    reduce_problem,
    reduced,
)
from layoutalg.kernels.rowwise.reduce_plan import ReduceConfig, ReducePlan, plan_with, plans

__all__ = [
    "FOLD",
    "OPS",
    "AxesProblem",
    "NormConfig",
    "NormLaunches",
    "NormProblem",
    "ReduceConfig",
    "ReducePlan",
    "ReduceProblem",
    "arguments",
    "axes_problem",
    "checked_eps",
    "find_axes",
    "norm_problem",
    "normed",
    "plan_with",
    "plans",
    "reduce_problem",
    "reduced",
]
