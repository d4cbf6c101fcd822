"""Kernels that compute along some modes of a tensor: reductions, softmax, norms.

    tensors, reductions, norms    problems: tensors with reduced modes, their normal form, definitions
    entropy            cross entropy: losses of rows with targets
    walk, unaligned    the elements of each thread: layouts, and the arithmetic for misaligned rows
    packed             runs of short rows that a block copies: their tiles, and which threads take which
    forms              columns as a stream of whole rows, and reductions in two passes
    ways               configurations, and their times
    programs           the tile programs
    memory             the predicted DRAM traffic of a configuration
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
from layoutalg.kernels.rowwise.norms import NormProblem, added, checked_eps, norm_problem, normed
from layoutalg.kernels.rowwise.programs import NormLaunches
from layoutalg.kernels.rowwise.reductions import (
    FOLD,
    OF_INTEGERS,
    ReduceProblem,
    reduce_problem,
    reduced,
    results_of,
    share_of,
)
from layoutalg.kernels.rowwise.tensors import ELEMENTS, AxesProblem, axes_problem, find_axes, normalise
from layoutalg.kernels.rowwise.ways import NormConfig, ReduceConfig, ReducePlan, plan_with, plans
