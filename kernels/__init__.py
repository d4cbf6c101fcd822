"""Families of kernels written as tile programs: copy and transpose.

>>> sorted(FAMILIES)
['tiled_copy', 'transpose']
"""

from __future__ import annotations

if __name__ != "layoutalg.kernels":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.kernels")

from layoutalg.kernels.api import permute, relayout, transpose
from layoutalg.kernels.families import FAMILIES, find_family
from layoutalg.kernels.family import Family, VerifyReport, verify

__all__ = [
    "FAMILIES",
    "Family",
    "VerifyReport",
    "find_family",
    "permute",
    "relayout",
    "transpose",
    "verify",
]
