"""What it costs to make the text of a kernel: ms to build a program, and to check, lower and print it.

    python tests/bench/bench_programs.py
    python tests/bench/bench_programs.py [--runs 7] [--only PATTERN]

Twelve programs, from a copy of full tiles to a product with edges, in the configurations that are chosen.
The figures are processor time, the least of some runs; what earlier runs simplified is forgotten before each.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.codegen.expr.simplifier import forget
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.language.tensor import coordinate_of
from layoutalg.codegen.program import LaunchSequence
from layoutalg.kernels.registry import FAMILIES
from tests.bench.options import options
from tests.frozen.kernel_cases import label

ARCH = "sm_90a"
CASES: tuple[dict[str, Any], ...] = (
    {"family": "transpose", "m": 4096, "n": 4096, "dtype": "f32"},
    {"family": "tiled_copy", "m": 4096, "n": 4096, "dtype": "u8"},
    {"family": "permute", "shape": (64, 1024, 16, 128), "axes": (0, 2, 1, 3), "dtype": "f32"},
    {"family": "permute", "shape": (128, 224, 224, 3), "axes": (0, 3, 1, 2), "dtype": "f16"},
    {"family": "permute", "shape": (31, 63, 127, 255), "axes": (3, 1, 0, 2), "dtype": "u8"},
    {"family": "sum", "shape": (8191, 8193), "axes": 0, "dtype": "f16"},
    {"family": "softmax", "shape": (8192, 8192), "axes": 1, "dtype": "f32"},
    {"family": "softmax", "shape": (8191, 8193), "axes": 0, "dtype": "f32"},
    {"family": "layer_norm", "shape": (8191, 8193), "axes": 1, "dtype": "f16", "weight": True},
    {"family": "gemm-simt", "m": 4096, "n": 4096, "k": 4096, "dtype": "f32", "b_major": "mn"},
    {"family": "gemm-sm80", "m": 4096, "n": 4096, "k": 4096, "dtype": "f16"},
    {"family": "gemm-sm80", "m": 4101, "n": 4101, "k": 4101, "dtype": "bf16", "bias": True, "reads_c": True},
)


def builder(case: dict[str, Any]) -> Callable[[], LaunchSequence]:
    """What builds the programs of a case, its configuration chosen."""
    family, asked = FAMILIES[case["family"]], {k: v for k, v in case.items() if k != "family"}
    problem = family.problem(**asked)
    config = family.choose(problem, ARCH)
    return lambda: family.launches(problem, config, ARCH)


def once(build: Callable[[], LaunchSequence]) -> tuple[float, float]:
    """Milliseconds to build the programs, and to print them."""
    forget()
    coordinate_of.cache_clear()
    start = time.process_time()
    kernels = build().kernels
    built = time.process_time()
    for kernel in kernels:
        to_cuda(kernel, ARCH)
    return 1e3 * (built - start), 1e3 * (time.process_time() - built)


def main() -> int:
    """See the module's text; 2 where no case is named so."""
    parser = options(__doc__, seed=None)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", metavar="PATTERN", default="", help="cases that a regular expression finds")
    given = parser.parse_args()
    cases = [case for case in CASES if re.search(given.only, label(case))]
    total = 0.0
    for case in cases:
        build = builder(case)
        times = [once(build) for _ in range(given.runs + 1)][1:]
        built, printed = (min(column) for column in zip(*times, strict=True))
        total += built + printed
        print(f"{built:7.1f} + {printed:6.1f} ms   {label(case)}")
    print(f"{total:16.1f} ms   {len(cases)} cases")
    return 0 if cases else 2


if __name__ == "__main__":
    sys.exit(main())
