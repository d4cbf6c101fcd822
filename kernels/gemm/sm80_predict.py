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
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.dtype import dtype
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.sm80_plan import (
    Sm80Config,
    mma_of,
    operand_accesses,
    stage_layout,
    stage_load_tv,
    stage_store_tv,
    stored,
    tile_layout,
)
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
    rows, major, leading, nbytes, others = (
        (c.tile_m, p.a_major, p.lda, c.a_bytes, c.warps_n)
        if which == "a"
        else (c.tile_n, p.b_major, p.ldb, c.b_bytes, c.warps_m)
    )
    copy, read = operand_accesses(p, c, which)
    layout = tile_layout(p, c, which)
    matrix = Layout((rows, c.tile_k), (leading, 1) if major == "k" else (1, leading))
    source = f"cp.async.{nbytes}:global" if c.via == "cp.async" else f"ld.global.b{8 * nbytes}"
    _add(costs, layout, copy, tiles * blocks)
    _add(costs, matrix, Access(source, copy.tv, copy.element), tiles * blocks)
    ahead = c.via == "cp.async" and c.fragments == 2
    _add(costs, layout, read, tiles * blocks * others)
    if ahead:
        lane, element, ((fragments, _), warps) = read.tv[0], read.tv[1], _modes(read.tv[2])
        first = Layout(
            (lane.shape, element.shape, (fragments.shape, warps.shape)),
            (lane.stride, element.stride, (fragments.stride, warps.stride)),
        )
        _add(costs, layout, Access(read.op, first, read.element), min(c.splits, tiles) * blocks * others)


def _modes(rest: Layout) -> tuple[tuple[Layout, Layout], Layout]:
    return (rest[0][0], rest[0][1]), rest[1]


def _result(costs: Costs, p: GemmProblem, c: Sm80Config, blocks: int) -> None:
    slices = blocks * c.warps_m * c.warps_n * (c.warp_m // 16)
    width = 8 * p.result.nbytes
    if c.epilogue == "direct":
        pairs = Layout(((4, 8), 2, (2, c.warp_n // 8)), ((32, 1), 16, (8, 128)))
        rows, vec = pairs, 2
    else:
        vec = c.result_vec
        part, f32 = min(vec, 4), dtype("f32")
        stage, load = stage_layout(c.warp_n, vec), stage_load_tv(c.warp_n, vec)
        _add(costs, stage, Access("st.shared.b64", stage_store_tv(c.warp_n), f32), slices)
        _add(costs, stage, Access(f"ld.shared.b{32 * part}", load, f32), slices)
        lane, steps = load[0], load[2]
        rows = Layout(
            (lane.shape, vec, (steps[1].shape, steps[2].shape)),
            (lane.stride, 16, (steps[1].stride, steps[2].stride)),
        )
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
