"""Optimisation ladders: published steps of a kernel, and the gain that each is predicted to bring.

    sgemm, hgemm, hopper    the published kernels, programs of the kernel language; arrays what all have
    steps      the ladders as data: these programs, then configurations of the library's own kernels
    step       a step for a problem: its counts, and its bound
    gemm       the predicted counts and bounds of each step of a GEMM ladder
    machines   rates of a multiprocessor per cycle, with their sources
    sm90       the work of a launch of gemm-sm90, in closed form
    counters   accesses as hardware counters report them

Nothing imports this room: `kernels.registry.find_steps` finds it when a step is asked for.
"""

from __future__ import annotations

from layoutalg.kernels.ladder.gemm import effects, predict_steps, usual_arch
from layoutalg.kernels.ladder.machines import ARCH, Machine, find_machine
from layoutalg.kernels.ladder.step import Step
from layoutalg.kernels.ladder.steps import LADDERS, PUBLISHED
