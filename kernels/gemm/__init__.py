"""Matrix products: D = activation(alpha A B + beta C + bias).

    problem     GemmProblem and its definition
    simt        products without tensor cores; simt_plan, simt_rules, simt_configs, simt_side, simt_predict
    sm80        products with mma.sync; sm80_plan, sm80_rules, sm80_configs, sm80_side, sm80_predict
    heuristic   how long a configuration takes
    suggest     refusals that name the nearest valid configuration
    rasterize   which tile of D a block computes
    parts       a part of k; splitk: the kernel that adds parts up
    result, epilogue   what is done with the sums
    launches    the kernels of a product
    merged, smem_loads  accesses as the hardware serves them
    family      the records of both families: data, definition, contenders

Operands are f16, bf16, f32, f64, tf32 or s8, row-major or column-major, with leading dimensions.
"""

from __future__ import annotations

from layoutalg.moved import moved

__getattr__ = moved(
    "layoutalg.kernels.gemm",
    dict.fromkeys(
        ("GemmProblem", "Major", "gemm_problem", "matrices", "scalar_words"), "layoutalg.kernels.gemm.problem"
    ),
)
