"""What it costs to make the text of a kernel: ms to plan and build a program, and to check, lower and print it.

    python tests/bench/bench_programs.py
    python tests/bench/bench_programs.py [--runs N] [--only PATTERN]

Twelve programs, from a copy of full tiles to a product with edges.  Both figures are processor time, the least
of some runs; what earlier runs simplified is forgotten before each, and choices that are read from tables are
kept, so that the first figure is the work of one more problem.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.codegen.expr import simplify
from layoutalg.codegen.gpu import to_cuda
from tests.kernel_adapter import ARCH, Case, plan
from tests.kernel_cases import label

CASES: tuple[Case, ...] = (
    {"family": "transpose", "m": 4096, "n": 4096, "dtype": "f32"},
    {"family": "tiled_copy", "m": 4096, "n": 4096, "dtype": "u8"},
    {"family": "permute", "shape": [64, 1024, 16, 128], "axes": [0, 2, 1, 3], "dtype": "f32"},
    {"family": "permute", "shape": [128, 224, 224, 3], "axes": [0, 3, 1, 2], "dtype": "f16"},
    {"family": "permute", "shape": [31, 63, 127, 255], "axes": [3, 1, 0, 2], "dtype": "u8"},
    {"family": "sum", "shape": [8191, 8193], "axes": [0], "dtype": "f16"},
    {"family": "softmax", "shape": [8192, 8192], "axes": [1], "dtype": "f32"},
    {"family": "softmax", "shape": [8191, 8193], "axes": [0], "dtype": "f32"},
    {"family": "layer_norm", "shape": [8191, 8193], "axes": [1], "dtype": "f16", "weight": True},
    {"family": "gemm-simt", "m": 4096, "n": 4096, "k": 4096, "dtype": "f32", "b_major": "mn"},
    {"family": "gemm-sm80", "m": 4096, "n": 4096, "k": 4096, "dtype": "f16"},
    {"family": "gemm-sm80", "m": 4101, "n": 4101, "k": 4101, "dtype": "bf16", "bias": True, "reads_c": True},
)


def once(case: Case) -> tuple[float, float]:
    """Milliseconds to plan and build the programs of a case, and to print them."""
    simplify.cache_clear()
    start = time.process_time()
    kernels = [launch.kernel for launch in plan(case).launches]
    built = time.process_time()
    for kernel in kernels:
        to_cuda(kernel, ARCH)
    return 1e3 * (built - start), 1e3 * (time.process_time() - built)


def main() -> int:
    """See the module's text; 2 where no case is named so."""
    parser = argparse.ArgumentParser(description="time the making of kernels' texts")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", metavar="PATTERN", default="", help="cases that a regular expression finds")
    given = parser.parse_args()
    cases = [case for case in CASES if re.search(given.only, label(case))]
    total = 0.0
    for case in cases:
        once(case)
        times = [once(case) for _ in range(given.runs)]
        planned, printed = (min(column) for column in zip(*times, strict=True))
        total += planned + printed
        print(f"{planned:7.1f} + {printed:6.1f} ms   {label(case)}")
    print(f"{total:16.1f} ms   {len(cases)} cases")
    return 0 if cases else 2


if __name__ == "__main__":
    sys.exit(main())
