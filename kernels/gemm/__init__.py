"""Matrix products: D = epilogue(A B), such as activation(alpha A B + beta C + bias).

    problem     GemmProblem and its strides
    epilogue    what is done with the sums: a value made of steps
    tiles       configurations and measured tiles, as data
    validate    what a configuration must fulfil
    heuristic   which configurations to try, best first
    suggest     refusals that name the nearest valid configuration
    mainloop    operands by partitions, and the loop over tiles of k
    simt        products without tensor cores;  sm80: with mma.sync
    rasterize   which tile of D a block computes
    splitk      parts of k, and the kernel that adds them up
    launches    the kernels of a product
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
