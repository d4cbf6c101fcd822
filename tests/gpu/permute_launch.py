"""Launch generated permutes on plain allocations: the process that a profiler or a sanitizer watches.

python -m tests.gpu.permute_launch f16 31,63,127,255 3,1,0,2     one launch, the best configuration
python -m tests.gpu.permute_launch all                           sixty small random ones
"""

from __future__ import annotations

import random
import sys
from typing import Any

from layoutalg.codegen.gpu import load, require_gpu, to_host
from layoutalg.codegen.program import Kernel
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import PermuteProblem, normalise, permute_problem, reference
from layoutalg.kernels.move.programs.permute import build
from tests.permutations import random_buffers, random_problem


def on_gpu(array: Any, size: int) -> Any:
    """The bytes of an array on the GPU, as elements of `size` bytes, in whole 16-byte units."""
    import cupy

    raw = cupy.zeros(-(-array.nbytes // size) * size, dtype="uint8")
    raw[: array.nbytes] = cupy.asarray(array.view("uint8"))
    return raw.view(CARRIER[size])


def run(p: PermuteProblem, kernel: Kernel, size: int, seed: int) -> bool:
    """One launch, compared with the reference."""
    src, old = random_buffers(p, seed)
    expected = reference(p, src, old)
    from_, to = on_gpu(src, size), on_gpu(old, size)
    load(kernel)(src=from_, dst=to)
    result = to_host(to.view("uint8"))[: old.nbytes]
    return bool((result == expected.view("uint8")).all())


def main(args: list[str]) -> None:
    """See the module's text."""
    import cupy

    cupy.cuda.set_allocator(None)  # one allocation an array, so that a sanitizer sees its ends
    arch = require_gpu().arch
    if args == ["all"]:
        for seed in range(60):
            p = random_problem(random.Random(seed), 4000)
            x = normalise(p)
            for config in configs(x, arch):
                if not run(p, build(x, config), x.element_bytes, seed):
                    raise SystemExit(f"wrong result: {p} with {config}")
        print("60 launches correct")
        return
    dtype, shape, axes = args
    p = permute_problem(_ints(shape), _ints(axes), dtype)
    x = normalise(p)
    if not run(p, build(x, configs(x, arch)[0]), x.element_bytes, 0):
        raise SystemExit(f"wrong result: {p}")


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    main(sys.argv[1:])
