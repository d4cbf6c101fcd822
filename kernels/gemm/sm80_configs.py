"""Which configurations of the tensor-core GEMM to try for a problem, best first: tiles as data.

The idea.  A few tiles cover the trade between reuse and the number of blocks; each has the times of its
blocks as gemm_choice counts them, and each is offered with k whole or in parts.  Rows are for 16-bit
operands; other widths keep the bytes of tile_k.

Notes.  Times were measured on an H200, f16 into f32, both operands stored along k.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from layoutalg.arch import Arch, find_arch
from layoutalg.kernels.gemm.heuristic import Sums, Tile, ranked
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.sm80_plan import Sm80Config
from layoutalg.kernels.gemm.sm80_rules import check_config

SUMS = Sums(1595, 0.000319)
"""What writing parts of k and adding them up cost."""

TILES: tuple[Tile[Sm80Config], ...] = (
    Tile(Sm80Config(128, 256, 64, 2, 4, 4), (1076,), (3116,)),
    Tile(Sm80Config(256, 128, 64, 4, 2, 4), (1079,), (3041,)),
    Tile(Sm80Config(128, 128, 64, 2, 2, 3, min_blocks=2), (531, 1150), (3451, 3433)),
    Tile(Sm80Config(128, 64, 64, 2, 2, 3, min_blocks=3), (371, 660, 1014), (2825, 2822, 2806)),
    Tile(Sm80Config(64, 128, 64, 2, 2, 3, min_blocks=3), (364, 655, 1013), (2200, 2793, 2783)),
    Tile(Sm80Config(64, 64, 64, 2, 2, 4, min_blocks=3), (245, 443, 619), (1771, 1807, 1839)),
    Tile(Sm80Config(64, 64, 32, 2, 2, 2, via="registers"), (443, 495, 703, 1415), (15, 10, 5, 0)),
)  # fmt: skip
"""The tiles, for operands of 16 bits; the last takes single elements."""


def configs(p: GemmProblem, arch: str | Arch = "sm_90") -> tuple[Sm80Config, ...]:
    """The configurations that fit a problem, the one expected to be fastest first.

    Vectors are as wide as the leading dimensions and the extents allow.  Raises the refusal of the last
    tile where none fits.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(configs(gemm_problem(8192, 8192, 8192))[0])
    128x256x64, 4 stages
    """
    chip = find_arch(arch)
    return ranked(p, TILES, SUMS, chip, lambda c: fitted(p, c), lambda c: check_config(p, c, chip))


def fitted(p: GemmProblem, c: Sm80Config) -> Sm80Config:
    """The configuration with vectors, k and edges as a problem needs them.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> fitted(gemm_problem(100, 100, 100), Sm80Config(128, 256, 64, 2, 4, 4)).a_bytes
    8
    """
    size = p.operand.nbytes
    tile_k = c.tile_k * 2 // size

    def vector(leading: int, along: int) -> int:
        return gcd(16, gcd(leading, along) * size)

    a_bytes = vector(p.lda, p.k if p.a_major == "k" else p.m)
    b_bytes = vector(p.ldb, p.k if p.b_major == "k" else p.n)
    across = gcd(p.ldd, p.n, p.ldc if p.reads_c else 0)
    result_vec = gcd(across, 16 // p.result.nbytes)
    edges = bool(p.m % c.tile_m or p.n % c.tile_n or p.k % tile_k)
    return replace(
        c, tile_k=tile_k, a_bytes=a_bytes, b_bytes=b_bytes, result_vec=result_vec, edges=edges,
        static_ld=c.via == "cp.async",
    )  # fmt: skip
