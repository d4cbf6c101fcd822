"""The choice of the fastest configuration for a product: what is offered, tried and refused.

tables      the tiles that are offered, with measured numbers, as data
heuristic   the configurations to try, best first; refusals that name the nearest valid one
sm90_time   the expected time of the wgmma configurations
"""

from __future__ import annotations

from layoutalg.kernels.gemm.choice.heuristic import (
    GEMV,
    SIMT,
    SM75,
    SM80,
    SM90,
    Choice,
    check_or_suggest,
    cold_ns,
    expected_family,
)

__all__ = [
    "GEMV", "SIMT", "SM75", "SM80", "SM90", "Choice", "check_or_suggest", "cold_ns", "expected_family",
]  # fmt: skip
