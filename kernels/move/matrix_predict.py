"""What a full tile of a copy or a transpose costs, in closed form: the kernels' texts say it."""

from __future__ import annotations

from layoutalg.arch import Arch
from layoutalg.codegen.costs import Costs
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move.matrix_plan import (
    CopyConfig,
    TransposeConfig,
    copy_access,
    matrix_accesses,
    tile_accesses,
)
from layoutalg.layout import Layout


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
