"""tiled_copy: dst[m, n] = src[m, n] for any m x n, elements of 1 to 16 bytes, two leading dimensions.

The idea.  A block copies one tile in vectors as wide as both leading dimensions allow.  Two ways lead there:

    "registers"    load a vector, store it: nothing to wait for but memory
    "cp.async"     copy into shared memory asynchronously (sm_80), wait, read it back, store: the smallest
                   program with a real asynchronous copy, and the first stage of every GEMM

One thread-value layout places both sides.  Tiles that stick out of the matrix take a predicated loop under a
block-uniform branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.analysis import Access
from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.expr import Var
from layoutalg.codegen.instr import CP_ASYNC, CP_COMMIT, CP_WAIT, LDG, LDS, STG_WHOLE
from layoutalg.codegen.program import Global, Kernel, KernelBuilder, MemRef
from layoutalg.codegen.traffic import Costs, Prediction, describe
from layoutalg.dtype import DType
from layoutalg.kernels.matrix import MatrixProblem, matrix_problem, vector_elems
from layoutalg.kernels.predict import edge_walks, element_steps
from layoutalg.layout import Layout, concat

Via: TypeAlias = Literal["registers", "cp.async"]


@dataclass(frozen=True, slots=True)
class CopyConfig:
    """How one block works: its tile and vector in elements, its threads, and the way through the chip.

    `lanes` threads run along a row; the others take further rows.  Tiles that stick out of the matrix are
    copied `edge_vec` elements at a time: a whole vector where the matrix's edge cuts none.
    """

    tile_m: int
    tile_n: int
    threads: int
    vec: int
    lanes: int
    edge_vec: int
    via: Via

    @property
    def rows_a_pass(self) -> int:
        """Rows that all threads together move at once."""
        return self.threads // self.lanes

    @property
    def passes(self) -> int:
        """Vectors a thread moves."""
        return self.tile_m // self.rows_a_pass


def problem(
    m: int, n: int, dtype: str | DType, lds: int | None = None, ldd: int | None = None
) -> MatrixProblem:
    """Copy an m x n matrix; leading dimensions default to the row length n.

    Raises what `matrix_problem` raises.

    >>> problem(3, 5, "f16", ldd=8).target_elems
    21
    """
    return matrix_problem(m, n, dtype, lds, ldd, turned=False)


THREADS, PASSES, LANES = 256, 4, 32
"""A block of 256 threads with four vectors in flight each, a warp along a row: 16 KB a block at most."""


def configs(p: MatrixProblem, arch: str | Arch = "sm_90") -> tuple[CopyConfig, ...]:
    """The configurations that fit a problem, best first.

    >>> configs(problem(64, 64, "f32"), "sm_75")[0].via
    'registers'
    """
    vec = vector_elems(p.lds, p.element_bytes)
    vec = min(vec, vector_elems(p.ldd, p.element_bytes))
    rows = THREADS // LANES * PASSES
    ways: list[Via] = ["registers"]
    if find_arch(arch).compute_capability >= (8, 0) and vec * p.element_bytes >= 4:
        ways.append("cp.async")
    edge_vec = 1 if p.n % vec else vec
    return tuple(CopyConfig(rows, LANES * vec, THREADS, vec, LANES, edge_vec, via) for via in ways)


def copy_tv(c: CopyConfig, width: int) -> Layout:
    """(thread, element of the vector, pass) -> n + width * m of the tile.

    >>> print(copy_tv(CopyConfig(32, 128, 256, 4, 32, 4, "registers"), 128))
    ((32,8),4,4):((4,128),1,1024)
    """
    threads = Layout((c.lanes, c.rows_a_pass), (c.vec, width))
    return concat(threads, Layout(c.vec, 1), Layout(c.passes, c.rows_a_pass * width))


def build(p: MatrixProblem, c: CopyConfig) -> Kernel:
    """The tile program of a configuration, for sizes up to the problem's: what its `contract` says.

    >>> p = problem(64, 64, "f32")
    >>> build(p, configs(p)[0]).name
    'copy_f32'
    """
    size = p.element_bytes
    k = KernelBuilder(f"copy_{p.dtype}", c.threads, notes=_notes(p, c))
    m, n = k.param("m", p.m), k.param("n", p.n, c.edge_vec, multiple=c.edge_vec)
    lds = k.param("lds", p.lds, c.vec, multiple=c.vec)
    ldd = k.param("ldd", p.ldd, c.vec, multiple=c.vec)
    k.require(n <= ldd)
    src = k.pointer("src", size, (lds, 1), align_bytes=c.vec * size)
    dst = k.pointer("dst", size, (ldd, 1), writable=True, align_bytes=c.vec * size)
    tiles_m, tiles_n = (m + (c.tile_m - 1)) // c.tile_m, (n + (c.tile_n - 1)) // c.tile_n
    block = k.block(0, tiles_m * tiles_n)
    m0, n0 = k.let("m0", block // tiles_n * c.tile_m), k.let("n0", block % tiles_n * c.tile_n)
    first = copy_tv(c, c.tile_n)(k.tid, 0, 0)
    row, column = k.let("row", m0 + first // c.tile_n), k.let("column", n0 + first % c.tile_n)
    with k.If((m0 + c.tile_m <= m) & (n0 + c.tile_n <= n)):
        (_by_registers if c.via == "registers" else _by_cp_async)(k, c, src, dst, row, column)
    with k.Else():
        _edge(k, c, src, dst, m0, n0, m, n)
    return k.build()


def _by_registers(k: KernelBuilder, c: CopyConfig, src: Global, dst: Global, row: Var, column: Var) -> None:
    nbytes, passes, rows = c.vec * src.element_bytes, c.passes, c.rows_a_pass
    v = k.reg("v", passes, max(1, nbytes // 4))
    with k.Unroll("i", passes) as i:
        k.do(LDG[nbytes], v[i], k.at(src, row + i * rows, column))
    with k.Unroll("i", passes) as i:
        k.do(STG_WHOLE[nbytes], k.at(dst, row + i * rows, column), v[i])


def _by_cp_async(k: KernelBuilder, c: CopyConfig, src: Global, dst: Global, row: Var, column: Var) -> None:
    nbytes, passes, rows = c.vec * src.element_bytes, c.passes, c.rows_a_pass
    tile = k.shared_buffer("tile", src.element_bytes, tile_layout(c), c.tile_m * c.tile_n, 128)
    v = k.reg("v", passes, max(1, nbytes // 4))

    def slot(step: Var) -> MemRef:
        at = copy_tv(c, c.tile_n)(k.tid, 0, step)
        return k.at(tile, at % c.tile_n, at // c.tile_n)

    with k.Unroll("i", passes) as i:
        k.do(CP_ASYNC[nbytes], slot(i), k.at(src, row + i * rows, column))
    k.do(CP_COMMIT)
    k.do(CP_WAIT, 0)  # every thread reads back only what it copied: its own wait is enough
    with k.Unroll("i", passes) as i:
        k.do(LDS[nbytes], v[i], slot(i))
    with k.Unroll("i", passes) as i:
        k.do(STG_WHOLE[nbytes], k.at(dst, row + i * rows, column), v[i])


def tile_layout(c: CopyConfig) -> Layout:
    """The tile in shared memory, (n, m) -> element: rows one after the other.

    >>> print(tile_layout(CopyConfig(32, 128, 256, 4, 32, 4, "cp.async")))
    (128,32):(1,128)
    """
    return Layout((c.tile_n, c.tile_m))


def predict_tile(p: MatrixProblem, c: CopyConfig, arch: str | Arch = "sm_90") -> Costs:
    """What every access of one full tile costs, in closed form.

    >>> p = problem(64, 128, "f32")
    >>> predict_tile(p, configs(p)[0]).prediction()["ld.global.b128"]
    Cost(instructions=32, total=512, ideal=512)
    """
    bits, tv = 8 * c.vec * p.element_bytes, copy_tv(c, c.tile_n)
    source, target = Layout((c.tile_n, c.tile_m), (1, p.lds)), Layout((c.tile_n, c.tile_m), (1, p.ldd))
    costs = Costs(arch)
    if c.via == "registers":
        costs.tile(source, Access(f"ld.global.b{bits}", tv, p.dtype))
    else:
        costs.tile(source, Access(f"cp.async.{bits // 8}:global", tv, p.dtype))
        costs.tile(tile_layout(c), Access(f"cp.async.{bits // 8}", tv, p.dtype))
        costs.tile(tile_layout(c), Access(f"ld.shared.b{bits}", tv, p.dtype))
    costs.tile(target, Access(f"st.global.b{bits}", tv, p.dtype))
    return costs


def predict(p: MatrixProblem, c: CopyConfig, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs: full tiles times their number, edge tiles lane by lane.

    >>> p = problem(33, 128, "f32")
    >>> predict(p, configs(p)[0])["st.global.b128"]
    Cost(instructions=33, total=528, ideal=528)
    """
    costs = predict_tile(p, c, arch)
    costs.times((p.m // c.tile_m) * (p.n // c.tile_n))
    nbytes = c.edge_vec * p.element_bytes
    row, piece = element_steps(c.tile_m, c.tile_n // c.edge_vec, c.threads, along_n=True)
    for e in edge_walks(p, c.tile_m, c.tile_n, row, piece * c.edge_vec):
        for way, ld in (("ld", p.lds), ("st", p.ldd)):
            addresses = (e.m * ld + e.n) * p.element_bytes
            costs.lanes(f"{way}.global.b{8 * nbytes}", "global", addresses, e.active)
    return costs.prediction()


def _notes(p: MatrixProblem, c: CopyConfig) -> list[str]:
    return [
        "",
        f"dst[m, n] = src[m, n], elements of {p.element_bytes} bytes; rows of src are lds elements "
        f"apart, of dst ldd.",
        f"A block copies a {c.tile_m} x {c.tile_n} tile with {c.threads} threads through {c.via}; "
        f"vectors of {c.vec * p.element_bytes} bytes.",
        "Predicted for a full tile:",
        *describe(predict_tile(p, c).prediction()),
    ]


def _edge(
    k: KernelBuilder, c: CopyConfig, src: Global, dst: Global, m0: Var, n0: Var, m: Var, n: Var
) -> None:
    nbytes, pieces = c.edge_vec * src.element_bytes, c.tile_n // c.edge_vec
    one = k.reg("one", max(1, nbytes // 4))
    with k.For("j", c.tile_m * pieces // c.threads, unroll=4) as j:
        x = k.tid + j * c.threads
        at = m0 + x // pieces, n0 + x % pieces * c.edge_vec
        with k.If((at[0] < m) & (at[1] < n)):
            k.do(LDG[nbytes], one, k.at(src, *at))
            k.do(STG_WHOLE[nbytes], k.at(dst, *at), one)
