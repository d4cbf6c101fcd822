"""How a tensor-core GEMM moves and multiplies its tiles: configurations, layouts in shared memory, mappings.

The idea.  A block computes a tile_m x tile_n tile of D; its warps split that tile, and each warp multiplies
fragments of 16 x 8 (mma.sync).  Along k the block walks in steps of tile_k through a ring of `stages` tiles
in shared memory.  Both operands look alike: rows (m or n) by k, stored along k or along the rows.

    copy_tv       (thread, element of the vector, pass)    -> row + rows * k     global to shared
    matrix_tv     (lane, element, (fragment, step), warp)  -> row + rows * k     ldmatrix, shared to registers
    stage_store   (lane, pair, fragment)                   -> row + 16 * column  accumulators to shared
    stage_load    (lane, 4 elements, step)                 -> row + 16 * column  shared to rows of D

Fragments come from shared memory by ldmatrix.x4: 16 rows by 32 bytes of k, four core matrices.  The layouts
of the tiles and of the epilogue's stage are synthesised for these accesses: none has a bank conflict.

Source of the ladder: a tensor-core GEMM in six kernels for a T4; shares of cuBLAS as published, 8 to 96 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import gcd
from types import MappingProxyType
from typing import Literal

from layoutalg.analysis import Access
from layoutalg.codegen.instr import MMAS, Mma
from layoutalg.dtype import DType, dtype
from layoutalg.kernels.gemm.parts import part_problem
from layoutalg.kernels.gemm.problem import GemmProblem, Major
from layoutalg.layout import AnyLayout, Layout
from layoutalg.synthesis import synthesize


@dataclass(frozen=True, slots=True)
class Sm80Config:
    """How one block works; tiles in elements, vectors in bytes (`result_vec` in elements).

    `panel` tile columns are walked together, so that blocks that run at one time share operands in L2.
    `via` says how tiles reach shared memory: "cp.async" through a ring of `stages`, "registers" with one
    stage or two, `ahead` where the next tile is loaded before the current one is multiplied.  `fragments` is
    2 where the next fragments are loaded while the current ones are multiplied.  `mma_k` is the k of one mma,
    0 for the largest.  `edges` is for sizes that are not multiples of the tile.
    `static_ld` builds the kernel for the problem's leading dimensions alone.  `splits` blocks share a tile
    of D, each with a part of k, see gemm_parts.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    panel: int = 8
    via: Literal["cp.async", "registers"] = "cp.async"
    ahead: bool = True
    fragments: Literal[1, 2] = 2
    mma_k: int = 0
    swizzled: bool = True
    a_bytes: int = 16
    b_bytes: int = 16
    edges: bool = False
    result_vec: int = 8
    epilogue: Literal["shared", "direct"] = "shared"
    min_blocks: int = 1
    static_ld: bool = False
    splits: int = 1

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

    def ring_bytes(self, element_bytes: int) -> int:
        """Shared memory of the ring of tiles."""
        return (self.tile_m + self.tile_n) * self.tile_k * self.stages * element_bytes

    @property
    def stage_bytes(self) -> int:
        """Shared memory of the epilogue's stage, which lies over the ring."""
        return 16 * self.warp_n * 4 * self.threads // 32 if self.epilogue == "shared" else 0

    def __str__(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}, {self.stages} stages"


def mma_of(p: GemmProblem, c: Sm80Config) -> Mma:
    """The mma of a configuration: `mma_k`, or the largest k there is.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> mma_of(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4)).k
    16
    """
    fitting = [
        m for m in MMAS if (m.operand, m.accumulator) == (p.operand.name, p.accumulator.name)
        and c.mma_k in (0, m.k)
    ]  # fmt: skip
    return max(fitting, key=lambda m: m.k)


