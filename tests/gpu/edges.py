"""What edges cost tensor-core products: each tile with and without them at 4096, and where sizes are ragged.

python -m tests.gpu.edges              some 20 s

With edges at 4096 a kernel does the same work as without, so that the ratio is the cost of the program alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from layoutalg.codegen.gpu import median_times_ms
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import GemmProblem, Sm80Config, gemm_problem
from layoutalg.kernels.gemm.choice import SM80
from layoutalg.kernels.gemm.validate import check_config
from tests.gpu.gemm_launch import Product, launcher, load_all

WHOLE, RAGGED = 4096, (4104, 4098, 4097, 1000)


def ways(p: GemmProblem) -> Iterator[Sm80Config]:
    """Every tile that fits; of whole tiles with edges and without."""
    for tile in SM80.tiles:
        for edges in (False, True):
            c = replace(SM80.fitted(p, tile), edges=edges)
            try:
                check_config(p, c)
            except LayoutAlgError:
                continue
            yield c


def main() -> None:
    """See the module's text."""
    for n in (WHOLE, *RAGGED):
        p = gemm_problem(n, n, n)
        configs, words = list(ways(p)), Product(p).words
        runs = [[launcher(x, words)] for x in load_all([(p, c) for c in configs])]
        times = median_times_ms(runs, rounds=20, inner=max(1, int(4e11 / p.flops)))
        for c, ms in zip(configs, times, strict=True):
            edges = "edges" if c.edges else "whole"
            print(f"{p}  {c!s:22} {edges}  {ms:8.4f} ms  {p.flops / ms / 1e9:6.1f} TFLOP/s", flush=True)


if __name__ == "__main__":
    main()
