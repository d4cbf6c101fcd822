"""How a GEMM without tensor cores moves and multiplies its tiles: configurations as data.

The idea.  A block computes a tile_m x tile_n tile of D.  Its warps split the tile, the 32 lanes of a warp are
arranged lanes_m x lanes_n, and each thread keeps thread_m x thread_n sums in registers: per step of k it
reads thread_m + thread_n elements from shared memory and makes thread_m * thread_n fused multiply-adds.  Both
operands look alike: rows (m or n) by k, and each dimension of a thread's tile lies in runs:

    element e of a thread    row = lane * run + e % run + e // run * lanes * run

With run = 4 the lanes of a warp read neighbouring 16-byte vectors (no bank conflict); with run = thread_m a
thread's rows are contiguous.  A tile in shared memory is stored [k][row] (order "mn", where fragments are
vectors), like its matrix ("matrix"), or the other way round ("turned").  Where the tile's order is not
the matrix's, the copy turns it.

The published ladder of eight versions, and what follows it, are entries of one table, LADDER.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from layoutalg.kernels.gemm.problem import GemmProblem, Major
from layoutalg.layout import Layout

Via: TypeAlias = Literal["global", "registers", "cp.async"]
Order: TypeAlias = Literal["mn", "matrix", "turned"]

SECTOR_BYTES = 32
"""Global memory is read in sectors; a copy of single elements takes this much of a row at a time."""


@dataclass(frozen=True, slots=True)
class SimtConfig:
    """How one block works; extents and vectors in elements.

    `weave` lanes along n come first, then those along m, then the others along n.
    `via` says how tiles reach the multiply-adds: straight from global memory, through registers, or by
    cp.async; `turn` is the same for a tile whose stored order is not the matrix's.  `stages` tiles are kept
    in shared memory; with one, `ahead` loads the next tile into registers before the current one is
    multiplied.  `fragments` is 2 where the next fragments are loaded while the current ones are multiplied.
    `a_vector`, `b_vector` are what a copy moves where the order is kept, or through registers; `fragment` is
    what a load from shared memory brings; `pad` widens the rows of turned tiles.  `edges` is for sizes that
    are not multiples of the tile.  Copies of a tile start in `spread` steps of k.  `panel` columns of tiles
    are walked together.  `splits` blocks share a tile of D, each with a part of k, see gemm_parts.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    thread_m: int
    thread_n: int
    lanes_m: int
    weave: int = 2
    run_m: int = 4
    run_n: int = 4
    via: Via = "cp.async"
    turn: Via = "cp.async"
    stages: int = 3
    ahead: bool = False
    fragments: int = 2
    order: Order = "mn"
    a_vector: int = 4
    b_vector: int = 4
    fragment: int = 4
    pad: int = 4
    edges: bool = False
    panel: int = 8
    result_vec: int = 4
    min_blocks: int = 1
    static_ld: bool = False
    spread: int = 1
    splits: int = 1

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
        """Threads a block."""
        return 32 * self.warps_m * self.warps_n

    def owner(self, tid: Any) -> tuple[Any, Any]:
        """(row of A, column of B) in the block's tile where a thread's fragments start.

        >>> SimtConfig(128, 128, 8, 8, 8, 4).owner(9)
        (0, 12)
        """
        lane, warp = tid % 32, tid // 32
        lane_m = lane // self.weave % self.lanes_m
        lane_n = lane % self.weave + lane // (self.weave * self.lanes_m) * self.weave
        return (
            warp % self.warps_m * (self.lanes_m * self.thread_m) + lane_m * self.run_m,
            warp // self.warps_m * (self.lanes_n * self.thread_n) + lane_n * self.run_n,
        )


@dataclass(frozen=True, slots=True)
class Half:
    """What a configuration means for one operand, whose tile has `rows` rows and `deep` k.

    A thread multiplies `thread` rows in runs of `run`, next to the runs of `lanes` lanes; it reads
    `fragment` elements at once.  `threads` threads copy `vector` elements each, `lanes_near` of them
    along a stored row of the matrix, `near` elements long in the tile; `turned` is a tile whose stored order
    is not the matrix's.  `pitch` is the distance of the tile's stored rows.
    """

    rows: int
    deep: int
    lanes: int
    run: int
    thread: int
    threads: int
    order: Major
    major: Major
    via: Via
    vector: int
    fragment: int
    pitch: int
    lanes_near: int

    @property
    def turned(self) -> bool:
        """Whether copying the tile turns it."""
        return self.major != self.order

    @property
    def near(self) -> int:
        """Extent of the tile along the matrix's stored rows."""
        return self.deep if self.major == "k" else self.rows

    @property
    def passes(self) -> int:
        """Vectors that a thread moves for a tile."""
        return self.rows * self.deep // (self.vector * self.threads)

    @property
    def layout(self) -> Layout:
        """Where element (row, k) of the tile lies, in elements."""
        return Layout((self.rows, self.deep), (1, self.pitch) if self.order == "mn" else (self.pitch, 1))

    @property
    def stage_elems(self) -> int:
        """Elements that a tile takes, padding included."""
        return self.pitch * (self.deep if self.order == "mn" else self.rows)

    def walk(self, tid: Any, step: Any) -> tuple[Any, Any]:
        """(near, far): where a vector of a pass starts in the tile, along and across the stored rows."""
        across = self.lanes_near * self.vector
        near_passes, rows_a_pass = self.near // across, self.threads // self.lanes_near
        near = tid % self.lanes_near * self.vector
        far = tid // self.lanes_near
        if near_passes == 1:
            return near, far + step * rows_a_pass
        return near + step % near_passes * across, far + step // near_passes * rows_a_pass


