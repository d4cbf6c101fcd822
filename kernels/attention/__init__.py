"""Attention, forward: O = softmax(score(scale Q K^T)) V, with the logarithm of each row's sum.

problem     AttentionProblem: sizes, masks, strides; its definition in float64
program     the kernel, with wgmma and TMA
family      its configurations and launches, as a record
"""

from __future__ import annotations

from layoutalg.kernels.attention.family import ATTENTION_FAMILIES, by_tma, memory
from layoutalg.kernels.attention.problem import (
    ARRAYS,
    Align,
    AttentionProblem,
    Score,
    attention_problem,
    reference,
)
