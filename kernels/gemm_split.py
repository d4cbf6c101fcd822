"""Split-K: several blocks share a tile of D, each with a part of k; a second kernel adds their sums up.

    gemm_sm80 with `splits` = S     workspace[s][m][n] = A B over part s of k          f32 (s32)
    gemm_combine                    D = activation(alpha (sum over s) + beta C + bias)

Sums are added in the order of their parts, so that results do not depend on which block ends first.  It pays
where D has fewer tiles than the GPU has multiprocessors and k is long.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Const, Expr
from layoutalg.codegen.instr_float import ONE_F32, add_scaled
from layoutalg.codegen.instr_sm75 import CLEAR, LDG
from layoutalg.codegen.tile import Kernel
from layoutalg.errors import DivisibilityError, UnsupportedError
from layoutalg.kernels.gemm import GemmProblem
from layoutalg.kernels.gemm_epilogue import Result, Words
from layoutalg.kernels.gemm_sm80 import build
from layoutalg.kernels.gemm_sm80_plan import Sm80Config

THREADS = 256
"""Threads of a block that adds up."""

_ANY_WORD = (1 << 32) - 1


def workspace_elems(p: GemmProblem, c: Sm80Config) -> int:
    """Sums that the parts write.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> workspace_elems(gemm_problem(64, 64, 512), Sm80Config(64, 64, 32, 2, 2, 3, splits=4))
    16384
    """
    return c.splits * p.m * p.n


def part_problem(p: GemmProblem) -> GemmProblem:
    """What one part computes: sums alone, in rows of n.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> part_problem(gemm_problem(64, 64, 512, ldd=80)).ldd
    64
    """
    return replace(p, result=p.accumulator, ldd=p.n, ldc=p.n, reads_c=False, bias=False, activation="none")


def build_parts(p: GemmProblem, c: Sm80Config) -> Kernel:
    """The kernel that writes the workspace; its `d` is the workspace and its alpha is 1.

    Raises UnsupportedError for f16 sums, DivisibilityError where parts do not have whole tiles of k and
    edges are not predicated, and what `gemm_sm80.build` raises.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> build_parts(gemm_problem(64, 64, 512), Sm80Config(64, 64, 32, 2, 2, 3, splits=4)).name
    'gemm_sm80_f16'
    """
    if p.accumulator.name == "f16":
        raise UnsupportedError("parts of f16 sums: f32 and s32 sums are added up")
    tiles = -(-p.k // c.tile_k)
    if tiles % c.splits and not c.edges:
        raise DivisibilityError(
            f"{tiles} tiles of k in {c.splits} parts: take edges=True, or {gcd(tiles, c.splits)} parts"
        )
    return build(part_problem(p), replace(c, result_vec=gcd(4, p.n)))


def build_combine(p: GemmProblem, splits: int) -> Kernel:
    """The kernel that adds up `splits` parts and finishes D.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> build_combine(gemm_problem(64, 64, 512), 4).name
    'gemm_combine_f16'
    """
    kind = "s32" if p.accumulator.name == "s32" else "f32"
    vec = gcd(4, p.n, p.ldd, p.ldc if p.reads_c else 0)
    k = KernelBuilder(f"gemm_combine_{p.result}", THREADS)
    m, n = k.param("m", p.m), k.param("n", p.n, vec, multiple=vec)
    ldd = k.param("ldd", p.ldd, vec, multiple=vec)
    align = vec * p.result.nbytes
    sums = k.pointer("sums", 4, (m * n, n, 1), align_bytes=4 * vec)
    d = k.pointer("d", p.result.nbytes, (ldd, 1), writable=True, align_bytes=align)
    alpha, beta, source, bias = k.param("alpha", _ANY_WORD, 0), None, None, None
    if p.reads_c:
        ldc = k.param("ldc", p.ldc, vec, multiple=vec)
        source = k.pointer("c", p.result.nbytes, (ldc, 1), align_bytes=align)
        beta = k.param("beta", _ANY_WORD, 0)
    if p.bias:
        bias = k.pointer("bias", p.result.nbytes, (1,), align_bytes=align)
    block = k.block(0, (m * (n // vec) + (THREADS - 1)) // THREADS)
    at = k.let("at", block * THREADS + k.tid)
    row, column = k.let("row", at // (n // vec)), k.let("column", at % (n // vec) * vec)
    words = Words(k, p, vec)
    part = k.reg("part", vec)
    zero: Expr = Const(0)
    with k.If(row < m):
        k.do(CLEAR[4 * vec], words.out)
        with k.For("s", splits, unroll=min(splits, 8)) as s:
            k.do(LDG[4 * vec], part, k.at(sums, s, row, column))
            k.do(add_scaled(vec, kind), words.out, part, Const(1 if kind == "s32" else ONE_F32))
        words.write(Result(d, source, bias, alpha, beta, zero, zero, m, n, zero), row, column)
    return k.build()
