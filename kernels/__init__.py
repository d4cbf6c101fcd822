"""Kernel families, written as tile programs, and the functions on arrays that run them.

    family, registry       Family: the interface that a kernel family implements; all families by name
    move, rowwise, elementwise, quantize, gemm, attention    the families; ladder: published steps of products
    checks                 what families are verified on, and timed beside; `verify`
    bench                  families, timed
    calls                  the functions on arrays (layoutalg.ops): moves, reductions, norms, matrix products
    plan_cache             a cache of prepared launches
    tuning                 files of timings, lock files, and the search that fills them
    identity               problems and configurations by their fields: as JSON, digests of it, what is near
    sizes                  bytes of the buffers of a launch, as expressions
    norms                  the norms by name
    modes, matrix          strided modes in their normal form; two matrices with leading dimensions
    model                  the time of a launch: the work that a way states, the numbers of a board
    files                  files that others may have written, read by the types of records
    elements               elements as bits and numbers, and their rounding

>>> from layoutalg.kernels import FAMILIES
>>> print(*list(FAMILIES)[:12])
tiled_copy transpose permute sum mean max min prod argmax argmin var logsumexp
>>> print(*list(FAMILIES)[-6:])
quantize_mxfp4 gemm-simt gemm-sm75 gemm-sm80 gemm-sm90 gemv
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later

if __name__ != "layoutalg.kernels":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.kernels")

if TYPE_CHECKING:
    from layoutalg.kernels.checks import VerifyReport, verify
    from layoutalg.kernels.family import Candidate, Family
    from layoutalg.kernels.registry import FAMILIES, find_family

_PLACES = {"family": "Candidate Family", "registry": "FAMILIES find_family", "checks": "VerifyReport verify"}

__all__ = ["FAMILIES", "Candidate", "Family", "VerifyReport", "find_family", "verify"]

__getattr__ = later(__name__, _PLACES)
