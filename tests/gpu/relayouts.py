"""Random register re-layouts compiled by all cores and run on one GPU, beside their definition.

python -m tests.gpu.relayouts 200        as many pairs of layouts, all their plans
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from layoutalg.codegen.gpu import Cubin, compile_cubin, load_cubin, require_gpu, to_cuda, to_device, to_host
from layoutalg.codegen.program import Kernel
from layoutalg.registers import Conversion, convert_layout
from tests.gpu.counters import verdict
from tests.relayouts import as_words, expected_words, known_bits, random_pair, random_tile, relayout_kernel

ELEMENTS = ("u8", "f16", "f32", "f64", "c128")


def compiled(seed: int, arch: str) -> list[tuple[int, Conversion, str, Kernel, Cubin]]:
    """The kernels of all plans of a random conversion."""
    found = convert_layout(*random_pair(seed), ELEMENTS[seed % len(ELEMENTS)], arch)
    kernels = [(plan.kind, relayout_kernel(found, plan.kind)) for plan in (found.plan, *found.alternatives)]
    return [
        (seed, found, kind, kernel, compile_cubin(to_cuda(kernel, arch), kernel.name, arch))
        for kind, kernel in kernels
    ]


def is_right(found: Conversion, kernel: Kernel, cubin: Cubin, seed: int) -> bool:
    """One launch, compared with the definition."""
    import numpy as np

    bits = found.element.bits
    tile = random_tile(found.src, bits, seed)
    expected = expected_words(found.src, found.dst, tile, bits)
    src: Any = to_device(np.ascontiguousarray(as_words(tile, bits)).ravel())
    dst = to_device(np.zeros(expected.size, np.uint32))
    load_cubin(kernel, cubin, "")(src=src, dst=dst)
    mask = known_bits(1 << found.places.in_bits["register"], bits)
    return bool(((to_host(dst).reshape(expected.shape) ^ expected) & mask == 0).all())


def main(args: list[str]) -> int:
    """See the module's text."""
    count = int(args[0]) if args else 200
    arch = require_gpu().arch
    right: Counter[str] = Counter()
    wrong = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        for plans in pool.map(compiled, range(count), [arch] * count, chunksize=4):
            for seed, found, kind, kernel, cubin in plans:
                if is_right(found, kernel, cubin, seed):
                    right[kind] += 1
                else:
                    wrong.append(f"seed {seed}: {found.src} to {found.dst} by {kind}")
    print(*wrong, f"of {count} random pairs: {dict(right)}", sep="\n")
    return verdict(len(wrong), right.total() + len(wrong), "plans")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
