"""What copies and transposes of matrices cost: full tiles in closed form, edge tiles lane by lane."""

from __future__ import annotations

from layoutalg.arch import Arch
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move.matrix_plan import (
    CopyConfig,
    TransposeConfig,
    copy_access,
    matrix_accesses,
    tile_accesses,
)
from layoutalg.kernels.predict import edge_tiles, edge_walks, element_steps, vector_steps
from layoutalg.layout import Layout, concat


def copy_tile(p: MatrixProblem, c: CopyConfig, arch: str | Arch = "sm_90") -> Costs:
    """What every access of one full tile of a copy costs."""
    bits, costs = 8 * c.vec * p.element_bytes, Costs(arch)
    source, target = Layout((c.tile_n, c.tile_m), (1, p.lds)), Layout((c.tile_n, c.tile_m), (1, p.ldd))
    tile = Layout((c.tile_n, c.tile_m))
    if c.via == "registers":
        costs.tile(source, copy_access(c, p.dtype, f"ld.global.b{bits}"))
    else:
        costs.tile(source, copy_access(c, p.dtype, f"cp.async.{bits // 8}:global"))
        costs.tile(tile, copy_access(c, p.dtype, f"cp.async.{bits // 8}"))
        costs.tile(tile, copy_access(c, p.dtype, f"ld.shared.b{bits}"))
    costs.tile(target, copy_access(c, p.dtype, f"st.global.b{bits}"))
    return costs


def predict_copy(p: MatrixProblem, c: CopyConfig, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> from layoutalg.kernels.move.matrix_plan import copy_configs
    >>> p = matrix_problem(33, 128, "f32", turned=False)
    >>> predict_copy(p, copy_configs(p)[0])["st.global.b128"]
    Cost(instructions=33, total=528, ideal=528)
    """
    costs = copy_tile(p, c, arch)
    costs.times((p.m // c.tile_m) * (p.n // c.tile_n))
    nbytes = c.edge_vec * p.element_bytes
    row, vector = element_steps(c.tile_m, c.tile_n // c.edge_vec, c.threads, along_n=True)
    for e in edge_walks(p, c.tile_m, c.tile_n, row, vector * c.edge_vec):
        for way, ld in (("ld", p.lds), ("st", p.ldd)):
            addresses = (e.m * ld + e.n) * p.element_bytes
            costs.lanes(f"{way}.global.b{8 * nbytes}", "global", addresses, e.active)
    return costs.prediction()


def transpose_tile(p: MatrixProblem, c: TransposeConfig, arch: str | Arch = "sm_90") -> Costs:
    """What every access of one full tile of a transpose costs.

    Tiles start at multiples of a sector (their sides are), so that all full tiles cost the same.
    """
    load, store = matrix_accesses(c, p.dtype)
    costs = Costs(arch)
    costs.tile(Layout((c.tile_n, c.tile_m), (1, p.lds)), load)
    for access in tile_accesses(c, p.dtype):
        costs.tile(c.layout, access)
    costs.tile(Layout((c.tile_n, c.tile_m), (p.ldd, 1)), store)
    return costs


def predict_transpose(p: MatrixProblem, c: TransposeConfig, arch: str | Arch = "sm_90") -> Prediction:
    """What every access of a launch costs.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> from layoutalg.kernels.move.matrix_plan import transpose_configs
    >>> p = matrix_problem(4096, 4096, "f32", turned=True)
    >>> predict_transpose(p, transpose_configs(p)[0])["ld.shared.b128"]
    Cost(instructions=131072, total=524288, ideal=524288)
    """
    costs = transpose_tile(p, c, arch)
    costs.times((p.m // c.tile_m) * (p.n // c.tile_n))
    (_vector_edges if c.edges == "vectors" else _element_edges)(p, c, costs)
    return costs.prediction()


def _vector_edges(p: MatrixProblem, c: TransposeConfig, costs: Costs) -> None:
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


def _element_edges(p: MatrixProblem, c: TransposeConfig, costs: Costs) -> None:
    """One element per lane, on every side."""
    size, tile = p.element_bytes, (c.tile_m, c.tile_n)
    bits = 8 * size
    for e in edge_walks(p, *tile, *element_steps(*tile, c.threads, along_n=True)):
        costs.lanes(f"ld.global.b{bits}", "global", (e.m * p.lds + e.n) * size, e.active)
        costs.lanes(f"st.shared.b{bits}", "shared", c.layout(e.column, e.row) * size, e.active)
    for e in edge_walks(p, *tile, *element_steps(*tile, c.threads, along_n=False)):
        costs.lanes(f"ld.shared.b{bits}", "shared", c.layout(e.column, e.row) * size, e.active)
        costs.lanes(f"st.global.b{bits}", "global", (e.n * p.ldd + e.m) * size, e.active)
