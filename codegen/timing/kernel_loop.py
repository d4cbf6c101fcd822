"""The main loop of a compiled kernel, timed: from its program, its machine code and facts of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from layoutalg.codegen.costs import traffic
from layoutalg.codegen.expr import Var
from layoutalg.codegen.gpu import Cubin, read_code
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.timing.bounds import LoopBounds, loop_bounds
from layoutalg.codegen.timing.facts import find_facts
from layoutalg.codegen.timing.scheduler import LoopTime, simulate_loop
from layoutalg.codegen.timing.steps import SCHEDULERS, Level, assumptions, loop_steps
from layoutalg.errors import UnsupportedError
from layoutalg.model import occupancy_of

WARP = 32


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The main loop of a kernel: what is simulated, what bounds it, and the numbers that nothing states."""

    arch: str
    level: Level
    blocks: int
    time: LoopTime
    bounds: LoopBounds
    assumed: tuple[str, ...]


def time_main_loop(
    kernel: Kernel, cubin: Cubin, arch: str, *, level: Level = "L2", blocks: int | None = None
) -> KernelTime:
    """The time of a turn of a kernel's main loop, with `blocks` on a multiprocessor, or as many as fit.

    Shared memory is accessed in the wavefronts that the program's accesses take on average, by instruction,
    at the largest sizes it is built for; global memory is served by `level`.  Raises UnsupportedError for a
    kernel without a main loop, one with an instruction that is not modelled, and an architecture of which
    nothing is known, and as `traffic` and `occupancy_of` do.

    >>> from layoutalg.codegen.gpu import prepare
    >>> from layoutalg.kernels import find_family
    >>> family = find_family("gemm-sm80")
    >>> p = family.problem(256, 256, 256)
    >>> kernel = family.launches(p, family.choose(p, "sm_90")).kernels[0]
    >>> found = time_main_loop(kernel, prepare(kernel, "sm_90").cubin, "sm_90")
    >>> found.bounds.least <= found.time.cycles
    True
    """
    facts = find_facts(arch)
    _, loop = read_code(kernel, cubin, encodings=True)
    if not loop:
        raise UnsupportedError(f"{kernel.name} has no loop that multiplies, so that none is timed")
    steps = loop_steps(loop, facts, level=level, wavefronts=wavefronts_of(kernel, arch))
    if blocks is None:
        held = occupancy_of(
            arch.removesuffix("a"), threads=kernel.threads, registers_per_thread=cubin.registers,
            shared_bytes=kernel.shared_bytes,
        )  # fmt: skip
        blocks = held.blocks_per_sm
    warps = blocks * -(-kernel.threads // (WARP * SCHEDULERS))
    l2_bytes = facts.value("l2 bytes")
    return KernelTime(
        arch,
        level,
        blocks,
        simulate_loop(steps, warps, blocks=blocks, queue=int(facts.value("queue lsu")), l2_bytes=l2_bytes),
        loop_bounds(steps, warps, l2_bytes=l2_bytes),
        assumptions(steps),
    )


def wavefronts_of(kernel: Kernel, arch: str) -> Mapping[str, float]:
    """The wavefronts of an instruction on average, by its name, at the largest sizes of a kernel.

    >>> from layoutalg.kernels import find_family
    >>> family = find_family("gemm-sm80")
    >>> p = family.problem(256, 256, 256)
    >>> kernel = family.launches(p, family.choose(p, "sm_90")).kernels[0]
    >>> wavefronts_of(kernel, "sm_90")["ldmatrix.x4"]
    4.0
    """
    most = {p.name: p.facts.hi for p in kernel.params if isinstance(p, Var)}
    costs = traffic(kernel, most, arch.removesuffix("a"))
    return {op: cost.total / cost.instructions for op, cost in costs.items() if cost.instructions}
