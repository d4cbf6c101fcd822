"""What a permute costs before anything runs: sectors, wavefronts, bytes, and the limit that binds.

The idea.  Blocks differ in two ways only: which edges of the tensor cut their tile, and where their tile
starts relative to a 32-byte sector on either side.  So blocks are sorted into classes by (edges, source
phase, destination phase), the classes are counted by convolving the phases of the tiles along every mode,
and one block of each class is counted lane by lane on the plan's own addresses.  The time this takes
depends on the number of classes, not on the size of the tensor.

Notes.  `predict` counts the sectors of asynchronous copies by the rule of loads, as the simulator's trace
does; `copy_sectors` says what the tags of the L1 count and what comes from the L2, which is more where rows
start inside sectors and shared memory holds them from whole blocks on.  The bound is a comparison of rates,
not a simulation: bytes over the memory's bandwidth, requests and wavefronts over what the load-store units
take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from layoutalg.arch import Arch
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.kernels.limits import Bound, limits
from layoutalg.kernels.move.gather import reads
from layoutalg.kernels.move.misaligned import Index, block_base, parts
from layoutalg.kernels.move.partition import Store, direct_element, load_chunk
from layoutalg.kernels.move.problem import Moves
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.layout import Swizzles
from layoutalg.model import copied_sectors, tag_sectors

SECTOR_BYTES, LINE_BYTES, COPY_BYTES = 32, 128, 16


@dataclass(frozen=True, slots=True)
class BlockClass:
    """Blocks that cost the same: how many, and the origins of one of them."""

    count: int
    origins: tuple[int, ...]


def block_classes(stage: Stage, unit_bytes: int = SECTOR_BYTES) -> tuple[BlockClass, ...]:
    """The classes of a launch's blocks by phases modulo `unit_bytes`; their counts sum to `stage.blocks`.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((4096, 4096), (1, 0), "f32"))
    >>> block_classes(Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)))
    (BlockClass(count=4096, origins=(0, 0)),)
    """
    units = (
        period(stage.size, stage.moves.src_swizzle, unit_bytes),
        period(stage.size, stage.moves.dst_swizzle),
    )
    near = () if stage.moves.src_elems % stage.config.chunk else None
    found: dict[_Key, tuple[int, tuple[int, ...]]] = {_Key((), 0, 0, 0, near): (1, ())}
    for k in range(stage.moves.rank):
        tiles = list(_tile_classes(stage, k, units))
        grown: dict[_Key, tuple[int, tuple[int, ...]]] = {}
        for key, (count, origins) in found.items():
            for t in tiles:
                both = key.with_tile(t, units, NEAR_ELEMS + units[0])
                known = grown.get(both)
                if known is None:
                    grown[both] = (count * t.count, (*origins, t.origin))
                else:
                    grown[both] = (known[0] + count * t.count, known[1])
        found = grown
    return tuple(BlockClass(count, origins) for count, origins in found.values())


def period(element_bytes: int, swizzles: Swizzles, unit_bytes: int = SECTOR_BYTES) -> int:
    """Elements after which sectors, or other units of memory, and swizzles repeat.

    >>> from layoutalg.layout import Swizzle
    >>> period(2, Swizzles()), period(2, Swizzles(Swizzle(3, 3, 3)))
    (16, 512)
    """
    return max(unit_bytes // element_bytes, swizzles.period)


NEAR_ELEMS = 64
"""A block that ends at least as far before the end of the source never reads past it."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """`count` tiles along a mode: whether cut, their phases, their distance from the source's end."""

    cut: int
    src: int
    dst: int
    far: int
    count: int
    origin: int


@dataclass(frozen=True, slots=True)
class _Key:
    """What a block's cost depends on; `near` tells blocks apart that may meet the end of the source."""

    cuts: tuple[int, ...]
    src: int
    dst: int
    far: int
    near: tuple[int, ...] | None

    def with_tile(self, t: _Tile, units: tuple[int, int], most: int) -> _Key:
        far = min(self.far + t.far, most)
        near = None if self.near is None or far == most else (*self.near, t.origin)
        src, dst = (self.src + t.src) % units[0], (self.dst + t.dst) % units[1]
        return _Key((*self.cuts, t.cut), src, dst, far, near)


