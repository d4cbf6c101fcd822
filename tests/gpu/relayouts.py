"""Random register re-layouts compiled by all cores and run on one GPU, beside their definition.

python -m tests.gpu.relayouts 200        as many pairs of layouts, all their plans
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from layoutalg.codegen import gpu
from layoutalg.codegen.program import Kernel
from layoutalg.registers import Conversion, convert_layout
from tests.draws import relayouts
from tests.gpu import seeds

ELEMENTS = ("u8", "f16", "f32", "f64", "c128")
Made = tuple[Conversion, list[tuple[str, Kernel, gpu.Cubin]]]


def compiled(asked: tuple[int, str]) -> Made:
    """A random conversion, and the kernels of all its plans."""
    seed, arch = asked
    found = convert_layout(*relayouts.random_pair(seed), ELEMENTS[seed % len(ELEMENTS)], arch)
    made = (
        (plan.kind, relayouts.relayout_kernel(found, plan.kind)) for plan in (found.plan, *found.alternatives)
    )
    return found, [(kind, k, gpu.compile_cubin(gpu.to_cuda(k, arch), k.name, arch)) for kind, k in made]


def run(seed: int, arch: str, made: Made) -> None:
    """A launch of every plan.  Raises AssertionError for a result that is not the definition's."""
    found, plans = made
    bits = found.element.bits
    tile = relayouts.random_tile(found.src, bits, seed)
    expected = relayouts.expected_words(found.src, found.dst, tile, bits)
    src: Any = gpu.to_device(np.ascontiguousarray(relayouts.as_words(tile, bits)).ravel())
    mask = relayouts.known_bits(1 << found.places.in_bits["register"], bits)
    for kind, kernel, cubin in plans:
        dst = gpu.to_device(np.zeros(expected.size, np.uint32))
        gpu.load_cubin(kernel, cubin, "")(src=src, dst=dst)
        right = ((gpu.to_host(dst).reshape(expected.shape) ^ expected) & mask == 0).all()
        assert right, f"{found.src} to {found.dst} by {kind}"


def wrong_cases(every: Sequence[int]) -> Iterator[str]:
    """Run the pairs of some seeds; describe those that a plan does not convert."""
    return seeds.wrong(compiled, run, every)


if __name__ == "__main__":
    sys.exit(seeds.main(sys.argv[1:], wrong_cases, "random pairs", 200, ()))
