"""What every memory access of a SIMT GEMM costs, before anything runs.

The idea.  A block does the same for every tile of k, so each access is counted once, on the lanes of one
block and the layouts of its plan, and multiplied by how often it runs:

    fragments     tile_k times a tile, and once more where they are loaded ahead in a ring
    copies        `passes` vectors a thread and tile, a load and its stores or one cp.async
    results       thread_m * thread_n / result_vec vectors a thread

With splits every part that has a tile loads one step ahead, and every part writes its sums.

`accesses` keeps the operands apart, which is what the steps of the ladder differ in; `predict` adds them up
by instruction, as the simulator's trace and the hardware's counters do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

from layoutalg.arch import Arch, Space
from layoutalg.codegen.costs import Cost, Costs, Prediction
from layoutalg.errors import ShapeError
from layoutalg.kernels.gemm.mainloop import OperandPlan
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt import operand_plan, tiled_mma
from layoutalg.kernels.gemm.splitk import part_problem
from layoutalg.kernels.gemm.tiles import SECTOR_BYTES, SimtConfig
from layoutalg.layout import Layout

Access: TypeAlias = tuple[str, str]
"""(buffer, instruction): "a", "b", "c", "d" or "bias", and the instruction's analysis name."""

_OPS = {4: "b32", 8: "b64", 16: "b128"}


def predict(p: GemmProblem, c: SimtConfig, arch: str | Arch = "sm_90") -> Prediction:
    """Cost by instruction of a whole launch on whole tiles.  Raises what `accesses` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p = gemm_problem(128, 256, 64, "f32", b_major="mn")
    >>> predict(p, SimtConfig(128, 256, 8, 16, 8, 4))["cp.async.4"]
    Cost(instructions=256, total=1024, ideal=1024)
    """
    found: dict[str, Cost] = {}
    for (_, op), cost in accesses(p, c, arch).items():
        found[op] = found[op] + cost if op in found else cost
    return MappingProxyType(dict(sorted(found.items())))


