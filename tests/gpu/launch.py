"""Launch generated kernels on plain allocations: the process that a profiler or a sanitizer watches.

python -m tests.gpu.launch transpose f32 4099 3077        one launch, the best configuration
python -m tests.gpu.launch all                            every family, dtype and configuration, small
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from layoutalg.codegen.gpu import load, require_gpu, to_device, to_host
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.family import Family
from layoutalg.kernels.matrix import MatrixProblem, arguments, buffers
from tests.sequences import MATRIX_OPS

DTYPES = ("u8", "f16", "f32", "f64", "c128")
SHAPES = ((256, 512, 0, 0), (131, 259, 0, 0), (140, 300, 20, 52), (1, 1, 0, 0))
"""m, n, extra source columns, extra destination columns."""


def small_problems(family: Family) -> Iterator[MatrixProblem]:
    """Full tiles, edge tiles, narrow vectors and gaps, in every element width."""
    for dtype in DTYPES:
        for m, n, more_src, more_dst in SHAPES:
            columns = m if family.name == "transpose" else n
            yield family.problem(m, n, dtype, n + more_src, columns + more_dst)


def launch(family: Family, problem: MatrixProblem, config: object) -> None:
    """One launch, compared with the reference."""
    src, old = buffers(problem, 5)
    dst = to_device(old)
    load(family.build(problem, config))(**arguments(problem, to_device(src), dst))
    if to_host(dst).tobytes() != family.reference(problem, src, old).tobytes():
        raise SystemExit(f"wrong result: {family.name} of {problem} with {config}")


def main(args: list[str]) -> None:
    """See the module's text."""
    import cupy

    cupy.cuda.set_allocator(None)  # one allocation an array, so that a sanitizer sees its ends
    arch = require_gpu().arch
    if args == ["all"]:
        done = 0
        for family in (FAMILIES[name] for name in MATRIX_OPS):
            for problem in small_problems(family):
                for config in family.configs(problem, arch):
                    launch(family, problem, config)
                    done += 1
        print(f"{done} launches correct")
        return
    name, dtype, m, n = args
    family = FAMILIES[name]
    problem = family.problem(int(m), int(n), dtype)
    launch(family, problem, family.configs(problem, arch)[0])


if __name__ == "__main__":
    main(sys.argv[1:])
