"""A barrier of blocks of a launch, all of which are there at the same time.

The idea.  A counter in global memory is 0 before the launch.  One thread of each block adds 1 when its block
has arrived, and waits until as many have as it says; what any thread of those wrote before, every thread sees
behind it:

    GRID_SYNC(count, arrivals)      arrivals: the blocks that meet here, times the number of this barrier

Blocks that wait for each other have to be resident together: the launch is a cooperative one, which the
driver refuses where they do not fit.  The counter stays there; whoever launches again clears it.

Sources: PTX ISA 9.0, 9.7.13.15 (red), 9.7.9.8 (ld.acquire), 8.8 (memory consistency: release and acquire
patterns, and the synchronisation of bar.sync); CUDA Driver API 13.0, CU_LAUNCH_ATTRIBUTE_COOPERATIVE.
"""

from __future__ import annotations

from typing import Any

from layoutalg.codegen.instr.record import Instr, Operand, Requires, value


def _meet(machine: Any, group: Any, count: Any, arrivals: Any) -> None:
    machine.grid.meet(group, count, arrivals)


def _open(machine: Any, group: Any) -> bool:
    return bool(machine.grid.passed(group))


GRID_SYNC = Instr(
    "grid_sync",
    (Operand("count", "place", space="global", bytes=4), value("arrivals")),
    "void grid_sync(void* count, u32 arrivals) {\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        u32 found;\n"
    '        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(count) : "memory");\n'
    "        do {\n"
    '            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"\n'
    '                : "=r"(found) : "l"(count) : "memory");\n'
    "        } while (found < arrivals);\n"
    "    }\n"
    "    __syncthreads();\n"
    "}",
    _meet,
    Requires(block_converged=True, all_blocks=True),
    ready=_open,
)
"""All threads of the blocks that count there arrive, then all go on."""
