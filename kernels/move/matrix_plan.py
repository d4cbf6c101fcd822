"""The copies and transposes of a matrix: configurations, and the tiled copies that they are.

The idea.  Who moves what of a tile is one TiledCopy per side.  The program is its partitions, the swizzle of
a transposed tile is synthesised for them, and what they cost follows from the same layouts.

    copy         (m, n)    vectors along n, a warp to a row                               both sides
    transpose    (m, n)    vectors along n, and as many rows as make a 32-bit word        global in
                 (n, m)    vectors along m                                                global out

Extents and leading dimensions are parameters of the kernels: a configuration is right for all sizes up to
those of its problem that its vectors divide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Literal, TypeAlias

from layoutalg.analysis import Access
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.atoms import TiledCopy, make_tiled_copy
from layoutalg.codegen.costs import Costs, Prediction
from layoutalg.dtype import DType
from layoutalg.errors import LayoutAlgError, ResourceError, UnsupportedError
from layoutalg.kernels.matrix import VECTOR_BYTES, MatrixProblem, vector_elems
from layoutalg.kernels.model import machine_of
from layoutalg.layout import AnyLayout, Layout, concat, modes
from layoutalg.synthesis import synthesize

Via: TypeAlias = Literal["registers", "cp.async"]

Place: TypeAlias = Literal["src", "tile", "dst"]
"""The target of an access: either matrix, or shared memory."""


@dataclass(frozen=True, slots=True)
class CopyConfig:
    """The way a block copies: its tile and vector in elements, its threads, and the way through the chip.

    `lanes` threads run along a row; the others take the next rows.  Tiles that stick out of the matrix are
    copied `edge_vec` elements at a time: a whole vector where the matrix's edge cuts none.

    >>> from layoutalg.kernels import find_family
    >>> family = find_family("tiled_copy")
    >>> family.choose(family.problem(64, 64, "f32"), "sm_90").vec
    4
    """

    tile_m: int
    tile_n: int
    threads: int
    vec: int
    lanes: int
    edge_vec: int
    via: Via


@dataclass(frozen=True, slots=True)
class TransposeConfig:
    """The way a block transposes: its tile and vectors in elements, its threads and lane arrangement.

    `lanes_n` lanes of a warp run along n when loading, `lanes_m` along m when storing.  Tiles that stick out
    of the matrix are moved by `edges`: in "vectors" under a predicate, where no vector is cut by the
    matrix's edge, or element by element.  `layout` places element (n, m) of the tile.

    >>> from layoutalg.kernels import find_family
    >>> family = find_family("transpose")
    >>> family.choose(family.problem(64, 64, "f32"), "sm_90").edges
    'vectors'
    """

    tile_m: int
    tile_n: int
    threads: int
    src_vec: int
    dst_vec: int
    lanes_n: int
    lanes_m: int
    edges: Literal["vectors", "elements"]
    layout: AnyLayout


# --- copies --------------------------------------------------------------------------------------------

THREADS, PASSES, LANES = 256, 4, 32
"""A block of 256 threads with four vectors in flight each, a warp along a row: 16 KB per block at most."""


def copy_configs(p: MatrixProblem, arch: str | Arch = DEFAULT_ARCH) -> tuple[CopyConfig, ...]:
    """The configurations that fit a copy, best first.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> copy_configs(matrix_problem(64, 64, "f32", turned=False), "sm_75")[0].via
    'registers'
    """
    starts = p.align_bytes // p.element_bytes
    vec = min(starts, *(vector_elems(lead, p.element_bytes) for lead in (p.lds, p.ldd)))
    rows = THREADS // LANES * PASSES
    ways: list[Via] = ["registers"]
    if find_arch(arch).compute_capability >= (8, 0) and vec * p.element_bytes >= 4:
        ways.append("cp.async")
    edge_vec = 1 if p.n % vec else vec
    return tuple(CopyConfig(rows, LANES * vec, THREADS, vec, LANES, edge_vec, via) for via in ways)


FURTHER_COPIES = tuple((threads, passes) for threads in (256, 128, 512) for passes in (4, 2, 8))
"""Threads and passes of the copies that a search of measured times may look at."""


def further_copies(p: MatrixProblem, arch: str | Arch = DEFAULT_ARCH) -> Iterator[CopyConfig]:
    """Copies by other blocks than those of `copy_configs`, which a search of measured times may look at,
    those that differ least first.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> p = matrix_problem(64, 64, "f32", turned=False)
    >>> len(set(further_copies(p)) | set(copy_configs(p)))
    18
    """
    for threads, passes in FURTHER_COPIES:
        for c in copy_configs(p, arch):
            yield replace(c, threads=threads, tile_m=threads // c.lanes * passes)


@lru_cache(maxsize=128)
def row_copy(c: CopyConfig, element: DType) -> TiledCopy:
    """A copy's tile (m, n), in passes of all threads."""
    atom = "SM80_CP_ASYNC_CACHEALWAYS" if c.via == "cp.async" else "UniversalCopy"
    threads = Layout((c.threads // c.lanes, c.lanes), (c.lanes, 1))
    return make_tiled_copy(_sized(atom, c.vec, element), element, threads, Layout((1, c.vec)))


def _sized(atom: str, vec: int, element: DType) -> str:
    """The name of a copy instruction that moves so many elements per lane."""
    return f"{atom}<uint{vec * element.bits}_t>"


# --- transposes ----------------------------------------------------------------------------------------

SIDES_BYTES = (256, 128, 64)
"""Sides of square tiles moved in 16-byte vectors, in bytes; the largest is fastest where it fills the GPU."""

NARROW_TILES = ((128, 64), (64, 64), (32, 32))
"""(m, n) in elements of tiles for narrower vectors, the fastest first."""

FURTHER_SIDES_BYTES, FURTHER_SIDES = (64, 128, 256, 512), (16, 32, 64, 128)
"""Sides of tiles that a search of measured times may look at: in bytes, and in elements for narrower
vectors."""

THREAD_BYTES, FURTHER_THREAD_BYTES = 32, (32, 64, 16, 128)
"""The bytes of a tile per thread, if its vectors are not wider, and those that such a search tries."""

MOST_TILE_BYTES = 64 << 10
"""The most bytes of a tile in such a search: those of the largest tile without a search."""

REGISTER_WORDS = 32
"""Words that a thread may hold between loading and storing, so that 1024 threads per block do not spill."""


def rows_per_word(element_bytes: int) -> int:
    """Rows whose elements make one 32-bit word: the corner that is transposed in registers."""
    return max(1, 4 // element_bytes)


def transpose_configs(p: MatrixProblem, arch: str | Arch = DEFAULT_ARCH) -> Iterator[TransposeConfig]:
    """Yield the configurations that fit a transpose, best first, each made on demand.

    Vectors are as wide as both leading dimensions allow; the swizzle of each is synthesised.  The largest
    tile that gives every SM a block comes first, then smaller ones, then those that do not fill the GPU.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> print(next(transpose_configs(matrix_problem(4096, 4096, "f32", turned=True))).layout)
    Sw<3,2,6> o 0 o (64,64):(64,1)
    """
    chip = find_arch(arch)
    sms = machine_of(chip).sms
    filling = [(m, n) for m, n in _tiles(p) if -(-p.m // m) * -(-p.n // n) >= sms]
    for tile in (*filling, *(tile for tile in reversed(tuple(_tiles(p))) if tile not in filling)):
        if isinstance(found := _config(p, tile, chip), TransposeConfig):
            yield found


def transpose_refusals(
    p: MatrixProblem, arch: str | Arch = DEFAULT_ARCH
) -> Iterator[tuple[tuple[int, int], LayoutAlgError]]:
    """Tiles (m, n) that a transpose cannot have, each with the reason.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> list(transpose_refusals(matrix_problem(64, 64, "f32", turned=True)))
    []
    """
    for tile in _tiles(p):
        if not isinstance(found := _config(p, tile, find_arch(arch)), TransposeConfig):
            yield tile, found


def further_transposes(p: MatrixProblem, arch: str | Arch = DEFAULT_ARCH) -> Iterator[TransposeConfig]:
    """Transposes by other tiles and blocks than those of `transpose_configs`, which a search of measured
    times may look at: those that fill the GPU first, of these what is nearest to the first choice.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> p = matrix_problem(4096, 4096, "f32", turned=True)
    >>> len(set(further_transposes(p)) | set(transpose_configs(p))) >= 16
    True
    """
    chip, size = find_arch(arch), p.element_bytes
    sms = machine_of(chip).sms
    sides = [n // size for n in FURTHER_SIDES_BYTES if n // size >= 4] if _by_vectors(p) else FURTHER_SIDES
    chosen = next(transpose_configs(p, arch), None)
    if chosen is None:
        return

    def distance(asked: tuple[int, tuple[int, int]]) -> tuple[bool, int, int]:
        nbytes, (m, n) = asked
        blocks = -(-p.m // m) * -(-p.n // n)
        sizes = ((m, chosen.tile_m), (n, chosen.tile_n), (nbytes, THREAD_BYTES))
        return blocks < sms, sum(abs(x.bit_length() - y.bit_length()) for x, y in sizes), m

    asked = product(FURTHER_THREAD_BYTES, product(sides, sides))
    for nbytes, (m, n) in sorted(asked, key=distance):
        if m * n * size <= min(MOST_TILE_BYTES, chip.max_shared_bytes_per_block):
            found = _config(p, (m, n), chip, nbytes)
            if isinstance(found, TransposeConfig):
                yield found


def _by_vectors(p: MatrixProblem) -> bool:
    """True where both leading dimensions allow the widest vectors."""
    size = p.element_bytes
    return min(vector_elems(p.lds, size), vector_elems(p.ldd, size)) * size >= VECTOR_BYTES


def _tiles(p: MatrixProblem) -> Iterator[tuple[int, int]]:
    size = p.element_bytes
    if not _by_vectors(p):
        yield from NARROW_TILES
    else:
        yield from ((side // size, side // size) for side in SIDES_BYTES if side // size >= 8)


def _config(
    p: MatrixProblem, tile: tuple[int, int], chip: Arch, thread_bytes: int = THREAD_BYTES
) -> TransposeConfig | LayoutAlgError:
    """The configuration of a tile whose threads move so much, or what refuses it."""
    size, (tile_m, tile_n) = p.element_bytes, tile
    src_vec, dst_vec = vector_elems(p.lds, size), vector_elems(p.ldd, size)
    each = max(thread_bytes, rows_per_word(size) * src_vec * size)
    threads = min(chip.max_threads_per_block, tile_m * tile_n * size // each)
    words_per_vector = max(4, src_vec * size) // 4
    words = tile_m * tile_n // (threads * src_vec) * words_per_vector
    if words > REGISTER_WORDS:
        asked = f"words that a thread holds of a tile of {tile_m} x {tile_n} of {p}"
        return ResourceError(asked, words, REGISTER_WORDS)
    edges: Literal["vectors", "elements"] = "elements" if p.n % src_vec or p.m % dst_vec else "vectors"
    for lanes_n in _lane_choices(tile_n // src_vec, 128 // (src_vec * size)):
        for lanes_m in _lane_choices(tile_m // dst_vec, 256 // (dst_vec * size)):
            domain = Layout((tile_n, tile_m), (tile_m, 1))
            c = TransposeConfig(tile_m, tile_n, threads, src_vec, dst_vec, lanes_n, lanes_m, edges, domain)
            layout = _swizzled(c, p.dtype, chip) if _covers(c, size) else None
            if layout is not None:
                return replace(c, layout=layout)
    return UnsupportedError(f"no lanes of {threads} threads cover a tile of {tile_m} x {tile_n} of {p}")


@lru_cache(maxsize=128)
def _swizzled(c: TransposeConfig, element: DType, chip: Arch) -> AnyLayout | None:
    """A layout of the tile on which no access has a conflict, None where there is none: problems of any
    extents share it."""
    pattern = tile_accesses(c, element)
    return synthesize(c.layout.shape, pattern, element=element, form="single", arch=chip).layout


def _lane_choices(most: int, preferred: int) -> list[int]:
    """Powers of two up to `most` and 32, those closest to `preferred` first, the larger of two first.

    A line of the source and two of the destination at once are fastest where the swizzle allows them.
    """
    fitting = [n for n in (32, 16, 8, 4, 2, 1) if n <= most]
    return sorted(fitting, key=lambda n: (abs(n.bit_length() - preferred.bit_length()), -n))


def _covers(c: TransposeConfig, size: int) -> bool:
    """True when threads, lanes and vectors divide the tile on both sides."""
    vectors_n, vectors_m = c.tile_n // c.src_vec, c.tile_m // c.dst_vec
    warps = 32 * (vectors_n // c.lanes_n), 32 * (vectors_m // c.lanes_m)
    if c.threads < 32 or c.threads % warps[0] or c.threads % warps[1]:
        return False
    rows, columns = rows_per_word(size) * (c.threads // vectors_n), c.threads // vectors_m
    return c.tile_m % rows == 0 and c.tile_n % columns == 0


@lru_cache(maxsize=128)
def load_copy(c: TransposeConfig, element: DType) -> TiledCopy:
    """A transpose's tile (m, n) from global memory: vectors along n, in rows that make a word."""
    values = Layout((rows_per_word(element.nbytes), c.src_vec), (c.src_vec, 1))
    threads = _threads(c.threads, c.lanes_n, c.tile_n // c.src_vec)
    return make_tiled_copy(_sized("UniversalCopy", c.src_vec, element), element, threads, values)


@lru_cache(maxsize=128)
def store_copy(c: TransposeConfig, element: DType) -> TiledCopy:
    """A transpose's tile (n, m) to global memory: vectors along m."""
    threads = _threads(c.threads, c.lanes_m, c.tile_m // c.dst_vec)
    return make_tiled_copy(
        _sized("UniversalCopy", c.dst_vec, element), element, threads, Layout((1, c.dst_vec))
    )


def _threads(threads: int, lanes: int, vectors: int) -> Layout:
    """(across, along) -> thread: `lanes` of a warp along a row of `vectors`, then warps, then more rows."""
    warps = vectors // lanes
    return Layout(((32 // lanes, threads // (32 * warps)), (lanes, warps)), ((lanes, 32 * warps), (1, 32)))


# --- accesses ------------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def accesses(c: CopyConfig | TransposeConfig, element: DType) -> tuple[tuple[Place, Access], ...]:
    """Return the accesses of a full tile, on its domain (n, m), in the order of the program.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> p = matrix_problem(4096, 4096, "u8", turned=True)
    >>> [access.op for _, access in accesses(next(transpose_configs(p)), p.dtype)]
    ['ld.global.b128', 'st.shared.b32', 'ld.shared.b128', 'st.global.b128']
    """
    return _copy_accesses(c, element) if isinstance(c, CopyConfig) else _transpose_accesses(c, element)


def _copy_accesses(c: CopyConfig, element: DType) -> tuple[tuple[Place, Access], ...]:
    bits, nbytes = c.vec * element.bits, c.vec * element.nbytes
    threads, values = modes(row_copy(c, element).tidfrg("src", Layout((c.tile_m, c.tile_n), (c.tile_n, 1))))
    tv = concat(threads, *modes(values))
    ways: list[tuple[Place, str]] = [("src", f"ld.global.b{bits}")]
    if c.via == "cp.async":
        ways = [
            ("src", f"cp.async.{nbytes}:global"),
            ("tile", f"cp.async.{nbytes}"),
            ("tile", f"ld.shared.b{bits}"),
        ]
    return tuple((place, Access(op, tv, element)) for place, op in (*ways, ("dst", f"st.global.b{bits}")))


def _transpose_accesses(c: TransposeConfig, element: DType) -> tuple[tuple[Place, Access], ...]:
    n, m = Layout(c.tile_n), Layout(c.tile_m, c.tile_n)
    threads, values = modes(load_copy(c, element).tidfrg("src", concat(m, n)))
    (vector, rows), passes = modes(modes(values)[0]), modes(values)[1]
    load, put = concat(threads, vector, concat(rows, passes)), concat(threads, rows, concat(vector, passes))
    threads, values = modes(store_copy(c, element).tidfrg("dst", concat(n, m)))
    (vector, _), passes = modes(modes(values)[0]), modes(values)[1]
    out, bits = concat(threads, vector, passes), c.dst_vec * element.bits
    return (
        ("src", Access(f"ld.global.b{c.src_vec * element.bits}", load, element)),
        ("tile", Access(f"st.shared.b{max(32, element.bits)}", put, element)),
        ("tile", Access(f"ld.shared.b{bits}", out, element)),
        ("dst", Access(f"st.global.b{bits}", out, element)),
    )


def tile_accesses(c: TransposeConfig, element: DType) -> tuple[Access, ...]:
    """Return the accesses of a transpose's tile to shared memory: the stores, then the loads."""
    return tuple(access for place, access in accesses(c, element) if place == "tile")


def tile_costs(
    p: MatrixProblem, c: CopyConfig | TransposeConfig, arch: str | Arch = DEFAULT_ARCH
) -> Prediction:
    """Return the cost of a full tile, in closed form, which the texts of the kernels state.

    Tiles of a transpose start at multiples of a sector (their sides are), so that all full tiles cost the
    same.
    """
    shape, costs = (c.tile_n, c.tile_m), Costs(arch)
    layouts = {
        "src": Layout(shape, (1, p.lds)),
        "tile": c.layout if isinstance(c, TransposeConfig) else Layout(shape),
        "dst": Layout(shape, (p.ldd, 1) if p.turned else (1, p.ldd)),
    }
    for place, access in accesses(c, p.dtype):
        costs.tile(layouts[place], access)
    return costs.prediction()
