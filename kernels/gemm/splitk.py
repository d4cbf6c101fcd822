"""Split-K: several blocks share a tile of D, each with a part of k; a second kernel adds their sums up.

    the parts       sums[s][m][n] = A B over part s of k         gemm_simt or gemm_sm80 with `splits` = S
    gemm_combine    D = activation(alpha (sum over s) + beta C + bias)

Sums are added in the order of their parts, so that results do not depend on which block ends first.  It pays
where D has fewer tiles than the GPU has multiprocessors and k is long.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from layoutalg.arch import Arch
from layoutalg.codegen.expr import Const
from layoutalg.codegen.instr import CLEAR, LDG
from layoutalg.codegen.program import Kernel, KernelBuilder
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm.parts import MOST_SPLITS, part_problem
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.result import ARITHMETIC, Finish, declare_result, statement

THREADS = 256
"""Threads of a block that adds up."""

SECTOR_BYTES = 32


def combine_vector(p: GemmProblem) -> int:
    """Sums that a thread adds up: as many as 16 bytes hold and rows of D, C and the parts are cut into.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> combine_vector(gemm_problem(64, 66, 512)), combine_vector(gemm_problem(64, 64, 512, "f64"))
    (2, 2)
    """
    return gcd(16 // part_problem(p).result.nbytes, p.n, p.ldd, p.ldc if p.reads_c else 0)


def build_combine(p: GemmProblem) -> Kernel:
    """The kernel that adds the parts up and finishes D; it takes their number as `splits`.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build_combine(gemm_problem(64, 64, 512)).name
    'gemm_combine_f16'
    """
    vec, do = combine_vector(p), ARITHMETIC[p.accumulator.name]
    part = part_problem(p).result
    notes = ["", f"{statement(p, '(sums[0] + sums[1] + ...)')}; sums[s] = A B over part s of k."]
    k = KernelBuilder(f"gemm_combine_{p.result}", THREADS, notes=notes)
    m, n, splits = k.param("m", p.m), k.param("n", p.n, vec, multiple=vec), k.param("splits", MOST_SPLITS)
    sums = k.pointer("sums", part.nbytes, (m * n, n, 1), align_bytes=part.nbytes * vec)
    result = declare_result(k, p, vec, m, n)
    block = k.block(0, (m * (n // vec) + (THREADS - 1)) // THREADS)
    at = k.let("at", block * THREADS + k.tid)
    row, column = k.let("row", at // (n // vec)), k.let("column", at % (n // vec) * vec)
    total, one = k.reg("total", vec * do.words), k.reg("one", vec * do.words)
    finish = Finish(k, p, result, vec)
    with k.If(row < m):
        k.do(CLEAR[part.nbytes * vec], total)
        with k.For("s", splits, unroll=4) as s:
            k.do(LDG[part.nbytes * vec], one, k.at(sums, s, row, column))
            k.do(do.add_scaled(vec, part.name), total, one, *map(Const, do.one))
        finish.write(total, row, column)
    return k.build()


def predict_combine(p: GemmProblem, splits: int, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of adding `splits` parts up costs, by instruction.

    Raises UnsupportedError where threads are left over, or rows start inside sectors.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> predict_combine(gemm_problem(64, 64, 512), 4)["ld.global.b128"]
    Cost(instructions=128, total=2048, ideal=2048)
    """
    import numpy as np

    vec, size = combine_vector(p), p.result.nbytes
    part_bytes = part_problem(p).result.nbytes
    rows = [("n", p.n, part_bytes), ("ldd", p.ldd, size)] + [("ldc", p.ldc, size)] * p.reads_c
    if p.m * p.n // vec % THREADS or any(leading * nbytes % SECTOR_BYTES for _, leading, nbytes in rows):
        raise UnsupportedError(f"the cost of adding up {p}: whole blocks, and rows that start at sectors")
    at = np.arange(p.m * p.n // vec).reshape(-1, 32)
    row, column = at // (p.n // vec), at % (p.n // vec) * vec
    everyone = np.ones_like(at, dtype=bool)
    costs = Costs(arch)

    def add(op: str, address: Any, nbytes: int, times: int) -> None:
        one = Costs(arch)
        one.lanes(f"{op}.global.b{8 * nbytes}", "global", address, everyone)
        one.times(times)
        costs.include(one)

    add("ld", (row * p.n + column) * part_bytes, vec * part_bytes, splits)
    add("st", (row * p.ldd + column) * size, vec * size, 1)
    if p.reads_c:
        add("ld", (row * p.ldc + column) * size, vec * size, 1)
    if p.bias:
        add("ld", column * size, vec * size, 1)
    return costs.prediction()
