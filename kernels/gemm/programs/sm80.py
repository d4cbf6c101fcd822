"""gemm_sm80: products with mma.sync.

A block's warps split its tile, each with one piece of it, by a TiledMMA of 16 x 8 instructions.  Fragments
come from shared memory by ldmatrix.x4: 16 rows by 32 bytes of k, the four core matrices of A's operand, or of
two operands of B.  Of doubles, and of 32-bit elements that are stored along their rows, a lane loads each by
itself.  Nibbles and bits are moved as bytes: only the mma knows.  The layouts of the tiles and of the
epilogue's stage are synthesised for these accesses.

Of 8-bit floats the sums of each tile of k are added to those of all in f32.

Results leave the registers 16 rows of a warp at a time through shared memory, so that D is written (and C
read) in rows of `result_vec` elements; a warp waits only for itself.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import Literal

from layoutalg.analysis import Access
from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.atoms import (
    MMAAtom,
    TiledCopy,
    TiledMMA,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_mma,
)
from layoutalg.codegen import instr
from layoutalg.codegen.expr import Expr
from layoutalg.codegen.language import KernelBuilder, partition
from layoutalg.codegen.program import Kernel, Reg, RegRef
from layoutalg.dtype import dtype
from layoutalg.kernels.gemm.choice import check_or_suggest
from layoutalg.kernels.gemm.epilogue import Output, statement
from layoutalg.kernels.gemm.problem import GemmProblem, fragment_k, mma_of
from layoutalg.kernels.gemm.programs.mainloop import (
    Mainloop,
    OperandPlan,
    operand_copy,
)
from layoutalg.kernels.gemm.tiles import (
    OperandTile,
    Side,
    Sm75Config,
    Sm80Config,
    operand_tile,
    stored,
)
from layoutalg.layout import AnyLayout, Layout
from layoutalg.synthesis import synthesize


def tiled_mma(p: GemmProblem, c: Sm80Config) -> TiledMMA:
    """The multiplications of a block for one step of k, by one mma: of a smaller one, several in a row.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(tiled_mma(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4)).tile_shape)
    (128, 256, 16)
    """
    element, sums = ("s8", "s32") if p.packed > 1 else (p.multiplied, p.accumulator.name)
    atom = instr.find_mma(element, sums, fragment_k(p, c)).atom
    return _tiled_mma(atom, c.warps_m, c.warps_n, c.warp_m, c.warp_n)


@cache
def _tiled_mma(atom: MMAAtom, warps_m: int, warps_n: int, warp_m: int, warp_n: int) -> TiledMMA:
    rows = Layout((16, warps_m, warp_m // 16), (1, warp_m, 16))
    columns = Layout((8, warps_n, warp_n // 8), (1, warp_n, 8))
    return make_tiled_mma(atom, (warps_m, warps_n, 1), (rows, columns))


@lru_cache(maxsize=256)
def operand_plan(p: GemmProblem, c: Sm80Config, side: Side) -> OperandPlan:
    """Return the copy, the storage and the reads of a tile of an operand.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(operand_plan(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4), "a").layout)
    Sw<3,3,3> o 0 o (128,64):(64,1)
    """
    tile, make = operand_tile(p, c, side), make_tiled_copy_A if side == "a" else make_tiled_copy_B
    size = tile.element.nbytes
    torn = size == 8 or (size == 4 and tile.major == "mn")
    atom, load = (f"UniversalCopy<uint{8 * size}_t>", instr.LDS[size]) if torn else _LDMATRIX[tile.major]
    copy, read = operand_copy(tile), make(atom, tiled_mma(p, c))
    return OperandPlan(tile, copy, read, load, _swizzled(tile, copy, read))


_LDMATRIX = {
    "k": ("SM75_U32x4_LDSM_N", instr.LDMATRIX[4]),
    "mn": ("SM75_U16x8_LDSM_T", instr.LDMATRIX_TRANS[4]),
}


@cache
def _swizzled(tile: OperandTile, copy: TiledCopy, read: TiledCopy) -> AnyLayout:
    """The layout of a tile from (row, k) to elements: a swizzle, free of bank conflicts."""
    shape, element = (tile.rows, tile.deep), tile.element
    source = read.atom.src_op or f"ld.shared.b{element.bits}"
    accesses = [Access(source, read.tidfrg("src", Layout(shape)), element)]
    if (
        not copy.atom.dst_op or not read.atom.src_op
    ):  # cp.async of what ldmatrix reads writes whole rows of banks
        written = copy.atom.dst_op or f"st.shared.b{8 * tile.vector * element.nbytes}"
        accesses.insert(0, Access(written, copy.tidfrg("dst", Layout(shape)), element))
    order: Literal["row", "col"] = "row" if tile.order == "k" else "col"
    found = synthesize(shape, accesses, element=element, order=order, form="single")
    return found.layout if found.layout is not None else Layout(shape, (shape[1], 1))


def build(p: GemmProblem, c: Sm80Config, arch: str | Arch = DEFAULT_ARCH) -> Kernel:
    """The tile program of a configuration, for the problem's sizes and below: whole tiles; with `edges` sizes
    down to a tile, or to 1 where the problem itself has fewer rows or columns.  Its `contract` says which.

    `alpha` and `beta` are passed as the 32-bit words of floats (integers for integer products).  With splits
    the kernel writes the parts' `sums`, see parts.  Raises what `check_or_suggest` raises for the `arch`.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4)).name
    'gemm_sm80_f16'
    """
    check_or_suggest(p, c, arch)
    notes = _notes(p, c)
    p, c = stored(p, c)
    name = "gemm_sm75" if isinstance(c, Sm75Config) else "gemm_sm80"
    k = KernelBuilder(f"{name}_{p.operand}", c.threads, notes=notes, min_blocks=c.min_blocks)
    plan = partial(operand_plan, p, c)
    loop = Mainloop(k, p, c, plan, inward=True, align_bytes=1024)
    mma, (ra, rb) = mma_of(p, c), loop.fragments
    output = Output(
        k, p, c.result_vec, loop.m, loop.n, first=loop.corner if c.edges else None, part=loop.part.which,
        batch=loop.batch, static=c.static_ld,
    )  # fmt: skip
    (a_words, b_words, c_words), halves = mma.words, 16 // mma.rows
    acc = k.reg("acc", c.warp_m // 16, c.warp_n // 8, halves * c_words)
    added = k.reg("sums_of_tile", *acc.shape) if p.promoted else acc
    for one in dict.fromkeys((acc, added)):
        _clear(k, one)

    def promote() -> None:
        with k.Unroll("i", acc.shape[0]) as i, k.Unroll("j", acc.shape[1]) as j:
            k.do(instr.fold("sum", c_words, c_words), acc[i, j], added[i, j])
        _clear(k, added)

    def multiply(which: int) -> None:
        for part_k in range(rb.shape[-1] // (2 * b_words)):
            with k.Unroll("i", acc.shape[0]) as i, k.Unroll("j", acc.shape[1]) as j:
                b = rb.slice(which, j // 2, j % 2 * (rb.shape[-1] // 2) + part_k * b_words, count=b_words)
                for half, held in enumerate(_rows_of(added, i, j, halves)):
                    a = ra.slice(which, i, (part_k * halves + half) * a_words, count=a_words)
                    k.do(instr.MMA_SYNC[mma], held, a, b)

    loop.write(multiply, *((promote,) if p.promoted else ()))
    sums = _Sums(k, p, c.result_vec)
    _through_shared(k, p, c, acc, sums, output, loop.first)
    return k.build()


def _clear(k: KernelBuilder, sums: Reg) -> None:
    """Set the sums of all fragments to 0."""
    words = sums.shape[-1]
    with k.Unroll("i", sums.shape[0]) as i, k.Unroll("j", sums.shape[1]) as j:
        for held in _rows_of(sums, i, j, max(1, words // 4)):
            k.do(instr.CLEAR[4 * min(4, words)], held)


def _rows_of(acc: Reg, i: Expr, j: Expr, parts: int) -> list[RegRef]:
    """The registers of a fragment's sums in so many parts."""
    words = acc.shape[-1] // parts
    return [acc[i, j]] if parts == 1 else [acc.slice(i, j, e * words, count=words) for e in range(parts)]


