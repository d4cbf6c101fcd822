"""Families of kernels written as tile programs, and the calls that users make of them.

>>> sorted(FAMILIES)
['tiled_copy', 'transpose']
"""

from __future__ import annotations

if __name__ != "layoutalg.kernels":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.kernels")

from layoutalg.kernels.api import permute, relayout, transpose
from layoutalg.kernels.families import FAMILIES, find_family
from layoutalg.kernels.family import Family, VerifyReport, verify
from layoutalg.kernels.reduce_api import layer_norm, reduce, rms_norm, softmax

__all__ = [
    "FAMILIES",
    "Family",
    "VerifyReport",
    "find_family",
    "layer_norm",
    "permute",
    "reduce",
    "relayout",
    "rms_norm",
    "softmax",
    "transpose",
    "verify",
]
