"""The kernels of sm_75 on a GPU that is newer: their PTX, which the driver compiles for it when it is loaded.

python -m tests.gpu.turing           every step of the ladder, and some tiles, exact on small integers
python -m tests.gpu.turing 4096      and the rates of the steps, of sm_75's PTX and compiled natively
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace

from layoutalg.codegen import gpu
from layoutalg.kernels.gemm import gemm_problem
from layoutalg.kernels.gemm.choice import SM75
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.ladder.steps import SM75_LADDER
from tests.gpu.gemm_launch import Product, Way, launch_all, launcher

TURING = "sm_75"
PTX_VERSION = ".version 7.0"
"""The PTX states it for drivers that are older than the compiler; it has nothing newer."""


def by_ptx(way: Way) -> gpu.CompiledSequence:
    """The launches of one way, printed and compiled for sm_75, with PTX in the place of machine code."""
    compiled = gpu.compile_sequence(launches(*way, TURING), TURING)
    made = []
    for one in compiled.prepared:
        ptx = gpu.compile_ptx(one.source, one.kernel.name, TURING)
        image = re.sub(r"\.version \d+\.\d+", PTX_VERSION, ptx, count=1).encode() + b"\0"
        made.append(replace(one, cubin=replace(one.cubin, image=image)))
    return replace(compiled, prepared=tuple(made))


def ways() -> Iterator[Way]:
    """Every step on whole tiles; the best tiles of edges, single elements and f32 sums."""
    whole = gemm_problem(512, 512, 256, accumulator="f16", b_major="mn", reads_c=True)
    yield from ((whole, config) for config in SM75_LADDER.values())
    for p in (
        gemm_problem(200, 136, 72, accumulator="f16", b_major="mn", bias=True, activation="relu"),
        gemm_problem(67, 131, 45, reads_c=True),
        gemm_problem(256, 256, 96, a_major="mn", b_major="mn", accumulator="f16"),
        gemm_problem(64, 72, 1024),
    ):
        yield from ((p, config) for config in SM75.configs(p, TURING)[:2])


def check() -> int:
    """Launch every way, compared with the definition bit by bit; how many there were."""
    asked = list(ways())
    return launch_all(asked, gpu.in_processes(by_ptx, asked))


def rates(n: int) -> None:
    """TFLOP/s of each step, by PTX of sm_75 and by machine code for this GPU, in turns."""
    p, arch = gemm_problem(n, n, n, accumulator="f16", b_major="mn"), gpu.require_gpu().arch
    asked = [(p, config) for config in SM75_LADDER.values()]
    natively = [gpu.compile_sequence(launches(*way, arch), arch) for way in asked]
    given = Product(p).words
    runs = [[launcher(one, given)] for one in (*gpu.in_processes(by_ptx, asked), *natively)]
    found = [p.flops / ms / 1e9 for ms in gpu.median_times_ms(runs)]
    print(f"{p}, TFLOP/s: PTX of {TURING}, and {arch}")
    for name, one, other in zip(SM75_LADDER, found, found[len(asked) :], strict=False):
        print(f"{name:<36} {one:8.1f} {other:8.1f}")


def main(args: list[str]) -> None:
    """See the module's text."""
    gpu.require_gpu()
    print(f"{check()} ways of {TURING} correct")
    if args:
        rates(int(args[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
