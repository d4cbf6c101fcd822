"""Products of every element type that mma.sync multiplies: verified on this GPU, and timed beside cuBLAS.

python -m tests.gpu.mma_types                    verify small problems, then time 2048, 4096 and 8192
python -m tests.gpu.mma_types --verify           verify alone
python -m tests.gpu.mma_types --sizes 4096       time these squares
python -m tests.gpu.mma_types --json out.json    write the rates too

cuBLAS is there for f64, tf32 and s8 (torch._int_mm, of B stored along k); nibbles and bits have no contender.
Of f64, every k of an mma is timed with each tile that it fits: the first row is what the chooser takes.  Exit
status 1 where a product is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from layoutalg.codegen.gpu import require_gpu
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import find_family
from layoutalg.kernels.bench import benchmark_ways
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.verification import verify
from tests.gpu.counters import verdict

FAMILY = "gemm-sm80"
MAJORS = (("k", "k"), ("k", "mn"), ("mn", "mn"))
TYPES: tuple[Mapping[str, Any], ...] = (
    *({"dtype": x, "a_major": a, "b_major": b} for x in ("f64", "tf32") for a, b in MAJORS),
    {"dtype": "s8"}, {"dtype": "s4"}, {"dtype": "u4"}, {"dtype": "b1"}, {"dtype": "b1", "arithmetic": "xor"},
)  # fmt: skip
"""Element types, and how operands are stored where that changes how they are loaded."""

VERIFIED = ((128, 128, 512), (67, 131, 456), (40, 72, 1064), (300, 264, 96))
SIZES = (2048, 4096, 8192)


def ways(p: GemmProblem, arch: str) -> Iterator[tuple[str, Sm80Config]]:
    """The chosen configuration, every other tile without parts of k, and of f64 every k of an mma."""
    seen: set[Sm80Config] = set()
    for c in find_family(FAMILY).configs(p, arch):
        for k in (c.mma_k, 8, 16) if p.element == "f64" else (c.mma_k,):
            deep = replace(c, mma_k=k, tile_k=max(c.tile_k, 2 * k), min_blocks=1 if k > 8 else c.min_blocks)
            try:
                check_config(p, deep, arch)
            except LayoutAlgError:
                continue
            if deep.splits == 1 and deep not in seen:
                seen.add(deep)
                yield f"{deep}" + (f", mma k{k}" if k else ""), deep


def verified(arch: str) -> int:
    """Verify every type with every tile; print what is wrong; the exit status."""
    wrong, compared, count = 0, 0, 0
    family = find_family(FAMILY)
    for given in TYPES:
        for m, n, k in VERIFIED:
            p = gemm_problem(m, n, k, reads_c=True, bias=True, **given)
            for name, config in ways(p, arch):
                report, count = verify(family, p, config, target="gpu"), count + 1
                compared += len(report.checks)
                for check in report.checks:
                    if not check.passed:
                        wrong += 1
                        print(f"WRONG {p}, {name}: {check.name}: {check.detail}", flush=True)
        print(f"{p.element} {p.a_major} {p.b_major} {p.arithmetic}: verified", flush=True)
    print(f"{count} products", flush=True)
    return verdict(wrong, compared, "checks")


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(args)
    arch = require_gpu().arch
    wrong = verified(arch)
    rows: list[dict[str, Any]] = []
    for given in () if asked.verify else TYPES:
        for size in asked.sizes:
            p = gemm_problem(size, size, size, **given)
            for row in benchmark_ways(FAMILY, p, dict(ways(p, arch))):
                beside, ratio = row.rates.get("cublas"), row.ratio("cublas")
                told = "" if beside is None else f"  cuBLAS {beside:8.1f}  ratio {ratio:.3f}"
                print(f"{row.problem:34} {row.way:28} {row.ours:8.1f} {row.unit}{told}", flush=True)
                rows.append({"problem": row.problem, "way": row.way, "rate": row.ours, "cublas": beside})
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
