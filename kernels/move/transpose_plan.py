"""How a transpose moves its tile: configurations, thread-value layouts, and what they cost.

The idea.  Every mapping of threads to elements is one Layout, here.  The kernel is generated from it
(transpose_family), the swizzle of the tile is synthesised for it, and its cost is predicted from it.

    source_tv    (thread, (element of the vector, row of the corner, pass)) -> n + width * m    global in
    target_tv    (thread, (element of the vector, pass)) -> n + width * m                       global out

With width = tile_n the result indexes the tile's domain (tile_n, tile_m), element (n, m).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from layoutalg.analysis import Access
from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.dtype import DType
from layoutalg.kernels.matrix import VECTOR_BYTES, MatrixProblem, vector_elems
from layoutalg.kernels.predict import edge_tiles, edge_walks, element_steps, vector_steps
from layoutalg.layout import AnyLayout, Layout, concat, modes
from layoutalg.synthesis import synthesize


@dataclass(frozen=True, slots=True)
class TransposeConfig:
    """How one block works: its tile (in elements), threads, vectors (in elements) and lane arrangement.

    `lanes_n` lanes of a warp run along n when loading, `lanes_m` along m when storing.  Tiles that stick out
    of the matrix are moved by `edges`: in "vectors" under a predicate, where no vector is cut by the
    matrix's edge, or element by element.  `layout` places element (n, m) of the tile.
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


SIDES_BYTES = (256, 128, 64)
"""Sides of square tiles moved in 16-byte vectors, in bytes; the largest is fastest where it fills the GPU."""

NARROW_TILES = ((128, 64), (64, 64), (32, 32))
"""(m, n) in elements of tiles for narrower vectors, the fastest first."""

_REGISTER_BUDGET = 32
"""Words a thread may hold between loading and storing, so that 1024 threads a block do not spill."""