def _notes(p: GemmProblem, c: Sm80Config) -> list[str]:
    mma = mma_of(p, c)
    return [
        "",
        f"{statement(p, parts=c.splits > 1)}.",
        f"A block of {c.warps_m} x {c.warps_n} warps makes {c.tile_m} x {c.tile_n} of D, a warp "
        f"{c.warp_m} x {c.warp_n}, by {mma.ptx};",
        f"k goes by {c.tile_k} through {c.stages} tiles in shared memory.",
        f"Element (row, k) of a tile of A lies at {operand_plan(p, c, 'a').layout},",
        f"of B at {operand_plan(p, c, 'b').layout}.",
    ]


@cache
def stage_copies(
    warp_n: int, vec: int, sums: str = "f32", *, turned: bool = False
) -> tuple[TiledMMA, TiledCopy, AnyLayout]:
    """Return the way of 16 rows of a warp's sums through shared memory: the MMA, the copy out, the layout.

    They leave along rows, or if `turned` along columns.

    >>> print(stage_copies(64, 8)[2])
    Sw<3,2,3> o 0 o (16,64):(64,1)
    """
    number = dtype(sums)
    part = min(vec, 16 // number.nbytes)
    mma = make_tiled_mma(_ANY_MMA.atom, (1, 1, 1), (16, warp_n))
    lanes, bits = min(32, warp_n // vec), number.bits * part
    threads, values = Layout((32 // lanes, lanes), (lanes, 1)), Layout((1, vec))
    if turned:
        threads, values = Layout((16 // vec, 2 * vec)), Layout((vec, 1))
    take = make_tiled_copy(f"UniversalCopy<uint{bits}_t>", number, threads, values)
    tile = Layout((16, warp_n))
    accesses = (
        Access(f"st.shared.b{number.bits * (1 if turned else 2)}", mma.tidfrg("C", tile), number),
        Access(f"ld.shared.b{bits}", take.tidfrg("src", tile), number),
    )
    order: Literal["row", "col"] = "col" if turned else "row"
    found = synthesize((16, warp_n), accesses, element=number, order=order, form="any")
    return mma, take, found.layout if found.layout is not None else Layout((16, warp_n), (warp_n, 1))


_ANY_MMA: instr.Mma = instr.MMAS[0]
"""Sums lie alike after every mma of 16 x 8."""


def _through_shared(
    k: KernelBuilder, p: GemmProblem, c: Sm80Config, acc: Reg, sums: _Sums, output: Output,
    corner: tuple[Expr, Expr],
) -> None:  # fmt: skip
    lane, warp, vec, words = k.tid % 32, k.tid // 32, c.result_vec, sums.words
    part = min(vec, 4 // words)
    mma, take, layout = stage_copies(c.warp_n, vec, sums.number)
    stage = k.shared("stage", sums.number, layout, stages=c.threads // 32, align_bytes=1024, over=True)
    mine = stage if c.threads == 32 else stage[None, None, warp]
    block = output.tile(corner, (c.tile_m, c.tile_n))
    *_, row, column = partition(block, tiled_mma(p, c), "C", warp * 32).origin  # of the warp's first lane
    m1, n1 = k.let("m1", row), k.let("n1", column)
    given = k.get_slice(mma, lane).partition_C(mine)
    taken = k.get_slice(take, lane).partition_S(mine)
    there = k.get_slice(take, lane).partition_D(output.tile((m1, n1), (c.warp_m, c.warp_n)))
    _, rows, columns = taken.shape
    k.do(instr.BAR)
    with k.Unroll("i", acc.shape[0]) as i:
        with k.Unroll("j", acc.shape[1]) as j:
            four, place = sums.of(acc, i, j)
            with k.Unroll("h", 2) as h:
                half = four.slice(*place, h * (2 * words), count=2 * words)
                k.do(instr.STS[8 * words], given.at((0, h), 0, j), half)
        k.do(instr.WARP_SYNC)
        with k.Unroll("y", rows) as y, k.Unroll("x", columns) as x:
            with k.Unroll("e", vec // part) as e:
                held = sums.out.slice(e * (part * words), count=part * words)
                k.do(instr.LDS[4 * part * words], held, taken.at((0, e), y, x))
            output.write(sums.out, there.coordinate(0, y + i * rows, x))
        k.do(instr.WARP_SYNC)


class _Sums:
    """The sums of fragments as numbers of `words` words, and registers `out` for `vec` of them in a row."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, vec: int) -> None:
        self.k = k
        self.number = "f64" if p.accumulator.name == "f64" else "f32"
        self.words = dtype(self.number).nbytes // 4
        self.out = k.reg("out", vec * self.words)
        self.pairs = k.reg("pairs", 4) if p.accumulator.name == "f16" else None

    def of(self, acc: Reg, i: Expr, j: Expr) -> tuple[Reg, tuple[Expr, ...]]:
        """The sums of a fragment: a register array and the index they start at."""
        if self.pairs is None:
            return acc, (i, j)
        self.k.do(instr.convert(4, "f16", "f32"), self.pairs, acc[i, j])
        return self.pairs, ()
