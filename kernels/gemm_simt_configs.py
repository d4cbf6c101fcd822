"""Which configurations of the SIMT GEMM to try for a problem, best first.

The idea.  A few tiles cover the trade between reuse and the number of blocks.  A multiprocessor that holds
`blocks` of a tile reaches `share` of the peak of the multiply-adds; with fewer, `alone` for each, up to it:

    cycles of r blocks together = r * tile_m * tile_n * (k + PROLOGUE) / (lanes * min(share, r * alone))

The busiest multiprocessor computes its blocks in rounds of `blocks`, and the rest at the end.

Notes.  Shares were measured on an H200, f32, at 2176, 3072 and 4096 squared (busy) and 1024 squared (alone;
of the last tile, by its four blocks); PROLOGUE is a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import GemmProblem
from layoutalg.kernels.gemm_parts import combine_cycles, tile_splits
from layoutalg.kernels.gemm_simt_plan import SimtConfig
from layoutalg.kernels.gemm_simt_rules import check_config, check_element

PROLOGUE = 64
"""Steps of k that filling the ring and writing D take as long as."""

FMA_LANES = 128
"""Multiply-adds a multiprocessor finishes in a cycle."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A configuration, how many blocks of it a multiprocessor holds, and the shares of the peak reached."""

    config: SimtConfig
    blocks: int
    share: float
    alone: float


TILES: tuple[Tile, ...] = (
    Tile(SimtConfig(128, 256, 8, 16, 8, 4), 1, 0.805, 0.78),
    Tile(SimtConfig(192, 192, 8, 12, 8, 4, stages=4), 1, 0.80, 0.79),
    Tile(SimtConfig(128, 128, 16, 8, 8, 4, min_blocks=2, stages=4), 2, 0.785, 0.715),
    Tile(SimtConfig(96, 128, 8, 12, 8, 4, min_blocks=3, stages=4), 3, 0.785, 0.70),
    Tile(SimtConfig(64, 128, 16, 8, 8, 4, min_blocks=4, stages=4), 4, 0.775, 0.61),
    Tile(SimtConfig(64, 64, 16, 8, 4, 4, min_blocks=4), 4, 0.68, 0.27),
    Tile(SimtConfig(32, 64, 16, 4, 4, 4, min_blocks=4), 4, 0.58, 0.15),
)
"""The tiles, for f32; a tile of f64 has half the columns a thread and a warp."""


def configs(p: GemmProblem, arch: str | Arch = "sm_90") -> tuple[SimtConfig, ...]:
    """The configurations that fit a problem, the one expected to be fastest first.

    Vectors are as wide as the leading dimensions and the extents allow.  Raises the refusal of the last
    tile where none fits.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> c = configs(gemm_problem(8192, 8192, 8192, "f32"))[0]
    >>> c.tile_m, c.tile_n
    (128, 256)
    """
    check_element(p)
    chip = find_arch(arch)
    found: list[tuple[float, SimtConfig]] = []
    refusal: LayoutAlgError | None = None
    for tile in TILES:
        config = fitted(p, tile.config, chip)
        try:
            check_config(p, config, chip)
        except LayoutAlgError as error:
            refusal = error
            continue
        for splits in tile_splits(p, config, chip):
            split = replace(config, splits=splits)
            found.append((expected_cycles(p, replace(tile, config=split), chip), split))
    if not found and refusal is not None:
        raise refusal
    return tuple(config for _, config in sorted(found, key=lambda pair: pair[0]))


def fitted(p: GemmProblem, c: SimtConfig, arch: str | Arch = "sm_90") -> SimtConfig:
    """A configuration with elements, vectors and edges as a problem needs them.

    >>> from layoutalg.kernels.gemm import gemm_problem
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
        c, a_vector=a, b_vector=b, fragment=most, run_m=most, run_n=most, pad=most, edges=True,
        result_vec=gcd(most, p.ldd, p.n, p.ldc if p.reads_c else 0),
    )  # fmt: skip
    if words == 2:
        c = replace(c, tile_n=c.tile_n // 2, thread_n=c.thread_n // 2)
    if find_arch(arch).compute_capability < (8, 0):
        c = replace(c, via="registers", turn="registers", stages=2)
    return c


def expected_cycles(p: GemmProblem, tile: Tile, chip: Arch) -> float:
    """Cycles that the model of the module's text expects.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> p = gemm_problem(4096, 4096, 4096, "f32")
    >>> round(expected_cycles(p, TILES[0], find_arch("sm_90")))
    5291727
    """
    c, sms = tile.config, chip.board.sms if chip.board else 1
    blocks = -(-p.m // c.tile_m) * -(-p.n // c.tile_n) * c.splits
    rounds, rest = divmod(-(-blocks // sms), tile.blocks)
    last = rest / min(tile.share, rest * tile.alone) if rest else 0.0
    each = c.tile_m * c.tile_n * (-(-p.k // c.splits) + PROLOGUE) / FMA_LANES
    return each * (rounds * tile.blocks / tile.share + last) + combine_cycles(p, c.splits)
