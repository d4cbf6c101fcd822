"""The configurations of all families: how products are divided into tiles.

    SimtConfig    fused multiply-adds of threads
    Sm80Config    mma.sync of warps                  `stored`
    Sm75Config    the same on GPUs without cp.async
    Sm90Config    wgmma of warpgroups, fed by TMA
    OperandTile   the tile of an operand, for every family

The idea.  A block computes a tile_m x tile_n tile of D.  Its warps split the tile.  Both operands look alike:
rows (m or n) by k, and along k the block walks in steps of tile_k through `stages` tiles in shared memory.

Without tensor cores the 32 lanes of a warp are arranged lanes_m x lanes_n, and each thread keeps
thread_m x thread_n sums in registers: per step of k it reads thread_m + thread_n elements from shared memory
and makes thread_m * thread_n fused multiply-adds.  Each dimension of a thread's tile lies in runs:

    element e of a thread    row = lane * run + e % run + e // run * lanes * run

With run = 4 the lanes of a warp read neighbouring 16-byte vectors (no bank conflict); with run = thread_m a
thread's rows are contiguous.  A tile in shared memory is stored [k][row], so that fragments are vectors; the
copy turns a tile whose matrix is stored along k.

With tensor cores a warp multiplies fragments of 16 x 8, which come from shared memory by ldmatrix.x4: 16 rows
by 32 bytes of k, four core matrices.  Elements that ldmatrix would tear, of 64 bits or stored along the rows
and of 32, are loaded one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Literal, TypeAlias

from layoutalg.dtype import DType
from layoutalg.kernels.gemm.problem import GemmProblem, Major, fragment_k, stored_problem
from layoutalg.layout import Layout

Via: TypeAlias = Literal["cp.async", "registers"]
Side: TypeAlias = Literal["a", "b"]
SIDES: tuple[Side, Side] = "a", "b"

SECTOR_BYTES = 32
"""The bytes of a row that a copy of single elements takes at a time: global memory is read in sectors."""


class Alone:
    """The properties of configurations whose blocks form no clusters, and whose warps take no turns."""

    __slots__ = ()

    cluster = cluster_m = cluster_n = cluster_k = 1
    pingpong = crossed = False


@dataclass(frozen=True, slots=True)
class SimtConfig(Alone):
    """The way a block computes with multiply-adds of threads; extents and vectors in elements.

    `via` says how tiles reach shared memory, through registers or by cp.async; `stages` of them are kept
    there.  `a_vector`, `b_vector` are what a copy moves where the order is kept, or through registers.  Runs
    of n and what widens the rows of turned tiles are 16 bytes, and so are loads of fragments, or a run of m
    where that is shorter.  `edges` is for sizes that are not multiples of the tile.
    `panel` columns of tiles are walked together. `splits` blocks share a tile of D, each with a part of k,
    see parts.

    >>> from layoutalg.kernels import find_family
    >>> family = find_family("gemm-simt")
    >>> family.choose(family.problem(4096, 4096, 4096), "sm_90").via
    'cp.async'
    """

    tile_m: int
    tile_n: int
    tile_k: int
    thread_m: int
    thread_n: int
    lanes_m: int
    run_m: int = 4
    via: Via = "cp.async"
    stages: int = 3
    a_vector: int = 4
    b_vector: int = 4
    edges: bool = False
    panel: int = 8
    result_vec: int = 4
    min_blocks: int = 1
    static_ld: bool = False
    splits: int = 1

    # sets of fragments in registers: all but one are loaded ahead
    fragments = 2

    @property
    def lanes_n(self) -> int:
        """Lanes of a warp along n."""
        return 32 // self.lanes_m

    @property
    def warps_m(self) -> int:
        """Warps of a block along m."""
        return self.tile_m // (self.lanes_m * self.thread_m)

    @property
    def warps_n(self) -> int:
        """Warps of a block along n."""
        return self.tile_n // (self.lanes_n * self.thread_n)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n


@dataclass(frozen=True, slots=True)
class Sm80Config(Alone):
    """The way a block computes with mma.sync; tiles in elements, vectors in bytes (`result_vec` in elements).

    `panel` tile columns are walked together, so that blocks that run at one time share operands in L2.
    `via` says how tiles reach shared memory: "cp.async" through a ring of `stages`, "registers" with one
    stage or two.  `mma_k` is the k of one mma, 0 for the largest.  `edges` is for sizes that are not
    multiples of the tile.
    `static_ld` builds the kernel for the problem's leading dimensions alone.  `splits` blocks share a tile
    of D, each with a part of k, see parts.  `mma_m` is the rows of one mma, of which two of 8 are one of 16.

    >>> from layoutalg.kernels import find_family
    >>> family = find_family("gemm-sm80")
    >>> print(family.choose(family.problem(4096, 4096, 4096), "sm_90"))
    128x256x64, 4 stages
    """

    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    stages: int
    panel: int = 8
    via: Via = "cp.async"
    mma_k: int = 0
    a_bytes: int = 16
    b_bytes: int = 16
    edges: bool = False
    result_vec: int = 8
    min_blocks: int = 1
    static_ld: bool = False
    splits: int = 1
    mma_m: Literal[16, 8] = 16

    # sets of fragments in registers: all but one are loaded ahead
    fragments = 2

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps_m * self.warps_n

    @property
    def warp_m(self) -> int:
        """Rows of a warp's tile."""
        return self.tile_m // self.warps_m

    @property
    def warp_n(self) -> int:
        """Columns of a warp's tile."""
        return self.tile_n // self.warps_n

    @property
    def stage_bytes(self) -> int:
        """Shared memory of the epilogue's stage, which lies over the ring."""
        return 16 * self.warp_n * 4 * self.threads // 32

    def __str__(self) -> str:
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}, {self.stages} stages{_parts(self.splits)}"


