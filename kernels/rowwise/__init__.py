"""Kernels that compute along some modes of a tensor: reductions, softmax, layer norm.

    reduce   sum, max, mean: the program; reduce_modes, reduce_plan, reduce_walk, reduce_model
    norm     softmax and layer norm: the kernels; norm_modes, norm_plan, norm_walk, norm_program,
             norm_exchange, norm_recipes, norm_pieces, norm_vectors, norm_traffic
    families, trials, bounds, cases   the records of this room's families; data on which they are verified,
             bounds of their results, problems that are timed

Numbers are f32 inside; `kernels.rounding` bounds the results.
"""

from __future__ import annotations
