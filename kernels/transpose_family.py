"""transpose: dst[n, m] = src[m, n] for any m x n, elements of 1 to 16 bytes, leading dimensions.

The idea.  A block moves one tile through shared memory.  Both sides of global memory are read and written
in vectors along their own contiguous direction, so the turn happens inside the tile:

    1  each lane loads P rows of one vector along n        P = 4 / element bytes, at least 1
    2  P x P corners are turned in registers               byte permutes, so that words go to shared memory
    3  words are stored to the tile, element (n, m) at Sw o (tile_n, tile_m):(tile_m, 1)
    4  after the barrier each lane loads one vector along m and stores it

Every step is a thread-value layout: the same Layout addresses the generated code and the analysis.  The
swizzle is synthesised for the two shared accesses, conflict-free with its certificate.

Consecutive blocks walk down a column of tiles, so that their stores meet in the destination's rows: 1 to 4 %
faster than along a row (H200).  Tiles that stick out of the matrix take a second, element-wise path under a
block-uniform branch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType

from layoutalg.analysis import Access
from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Expr, Operand, Var
from layoutalg.codegen.instr_sm75 import (
    BAR,
    LDG,
    LDS,
    STG,
    STS,
    TRANSPOSE_8,
    TRANSPOSE_16,
)
from layoutalg.codegen.tile import Global, Kernel, Shared
from layoutalg.dtype import DType
from layoutalg.int_tuple import product
from layoutalg.kernels.matrix import MatrixProblem, matrix_problem, vector_elems
from layoutalg.kernels.predict import Costs, Prediction, describe, edge_walks
from layoutalg.layout import Layout, concat, modes
from layoutalg.swizzle import AnyLayout
from layoutalg.synthesis import synthesize

TURN = MappingProxyType({2: TRANSPOSE_16, 4: TRANSPOSE_8})
"""The corner turn in registers, by rows."""


@dataclass(frozen=True, slots=True)
class TransposeConfig:
    """How one block works: its tile (in elements), threads, vectors (in elements) and lane arrangement.

    `lanes_n` lanes of a warp run along n when loading, `lanes_m` along m when storing.  `layout` places
    element (n, m) of the tile.
    """

    tile_m: int
    tile_n: int
    threads: int
    src_vec: int
    dst_vec: int
    lanes_n: int
    lanes_m: int
    layout: AnyLayout


def rows_per_word(element_bytes: int) -> int:
    """Rows whose elements make one 32-bit word: the corner that is turned in registers.

    >>> rows_per_word(1), rows_per_word(2), rows_per_word(8)
    (4, 2, 1)
    """
    return max(1, 4 // element_bytes)


def problem(
    m: int, n: int, dtype: str | DType, lds: int | None = None, ldd: int | None = None
) -> MatrixProblem:
    """Transpose an m x n matrix; leading dimensions default to the row lengths n and m.

    Raises what `matrix_problem` raises.

    >>> problem(3, 5, "f16").target_shape
    (5, 3)
    """
    return matrix_problem(m, n, dtype, lds, ldd, turned=True)


EDGES_BYTES = (256, 128, 64)
"""Tile sides to try, in bytes; 256 on both sides is fastest on an H200 where it fills the machine."""

_REGISTER_BUDGET = 32
"""Words a thread may hold between loading and storing, so that 1024 threads a block do not spill."""


def configs(p: MatrixProblem, arch: str | Arch = "sm_90") -> tuple[TransposeConfig, ...]:
    """The configurations that fit a problem, best first.

    Vectors are as wide as both leading dimensions allow; the swizzle of each is synthesised.  The largest
    tile that still gives every SM two blocks comes first.
    """
    chip = find_arch(arch)
    fitting = [c for edge in EDGES_BYTES if (c := _config(p, edge, chip)) is not None]
    sms = chip.board.sms if chip.board else 1
    filling = [c for c in fitting if -(-p.m // c.tile_m) * -(-p.n // c.tile_n) >= 2 * sms]
    return tuple(filling + [c for c in reversed(fitting) if c not in filling])


def _config(p: MatrixProblem, edge_bytes: int, chip: Arch) -> TransposeConfig | None:
    size = p.element_bytes
    src_vec, dst_vec = vector_elems(p.lds, size), vector_elems(p.ldd, size)
    edge = max(edge_bytes // size, 8)
    threads = min(1024, max(64, edge * edge * size // 32))
    words = edge * edge // threads * max(4 // min(4, src_vec * size) * size, size) // 4
    if words > _REGISTER_BUDGET:
        return None
    for lanes_n in _lane_choices(edge // src_vec, 8):
        for lanes_m in _lane_choices(edge // dst_vec, 16):
            c = TransposeConfig(edge, edge, threads, src_vec, dst_vec, lanes_n, lanes_m, Layout((edge, edge)))
            if not _covers(c, size):
                continue
            pattern = tile_accesses(c, p.dtype)
            found = synthesize((edge, edge), pattern, element=p.dtype, order="row", form="single", arch=chip)
            if found.layout is not None:
                return replace(c, layout=found.layout)
    return None


def _lane_choices(most: int, preferred: int) -> list[int]:
    """Powers of two up to `most` and 32, those nearest to `preferred` first, the larger of two first."""
    fitting = [n for n in (32, 16, 8, 4, 2, 1) if n <= most]
    return sorted(fitting, key=lambda n: (abs(n.bit_length() - preferred.bit_length()), -n))


def _covers(c: TransposeConfig, size: int) -> bool:
    """True when threads, lanes and vectors divide the tile on both sides."""
    warps_n, warps_m = c.tile_n // (c.src_vec * c.lanes_n), c.tile_m // (c.dst_vec * c.lanes_m)
    if not warps_n or not warps_m or c.threads % (32 * warps_n) or c.threads % (32 * warps_m):
        return False
    load_rows = rows_per_word(size) * (32 // c.lanes_n) * (c.threads // (32 * warps_n))
    store_rows = (32 // c.lanes_m) * (c.threads // (32 * warps_m))
    return c.tile_m % load_rows == 0 and c.tile_n % store_rows == 0


def source_tv(c: TransposeConfig, element_bytes: int, width: int) -> Layout:
    """(thread, (element of the vector, row of the corner, pass)) -> n + width * m of the tile.

    With width = tile_n the result indexes the tile's domain (tile_n, tile_m); with the row length of the
    whole matrix, the matrix.
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
    """(thread, (element of the vector, pass)) -> n + width * m of the tile, on the way out."""
    lanes_n, warps_m = 32 // c.lanes_m, c.tile_m // (c.dst_vec * c.lanes_m)
    warps_n = c.threads // (32 * warps_m)
    pass_n = lanes_n * warps_n
    threads = Layout(
        (c.lanes_m, lanes_n, warps_m, warps_n),
        (c.dst_vec * width, 1, c.dst_vec * c.lanes_m * width, lanes_n),
    )
    return concat(threads, Layout((c.dst_vec, c.tile_n // pass_n), (width, pass_n)))


def tile_accesses(c: TransposeConfig, element: DType) -> tuple[Access, Access]:
    """What a full tile does to shared memory, on its domain (n, m): the stores, then the loads."""
    size = element.nbytes
    threads, (vector, rows, passes) = _parts(source_tv(c, size, c.tile_n))
    store = Access(f"st.shared.b{max(32, 8 * size)}", concat(threads, rows, concat(vector, passes)), element)
    threads, (vector, passes) = _parts(target_tv(c, c.tile_n))
    load = Access(f"ld.shared.b{8 * size * c.dst_vec}", concat(threads, vector, passes), element)
    return store, load


def matrix_accesses(c: TransposeConfig, element: DType) -> tuple[Access, Access]:
    """What a full tile does to global memory, on the domain (n, m) of the tile: loads, then stores."""
    size = element.nbytes
    threads, (vector, rows, passes) = _parts(source_tv(c, size, c.tile_n))
    steps = concat(rows, passes)
    into = Access(f"ld.global.b{8 * size * c.src_vec}", concat(threads, vector, steps), element)
    threads, (vector, passes) = _parts(target_tv(c, c.tile_n))
    return into, Access(f"st.global.b{8 * size * c.dst_vec}", concat(threads, vector, passes), element)


def _parts(tv: Layout) -> tuple[Layout, tuple[Layout, ...]]:
    """The thread mode of a thread-value layout, and the modes of its value."""
    return tv[0], modes(tv[1])


def predict_tile(p: MatrixProblem, c: TransposeConfig, arch: str | Arch = "sm_90") -> Costs:
    """What every access of one full tile costs, in closed form.

    Tiles start at multiples of a sector (their sides are), so that all full tiles cost the same.
    """
    store, load = tile_accesses(c, p.dtype)
    read, write = matrix_accesses(c, p.dtype)
    costs = Costs(arch)
    costs.tile(Layout((c.tile_n, c.tile_m), (1, p.lds)), read)
    costs.tile(c.layout, store)
    costs.tile(c.layout, load)
    costs.tile(Layout((c.tile_n, c.tile_m), (p.ldd, 1)), write)
    return costs


def predict(p: MatrixProblem, c: TransposeConfig, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs: full tiles times their number, edge tiles element by element."""
    costs = predict_tile(p, c, arch)
    costs.times((p.m // c.tile_m) * (p.n // c.tile_n))
    size = p.element_bytes
    bits = 8 * size
    for e in edge_walks(p, c.tile_m, c.tile_n, c.threads, along_n=True):
        costs.lanes(f"ld.global.b{bits}", "global", (e.m * p.lds + e.n) * size, e.active)
        costs.lanes(f"st.shared.b{bits}", "shared", c.layout(e.column, e.row) * size, e.active)
    for e in edge_walks(p, c.tile_m, c.tile_n, c.threads, along_n=False):
        costs.lanes(f"ld.shared.b{bits}", "shared", c.layout(e.column, e.row) * size, e.active)
        costs.lanes(f"st.global.b{bits}", "global", (e.n * p.ldd + e.m) * size, e.active)
    return costs.prediction()


def build(p: MatrixProblem, c: TransposeConfig) -> Kernel:
    """The tile program of a configuration, for all sizes up to the problem's."""
    size = p.element_bytes
    k = KernelBuilder(f"transpose_{p.dtype}", c.threads, notes=_notes(p, c))
    m, n = k.param("m", p.m), k.param("n", p.n)
    lds = k.param("lds", p.lds, c.src_vec, multiple=c.src_vec)
    ldd = k.param("ldd", p.ldd, c.dst_vec, multiple=c.dst_vec)
    src = k.pointer("src", size, (lds, 1), align_bytes=c.src_vec * size)
    dst = k.pointer("dst", size, (ldd, 1), writable=True, align_bytes=c.dst_vec * size)
    tile = k.shared("tile", size, c.layout, c.tile_m * c.tile_n, 1024)
    tiles_m, tiles_n = (m + (c.tile_m - 1)) // c.tile_m, (n + (c.tile_n - 1)) // c.tile_n
    block = k.block(0, tiles_n * tiles_m)
    m0, n0 = k.let("m0", block % tiles_m * c.tile_m), k.let("n0", block // tiles_m * c.tile_n)
    inside = (m0 + c.tile_m <= m) & (n0 + c.tile_n <= n)
    with k.If(inside):
        _load_tile(k, c, src, tile, m0, n0)
    with k.Else():
        _load_edge(k, c, src, tile, m0, n0, m, n)
    k.do(BAR)
    with k.If(inside):
        _store_tile(k, c, dst, tile, m0, n0)
    with k.Else():
        _store_edge(k, c, dst, tile, m0, n0, m, n)
    return k.build()


def _notes(p: MatrixProblem, c: TransposeConfig) -> list[str]:
    size = p.element_bytes
    return [
        "",
        f"dst[n, m] = src[m, n], elements of {size} bytes, for m <= {p.m}, n <= {p.n}, "
        f"lds <= {p.lds}, ldd <= {p.ldd}.",
        f"A block turns a {c.tile_m} x {c.tile_n} tile with {c.threads} threads; "
        f"vectors of {c.src_vec * size} bytes in, {c.dst_vec * size} out.",
        f"Element (n, m) of the tile lies at {c.layout}.",
        "Predicted for a full tile:",
        *describe(predict_tile(p, c).prediction()),
    ]


def _load_tile(k: KernelBuilder, c: TransposeConfig, src: Global, tile: Shared, m0: Var, n0: Var) -> None:
    size = src.element_bytes
    rows, words = rows_per_word(size), max(1, size // 4)
    vector_words = max(1, c.src_vec * size // 4)
    tv = source_tv(c, size, c.tile_n)
    passes = product(tv.shape[1][2])  # type: ignore[index]
    v = k.reg("v", passes, rows, vector_words)

    def place(element: Operand, row: Operand, step: Operand) -> tuple[Expr, Expr]:
        x = tv(k.tid, (element, row, step))
        return x % c.tile_n, x // c.tile_n

    with k.Unroll("i", passes) as i, k.Unroll("r", rows) as r:
        tn, tm = place(0, r, i)
        k.do(LDG[c.src_vec * size], v[i, r], k.at(src, m0 + tm, n0 + tn))
    if rows == 1:
        with k.Unroll("i", passes) as i, k.Unroll("e", c.src_vec) as e:
            k.do(STS[size], k.at(tile, *place(e, 0, i)), v.slice(i, 0, e * words, count=words))
        return
    t = k.reg("t", rows)
    with k.Unroll("i", passes) as i, k.Unroll("w", vector_words) as w:
        k.do(TURN[rows], t, *(v[i, r, w] for r in range(rows)))
        with k.Unroll("e", min(rows, c.src_vec)) as e:
            k.do(STS[4], k.at(tile, *place(w * rows + e, 0, i)), t[e])


def _store_tile(k: KernelBuilder, c: TransposeConfig, dst: Global, tile: Shared, m0: Var, n0: Var) -> None:
    size = dst.element_bytes
    tv = target_tv(c, c.tile_n)
    passes = product(tv.shape[1][1])  # type: ignore[index]
    u = k.reg("u", passes, max(1, c.dst_vec * size // 4))

    def place(step: Operand) -> tuple[Expr, Expr]:
        x = tv(k.tid, (0, step))
        return x % c.tile_n, x // c.tile_n

    with k.Unroll("i", passes) as i:
        k.do(LDS[c.dst_vec * size], u[i], k.at(tile, *place(i)))
    with k.Unroll("i", passes) as i:
        tn, tm = place(i)
        k.do(STG[c.dst_vec * size], k.at(dst, n0 + tn, m0 + tm), u[i])


def _load_edge(
    k: KernelBuilder, c: TransposeConfig, src: Global, tile: Shared, m0: Var, n0: Var, m: Var, n: Var
) -> None:
    size = src.element_bytes
    one = k.reg("one", max(1, size // 4))
    with k.For("j", c.tile_m * c.tile_n // c.threads) as j:
        x = k.tid + j * c.threads
        tn, tm = x % c.tile_n, x // c.tile_n
        with k.If((m0 + tm < m) & (n0 + tn < n)):
            k.do(LDG[size], one, k.at(src, m0 + tm, n0 + tn))
            k.do(STS[size], k.at(tile, tn, tm), one)


def _store_edge(
    k: KernelBuilder, c: TransposeConfig, dst: Global, tile: Shared, m0: Var, n0: Var, m: Var, n: Var
) -> None:
    size = dst.element_bytes
    one = k.reg("edge", max(1, size // 4))
    with k.For("j", c.tile_m * c.tile_n // c.threads) as j:
        x = k.tid + j * c.threads
        tm, tn = x % c.tile_m, x // c.tile_m
        with k.If((m0 + tm < m) & (n0 + tn < n)):
            k.do(LDS[size], one, k.at(tile, tn, tm))
            k.do(STG[size], k.at(dst, n0 + tn, m0 + tm), one)
