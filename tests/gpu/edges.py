"""What edges cost tensor-core products: each tile with and without them at 4096, and where sizes are ragged.

python -m tests.gpu.edges              some 20 s

With edges at 4096 a kernel does the same work as without, so that the ratio is the cost of the program alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from layoutalg.codegen.gpu import device_array, median_times_ms, random_normal, require_gpu
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm.choice.heuristic import SM80
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.gemm.validate import check_config
from tests.gpu.gemm_launch import launcher, load_all

WHOLE, RAGGED = 4096, (4104, 4098, 4097, 1000)


def ways(p: GemmProblem) -> Iterator[Sm80Config]:
    """Every tile that fits; of whole tiles with edges and without."""
    for tile in SM80.tiles:
        c = SM80.fitted(p, tile.config)
        for edges in (False, True):
            try:
                check_config(p, replace(c, edges=edges))
            except LayoutAlgError:
                continue
            yield replace(c, edges=edges)


def main() -> None:
    """See the module's text."""
    require_gpu()
    for n in (WHOLE, *RAGGED):
        p = gemm_problem(n, n, n)
        configs = list(ways(p))
        a, b = random_normal(p.a_elems, 1, "f16"), random_normal(p.b_elems, 2, "f16")
        d = device_array((n, n), a.dtype)
        given = {"a": a, "b": b, "d": d, **scalar_words(p, "alpha", 1.0)}
        loaded = load_all([(p, c) for c in configs])
        runs = [[launcher(x, given)] for x in loaded]
        inner = max(1, int(4e11 / p.flops))
        for c, ms in zip(configs, median_times_ms(runs, rounds=20, inner=inner), strict=True):
            edges = "edges" if c.edges else "whole"
            print(f"{p}  {c!s:22} {edges}  {ms:8.4f} ms  {p.flops / ms / 1e9:6.1f} TFLOP/s", flush=True)


if __name__ == "__main__":
    main()