@dataclass(frozen=True, slots=True)
class Sm75Config(Sm80Config):
    """The way a block computes without cp.async: through registers into one or two tiles, by mma of k = 8.

    Fragments are loaded when they are needed, so that the registers are left for sums: 256 x 256 of f16 fit
    eight warps.

    >>> Sm75Config(256, 256, 32, 4, 2).via
    'registers'
    """

    stages: int = 2
    via: Via = "registers"
    mma_k: int = 8
    fragments = 1


@dataclass(frozen=True, slots=True)
class Sm90Config:
    """The way a block computes tile after tile: a role loads by TMA, `consumers` warpgroups multiply.

    Each consumer has tile_m / consumers rows of a tile, in steps of 64; k goes by 128 bytes, `tile_k`
    elements, through `stages` tiles in shared memory.  `panel` columns of tiles are walked together.
    Results leave `through` "tma", stored by TMA from shared memory in boxes, or "shared", in rows of
    `result_vec` elements that threads write, so that D and C may be stored in any way.  `splits`
    blocks share a tile, each with a part of k, see parts.  Blocks come in clusters of `cluster_m` below each
    other, which load B for each other, or of `cluster_n` beside each other, which load A, or of `cluster_k`
    that share a tile, each with a part of k: they add their sums up through shared memory, and each writes
    some of the columns.
    With `pingpong` each consumer has tiles of its own, in turn, and writes one while the others multiply.
    If it is `crossed`, tiles are of the transposed product: their rows are columns of D.

    >>> Sm90Config(128, 256, 4).threads
    384
    """

    tile_m: int
    tile_n: int
    stages: int
    consumers: int = 2
    panel: int = 4
    through: Literal["tma", "shared"] = "tma"
    result_vec: int = 8
    splits: int = 1
    cluster_m: int = 1
    cluster_n: int = 1
    cluster_k: int = 1
    pingpong: bool = False
    tile_k: int = 64
    crossed: bool = False

    # what other families choose, and every configuration of this one has
    min_blocks, edges, static_ld, via = 1, True, False, "tma"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * (1 + self.consumers)

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster_m * self.cluster_n * self.cluster_k

    @property
    def sharing(self) -> int:
        """Blocks of a cluster that load for each other."""
        return self.cluster_m * self.cluster_n

    @property
    def written_n(self) -> int:
        """Columns of a tile that a block writes."""
        return self.tile_n // self.cluster_k

    @property
    def readers(self) -> int:
        """Consumers that read a stage."""
        return 1 if self.pingpong else self.consumers

    @property
    def consumer_m(self) -> int:
        """Rows of a consumer's part of a tile, or of its tile."""
        return self.tile_m // self.readers

    def box_columns(self) -> int:
        """Columns of results that go through shared memory at once by threads: up to 64, as they fit."""
        columns = gcd(self.written_n, 64)
        while columns > 16 and self.ring_bytes + 64 * self.consumers * columns * 4 > BLOCK_BYTES:
            columns //= 2
        return columns

    def boxes(self, nbytes: int) -> tuple[int, ...]:
        """Columns of the boxes of results of `nbytes` that TMA stores, across a tile: the widest that fit the
        block's shared memory, rows of up to 128 bytes, and for the rest each half as wide.

        >>> Sm90Config(128, 176, 4).boxes(2), Sm90Config(256, 160, 4).boxes(2)
        ((64, 64, 32, 16), (32, 32, 32, 32, 32))
        """
        for widest in (128 // nbytes, 64 // nbytes):
            found = _halving(self.written_n, widest)
            if self.ring_bytes + self.consumers * _box_bytes(found, nbytes, 2) <= BLOCK_BYTES:
                return found
        return _halving(self.written_n, 32 // nbytes)

    def box_buffers(self, nbytes: int) -> int:
        """Boxes of the widest kind that a consumer has in shared memory: all of a tile's, or what fits, 2 at
        least; of narrower ones it has one each.

        >>> Sm90Config(128, 192, 4).box_buffers(2), Sm90Config(128, 256, 4).box_buffers(2)
        (3, 2)
        """
        found = self.boxes(nbytes)
        most = found.count(found[0]) * self.consumer_m // 64
        while most > 2 and self.ring_bytes + self.consumers * _box_bytes(found, nbytes, most) > BLOCK_BYTES:
            most -= 1
        return most

    def refills(self, nbytes: int) -> int:
        """The most boxes of a consumer's results that wait for a place which another one has first.

        >>> Sm90Config(128, 208, 4).refills(2), Sm90Config(256, 160, 4).refills(2)
        (0, 4)
        """
        if self.through != "tma":
            return 0
        found, high = self.boxes(nbytes), self.consumer_m // 64
        return (
            max(-(-found.count(found[0]) * high // self.box_buffers(nbytes)), high * (len(set(found)) > 1))
            - 1
        )

    @property
    def ring_bytes(self) -> int:
        """Shared memory of a block beside boxes of results: tiles of operands, sums of peers, barriers."""
        sums = self.tile_m * (self.tile_n - self.written_n) * 4
        return self.stages * (self.tile_m + self.tile_n) * STEP_BYTES + sums + 1024

    def results_bytes(self, nbytes: int) -> int:
        """Shared memory of a block for results of `nbytes`."""
        if self.through == "tma":
            return self.consumers * _box_bytes(self.boxes(nbytes), nbytes, self.box_buffers(nbytes))
        return 64 * self.consumers * self.box_columns() * 4

    def __str__(self) -> str:
        shape = f"{self.cluster_m}x{self.cluster_n}x{self.cluster_k}"
        cluster = f", clusters of {shape}" if self.cluster > 1 else ""
        turns = ", ping-pong" if self.pingpong else ""
        more = _parts(self.splits) + (", crossed" if self.crossed else "")
        return f"{self.tile_m}x{self.tile_n}x{self.tile_k}, {self.stages} stages{cluster}{turns}{more}"


def _parts(splits: int) -> str:
    return f", {splits} parts of k" if splits > 1 else ""


def _halving(columns: int, widest: int) -> tuple[int, ...]:
    """Columns as boxes: as many of the widest kind as there is room for, then each half as wide."""
    found: list[int] = []
    while columns:
        found += [widest] * (columns // widest)
        columns, widest = columns % widest, widest // 2
    return tuple(found)


def _box_bytes(found: tuple[int, ...], nbytes: int, buffers: int) -> int:
    """Shared memory of a consumer's boxes: so many of the widest kind, and each narrower one."""
    return 64 * nbytes * (found[0] * buffers + sum(set(found) - {found[0]}))


STEP_BYTES = 128
"""The bytes of k of a stage of gemm-sm90: rows of the widest swizzle."""

BLOCK_BYTES = 232448
"""The most shared memory of a block of sm_90."""

ROLE_REGISTERS = {1: (0, 0), 2: (40, 232), 3: (32, 160)}
"""Registers per thread of the producer and of so many consumers, 65,536 in all; 0 where none are moved."""


def stored(p: GemmProblem, c: Sm80Config) -> tuple[GemmProblem, Sm80Config]:
    """Problem and configuration of what the product's kernel stores: D, or with splits the parts' sums.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p, c = stored(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4, splits=2))
    >>> p.result.name, c.result_vec
    ('f32', 4)
    """
    if c.splits == 1:
        return p, c
    return stored_problem(p, c.splits), replace(c, result_vec=gcd(c.result_vec, 16 // p.accumulator.nbytes))


@dataclass(frozen=True, slots=True)
class OperandTile:
    """A tile of an operand, `rows` rows by `deep` k of a matrix that is stored along its `major` mode.

    `threads` threads copy `vector` elements each: single elements where the tile's `order` is not the
    matrix's.  Stored rows of the tile are `pitch` elements apart.  Of a step of k a thread loads `fragments`
    fragments of `fragment` elements.
    """

    rows: int
    deep: int
    element: DType
    major: Major
    order: Major
    via: Via
    threads: int
    vector: int
    pitch: int
    fragment: int
    fragments: int

    @property
    def turned(self) -> bool:
        """Whether copying the tile turns it."""
        return self.major != self.order

    @property
    def near(self) -> int:
        """Extent of the tile along the matrix's stored rows."""
        return self.deep if self.major == "k" else self.rows

    @property
    def lanes(self) -> int:
        """Threads that copy along a stored row; single elements: as many as fill a sector."""
        along = self.near // self.vector
        if self.turned and self.via == "cp.async":
            return min(along, SECTOR_BYTES // self.element.nbytes)
        return along

    @property
    def passes(self) -> int:
        """Vectors that a thread moves for a tile."""
        return self.rows * self.deep // (self.vector * self.threads)

    @property
    def layout(self) -> Layout:
        """The layout from (row, k) of the tile to elements, without a swizzle."""
        return Layout((self.rows, self.deep), (1, self.pitch) if self.order == "mn" else (self.pitch, 1))

    @property
    def stage_elems(self) -> int:
        """Elements that a tile takes, padding included."""
        return self.pitch * (self.deep if self.order == "mn" else self.rows)

    @property
    def words(self) -> int:
        """32-bit words of a fragment."""
        return self.fragment * self.element.nbytes // 4


def operand_tile(p: GemmProblem, c: SimtConfig | Sm80Config, side: Side) -> OperandTile:
    """The part of a configuration that concerns one operand.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(operand_tile(gemm_problem(128, 128, 128, "f32"), SimtConfig(128, 128, 8, 8, 8, 4), "a").layout)
    (128,8):(1,132)
    """
    first, size = side == "a", p.operand.nbytes
    rows, major = (c.tile_m, p.a_major) if first else (c.tile_n, p.b_major)
    if isinstance(c, Sm80Config):
        nbytes, warp_rows = (c.a_bytes, c.warp_m) if first else (c.b_bytes, c.warp_n)
        return OperandTile(
            rows, c.tile_k, p.operand, major, major, c.via, c.threads, nbytes // size,
            c.tile_k if major == "k" else rows, fragment_k(p, c) // 2, warp_rows // 16,
        )  # fmt: skip
    most, turned = 16 // size, major == "k"
    run, thread, vector = (c.run_m, c.thread_m, c.a_vector) if first else (most, c.thread_n, c.b_vector)
    fragment = min(most, run)
    if turned and c.via == "cp.async":
        vector = 1  # neighbours in the matrix are not neighbours in the tile
    return OperandTile(
        rows, c.tile_k, p.operand, major, "mn", c.via, c.threads, vector, rows + most * turned, fragment,
        thread // fragment,
    )  # fmt: skip


def vectors(p: GemmProblem, c: SimtConfig | Sm80Config) -> tuple[int, int, int]:
    """Elements that are copied at once of A and of B, and stored at once of D.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> vectors(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4))
    (8, 8, 8)
    """
    return operand_tile(p, c, "a").vector, operand_tile(p, c, "b").vector, c.result_vec


Config: TypeAlias = SimtConfig | Sm80Config | Sm90Config
"""A way to compute a product, of any family."""


def extents(p: GemmProblem, c: Config) -> tuple[int, int]:
    """The rows and columns of what tiles are of: of D, or of its transpose.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> extents(gemm_problem(300, 256, 64, "tf32", b_major="mn"), Sm90Config(128, 256, 4, crossed=True))
    (256, 300)
    """
    return (p.n, p.m) if c.crossed else (p.m, p.n)


def tile_count(p: GemmProblem, c: Config) -> int:
    """Tiles of D, of all products of a batch.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> tile_count(gemm_problem(300, 256, 64), Sm90Config(128, 256, 4))
    3
    """
    m, n = extents(p, c)
    return -(-m // c.tile_m) * -(-n // c.tile_n) * p.products


def cluster_tiles(p: GemmProblem, c: Config) -> int:
    """Tiles of clusters, of all products of a batch.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> cluster_tiles(gemm_problem(512, 512, 64), Sm90Config(128, 256, 4, cluster_m=2))
    4
    """
    m, n = extents(p, c)
    return -(-m // (c.tile_m * c.cluster_m)) * -(-n // (c.tile_n * c.cluster_n)) * p.products
