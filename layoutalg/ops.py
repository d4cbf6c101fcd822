"""Functions on arrays: permute, transpose, relayout, reduce, softmax and other norms, cross_entropy, matmul,
grouped_matmul.

Each takes NumPy, CuPy or PyTorch arrays, or any that support DLPack.  For arrays on a GPU it runs a generated
kernel; for arrays on the CPU it computes the definition, or with simulate=True runs the kernel in the
simulator.  `prepare` plans a call once, to be run many times; `plan_matmul` and `plan_grouped_matmul` say
which kernels a product would run.
See docs/ops.md.

>>> import numpy as np
>>> permute(np.arange(6, dtype=np.float32).reshape(2, 3), (1, 0)).tolist()
[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
"""

from layoutalg.kernels import calls
from layoutalg.kernels.calls import (
    Prepared,
    cross_entropy,
    grouped_matmul,
    layer_norm,
    matmul,
    permute,
    plan_grouped_matmul,
    plan_matmul,
    prepare,
    reduce,
    relayout,
    rms_norm,
    softmax,
    transpose,
)
from layoutalg.kernels.norms import NORMS

__all__ = [
    "Prepared",
    "cross_entropy",
    "grouped_matmul",
    "layer_norm",
    "matmul",
    "permute",
    "plan_grouped_matmul",
    "plan_matmul",
    "prepare",
    "reduce",
    "relayout",
    "rms_norm",
    "softmax",
    "transpose",
]

globals().update({name: getattr(calls, name) for name in NORMS})
__all__ += sorted(NORMS.keys() - set(__all__))
