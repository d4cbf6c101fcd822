"""How a tensor-core GEMM moves and multiplies its tiles: configurations, layouts in shared memory, mappings.

The idea.  A block computes a tile_m x tile_n tile of D; its warps split that tile, and each warp multiplies
fragments of 16 x 8 (mma.sync).  Along k the block walks in steps of tile_k through a ring of `stages` tiles
in shared memory.  Both operands look alike: rows (m or n) by k, stored along k or along the rows.

    copy_tv      (thread, (element of the vector, pass)) -> row + tile_rows * k    global to shared
    matrix_tv    (lane, matrix) of ldmatrix, below                                  shared to registers

Fragments come from shared memory by ldmatrix.x4: 16 rows by 32 bytes of k, four core matrices.  The swizzle
of each tile is synthesised for the two accesses; its certificate is checked by the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from layoutalg.kernels.gemm import Major
from layoutalg.layout import Layout
from layoutalg.swizzle import AnyLayout


@dataclass(frozen=True, slots=True)
class Sm80Config:
    """How one block works; tiles in elements, vectors in bytes.

    `panel` tile columns are walked together, so that blocks that run at one time share operands in L2.
    `via` says how tiles reach shared memory; with "registers" one or two stages, and `ahead` loads the next
    tile before the current one is multiplied.  `fragments` is 2 where the next fragments are loaded while the
    current ones are multiplied.  `mma_k` is the k of one mma.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    panel: int = 1
    via: Literal["cp.async", "registers"] = "cp.async"
    ahead: bool = True
    fragments: int = 2
    mma_k: int = 16
    swizzled: bool = True
    vector_bytes: int = 16
    edges: bool = False
    result_vec: int = 8
    epilogue: Literal["shared", "direct"] = "shared"
    min_blocks: int = 1
    static_ld: bool = False
    unroll_ring: bool = False

    @property
    def threads(self) -> int:
        """Threads a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def warp_m(self) -> int:
        """Rows of a warp's tile."""
        return self.tile_m // self.warps_m

    @property
    def warp_n(self) -> int:
        """Columns of a warp's tile."""
        return self.tile_n // self.warps_n


def tile_layout(rows: int, tile_k: int, major: Major, element_bytes: int, *, swizzled: bool) -> AnyLayout:
    """Where element (row, k) of an operand's tile lies, in elements.

    >>> print(tile_layout(128, 32, "k", 2, swizzled=True))
    Sw<2,3,3> o 0 o (128,32):(32,1)
    """
    plain = Layout((rows, tile_k), (tile_k, 1) if major == "k" else (1, rows))
    if not swizzled:
        return plain
    row_bytes = element_bytes * (tile_k if major == "k" else rows)
    from layoutalg.swizzle import ComposedLayout, Swizzle

    base = (16 // element_bytes).bit_length() - 1
    bits = min(3, (row_bytes // 16).bit_length() - 1)
    shift = max(128, row_bytes).bit_length() - 1 - 4
    return ComposedLayout(Swizzle(bits, base, shift), 0, plain)


def stage_pitch(warp_n: int) -> int:
    """Floats from row to row of the epilogue's stage: 8 more than a multiple of 32, so that 8-byte stores of
    accumulators and 16-byte loads of rows are both free of bank conflicts.

    >>> stage_pitch(64)
    72
    """
    return -(-warp_n // 32) * 32 + 8


def stage_layout(warp_n: int) -> Layout:
    """16 rows of a warp's accumulators, in floats.

    >>> print(stage_layout(64))
    (16,64):(72,1)
    """
    return Layout((16, warp_n), (stage_pitch(warp_n), 1))
