"""Launch matrix products on plain allocations: the process that a profiler or a sanitizer watches.

python -m tests.gpu.gemm_launch gemm_sm80 f16 1024 1024 512    one launch, the best configuration
python -m tests.gpu.gemm_launch all                            every type, storage, tile and step, small
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from layoutalg.codegen.runtime import load, require_gpu, to_device, to_host
from layoutalg.codegen.tile import Kernel
from layoutalg.kernels import gemm_simt, gemm_sm80
from layoutalg.kernels.gemm import GemmProblem, Major, gemm_problem
from layoutalg.kernels.gemm_simt_configs import configs as simt_configs
from layoutalg.kernels.gemm_sm80_configs import configs as sm80_configs
from layoutalg.kernels.gemm_sm80_plan import LADDER
from tests.gemm_cases import arguments, expected, taken

BUILDS: dict[str, tuple[Any, Any]] = {
    "gemm_sm80": (gemm_sm80.build, sm80_configs), "gemm_simt": (gemm_simt.build, simt_configs)
}  # fmt: skip
TYPES = {
    "gemm_sm80": (("f16", None), ("f16", "f16"), ("bf16", None), ("tf32", None), ("s8", None)),
    "gemm_simt": (("f32", None), ("f64", None)),
}
SHAPES = ((256, 256, 128), (1, 1, 1), (127, 257, 61), (200, 72, 136), (64, 8, 1024))


def small_problems(name: str) -> Iterator[GemmProblem]:
    """Whole tiles, edges, single elements, both storages of both operands, with and without C."""
    majors: tuple[Major, Major] = ("k", "mn")
    for dtype, sums in TYPES[name]:
        for m, n, k in SHAPES:
            for a_major in majors:
                for b_major in majors:
                    if dtype in ("tf32", "s8") and "mn" in (a_major, b_major):
                        continue
                    extra = n % 2
                    yield gemm_problem(
                        m, n, k, dtype, accumulator=sums, a_major=a_major, b_major=b_major, ldd=n + extra,
                        reads_c=bool(extra), bias=m > 200, activation="relu" if k > 1000 else "none",
                    )  # fmt: skip


def small_launches(name: str, arch: str) -> Iterator[tuple[GemmProblem, Any]]:
    """The two best configurations of every small problem, and every configuration of the first."""
    for number, p in enumerate(small_problems(name)):
        yield from ((p, config) for config in BUILDS[name][1](p, arch)[: None if number == 0 else 2])


def result(kernel: Kernel, args: dict[str, Any]) -> Any:
    """D after one launch."""
    mine = {name: to_device(x) if isinstance(x, np.ndarray) else x for name, x in taken(kernel, args).items()}
    load(kernel)(**mine)
    return to_host(mine["d"])


def launch(name: str, p: GemmProblem, config: Any) -> None:
    """One launch on small integers, compared with the definition bit by bit."""
    args = arguments(p, seed=5)
    found = result(BUILDS[name][0](p, config), args)
    if found.tobytes() != expected(p, args).tobytes():
        raise SystemExit(f"wrong result: {name} of {p} with {config!r}")


def main(args: list[str]) -> None:
    """See the module's text."""
    import cupy

    cupy.cuda.set_allocator(None)  # one allocation an array, so that a sanitizer sees its ends
    arch = require_gpu().arch
    if args == ["all"]:
        done = 0
        for name in BUILDS:
            for p, config in small_launches(name, arch):
                launch(name, p, config)
                done += 1
        for config in LADDER.values():
            launch("gemm_sm80", gemm_problem(512, 512, 256), config)
            done += 1
        print(f"{done} launches correct")
        return
    name, dtype, *sizes = args
    m, n, k = map(int, sizes)
    p = gemm_problem(m, n, k, dtype)
    launch(name, p, BUILDS[name][1](p, arch)[0])


if __name__ == "__main__":
    main(sys.argv[1:])
