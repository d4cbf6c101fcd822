"""Optimisation ladders: published steps of a kernel, and the gain that each is predicted to bring.

    sgemm, hgemm, hopper    the published kernels, programs of the kernel language; arrays what all have
    steps      the ladders as data: these programs, then configurations of the library's own kernels
    step       the predicted counts and bound of each step for a problem
    machines   rates of a multiprocessor per cycle, with their sources
    counters   accesses as hardware counters report them; the work of gemm-sm90 in closed form

Nothing imports this room: `kernels.registry.find_steps` finds it when a step is asked for.
"""

from __future__ import annotations

from layoutalg.kernels.ladder.machines import ARCH, Machine, find_machine
from layoutalg.kernels.ladder.step import Step, effects, predict_steps, usual_arch
from layoutalg.kernels.ladder.steps import LADDERS, PUBLISHED
