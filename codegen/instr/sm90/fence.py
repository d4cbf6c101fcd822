"""Fences between proxies, and the registers of a warpgroup.

FENCE_PROXY_ASYNC_CTA: what threads have written to shared memory by ordinary stores, TMA and wgmma may read
only behind it; the threads that wrote execute it, then a barrier, then the copy starts.  FENCE_PROXY_ASYNC is
for global memory and the shared memory of other blocks too: ptxas puts a MEMBAR of the GPU in front of it.
FENCE_BARRIER_INIT does as much for the initialisation of mbarriers, for other blocks of a cluster too.  What
TMA has written needs no fence: whoever has waited at its mbarrier sees it.

SETMAXNREG_DEC and SETMAXNREG_INC give registers back and take them, per thread of a warpgroup: 24 to 256, a
multiple of 8.  A kernel with them is compiled for the one block per multiprocessor that its threads fill.

Sources: PTX ISA 9.0, 9.7.13.4 (membar, fence.proxy.async, fence.mbarrier_init), 9.7.20.5 (setmaxnreg); 8.7
(memory consistency model, proxies).
"""

from __future__ import annotations

from typing import Any

from layoutalg.codegen.instr.record import Instr, Requires, imm


def _fence(machine: Any, group: Any) -> None:
    machine.fence_proxy_async(group)


def _fence_cta(machine: Any, group: Any) -> None:
    machine.fence_proxy_async(group, cta=True)


def _fence_inits(machine: Any, group: Any) -> None:
    machine.mbarriers.fence_inits(group)


def _registers(machine: Any, group: Any, count: int) -> None:
    """Do nothing: the number of registers of a thread is the compiler's business."""


FENCE_PROXY_ASYNC = Instr(
    "fence_proxy_async",
    (),
    'void fence_proxy_async() {\n    asm volatile("fence.proxy.async;" ::: "memory");\n}',
    _fence,
    Requires(sm=90),
)
"""Writes before it are visible to the asynchronous proxy after it; it waits as a fence of the GPU does."""

FENCE_PROXY_ASYNC_CTA = Instr(
    "fence_proxy_async_cta",
    (),
    'void fence_proxy_async_cta() {\n    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");\n}',
    _fence_cta,
    Requires(sm=90),
)
"""The same of what threads of the block wrote to its own shared memory, which takes no fence of the GPU."""

FENCE_BARRIER_INIT = Instr(
    "fence_barrier_init",
    (),
    'void fence_barrier_init() {\n    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");\n}',
    _fence_inits,
    Requires(sm=90),
)
"""The initialisations of mbarriers before it become visible to TMA and to the blocks of the cluster."""


def _setmaxnreg(way: str) -> Instr:
    name = f"setmaxnreg_{way}"
    return Instr(
        name,
        (imm("count"),),
        f'void {name}() {{\n    asm volatile("setmaxnreg.{way}.sync.aligned.u32 %0;" :: "n"(count));\n}}',
        _registers,
        Requires(sm=90, warp_converged=True, warpgroup_converged=True, arch_specific=True),
    )


SETMAXNREG_INC, SETMAXNREG_DEC = _setmaxnreg("inc"), _setmaxnreg("dec")
