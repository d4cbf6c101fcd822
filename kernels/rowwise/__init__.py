"""Kernels that compute along some modes of a tensor: reductions, softmax, norms.

    problems           what is asked: tensors with reduced modes, their normal form, definitions
    walk, unaligned    which thread reads what: layouts, and the arithmetic where rows start anywhere
    packed             blocks that copy runs of short rows to shared memory: tiles, copies, a plan
    columns            columns that are read twice as a stream of whole rows, or held by one block
    cluster            what blocks of a cluster exchange, on Hopper, and how long what they keep takes
    schedule           a configuration of a norm, and the rounds of its threads
    reduce_plan, reduce_model     configurations of reductions, and their times
    norm_plan          those of softmax and norms, and where elements stay between two visits
    programs           the kernels, written into a block
    memory             bytes of memory that a configuration is predicted to move
    entropy            cross entropy: losses of rows with targets
    families, trials   the records of this room's families, and what is timed; data on which they are
                       verified, and bounds of their results

Floats are f32 inside; `kernels.elements` bounds the results.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.entropy import (
    CROSS_ENTROPY,
    IGNORE_INDEX,
    REDUCTIONS,
    TARGETS,
    CrossEntropyProblem,
    cross_entropy_problem,
    joined_losses,
    room,
)
from layoutalg.kernels.rowwise.families import ROWWISE_FAMILIES, SEED, rowwise_cases
from layoutalg.kernels.rowwise.problems import (
    FOLD,
    INTEGERS,
    OF_INTEGERS,
    OPS,
    PARAMETERS,
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
    results_of,
)
from layoutalg.kernels.rowwise.programs import NormLaunches, arguments
from layoutalg.kernels.rowwise.reduce_plan import ReduceConfig, ReducePlan, plan_with, plans
from layoutalg.kernels.rowwise.schedule import NormConfig

__all__ = [
    "CROSS_ENTROPY",
    "FOLD",
    "IGNORE_INDEX",
    "INTEGERS",
    "OF_INTEGERS",
    "OPS",
    "PARAMETERS",
    "REDUCTIONS",
    "ROWWISE_FAMILIES",
    "SEED",
    "TARGETS",
    "AxesProblem",
    "CrossEntropyProblem",
    "NormConfig",
    "NormLaunches",
    "NormProblem",
    "ReduceConfig",
    "ReducePlan",
    "ReduceProblem",
    "arguments",
    "axes_problem",
    "checked_eps",
    "cross_entropy_problem",
    "find_axes",
    "joined_losses",
    "norm_problem",
    "normed",
    "plan_with",
    "plans",
    "reduce_problem",
    "reduced",
    "results_of",
    "room",
    "rowwise_cases",
]