def stored(p: GemmProblem, c: Sm80Config) -> tuple[GemmProblem, Sm80Config]:
    """Problem and configuration of what the product's kernel stores: D, or with splits the parts' sums.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p, c = stored(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4, splits=2))
    >>> p.result.name, c.result_vec
    ('f32', 4)
    """
    if c.splits == 1:
        return p, c
    return part_problem(p), replace(c, result_vec=gcd(c.result_vec, 16 // p.accumulator.nbytes))


LADDER: Mapping[str, Sm80Config] = MappingProxyType(
    {
        "1 hierarchical tiles": Sm80Config(
            256, 128, 64, 4, 2, 1, 1, "registers", ahead=False, fragments=1, mma_k=8, swizzled=False,
            a_bytes=2, b_bytes=2, epilogue="direct", result_vec=2,
        ),
        "2 vectors": Sm80Config(
            256, 128, 64, 4, 2, 1, 1, "registers", ahead=False, fragments=1, mma_k=8, swizzled=False,
            epilogue="direct", result_vec=2,
        ),
        "3 swizzle": Sm80Config(
            256, 128, 64, 4, 2, 1, 1, "registers", ahead=False, fragments=1, mma_k=8, epilogue="direct",
            result_vec=2,
        ),
        "4 copy ahead": Sm80Config(
            256, 128, 64, 4, 2, 1, 1, "registers", fragments=1, mma_k=8, epilogue="direct", result_vec=2
        ),
        "5 tile 256x128x32": Sm80Config(
            256, 128, 32, 4, 2, 1, 1, "registers", fragments=1, mma_k=8, epilogue="direct", result_vec=2
        ),
        "6 two buffers": Sm80Config(
            256, 128, 32, 4, 2, 2, 1, "registers", fragments=1, mma_k=8, epilogue="direct", result_vec=2
        ),
        "7 cp.async ring, mma k16": Sm80Config(256, 128, 32, 4, 2, 4),
        "8 two fragments, tile 128x256x64": Sm80Config(128, 256, 64, 2, 4, 4),
    }
)  # fmt: skip
"""The published steps, and two more that need sm_80.

The fifth step's tile was 256 x 256 on a T4, with 166 registers in f16 accumulators; f32 accumulators of that
tile do not fit eight warps, so that it keeps 256 x 128 here.
"""


def copy_tv(rows: int, tile_k: int, major: Major, vec: int, threads: int) -> Layout:
    """(thread, element of the vector, pass) -> row + rows * k of what a thread copies.

    >>> print(copy_tv(128, 32, "k", 8, 256))
    ((4,64),8,2):((1024,1),128,64)
    """
    if major == "k":
        along, far = tile_k // vec, 1
        near = rows
    else:
        along, near, far = rows // vec, 1, rows
    strip = threads // along
    passes = rows * tile_k // (vec * threads)
    return Layout(((along, strip), vec, passes), ((vec * near, far), near, strip * far))


def matrix_tv(rows: int, tile_k: int, warp_rows: int, half: int, *, turned: bool, paired: bool) -> Layout:
    """(lane, element, (fragment, step), warp) -> row + rows * k of the rows that ldmatrix.x4 is given.

    `half` elements are 16 bytes.  Matrices are in the order of the registers of an mma operand: row half
    before k half for A, k half before row half for two B fragments (`paired`).  With `turned` a lane
    addresses 8 rows of one k.

    >>> print(matrix_tv(128, 32, 64, 8, turned=False, paired=False))
    ((8,2,2),8,(4,2),2):((1,8,1024),128,(16,2048),64)
    """
    k, fragments, steps = rows, warp_rows // 16, tile_k // (2 * half)
    rest = ((fragments, steps), rows // warp_rows), ((16, 2 * half * k), warp_rows)
    inner, along = (k, 1) if turned else (1, k)  # from lane to lane of a matrix, from element to element
    row_half, k_half = 8, half * k
    pair = (k_half, row_half) if paired else (row_half, k_half)
    return Layout(((8, 2, 2), half, *rest[0]), ((inner, *pair), along, *rest[1]))


def stage_store_tv(warp_n: int) -> Layout:
    """(lane, pair, (row half, fragment)) -> row + 16 * column of the accumulators that a lane stores.

    >>> print(stage_store_tv(64))
    ((4,8),2,(2,8)):((32,1),16,(8,128))
    """
    return Layout(((4, 8), 2, (2, warp_n // 8)), ((32, 1), 16, (8, 128)))


def stage_load_tv(warp_n: int, vec: int) -> Layout:
    """(lane, element, (part, column step, row step)) -> row + 16 * column of what a lane takes to D.

    A lane takes `vec` elements of a row at a time, in parts of 4 at most.

    >>> print(stage_load_tv(64, 8))
    ((8,4),4,(2,1,4)):((128,1),16,(64,1024,4))
    """
    lanes, part = min(32, warp_n // vec), min(vec, 4)
    rows = 32 // lanes
    return Layout(
        ((lanes, rows), part, (vec // part, warp_n // (lanes * vec), 16 // rows)),
        ((16 * vec, 1), 16, (16 * part, 16 * vec * lanes, rows)),
    )


def operand_accesses(p: GemmProblem, c: Sm80Config, side: Literal["a", "b"]) -> tuple[Access, Access]:
    """What an operand's tile does to shared memory, on its domain (row, k): the copy, then ldmatrix.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> found = operand_accesses(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4), "a")
    >>> [access.op for access in found]
    ['cp.async.16', 'ldmatrix.x4']
    """
    element, major = p.operand, p.a_major if side == "a" else p.b_major
    rows, warp_rows, nbytes = (
        (c.tile_m, c.warp_m, c.a_bytes) if side == "a" else (c.tile_n, c.warp_n, c.b_bytes)
    )
    return _operand_accesses(element, major, rows, warp_rows, nbytes, c.tile_k, c.threads, c.via, side == "b")


@cache
def _operand_accesses(
    element: DType, major: Major, rows: int, warp_rows: int, nbytes: int, tile_k: int, threads: int, via: str,
    paired: bool,
) -> tuple[Access, Access]:  # fmt: skip
    size = element.nbytes
    copy = copy_tv(rows, tile_k, major, nbytes // size, threads)
    op = f"cp.async.{nbytes}" if via == "cp.async" else f"st.shared.b{8 * nbytes}"
    turned = major == "mn"
    read = matrix_tv(rows, tile_k, warp_rows, 16 // size, turned=turned, paired=paired)
    return Access(op, copy, element), Access(
        "ldmatrix.x4.trans" if turned else "ldmatrix.x4", _merged(read), element
    )


def _merged(tv: Layout) -> Layout:
    """(lane, element, steps, warps) as (lane, element, (steps, warps)): every warp is a further iteration."""
    lane, element, steps, warps = (tv[i] for i in range(4))
    return Layout(
        (lane.shape, element.shape, (steps.shape, warps.shape)),
        (lane.stride, element.stride, (steps.stride, warps.stride)),
    )


def tile_layout(p: GemmProblem, c: Sm80Config, side: Literal["a", "b"]) -> AnyLayout:
    """Where element (row, k) of an operand's tile lies, in elements: one swizzle, free of bank conflicts.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(tile_layout(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4), "a"))
    Sw<3,3,3> o 0 o (128,64):(64,1)
    """
    rows = c.tile_m if side == "a" else c.tile_n
    major = p.a_major if side == "a" else p.b_major
    plain = Layout((rows, c.tile_k), (c.tile_k, 1) if major == "k" else (1, rows))
    if not c.swizzled:
        return plain
    wanted = operand_accesses(p, c, side)
    return _synthesized(
        plain, wanted[1:] if c.via == "cp.async" else wanted, "row" if major == "k" else "col"
    )


def stage_layout(warp_n: int, vec: int) -> AnyLayout:
    """Where float (row, column) of 16 rows of a warp's accumulators lies; both accesses free of conflicts.

    >>> print(stage_layout(64, 8))
    Sw<3,2,3> o 0 o (16,64):(64,1)
    """
    plain = Layout((16, warp_n), (warp_n, 1))
    part = min(vec, 4)
    element = dtype("f32")
    store = Access("st.shared.b64", stage_store_tv(warp_n), element)
    load = Access(f"ld.shared.b{32 * part}", stage_load_tv(warp_n, vec), element)
    return _synthesized(plain, (store, load), "row", form="any")


@cache
def _synthesized(
    plain: Layout,
    accesses: tuple[Access, ...],
    order: Literal["row", "col"],
    form: Literal["single", "any"] = "single",
) -> AnyLayout:
    element = accesses[0].element
    found = synthesize(plain.shape, accesses, element=element, order=order, form=form)
    return plain if found.layout is None else found.layout
