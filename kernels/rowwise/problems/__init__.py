"""The problems: a tensor some of whose modes are reduced, and the operation on it.

    tensors       tensors with reduced modes, and their normal form
    reductions    sums, extremes, indices, variances: their folds, and their definitions
    norms         softmax, layer norm, rms norm, by definition

Each checks its arguments once.
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.problems.norms import (
    NormProblem,
    added,
    checked_eps,
    norm_problem,
    normed,
)
from layoutalg.kernels.rowwise.problems.reductions import (
    FOLD,
    FOLDED,
    INT32_COUNT,
    INTEGERS,
    OF_INTEGERS,
    WAY,
    Labels,
    ReduceProblem,
    fold_of,
    reduce_problem,
    reduced,
    results_of,
    share_of,
)
from layoutalg.kernels.rowwise.problems.tensors import (
    ELEMENTS,
    AxesProblem,
    Form,
    Mode,
    axes_problem,
    fewest,
    find_axes,
    normalise,
)

__all__ = [
    "ELEMENTS",
    "FOLD",
    "FOLDED",
    "INT32_COUNT",
    "INTEGERS",
    "OF_INTEGERS",
    "WAY",
    "AxesProblem",
    "Form",
    "Labels",
    "Mode",
    "NormProblem",
    "ReduceProblem",
    "added",
    "axes_problem",
    "checked_eps",
    "fewest",
    "find_axes",
    "fold_of",
    "norm_problem",
    "normalise",
    "normed",
    "reduce_problem",
    "reduced",
    "results_of",
    "share_of",
]
