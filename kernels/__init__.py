"""Families of kernels written as tile programs, and the calls that users make of them.

    family, registry       Family: what a family of kernels states; all families by name
    move, rowwise, elementwise, gemm, ladder      the rooms of the families, and the steps to their products
    verification, bench    a family against its definition, and against the clock
    baselines              other libraries, and the least that the hardware needs
    calls                  the room of what users call on arrays: moves, reductions, norms, products
    plan_cache             launches that are ready, kept
    tuning                 the room of stores of timings, lock files, and the search that fills them
    identity               values as data that no other value has
    sizes                  bytes of the buffers of a launch, as expressions
    modes, matrix          strided modes in their normal form; two matrices with leading dimensions
    config_fields          fields of configurations, and which configurations are near
    elements               elements as bits and numbers, and how they are rounded

>>> print(*list(FAMILIES)[:12])
tiled_copy transpose permute sum mean max min prod argmax argmin var logsumexp
>>> print(*list(FAMILIES)[12:])
softmax layer_norm rms_norm cross_entropy relu gelu silu add gemm-simt gemm-sm75 gemm-sm80 gemm-sm90 gemv
"""

from __future__ import annotations

if __name__ != "layoutalg.kernels":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.kernels")

from layoutalg.kernels.calls import (
    Prepared,
    cross_entropy,
    grouped_matmul,
    layer_norm,
    matmul,
    permute,
    plan_grouped_matmul,
    plan_matmul,
    prepare,
    reduce,
    relayout,
    rms_norm,
    softmax,
    transpose,
)
from layoutalg.kernels.family import Candidate, Family
from layoutalg.kernels.registry import FAMILIES, find_family
from layoutalg.kernels.verification import VerifyReport, verify

__all__ = [
    "FAMILIES",
    "Candidate",
    "Family",
    "Prepared",
    "VerifyReport",
    "cross_entropy",
    "find_family",
    "grouped_matmul",
    "layer_norm",
    "matmul",
    "permute",
    "plan_grouped_matmul",
    "plan_matmul",
    "prepare",
    "reduce",
    "relayout",
    "rms_norm",
    "softmax",
    "transpose",
    "verify",
]
