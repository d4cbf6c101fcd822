"""What the published steps of a kernel bring, one by one.

    steps      the ladders as data: options on a base configuration, one after the other
    step       a step at a problem: its counts, and what bounds it
    gemm       what each step of a product's ladder will execute, and what bounds it
    machines   what a multiprocessor does in a cycle, and where each rate is from
    sm90       what a launch of gemm-sm90 makes the hardware do, in closed form; sm90_steps its ladder,
               wgmma the steps of it at a problem
    counters   accesses as counters of the hardware show them

Each step is a configuration of the kernels that users run, but the first of gemm-sm90, which has one tile
per block.
"""

from __future__ import annotations

from layoutalg.kernels.ladder.gemm import ARCH, effects, predict_steps, usual_arch
from layoutalg.kernels.ladder.machines import Machine, find_machine
from layoutalg.kernels.ladder.step import Step
from layoutalg.kernels.ladder.steps import LADDERS, PUBLISHED

__all__ = [
    "ARCH", "LADDERS", "PUBLISHED", "Machine", "Step", "effects", "find_machine", "predict_steps",
    "usual_arch",
]  # fmt: skip
