"""What a tensor-core GEMM costs, before anything runs: accesses by instruction, and how often each mma runs.

The idea.  Every mapping is a layout, so every cost is an analysis of one tile times a number:

    copy, on both sides      tiles of k * blocks
    ldmatrix                 steps of k * warps that read the same rows * blocks
    epilogue                 slices of 16 rows * warps * blocks

With two fragments and cp.async a block loads the first step's fragments before its first tile of k, and those
of the step after its last, which nobody multiplies: it loads one step more than it multiplies.  With splits
every part that has a tile does, and every part writes its sums.

Notes.  Whole tiles alone: an edge costs what its predicate lets through, and rows whose pitch is no multiple
of a sector start at different places in theirs.
"""

from __future__ import annotations

from typing import Literal

from layoutalg.analysis import Access
from layoutalg.arch import Arch
from layoutalg.codegen.costs import Costs, Prediction
from layoutalg.dtype import dtype
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.sm80 import operand_plan, stage_copies
from layoutalg.kernels.gemm.tiles import Sm80Config, mma_of, stored
from layoutalg.layout import AnyLayout, Layout

SECTOR_BYTES = 32


def predict(p: GemmProblem, c: Sm80Config, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs, by instruction; with splits, of the launch that writes the sums.

    Raises UnsupportedError for tiles that are not whole, or rows that start inside sectors.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> found = predict(gemm_problem(256, 512, 128), Sm80Config(128, 256, 64, 2, 4, 4))
    >>> found["ldmatrix.x4"]
    Cost(instructions=2304, total=9216, ideal=9216)
    """
    p, c = stored(p, c)
    _whole(p, c)
    blocks, tiles = (p.m // c.tile_m) * (p.n // c.tile_n), p.k // c.tile_k
    costs = Costs(arch)
    _operand(costs, p, c, "a", blocks, tiles)
    _operand(costs, p, c, "b", blocks, tiles)
    _result(costs, p, c, blocks * c.splits)
    return costs.prediction()


def mma_count(p: GemmProblem, c: Sm80Config) -> int:
    """How often warps execute an mma in a launch of whole tiles.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> mma_count(gemm_problem(256, 512, 128), Sm80Config(128, 256, 64, 2, 4, 4))
    8192
    """
    _whole(p, c)
    return p.m // 16 * (p.n // 8) * (p.k // mma_of(p, c).k)


def _whole(p: GemmProblem, c: Sm80Config) -> None:
    if p.m % c.tile_m or p.n % c.tile_n or p.k % c.tile_k:
        raise UnsupportedError(f"the cost of {p} in tiles of {c}: whole tiles are predicted")
    rows = [("lda", p.lda, p.operand), ("ldb", p.ldb, p.operand), ("ldd", p.ldd, p.result)]
    for name, leading, element in rows + [("ldc", p.ldc, p.result)] * p.reads_c:
        if leading * element.nbytes % SECTOR_BYTES:
            raise UnsupportedError(
                f"{name} = {leading} of {element}: rows that start at sectors are predicted"
            )


def _operand(
    costs: Costs, p: GemmProblem, c: Sm80Config, which: Literal["a", "b"], blocks: int, tiles: int
) -> None:
    plan, leading = operand_plan(p, c, which), p.lda if which == "a" else p.ldb
    tile, nbytes = Layout((plan.rows, plan.deep)), plan.vector * p.operand.nbytes
    copy, read = plan.copy.tidfrg("dst", tile), plan.read.tidfrg("src", tile)
    matrix = Layout((plan.rows, plan.deep), (leading, 1) if plan.major == "k" else (1, leading))
    ahead = c.via == "cp.async"
    source = f"cp.async.{nbytes}:global" if ahead else f"ld.global.b{8 * nbytes}"
    target = f"cp.async.{nbytes}" if ahead else f"st.shared.b{8 * nbytes}"
    _add(costs, plan.layout, Access(target, copy, p.operand), tiles * blocks)
    _add(costs, matrix, Access(source, copy, p.operand), tiles * blocks)
    _add(costs, plan.layout, Access(plan.read.atom.src_op, read, p.operand), tiles * blocks)
    if ahead and c.fragments == 2:
        thread, held = read[0], read[1][0]
        first = Layout((thread.shape, held.shape), (thread.stride, held.stride))
        times = min(c.splits, tiles) * blocks
        _add(costs, plan.layout, Access(plan.read.atom.src_op, first, p.operand), times)


def _result(costs: Costs, p: GemmProblem, c: Sm80Config, blocks: int) -> None:
    slices = blocks * c.warps_m * c.warps_n * (c.warp_m // 16)
    width, vec, tile, f32 = 8 * p.result.nbytes, c.result_vec, Layout((16, c.warp_n)), dtype("f32")
    mma, take, stage = stage_copies(c.warp_n, c.result_vec)
    given, rows = mma.tidfrg("C", tile), take.tidfrg("dst", tile)
    if c.epilogue == "direct":
        rows = given
    else:
        _add(costs, stage, Access("st.shared.b64", given, f32), slices)
        _add(costs, stage, Access(f"ld.shared.b{32 * min(vec, 4)}", take.tidfrg("src", tile), f32), slices)
    store = Access(f"st.global.b{vec * width}", rows, p.result)
    _add(costs, Layout((16, c.warp_n), (p.ldd, 1)), store, slices)
    again = Access(f"ld.global.b{vec * width}", rows, p.result)
    if p.reads_c:
        _add(costs, Layout((16, c.warp_n), (p.ldc, 1)), again, slices)
    if p.bias:
        _add(costs, Layout((16, c.warp_n), (0, 1)), again, slices)


def _add(costs: Costs, layout: AnyLayout, access: Access, times: int) -> None:
    one = Costs(costs.arch)
    one.tile(layout, access)
    one.times(times)
    costs.include(one)
