"""Matrix products: D = epilogue(A B), such as activation(alpha A B + beta C + bias).

    problem     GemmProblem and its strides
    epilogue    what is done with the sums: a value made of steps
    tiles       configurations;  tables: the tiles that are offered, with measured numbers, as data
    validate    what a configuration must fulfil
    heuristic   which configurations to try, best first;  sm90_time: how long those of wgmma take
    suggest     refusals that name the nearest valid configuration
    mainloop    operands by partitions, and the loop over tiles of k
    simt        products without tensor cores;  sm80: with mma.sync;  sm90: with wgmma, fed by TMA
    sm90_first  the same with one tile per block, for the first steps of its ladder
    gemv        products of few rows, which memory bounds
    rasterize   which tile of D a block computes
    groups      groups of rows that have a B each
    splitk      parts of k, and the kernel that adds them up
    streamk     schedules: persistent blocks, and those that share the last wave's steps of k
    launches    the kernels of a product
    family      the records of both families: data, definition, contenders

Operands are f16, bf16, f32, f64, tf32, s8, s4, u4 or b1, row-major or column-major, with leading dimensions.
"""

from __future__ import annotations

from layoutalg.kernels.gemm.epilogue import AddMatrix, AddVector, Epilogue, named_epilogue
from layoutalg.kernels.gemm.family import GEMM_FAMILIES, with_factors
from layoutalg.kernels.gemm.gemv import GemvConfig
from layoutalg.kernels.gemm.groups import (
    MOST_TOGETHER,
    drawn_sizes,
    equal_sizes,
    group_begins,
    group_boxes,
    group_words,
    grouped,
)
from layoutalg.kernels.gemm.heuristic import expected_family
from layoutalg.kernels.gemm.problem import (
    BatchMode,
    GemmProblem,
    Major,
    gemm_problem,
    matrices,
    mma_of,
    scalar_words,
)
from layoutalg.kernels.gemm.rasterize import batch_scalars
from layoutalg.kernels.gemm.simt import tiled_mma
from layoutalg.kernels.gemm.tiles import (
    Config,
    Side,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    operand_tile,
)

__all__ = [
    "GEMM_FAMILIES",
    "MOST_TOGETHER",
    "AddMatrix",
    "AddVector",
    "BatchMode",
    "Config",
    "Epilogue",
    "GemmProblem",
    "GemvConfig",
    "Major",
    "Side",
    "SimtConfig",
    "Sm75Config",
    "Sm80Config",
    "Sm90Config",
    "batch_scalars",
    "drawn_sizes",
    "equal_sizes",
    "expected_family",
    "gemm_problem",
    "group_begins",
    "group_boxes",
    "group_words",
    "grouped",
    "matrices",
    "mma_of",
    "named_epilogue",
    "operand_tile",
    "scalar_words",
    "tiled_mma",
    "with_factors",
]
