"""Matrix products: D = epilogue(A B), such as activation(alpha A B + beta C + bias).

    problem     GemmProblem and its strides
    epilogue    the epilogue: alpha, beta C, bias, activation, conversion, as a value made of steps
    rasterize   which tile of D a block computes
    groups      rows in groups that have a B each
    parts       parts of k, and the tiles that a block computes in turn
    tiles       configurations
    validate    constraints on configurations
    gemv        products of few rows, which are bound by memory
    choice      candidate tiles, best first, and errors that name the nearest valid one
    times       the tiles that are offered, with their measured times; the law of those of wgmma
    programs    the main loop and the kernels: without tensor cores, with mma.sync, with wgmma
    launches    the kernels of a product, and the Family records

Operands are f16, bf16, f32, f64, tf32, e4m3, e5m2, s8, s4, u4 or b1, row-major or column-major, with leading
dimensions.
"""

from __future__ import annotations

from layoutalg.kernels.gemm.choice import expected_family
from layoutalg.kernels.gemm.epilogue import (
    AddMatrix,
    AddVector,
    Epilogue,
    Map,
    Scale,
    ScaleVector,
    epilogue_operands,
    named_epilogue,
    operands_of,
)
from layoutalg.kernels.gemm.gemv import GemvConfig
from layoutalg.kernels.gemm.groups import (
    MOST_TOGETHER,
    drawn_sizes,
    equal_sizes,
    group_begins,
    group_boxes,
    group_words,
    grouped,
    sizes_of,
)
from layoutalg.kernels.gemm.launches import GEMM_FAMILIES
from layoutalg.kernels.gemm.problem import (
    BLOCKS,
    BYTE_FLOATS,
    FAST,
    PACKED_BYTES,
    PROMOTED_K,
    SCALE_STEPS,
    BatchMode,
    GemmProblem,
    Major,
    gemm_problem,
    matrices,
    mma_of,
    multiplied,
    operand_view,
    scalar_value,
    scalar_words,
    scale_elems,
    scale_view,
)
from layoutalg.kernels.gemm.programs import tiled_mma
from layoutalg.kernels.gemm.rasterize import batch_scalars
from layoutalg.kernels.gemm.tiles import (
    Config,
    Side,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    operand_tile,
)
from layoutalg.kernels.gemm.validate import check_config
