"""The time of an iteration of a main loop, and what its warps wait for: a model of issue, pipes and latency.

    facts       latencies and issue intervals by architecture, as data with provenance
    steps       the instructions of a loop as the model sees them: from machine code and its control words
    scheduler   the definition: warps on one scheduler, event by event
    bounds      lower bounds for any schedule: issue slots, pipes, the critical path of a warp
    kernel_loop the main loop of a compiled kernel

The definition is enumerated; the bounds are closed forms, and never exceed it.
"""

from __future__ import annotations

from layoutalg.codegen.timing.bounds import loop_bounds
from layoutalg.codegen.timing.facts import FACTS, find_facts, read_facts
from layoutalg.codegen.timing.kernel_loop import KernelTime, time_main_loop
from layoutalg.codegen.timing.scheduler import STATES, simulate_loop
from layoutalg.codegen.timing.steps import LoopStep, loop_steps
