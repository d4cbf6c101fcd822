"""The kernels of sm_75 on a GPU that is newer: their PTX, which the driver compiles for it when it is loaded.

python -m tests.gpu.turing           every step of the ladder, and some tiles, exact on small integers
python -m tests.gpu.turing 4096      and the rates of the steps, of sm_75's PTX and compiled natively
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace

from layoutalg.codegen.gpu import (
    CompiledSequence,
    compile_ptx,
    compile_sequence,
    device_array,
    in_processes,
    median_times_ms,
    random_normal,
    require_gpu,
)
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm.choice.heuristic import SM75
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.ladder.steps import SM75_LADDER
from tests.gemm_cases import arguments, expected
from tests.gpu.gemm_launch import Way, launcher, result

TURING = "sm_75"
PTX_VERSION = ".version 7.0"
"""What the PTX is said to be, which drivers know that are older than the compiler; it has nothing newer."""


def by_ptx(way: Way) -> CompiledSequence:
    """The launches of one way, printed and compiled for sm_75, with PTX in the place of machine code."""
    compiled = compile_sequence(launches(*way, TURING), TURING)
    made = []
    for one in compiled.prepared:
        ptx = compile_ptx(one.source, one.kernel.name, TURING)
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
    for (p, config), loaded in zip(asked, in_processes(by_ptx, asked), strict=True):
        args = arguments(p, seed=5)
        if result(p, config, args, loaded).tobytes() != expected(p, args).tobytes():
            raise SystemExit(f"wrong result: {p} with {config!r}")
    return len(asked)


def rates(n: int) -> None:
    """TFLOP/s of each step, by PTX of sm_75 and by machine code for this GPU, in turns."""
    p, arch = gemm_problem(n, n, n, accumulator="f16", b_major="mn"), require_gpu().arch
    asked = [(p, config) for config in SM75_LADDER.values()]
    compiled = [
        *in_processes(by_ptx, asked),
        *(compile_sequence(launches(*way, arch), arch) for way in asked),
    ]
    given = _arrays(p)
    found = [p.flops / ms / 1e9 for ms in median_times_ms([[launcher(one, given)] for one in compiled])]
    print(f"{p}, TFLOP/s: PTX of {TURING}, and {arch}")
    for name, one, other in zip(SM75_LADDER, found, found[len(asked) :], strict=False):
        print(f"{name:<36} {one:8.1f} {other:8.1f}")


def _arrays(p: GemmProblem) -> dict[str, object]:
    a, b = random_normal(p.a_elems, 1, "f16"), random_normal(p.b_elems, 2, "f16")
    d = device_array((p.m, p.n), a.dtype)
    held = {name: x.view(CARRIER[x.itemsize]) for name, x in (("a", a), ("b", b), ("d", d))}
    return {**held, **scalar_words(p, "alpha", 1.0)}


def main(args: list[str]) -> None:
    """See the module's text."""
    require_gpu()
    print(f"{check()} ways of {TURING} correct")
    if args:
        rates(int(args[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
