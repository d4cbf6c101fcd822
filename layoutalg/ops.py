"""Functions on arrays: permute, transpose, relayout, reduce, softmax and other norms, cross_entropy,
attention, matmul, grouped_matmul.

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
from layoutalg.kernels.calls import *  # noqa: F403 - the functions under the name that users import

__all__ = calls.__all__
