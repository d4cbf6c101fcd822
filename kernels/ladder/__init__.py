"""Optimisation ladders: published steps of a kernel, and the gain that each is predicted to bring.

    steps      the ladders as data: options on a base configuration, one after the other
    step       a step for a problem: its counts, and its bound
    gemm       the predicted counts and bounds of each step of a GEMM ladder
    machines   rates of a multiprocessor per cycle, with their sources
    sm90       the work of a launch of gemm-sm90, in closed form; sm90_steps its ladder,
               wgmma the steps of it for a problem
    steps_of   the steps of any family
    counters   accesses as hardware counters report them

Each step is a configuration of the library's own kernels, except the first of gemm-sm90, which has one tile
per block.
"""

from __future__ import annotations

from layoutalg.kernels.ladder.gemm import ARCH, effects, usual_arch
from layoutalg.kernels.ladder.machines import Machine, find_machine
from layoutalg.kernels.ladder.step import Step
from layoutalg.kernels.ladder.steps import LADDERS, PUBLISHED
from layoutalg.kernels.ladder.steps_of import predict_steps

__all__ = [
    "ARCH", "LADDERS", "PUBLISHED", "Machine", "Step", "effects", "find_machine", "predict_steps",
    "usual_arch",
]  # fmt: skip