def rows_per_word(element_bytes: int) -> int:
    """Rows whose elements make one 32-bit word: the corner that is turned in registers.

    >>> rows_per_word(1), rows_per_word(2), rows_per_word(8)
    (4, 2, 1)
    """
    return max(1, 4 // element_bytes)


def configs(p: MatrixProblem, arch: str | Arch = "sm_90") -> tuple[TransposeConfig, ...]:
    """The configurations that fit a problem, best first.

    Vectors are as wide as both leading dimensions allow; the swizzle of each is synthesised.  The largest
    tile that gives every SM a block comes first, then smaller ones, then those that do not fill the GPU.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> print(configs(matrix_problem(4096, 4096, "f32", turned=True))[0].layout)
    Sw<3,2,6> o 0 o (64,64):(64,1)
    """
    chip = find_arch(arch)
    found = [c for tile in _tiles(p) if (c := _config(p, tile, chip)) is not None]
    sms = chip.board.sms if chip.board else 1
    filling = [c for c in found if -(-p.m // c.tile_m) * -(-p.n // c.tile_n) >= sms]
    return tuple(filling + [c for c in reversed(found) if c not in filling])


def _tiles(p: MatrixProblem) -> Iterator[tuple[int, int]]:
    size = p.element_bytes
    if min(vector_elems(p.lds, size), vector_elems(p.ldd, size)) * size < VECTOR_BYTES:
        yield from NARROW_TILES
    else:
        yield from ((side // size, side // size) for side in SIDES_BYTES if side // size >= 8)


def _config(p: MatrixProblem, tile: tuple[int, int], chip: Arch) -> TransposeConfig | None:
    size, (tile_m, tile_n) = p.element_bytes, tile
    src_vec, dst_vec = vector_elems(p.lds, size), vector_elems(p.ldd, size)
    each = max(32, rows_per_word(size) * src_vec * size)
    threads = min(chip.max_threads_per_block, tile_m * tile_n * size // each)
    words_a_vector = max(4, src_vec * size) // 4
    if tile_m * tile_n // (threads * src_vec) * words_a_vector > _REGISTER_BUDGET:
        return None
    edges: Literal["vectors", "elements"] = "elements" if p.n % src_vec or p.m % dst_vec else "vectors"
    for lanes_n in _lane_choices(tile_n // src_vec, 128 // (src_vec * size)):
        for lanes_m in _lane_choices(tile_m // dst_vec, 256 // (dst_vec * size)):
            domain = Layout((tile_n, tile_m), (tile_m, 1))
            c = TransposeConfig(tile_m, tile_n, threads, src_vec, dst_vec, lanes_n, lanes_m, edges, domain)
            if _covers(c, size):
                pattern = tile_accesses(c, p.dtype)
                found = synthesize(domain.shape, pattern, element=p.dtype, form="single", arch=chip)
                if found.layout is not None:
                    return replace(c, layout=found.layout)
    return None


def _lane_choices(most: int, preferred: int) -> list[int]:
    """Powers of two up to `most` and 32, those nearest to `preferred` first, the larger of two first.

    A line of the source and two of the destination at once are fastest where the swizzle allows them.
    """
    fitting = [n for n in (32, 16, 8, 4, 2, 1) if n <= most]
    return sorted(fitting, key=lambda n: (abs(n.bit_length() - preferred.bit_length()), -n))


def _covers(c: TransposeConfig, size: int) -> bool:
    """True when threads, lanes and vectors divide the tile on both sides."""
    warps_n, warps_m = c.tile_n // (c.src_vec * c.lanes_n), c.tile_m // (c.dst_vec * c.lanes_m)
    if c.threads < 32 or c.threads % (32 * warps_n) or c.threads % (32 * warps_m):
        return False
    load_rows = rows_per_word(size) * (32 // c.lanes_n) * (c.threads // (32 * warps_n))
    store_columns = (32 // c.lanes_m) * (c.threads // (32 * warps_m))
    return c.tile_m % load_rows == 0 and c.tile_n % store_columns == 0


def source_tv(c: TransposeConfig, element_bytes: int, width: int) -> Layout:
    """(thread, (element of the vector, row of the corner, pass)) -> n + width * m, on the way in.

    >>> c = TransposeConfig(64, 64, 512, 4, 4, 8, 16, "vectors", Layout((64, 64), (64, 1)))
    >>> print(source_tv(c, 4, 64))
    ((8,4,2,8),(4,1,2)):((4,64,32,256),(1,64,2048))
    """
    rows = rows_per_word(element_bytes)
    lanes_m, warps_n = 32 // c.lanes_n, c.tile_n // (c.src_vec * c.lanes_n)
    warps_m = c.threads // (32 * warps_n)
    pass_rows = rows * lanes_m * warps_m
    threads = Layout(
        (c.lanes_n, lanes_m, warps_n, warps_m),
        (c.src_vec, rows * width, c.src_vec * c.lanes_n, rows * lanes_m * width),
    )
    return concat(threads, Layout((c.src_vec, rows, c.tile_m // pass_rows), (1, width, pass_rows * width)))


def target_tv(c: TransposeConfig, width: int) -> Layout:
    """(thread, (element of the vector, pass)) -> n + width * m, on the way out.

    >>> c = TransposeConfig(64, 64, 512, 4, 4, 8, 16, "vectors", Layout((64, 64), (64, 1)))
    >>> print(target_tv(c, 64))
    ((16,2,1,16),(4,2)):((256,1,4096,2),(64,32))
    """
    lanes_n, warps_m = 32 // c.lanes_m, c.tile_m // (c.dst_vec * c.lanes_m)
    warps_n = c.threads // (32 * warps_m)
    pass_n = lanes_n * warps_n
    threads = Layout(
        (c.lanes_m, lanes_n, warps_m, warps_n),
        (c.dst_vec * width, 1, c.dst_vec * c.lanes_m * width, lanes_n),
    )
    return concat(threads, Layout((c.dst_vec, c.tile_n // pass_n), (width, pass_n)))


def tile_accesses(c: TransposeConfig, element: DType) -> tuple[Access, Access]:
    """What a tile does to shared memory, on its domain (n, m): the stores, then the loads.

    >>> from layoutalg.dtype import dtype
    >>> c = TransposeConfig(64, 64, 512, 4, 4, 8, 16, "vectors", Layout((64, 64), (64, 1)))
    >>> [access.op for access in tile_accesses(c, dtype("f32"))]
    ['st.shared.b32', 'ld.shared.b128']
    """
    size = element.nbytes
    threads, (vector, rows, passes) = _parts(source_tv(c, size, c.tile_n))
    store = Access(f"st.shared.b{max(32, 8 * size)}", concat(threads, rows, concat(vector, passes)), element)
    threads, (vector, passes) = _parts(target_tv(c, c.tile_n))
    load = Access(f"ld.shared.b{8 * size * c.dst_vec}", concat(threads, vector, passes), element)
    return store, load


def matrix_accesses(c: TransposeConfig, element: DType) -> tuple[Access, Access]:
    """What a full tile does to global memory, on its domain (n, m): the loads, then the stores.

    >>> from layoutalg.dtype import dtype
    >>> c = TransposeConfig(64, 64, 512, 4, 1, 8, 32, "vectors", Layout((64, 64), (64, 1)))
    >>> [access.op for access in matrix_accesses(c, dtype("f32"))]
    ['ld.global.b128', 'st.global.b32']
    """
    size = element.nbytes
    threads, (vector, rows, passes) = _parts(source_tv(c, size, c.tile_n))
    steps = concat(rows, passes)
    load = Access(f"ld.global.b{8 * size * c.src_vec}", concat(threads, vector, steps), element)
    threads, (vector, passes) = _parts(target_tv(c, c.tile_n))
    return load, Access(f"st.global.b{8 * size * c.dst_vec}", concat(threads, vector, passes), element)


def _parts(tv: Layout) -> tuple[Layout, tuple[Layout, ...]]:
    """The thread mode of a thread-value layout, and the modes of its value."""
    return tv[0], modes(tv[1])


def predict_tile(p: MatrixProblem, c: TransposeConfig, arch: str | Arch = "sm_90") -> Costs:
    """What every access of one full tile costs, in closed form.

    Tiles start at multiples of a sector (their sides are), so that all full tiles cost the same.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> p = matrix_problem(4096, 4096, "f32", turned=True)
    >>> predict_tile(p, configs(p)[0]).prediction()["ld.shared.b128"]
    Cost(instructions=32, total=128, ideal=128)
    """
    load, store = matrix_accesses(c, p.dtype)
    costs = Costs(arch)
    costs.tile(Layout((c.tile_n, c.tile_m), (1, p.lds)), load)
    for access in tile_accesses(c, p.dtype):
        costs.tile(c.layout, access)
    costs.tile(Layout((c.tile_n, c.tile_m), (p.ldd, 1)), store)
    return costs


def predict(p: MatrixProblem, c: TransposeConfig, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs: full tiles times their number, edge tiles lane by lane.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> p = matrix_problem(4096, 4096, "f32", turned=True)
    >>> predict(p, configs(p)[0])["ld.shared.b128"]
    Cost(instructions=131072, total=524288, ideal=524288)
    """
    costs = predict_tile(p, c, arch)
    costs.times((p.m // c.tile_m) * (p.n // c.tile_n))
    if c.edges == "vectors":
        _predict_vector_edges(p, c, costs)
    else:
        _predict_element_edges(p, c, costs)
    return costs.prediction()


def _predict_vector_edges(p: MatrixProblem, c: TransposeConfig, costs: Costs) -> None:
    """Predicated vectors: shared memory as in a full tile, global memory where lanes are inside."""
    size, tile = p.element_bytes, (c.tile_m, c.tile_n)
    inner = Costs(costs.arch)
    for access in tile_accesses(c, p.dtype):
        inner.tile(c.layout, access)
    inner.times(len(edge_tiles(p, *tile)))
    costs.include(inner)
    load, store = matrix_accesses(c, p.dtype)
    for e in edge_walks(p, *tile, *vector_steps(concat(load.tv[0], load.tv[2]), c.tile_n)):
        costs.lanes(load.op, "global", (e.m * p.lds + e.n) * size, e.active)
    for e in edge_walks(p, *tile, *vector_steps(concat(store.tv[0], store.tv[2]), c.tile_n)):
        costs.lanes(store.op, "global", (e.n * p.ldd + e.m) * size, e.active)


def _predict_element_edges(p: MatrixProblem, c: TransposeConfig, costs: Costs) -> None:
    """One element a lane, on every side."""
    size, tile = p.element_bytes, (c.tile_m, c.tile_n)
    bits = 8 * size
    for e in edge_walks(p, *tile, *element_steps(*tile, c.threads, along_n=True)):
        costs.lanes(f"ld.global.b{bits}", "global", (e.m * p.lds + e.n) * size, e.active)
        costs.lanes(f"st.shared.b{bits}", "shared", c.layout(e.column, e.row) * size, e.active)
    for e in edge_walks(p, *tile, *element_steps(*tile, c.threads, along_n=False)):
        costs.lanes(f"ld.shared.b{bits}", "shared", c.layout(e.column, e.row) * size, e.active)
        costs.lanes(f"st.global.b{bits}", "global", (e.n * p.ldd + e.m) * size, e.active)
