"""Kernels that compute along some modes of a tensor: reductions, softmax, norms.

    problems           problems: tensors with reduced modes, their normal form, definitions
    walk, unaligned    the elements of each thread: layouts, and the arithmetic for misaligned rows
    packed             blocks that copy several short rows to shared memory: tiles, copies, a plan
    columns            reductions along columns: two passes over whole rows, or columns held by one block
    cluster            exchange between the blocks of a cluster, on Hopper, and its predicted time
    schedule           a configuration of a norm, and the iterations of its threads
    reduce_plan, reduce_model     configurations of reductions, and their times
    norm_plan, norm_columns     those of softmax and norms, and where elements are kept between two passes
    programs           the tile programs
    memory             the predicted DRAM traffic of a configuration
    entropy            cross entropy: losses of rows with targets
    families           the Family records

Floats are f32 internally; `kernels.elements` bounds the results.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.entropy import (
    IGNORE_INDEX,
    REDUCTIONS,
    CrossEntropyProblem,
    cross_entropy_problem,
    joined_losses,
    losses,
    room,
)
from layoutalg.kernels.rowwise.entropy import configs as loss_configs
from layoutalg.kernels.rowwise.families import ROWWISE_FAMILIES
from layoutalg.kernels.rowwise.problems import (
    ELEMENTS,
    FOLD,
    OF_INTEGERS,
    AxesProblem,
    NormProblem,
    ReduceProblem,
    added,
    axes_problem,
    checked_eps,
    find_axes,
    norm_problem,
    normed,
    reduce_problem,
    reduced,
    results_of,
    share_of,
)
from layoutalg.kernels.rowwise.programs import NormLaunches, arguments
from layoutalg.kernels.rowwise.reduce_plan import ReduceConfig, ReducePlan, plan_with, plans
from layoutalg.kernels.rowwise.schedule import NormConfig

__all__ = [
    "ELEMENTS",
    "FOLD",
    "IGNORE_INDEX",
    "OF_INTEGERS",
    "REDUCTIONS",
    "ROWWISE_FAMILIES",
    "AxesProblem",
    "CrossEntropyProblem",
    "NormConfig",
    "NormLaunches",
    "NormProblem",
    "ReduceConfig",
    "ReducePlan",
    "ReduceProblem",
    "added",
    "arguments",
    "axes_problem",
    "checked_eps",
    "cross_entropy_problem",
    "find_axes",
    "joined_losses",
    "loss_configs",
    "losses",
    "norm_problem",
    "normed",
    "plan_with",
    "plans",
    "reduce_problem",
    "reduced",
    "results_of",
    "room",
    "share_of",
]
