"""The simulator: a tile program run on the CPU, with every hazard refused and every access traced.

    hazards      vector clocks: races between threads and copies
    machine      Machine, Group: memory, registers, warps, and the copies of cp.async in flight
    atomics      numbers joined to memory, in no order
    memtrace     MemTrace: what every access cost
    engines/     what works beside the warps: TMA, wgmma, mbarriers, clusters
    closures     expressions, compiled to closures over lanes
    operands     operands, compiled to loads and stores of lanes
    statements   statements compiled to generators
    simulator    simulate: all blocks of a launch; simulate_sequence: all launches of a sequence
    main_loops   timeline: the contents of a main loop's stages and registers, step by step
    waits        role_timeline: which warp waits for what, in a warp-specialized kernel

The simulator runs the lowered program, which is the one that is printed.
"""

from __future__ import annotations

from layoutalg.codegen.sim.main_loops import Timeline, Use, timeline
from layoutalg.codegen.sim.memtrace import MemTrace
from layoutalg.codegen.sim.simulator import Simulation, simulate, simulate_sequence
from layoutalg.codegen.sim.waits import RoleTimeline, role_timeline
