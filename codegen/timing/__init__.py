"""How long a turn of a main loop takes, and what its warps wait for: a model of issue, pipes and latency.

    facts       latencies and issue intervals by architecture, as data with provenance
    steps       what the model knows of each instruction of a loop: from machine code and its control words
    scheduler   the definition: warps on one scheduler, event by event
    bounds      what no schedule can be faster than: issue slots, pipes, the critical path of a warp
    kernel_loop the main loop of a compiled kernel

The definition is enumerated; the bounds are closed forms beside it, and never more.
"""

from __future__ import annotations

from layoutalg.codegen.timing.bounds import LoopBounds, loop_bounds
from layoutalg.codegen.timing.facts import FACTS, Fact, Facts, find_facts, read_facts
from layoutalg.codegen.timing.kernel_loop import KernelTime, time_main_loop, wavefronts_of
from layoutalg.codegen.timing.scheduler import STATES, LoopTime, simulate_loop
from layoutalg.codegen.timing.steps import LEVELS, SCHEDULERS, LoopStep, assumptions, loop_steps

__all__ = [
    "FACTS",
    "LEVELS",
    "SCHEDULERS",
    "STATES",
    "Fact",
    "Facts",
    "KernelTime",
    "LoopBounds",
    "LoopStep",
    "LoopTime",
    "assumptions",
    "find_facts",
    "loop_bounds",
    "loop_steps",
    "read_facts",
    "simulate_loop",
    "time_main_loop",
    "wavefronts_of",
]
