"""Launch generated norms on plain allocations: the process that a profiler or a sanitizer watches.

python -m tests.gpu.norm_launch softmax f16 8191,8193 1       the best plan, of random numbers;
                                                              more such words are further norms
python -m tests.gpu.norm_launch all                           sixty small random ones
"""

from __future__ import annotations

import sys

from layoutalg.codegen.gpu import in_processes, load, random_normal, require_gpu
from layoutalg.kernels.rowwise import arguments, norm_problem
from layoutalg.kernels.rowwise.programs.norm import plan
from tests.gpu.counters import cases_of, ints
from tests.gpu.norm_cases import compiled, run

UNIT_ELEMS = 8


def main(args: list[str]) -> None:
    """See the module's text."""
    import cupy

    cupy.cuda.set_allocator(None)  # one allocation an array, so that a sanitizer sees its ends
    arch = require_gpu().arch
    if args == ["all"]:
        seeds = range(0, 120, 2)
        for seed, kernels in zip(seeds, in_processes(compiled, [(s, arch) for s in seeds]), strict=True):
            run(seed, arch, kernels)
        print("60 launches correct")
        return
    for op, dtype, shape, axes in cases_of(args, 4):
        p = norm_problem(op, ints(shape), ints(axes), dtype)
        launches, word = plan(p, arch), f"u{p.dtype.nbytes}"
        src = random_normal(-(-p.axes.source_elems // UNIT_ELEMS) * UNIT_ELEMS, 0, dtype).view(word)
        dst, work = cupy.empty_like(src), cupy.zeros(max(4, launches.workspace_elems), "f4")
        loaded = [load(kernel) for kernel in launches.kernels]
        for kernel in loaded:
            kernel(**arguments(kernel.kernel, src=src, dst=dst, partial=work))
        cupy.cuda.runtime.deviceSynchronize()


if __name__ == "__main__":
    main(sys.argv[1:])