def half(p: GemmProblem, c: SimtConfig, side: Literal["a", "b"]) -> Half:
    """The part of a configuration that concerns one operand.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(half(gemm_problem(128, 128, 128, "f32"), SimtConfig(128, 128, 8, 8, 8, 4), "a").layout)
    (128,8):(1,132)
    """
    rows, lanes, run, thread, major, vector = (
        (c.tile_m, c.lanes_m, c.run_m, c.thread_m, p.a_major, c.a_vector)
        if side == "a"
        else (c.tile_n, c.lanes_n, c.run_n, c.thread_n, p.b_major, c.b_vector)
    )
    orders: dict[Order, Major] = {"mn": "mn", "matrix": major, "turned": "mn" if major == "k" else "k"}
    order = orders[c.order]
    turned = major != order
    via = c.turn if turned and c.via != "global" else c.via
    single = turned and via == "cp.async"
    vector = 1 if single or via == "global" else vector
    along = (c.tile_k if major == "k" else rows) // vector
    lanes_near = min(along, SECTOR_BYTES // p.operand.nbytes) if single else along
    return Half(
        rows, c.tile_k, lanes, run, thread, c.threads, order, major, via, vector,
        min(c.fragment, run) if order == "mn" else 1,
        (rows if order == "mn" else c.tile_k) + (c.pad if turned else 0),
        lanes_near,
    )  # fmt: skip


def thread_row(h: Half, e: Any) -> Any:
    """Row of element `e` of a thread, counted from its first row.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> h = half(gemm_problem(128, 128, 128, "f32"), SimtConfig(128, 128, 8, 8, 8, 4), "a")
    >>> [thread_row(h, e) for e in range(8)]
    [0, 1, 2, 3, 16, 17, 18, 19]
    """
    return e % h.run + e // h.run * (h.lanes * h.run) if h.thread > h.run else e


def multiples(p: GemmProblem, c: SimtConfig) -> tuple[int, int, int]:
    """What m, n and k must be multiples of: the tile's extents, or with edges the vectors along them.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p = gemm_problem(100, 100, 100, "f32", b_major="mn")
    >>> multiples(p, SimtConfig(128, 128, 8, 8, 8, 4, edges=True))
    (1, 4, 1)
    """
    if not c.edges:
        return c.tile_m, c.tile_n, c.tile_k
    a, b = half(p, c, "a").vector, half(p, c, "b").vector
    return (
        a if p.a_major == "mn" else 1,
        max(c.result_vec, b if p.b_major == "mn" else 1),
        max(a if p.a_major == "k" else 1, b if p.b_major == "k" else 1),
    )


_ONE = SimtConfig(32, 32, 32, 1, 1, 1, 32, 1, 1, "registers", "registers", 1, fragments=1, order="turned",
                  a_vector=1, b_vector=1, fragment=1, pad=0, panel=1, result_vec=1)  # fmt: skip
_FOUR = replace(_ONE, thread_n=4, run_n=4, lanes_m=4, weave=8, order="matrix")
_SQUARE = replace(
    _FOUR, tile_m=64, tile_n=64, tile_k=16, thread_m=4, run_m=4, lanes_m=2, weave=16, order="mn", a_vector=4,
    b_vector=4, fragment=4, result_vec=4,
)  # fmt: skip
_EIGHT = replace(_SQUARE, tile_m=128, tile_n=128, tile_k=8, thread_m=8, thread_n=8, run_m=8, run_n=8)
_WARP = replace(_EIGHT, lanes_m=4, weave=2, run_m=4, run_n=4, pad=4)
_BUFFERED = replace(_WARP, stages=2, fragments=2)
_ASYNC = replace(_BUFFERED, via="cp.async", turn="cp.async", stages=3)
_WIDE = replace(_ASYNC, tile_n=256, thread_m=16, panel=8, edges=True)

LADDER: Mapping[str, tuple[str, SimtConfig]] = MappingProxyType(
    {
        "v1": ("a thread an element, straight from global memory", replace(_ONE, via="global")),
        "v2": ("tiles of 32 x 32 x 32 in shared memory, stored across their matrices", _ONE),
        "v3": ("the same from a linear thread index", _ONE),
        "v4": ("tiles stored like their matrices", replace(_ONE, order="matrix")),
        "v5": ("four elements a thread", _FOUR),
        "v6": ("16-byte accesses", replace(_FOUR, a_vector=4, b_vector=4, fragment=4, result_vec=4)),
        "v7": ("64 x 64 x 16 tiles, 4 x 4 elements a thread", _SQUARE),
        "v8": ("128 x 128 x 8 tiles, 8 x 8 elements a thread", _EIGHT),
        "warp tiles": ("lanes 4 x 8 in a warp, runs of four", _WARP),
        "prefetch": (
            "the next tile loaded into registers meanwhile",
            replace(_WARP, ahead=True, fragments=2),
        ),
        "double buffer": ("two tiles in shared memory, one barrier a tile", _BUFFERED),
        "cp.async": ("a ring of three tiles, copied asynchronously", _ASYNC),
        "wide": ("128 x 256 x 8 tiles, 16 x 8 elements a thread, blocks in panels", _WIDE),
    }
)
"""The published ladder and the steps after it, for sizes that are multiples of the tile: what is new, and the
configuration.  v3 is v2, because threads are indexed linearly from the start."""
