"""Which configurations of the SIMT GEMM to try for a problem, best first: tiles as data.

The idea.  A few tiles cover the trade between reuse and the number of blocks; each has the times of its
blocks as gemm_choice counts them, and each is offered with k whole or in parts.

Notes.  Times were measured on an H200, f32, B stored by rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from layoutalg.arch import Arch, find_arch
from layoutalg.kernels.gemm.heuristic import Sums, Tile, ranked
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt_plan import SimtConfig
from layoutalg.kernels.gemm.simt_rules import check_config, check_element

SUMS = Sums(2290, 0.000378)
"""What writing parts of k and adding them up cost."""

TILES: tuple[Tile[SimtConfig], ...] = (
    Tile(SimtConfig(128, 256, 8, 16, 8, 4), (1308,), (2378,), 1.20),
    Tile(SimtConfig(192, 192, 8, 12, 8, 4, stages=4), (1479,), (7028,), 1.11),
    Tile(SimtConfig(128, 128, 16, 8, 8, 4, min_blocks=2, stages=4), (1414, 2680), (2369, 2726), 1.09),
    Tile(SimtConfig(96, 128, 8, 12, 8, 4, min_blocks=3, stages=4),
         (524, 999, 1497), (2590, 2534, 2412), 1.10),
    Tile(SimtConfig(80, 128, 16, 10, 8, 4, run_m=2, min_blocks=3, stages=4),
         (1008, 1872, 2557), (522, 0, 0), 1.13),
    Tile(SimtConfig(64, 128, 16, 8, 8, 4, min_blocks=4, stages=4),
         (828, 1495, 2016, 2629), (492, 0, 362, 1108), 1.19),
    Tile(SimtConfig(64, 64, 16, 8, 4, 4, min_blocks=4), (506, 923, 1232, 1524), (674, 162, 139, 89), 1.05),
    Tile(SimtConfig(32, 64, 16, 4, 4, 4, min_blocks=4), (322, 485, 709, 909), (500, 677, 378, 302), 1.08),
)  # fmt: skip
"""The tiles, for f32; a tile of f64 has half the columns a thread and a warp."""


def configs(p: GemmProblem, arch: str | Arch = "sm_90") -> tuple[SimtConfig, ...]:
    """The configurations that fit a problem, the one expected to be fastest first.

    Vectors are as wide as the leading dimensions and the extents allow.  Raises the refusal of the last
    tile where none fits.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> c = configs(gemm_problem(4096, 4096, 4096, "f32"))[0]
    >>> c.tile_m, c.tile_n
    (128, 256)
    """
    check_element(p)
    chip = find_arch(arch)
    return ranked(p, TILES, SUMS, chip, lambda c: fitted(p, c, chip), lambda c: check_config(p, c, chip))


def fitted(p: GemmProblem, c: SimtConfig, arch: str | Arch = "sm_90") -> SimtConfig:
    """A configuration with elements, vectors and edges as a problem needs them.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> fitted(gemm_problem(100, 102, 100, "f32"), SimtConfig(128, 256, 8, 16, 8, 4)).result_vec
    2
    """
    words = p.operand.nbytes // 4
    most = 4 // words

    def vector(leading: int, along: int) -> int:
        return gcd(most, leading, along)

    a = vector(p.lda, p.k if p.a_major == "k" else p.m)
    b = vector(p.ldb, p.k if p.b_major == "k" else p.n)
    c = replace(
        c, a_vector=a, b_vector=b, fragment=most, run_m=min(c.run_m, most), run_n=most, pad=most, edges=True,
        result_vec=gcd(most, p.ldd, p.n, p.ldc if p.reads_c else 0),
    )  # fmt: skip
    if words == 2:
        c = replace(c, tile_n=c.tile_n // 2, thread_n=c.thread_n // 2)
    if find_arch(arch).compute_capability < (8, 0):
        c = replace(c, via="registers", turn="registers", stages=2)
    return c
