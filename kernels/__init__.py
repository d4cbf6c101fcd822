"""Families of kernels written as tile programs, and the calls that users make of them.

>>> print(*FAMILIES)
tiled_copy transpose permute sum mean max softmax layer_norm rms_norm relu gelu silu add gemm-simt gemm-sm80
"""

from __future__ import annotations

if __name__ != "layoutalg.kernels":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.kernels")

from layoutalg.kernels.api import permute, relayout, transpose
from layoutalg.kernels.family import Candidate, Family
from layoutalg.kernels.product_api import matmul
from layoutalg.kernels.reduce_api import layer_norm, reduce, rms_norm, softmax
from layoutalg.kernels.registry import FAMILIES, find_family
from layoutalg.kernels.verification import VerifyReport, verify

__all__ = [
    "FAMILIES",
    "Candidate",
    "Family",
    "VerifyReport",
    "find_family",
    "layer_norm",
    "matmul",
    "permute",
    "reduce",
    "relayout",
    "rms_norm",
    "softmax",
    "transpose",
    "verify",
]
