"""Products as `ops.matmul` computes them, beside cuBLAS: squares, shapes of language models, odd sizes.

python -m tests.gpu.hopper_products out.json          with a cold L2, and sustained
python -m tests.gpu.hopper_products out.json --cold   the first alone
python -m tests.gpu.hopper_products out.json --result f32 --only 4096,4096,4096 4096,32768,512

With a cold L2: all are launched in turn, in an order drawn anew for each round, on normal random data; before
each launch a buffer of 256 MB that is not written is read, which leaves nothing of the operands in L2; the
host is ahead of the GPU.  cuBLAS runs twice, which says what repeats, and cublasLt too: the ratio is to the
faster of both.  Sustained: half a second of one, a second of the other, half a second of the first, from warm
caches, with the mean power of each.  Each result is compared with that of cuBLAS.  `--result f32`: results
of f32 instead of bf16; `--only`: these m, n and k alone.

The list: https://github.com/deepseek-ai/DeepGEMM, tests/test_bf16.py.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import Any

from layoutalg.codegen.gpu import Monitor, in_processes, watching
from tests.gpu.everyday_products import BLAS, Case, compiled_here, runs_of
from tests.gpu.timing import CALL_CYCLES, Run, Turns, study

MODELS = (
    (2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)
)  # fmt: skip
SQUARES = tuple((n, n, n) for n in (1024, 2048, 3072, 4096, 6144, 8192, 16384))
EVEN = tuple((n, n, n) for n in (2112, 3000, 4104, 5000, 7000))
ODD = tuple((n, n, n) for n in (2047, 3001, 4095, 5003, 8191))
SIZES = (*SQUARES, *((m, n, k) for m in (128, 4096) for n, k in MODELS), *EVEN, (128, 8192, 8192))
"""What one family serves without copies."""

CALLED = (*SIZES, *ODD, *((1, n, k) for n, k in MODELS))

SUSTAINED_S = 0.5


def sustained(run: Run, us: float, seconds: float, monitor: Monitor) -> tuple[float, float, float]:
    """Microseconds per launch of so many seconds of them, mean power in watts, and the clock meanwhile."""
    import cupy

    before, after = cupy.cuda.Event(), cupy.cuda.Event()
    launches, energy = max(2, round(seconds * 1e6 / us)), monitor.joules()
    before.record()
    for _ in range(launches):
        run()
    after.record()
    sm_mhz = monitor.read().sm_mhz
    after.synchronize()
    ms, taken = float(cupy.cuda.get_elapsed_time(before, after)), monitor.joules()
    watts = (taken - energy) / ms * 1e3 if taken is not None and energy is not None else float("nan")
    return ms * 1e3 / launches, watts, float(sm_mhz or "nan")


def measured(case: Case, turns: Turns, monitor: Monitor, longer: bool) -> dict[str, Any]:
    """The medians of one product."""
    m, n, k, runs = case.m, case.n, case.k, runs_of(case, BLAS)
    runs["again"] = runs["cublas"]
    times: dict[str, list[float]] = {name: [] for name in runs}
    clocks: list[float] = []
    for _ in range(9 if m * n * k > 1e12 else 15):
        for name, (us_once,) in turns.times(runs, 1).items():
            times[name].append(us_once)
        clocks.append(float(monitor.read().sm_mhz or "nan"))
    us = {name: median(found) for name, found in times.items()}
    least, flops = min(us["cublas"], us["cublaslt"]), 2 * m * n * k
    row = {
        "m": m, "n": n, "k": k, "ours_us": us["ours"], "cublas_us": us["cublas"], "lt_us": us["cublaslt"],
        "ratio": us["cublas"] / us["ours"], "of_faster": least / us["ours"], "aa": us["again"] / us["cublas"],
        "tflops": flops / us["ours"] / 1e6, "sm_mhz": median(clocks),
    }  # fmt: skip
    if longer:
        best = runs[min(BLAS, key=us.__getitem__)]
        first, one, second = (
            sustained(run, us["ours"], seconds, monitor)
            for run, seconds in ((best, SUSTAINED_S), (runs["ours"], 2 * SUSTAINED_S), (best, SUSTAINED_S))
        )
        vendor_us, watts, mhz = ((x + y) / 2 for x, y in zip(first, second, strict=True))
        row |= {
            "long_us": one[0], "long_vendor_us": vendor_us, "long_ratio": vendor_us / one[0],
            "long_aa": first[0] / second[0], "watts": one[1], "vendor_watts": watts, "long_mhz": one[2],
            "vendor_mhz": mhz,
        }  # fmt: skip
    return row


def main(args: list[str]) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--result", choices=("bf16", "f32"), default="bf16")
    parser.add_argument("--only", nargs="+", default=[",".join(map(str, size)) for size in CALLED])
    given = parser.parse_args(args)
    result = "float32" if given.result == "f32" else ""
    sizes = ((m, n, k) for m, n, k in (map(int, size.split(",")) for size in given.only))
    cases = [Case(m, n, k, result=result) for m, n, k in sizes]
    turns, made = Turns(1, cycles=CALL_CYCLES), zip(cases, in_processes(compiled_here, cases), strict=True)

    def row(asked: tuple[Case, str]) -> dict[str, Any]:
        return {**measured(asked[0], turns, monitor, not given.cold), "way": asked[1]}

    with watching() as monitor:
        study(given.out, made, row, result=given.result)


if __name__ == "__main__":
    main(sys.argv[1:])
