"""Run a tensor-core GEMM on small integers: by definition, in the simulator, and as text on the host."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Kernel, is_dynamic
from layoutalg.codegen.sim import simulate
from layoutalg.kernels.gemm.problem import GemmProblem
from tests.gemm_cases import arguments, taken
from tests.hostshim import run_cuda_text

Arrays = dict[str, Any]


def inputs(p: GemmProblem, seed: int = 0) -> Arrays:
    """Every argument, of small integers; all bits set where D goes."""
    given = arguments(p, seed)
    given["d"][:] = ~np.zeros_like(given["d"])
    return given


def simulated(
    kernel: Kernel, p: GemmProblem, x: Arrays, *, group: Literal["block", "warp"] = "block",
    seed: int = 0,
) -> Any:  # fmt: skip
    """The bits of D after the simulator has run the kernel."""
    fresh = taken(kernel, x)
    simulate(kernel, fresh, group=group, seed=seed, trace=False)
    return fresh["d"]


def host_run(
    lowered: Kernel, p: GemmProblem, x: Arrays, *, order: Literal["forward", "reverse"] = "forward"
) -> Any:
    """The bits of D after the host has run the kernel's text."""
    fresh = taken(lowered, x)
    args = {q.name: fresh[q.name] for q in lowered.params}
    grid = launch_grid(lowered, {k: v for k, v in args.items() if isinstance(v, int)})
    shared = lowered.shared_bytes if is_dynamic(lowered) else 0
    run_cuda_text(
        print_kernel(lowered), lowered.name, grid, (lowered.threads,), list(args.values()),
        shared, order=order,
    )  # fmt: skip
    return fresh["d"]
