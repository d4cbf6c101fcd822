"""What the published steps of a kernel bring, one by one.

    steps      the ladders as data: options on a base configuration, one after the other
    gemm       what each step of a product's ladder will execute, and what bounds it
    counters   accesses as counters of the hardware show them

Each step is a configuration of the kernels that users run.
"""

from __future__ import annotations

from layoutalg.kernels.ladder.gemm import ARCH, Step, effects, predict_steps
from layoutalg.kernels.ladder.steps import LADDERS

__all__ = ["ARCH", "LADDERS", "Step", "effects", "predict_steps"]
