"""Launch generated reductions on plain allocations: the process that a profiler or a sanitizer watches.

python -m tests.gpu.reduce_launch sum f16 8191,8193 1     over axis 1, the best plan, of random bits;
                                                          more such words are further reductions
python -m tests.gpu.reduce_launch all                     sixty small random ones
"""

from __future__ import annotations

import sys

from layoutalg.codegen.gpu import load, random_bytes, require_gpu
from layoutalg.kernels.rowwise import plans, reduce_problem
from layoutalg.kernels.rowwise.programs.reduce import build
from tests.gpu.counters import cases_of, ints
from tests.gpu.reduce_cases import compiled, right


def main(args: list[str]) -> None:
    """See the module's text."""
    import cupy

    cupy.cuda.set_allocator(None)  # one allocation an array, so that a sanitizer sees its ends
    arch = require_gpu().arch
    if args == ["all"]:
        for seed in range(0, 120, 2):
            if not right(*compiled((seed, arch)), seed):
                raise SystemExit(f"wrong result: seed {seed}")
        print("60 launches correct")
        return
    for op, dtype, shape, axes in cases_of(args, 4):
        plan = plans(reduce_problem(ints(shape), ints(axes), op, dtype), arch)[0]
        src = random_bytes(plan.problem.read_bytes, 0).view(f"u{plan.problem.axes.dtype.nbytes}")
        work = cupy.zeros(max(1, plan.workspace_elems), "u4")
        dst = cupy.zeros(plan.problem.axes.outputs, "u4")
        chain = [src, work, dst] if plan.workspace_elems else [src, dst]
        for n, kernel in enumerate(build(plan)):
            load(kernel)(src=chain[n], dst=chain[n + 1].view(f"u{plan.passes[n].result.nbytes}"))
        cupy.cuda.runtime.deviceSynchronize()


if __name__ == "__main__":
    main(sys.argv[1:])