def _tile_classes(stage: Stage, k: int, units: tuple[int, int]) -> Iterator[_Tile]:
    """The tiles along a mode, those that cost the same together."""
    m, tile, tiles = stage.modes[k], stage.tile[k], stage.counts[k]
    src, dst = tile * m.src % units[0], tile * m.dst % units[1]
    repeats = max(units[0] // gcd(units[0], src), units[1] // gcd(units[1], dst))
    most = NEAR_ELEMS + units[0]
    halo = stage.halo and k == stage.dst_run[-1]
    ends = bool(m.src) and stage.moves.src_elems % stage.config.chunk != 0

    def far(n: int) -> int:
        """Elements between the tile's end in the source and that of the mode, at most `most`."""
        before = n * tile - stage.lead if m.src < 0 else m.extent - (n + 1) * tile
        return min(max(before, 0) * abs(m.src), most) if ends else 0

    first, last = int(halo), tiles - (2 if halo else int(m.extent % tile > 0))
    while m.src < 0 and first < tiles and ends and far(first) < most:
        first += 1
    while m.src > 0 and last > first and ends and far(last - 1) < most:
        last -= 1
    first = min(first, tiles)
    last = max(first, last)
    for n in (*range(first), *range(last, tiles)):
        yield _Tile(1 + n, n * src % units[0], n * dst % units[1], far(n), 1, n * tile)
    for n in range(first, min(first + repeats, last)):
        count = len(range(n, last, repeats))
        yield _Tile(0, n * src % units[0], n * dst % units[1], most if ends else 0, count, n * tile)


def predict(x: Moves, c: PermuteConfig, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.plan import configs
    >>> x = normalise(permute_problem((4096, 4096), (1, 0), "f32"))
    >>> predict(x, configs(x)[0])["st.global.b128"]
    Cost(instructions=131072, total=2097152, ideal=2097152)
    """
    stage, total = Stage(x, c), Costs(arch)
    for kind in block_classes(stage):
        one = Costs(arch)
        (_direct if c.way == "direct" else _staged)(stage, kind.origins, one)
        one.times(kind.count)
        total.include(one)
    return total.prediction()


def copy_sectors(x: Moves, c: PermuteConfig) -> tuple[int, int] | None:
    """Sectors of a launch's copies of 16 bytes: (at the tags of the L1, from the L2).

    None where it has no copies of that width.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> moves = [normalise(permute_problem((64, n), (1, 0), "f32")) for n in (64, 68)]
    >>> config = PermuteConfig("staged", (64, 64), 256, 4, 4)
    >>> [copy_sectors(x, config) for x in moves]
    [(512, 512), (640, 832)]
    """
    stage, tags, arriving = Stage(x, c), 0, 0
    if c.way != "staged" or c.via != "cp.async" or stage.chunk_bytes != COPY_BYTES:
        return None
    for kind in block_classes(stage, LINE_BYTES):
        source, place, active, _ = _chunks(stage, kind.origins)
        sides = source * stage.size, stage.layout(place * active), active
        tags += kind.count * int(tag_sectors(*sides).sum())
        arriving += kind.count * int(copied_sectors(*sides).sum())
    return tags, arriving


def needed_wavefronts(x: Moves, c: PermuteConfig, arch: str | Arch = "sm_90") -> int:
    """Wavefronts of the loads from shared memory that have an element that is stored, and of no others.

    A program loads whole vectors and stores what exists of them; a compiler may load what it stores.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> x = normalise(permute_problem((5, 60, 60, 3), (0, 3, 1, 2), "f32"))
    >>> c = PermuteConfig("staged", (64, 3, 1), 64, 4, 4)
    >>> predict(x, c)["ld.shared.b32"].total, needed_wavefronts(x, c)
    (4560, 4520)
    """
    stage, total = Stage(x, c), 0
    for kind in block_classes(stage) if c.way == "staged" else ():
        costs = Costs(arch)
        _predict_reads(stage, *_vectors(stage, kind.origins, 0), costs, stored=True)
        total += kind.count * sum(cost.total for cost in costs.found.values())
    return total


def _steps(work: int, threads: int, active: int = 0) -> tuple[Index, Any]:
    """What each thread works on in every round, one row a warp instruction, and whether it does.

    Of `threads` the first `active` work (0: all).
    """
    import numpy as np

    active = active or threads
    thread = np.arange(threads)
    x = thread + active * np.arange(-(-work // active))[:, None]
    return x.reshape(-1, 32), ((thread < active) & (x < work)).reshape(-1, 32)


def _holds(active: Any, predicates: Any) -> Any:
    for p in predicates:
        active = active & p
    return active


def _spread(value: Index, like: Any) -> Any:
    import numpy as np

    return np.broadcast_to(value, like.shape)


def _direct(stage: Stage, origins: tuple[int, ...], costs: Costs) -> None:
    x, active = _steps(stage.elements, stage.config.threads)
    source, target, exists = direct_element(stage, x, origins)
    active = _holds(active, exists)
    bits = 8 * stage.size
    costs.lanes(f"ld.global.b{bits}", "global", _spread(source * stage.size, x), active)
    costs.lanes(f"st.global.b{bits}", "global", _spread(target * stage.size, x), active)


def _staged(stage: Stage, origins: tuple[int, ...], costs: Costs) -> None:
    _predict_loads(stage, origins, costs)
    for member in range(stage.group):
        _predict_stores(stage, origins, member, costs)


def _predict_loads(stage: Stage, origins: tuple[int, ...], costs: Costs) -> None:
    size = stage.size
    source, place, inside, cut = _chunks(stage, origins)
    _copies(stage, source, place, inside, costs)
    if cut is None:
        return
    for e in range(stage.config.chunk):
        rest = cut & (source + e < stage.moves.src_elems)
        costs.lanes(f"ld.global.b{8 * size}", "global", (source + e) * size, rest)
        costs.lanes(f"st.shared.b{8 * size}", "shared", stage.layout((place + e * size) * rest), rest)


def _chunks(stage: Stage, origins: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Source elements and places of a block's chunks, those that are whole and those that the end cuts.

    None instead of the last where no chunk can be cut.
    """
    x, active = _steps(stage.loads, stage.config.threads, stage.config.loading)
    at = load_chunk(stage, x, origins, block_base(stage, origins))
    active = _holds(active, at.exists)
    source, place = _spread(at.source, x), _spread(at.place, x)
    if at.inside is None:
        return source, place, active, None
    return source, place, active & at.inside, active & ~at.inside


def _copies(stage: Stage, source: Any, place: Any, active: Any, costs: Costs) -> None:
    nbytes = stage.config.chunk * stage.size
    here, there = stage.layout(place * active), source * stage.size
    if stage.config.via == "cp.async":
        costs.lanes(f"cp.async.{nbytes}", "shared", here, active)
        costs.lanes(f"cp.async.{nbytes}:global", "global", there, active)
    else:
        costs.lanes(f"st.shared.b{8 * nbytes}", "shared", here, active)
        costs.lanes(f"ld.global.b{8 * nbytes}", "global", there, active)


def _predict_stores(stage: Stage, origins: tuple[int, ...], member: int, costs: Costs) -> None:
    size, vec = stage.size, stage.config.vec
    vector, row = _vectors(stage, origins, member)
    x, whole = row, _holds(row, vector.ends.whole)
    costs.lanes(f"st.global.b{8 * size * vec}", "global", _spread(vector.target * size, x), whole)
    if member == 0:
        _predict_reads(stage, vector, row, costs)
    if not vector.ends.whole:
        return
    cut = row & ~whole
    for first, count in parts(stage):
        together = _holds(cut, vector.ends.all_of(first, count))
        target = _spread((vector.target + first) * size, x)
        costs.lanes(f"st.global.b{8 * size * count}", "global", target, together)
        for e in range(first, first + count if count > 1 else first):
            alone = _holds(cut & ~together, vector.ends.exists(e))
            costs.lanes(f"st.global.b{8 * size}", "global", _spread((vector.target + e) * size, x), alone)


def _vectors(stage: Stage, origins: tuple[int, ...], member: int) -> tuple[Store, Any]:
    """The vectors of a block's runs, and the lanes whose runs exist."""
    x, below = _steps(stage.stores, stage.config.threads, stage.config.storing)
    vector = Store(stage, x, origins, block_base(stage, origins), member)
    return vector, _holds(below, vector.row)


def _predict_reads(stage: Stage, vector: Store, row: Any, costs: Costs, *, stored: bool = False) -> None:
    import numpy as np

    for read in reads(stage):
        active = row
        if stored:
            active = np.any([_spread(_holds(row, vector.ends.exists(e)), row) for e in read.elements], axis=0)
        place = stage.layout(_spread(vector.place(read.first), active) * active)
        costs.lanes(f"ld.shared.b{8 * read.nbytes}", "shared", place, active)


def bounds(x: Moves, prediction: Prediction, arch: str | Arch = "sm_90") -> tuple[Bound, ...]:
    """What limits a launch, the tightest first: see `limits`.  Memory moves every element once.

    Raises UnsupportedError for an architecture without a board.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.plan import configs
    >>> x = normalise(permute_problem((4096, 4096), (1, 0), "f32"))
    >>> [str(b) for b in bounds(x, predict(x, configs(x)[0]))]
    ['bytes of memory: 134217728, 28.0 us', 'load-store cycles: 1310720, 5.0 us']
    """
    read = prod(m.extent for m in x.modes if m.src)
    moved = (read + prod(m.extent for m in x.modes)) * x.element_bytes
    return limits(moved, [prediction], arch)