def accesses(p: GemmProblem, c: SimtConfig, arch: str | Arch = "sm_90") -> Mapping[Access, Cost]:
    """Cost of every access of a whole launch, operand by operand.

    Raises ShapeError for extents that are not multiples of the tile, and leading dimensions that are not
    multiples of a sector: there each tile costs something else.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import SIMT_LADDER as LADDER
    >>> p = gemm_problem(32, 32, 32, "f32", b_major="mn")
    >>> accesses(p, LADDER["v2"][1])["b", "ld.shared.b32"]
    Cost(instructions=1024, total=32768, ideal=1024)
    """
    p = p if c.splits == 1 else part_problem(p)
    _whole(p, c)
    blocks = (p.m // c.tile_m) * (p.n // c.tile_n)
    found: dict[Access, Cost] = {}
    for buffer, op, space, addresses, times in _block(p, c):
        costs = Costs(arch)
        lanes = addresses.reshape(-1, 32)
        costs.lanes(op, space, lanes, lanes >= 0)
        cost = costs.found[op] * (times * blocks)
        found[buffer, op] = found[buffer, op] + cost if (buffer, op) in found else cost
    return MappingProxyType(found)


def word_copies(p: GemmProblem, c: SimtConfig) -> Iterator[tuple[int, Any, Any, int]]:
    """Asynchronous copies of 4 and 8 bytes: (bytes, source, target, how often a launch makes them).

    Byte addresses are arrays (instructions, 32) of a block's copies of a tile.  Raises what `accesses` does.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p, c = gemm_problem(128, 256, 64, "f32", b_major="mn"), SimtConfig(128, 256, 8, 16, 8, 4)
    >>> [(nbytes, source.shape, times) for nbytes, source, _, times in word_copies(p, c)]
    [(4, (32, 32), 8)]
    """
    p = p if c.splits == 1 else part_problem(p)
    _whole(p, c)
    blocks = (p.m // c.tile_m) * (p.n // c.tile_n)
    for (_, op, _, target, times), (_, _, _, source, _) in pairwise(_block(p, c)):
        if op in ("cp.async.4", "cp.async.8"):
            nbytes = int(op.removeprefix("cp.async."))
            yield nbytes, source.reshape(-1, 32), target.reshape(-1, 32), times * blocks


def multiplies(p: GemmProblem, c: SimtConfig) -> int:
    """Fused multiply-add instructions of warps that a launch on whole tiles executes.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> multiplies(gemm_problem(128, 256, 64, "f32"), SimtConfig(128, 256, 8, 16, 8, 4))
    65536
    """
    _whole(p, c)
    return p.m * p.n * p.k // 32


def _whole(p: GemmProblem, c: SimtConfig) -> None:
    for name, extent, tile in (("m", p.m, c.tile_m), ("n", p.n, c.tile_n), ("k", p.k, c.tile_k)):
        if extent % tile:
            raise ShapeError(f"{name} = {extent} is no multiple of {tile}: whole tiles are predicted")
    sector = SECTOR_BYTES // p.operand.nbytes
    for name, leading in (("lda", p.lda), ("ldb", p.ldb), ("ldc", p.ldc), ("ldd", p.ldd)):
        if leading % sector:
            raise ShapeError(f"{name} = {leading} is no multiple of {sector}, the elements of a sector")


Row: TypeAlias = "tuple[str, str, Space, Any, int]"
"""(buffer, instruction, space, byte addresses of a block's threads, times it runs)."""


def _block(p: GemmProblem, c: SimtConfig) -> Iterator[Row]:
    import numpy as np

    tid, size, trips = np.arange(c.threads), p.operand.nbytes, p.k // c.tile_k
    ahead = min(c.splits, trips) if c.fragments == 2 and c.stages > 1 else 0
    for name, leading in (("a", p.lda), ("b", p.ldb)):
        plan = operand_plan(p, c, "a" if name == "a" else "b")
        if plan.via == "global":
            rows = plan.read.tidfrg("src", Layout((plan.rows, 1)))(tid, np.arange(plan.fragments)[:, None])
            place = rows * leading if plan.major == "k" else rows
            yield name, f"ld.global.{_OPS[size]}", "global", place * size, p.k
            continue
        yield from _copies(name, plan, tid, leading, trips)
        yield from _fragments(name, plan, tid, trips, ahead)
    v = c.result_vec
    sums = tiled_mma(p.operand, c).tidfrg("C", Layout((c.tile_m, c.tile_n)))
    i, j = np.arange(c.thread_m)[:, None, None], np.arange(c.thread_n // v)[None, :, None] * v
    at = sums(tid, (0, (i, j)))
    rows, columns = at % c.tile_m, at // c.tile_m
    op = _OPS[v * size]
    yield "d", f"st.global.{op}", "global", (rows * p.ldd + columns) * size, c.splits
    if p.reads_c:
        yield "c", f"ld.global.{op}", "global", (rows * p.ldc + columns) * size, 1
    if p.bias:
        yield "bias", f"ld.global.{op}", "global", (0 * rows + columns) * size, 1


def _copies(name: str, plan: OperandPlan, tid: Any, leading: int, trips: int) -> Iterator[Row]:
    import numpy as np

    size, tile = plan.element.nbytes, Layout((plan.rows, plan.deep))
    passes = np.arange(plan.passes)[:, None] * plan.vector
    at = plan.copy.tidfrg("dst", tile)(tid, passes + np.arange(0, plan.vector, plan.run)[:, None, None])
    row, deep = at % plan.rows, at // plan.rows
    to, of = (
        plan.layout(row, deep) * size,
        (row * leading + deep if plan.major == "k" else deep * leading + row),
    )
    nbytes = plan.vector * size
    if plan.via == "cp.async":
        yield name, f"cp.async.{nbytes}", "shared", to, trips
        yield name, f"cp.async.{nbytes}:global", "global", of[0] * size, trips
    else:
        yield name, f"st.shared.{_OPS[plan.run * size]}", "shared", to, trips
        yield name, f"ld.global.{_OPS[nbytes]}", "global", of[0] * size, trips


def _fragments(name: str, plan: OperandPlan, tid: Any, trips: int, ahead: int) -> Iterator[Row]:
    import numpy as np

    size, tile = plan.element.nbytes, Layout((plan.rows, plan.deep))
    read, width = plan.read.tidfrg("src", tile), 4 * plan.words
    for k in range(plan.steps):
        at = read(tid, ((0, np.arange(plan.fragments)[:, None]), (0, k)))
        to = plan.layout(at % plan.rows, at // plan.rows) * size
        yield name, f"ld.shared.{_OPS[width]}", "shared", to, trips + (ahead if k == 0 else 0)
