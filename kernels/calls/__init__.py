"""The functions on arrays, on GPU and CPU: moves, reductions, norms and matrix products.

    arrays          arrays of every library as records: addresses, shapes and strides
    api             permute, transpose, relayout
    reduce_api      reduce, the norms, cross_entropy
    product_api     matmul, plan_matmul
    attention_api   attention
    factors         factors of products: one, those of rows, of columns, of blocks
    product_plan    checks of the arrays of a product, and the problem that a kernel computes
    grouped_api     grouped_matmul, plan_grouped_matmul: groups of rows, each with its own matrix
    product_choice  the kernels that can compute a product, also on padded copies
    operation       Operation: the record of each, by which calls are worked out; preparing: prepare, by name;
                    and a cache of launches, keyed by the arrays' types, shapes and strides

A call is planned once; its launches are cached.
"""

from __future__ import annotations

from layoutalg.kernels.calls.api import permute, relayout, transpose
from layoutalg.kernels.calls.attention_api import attention
from layoutalg.kernels.calls.grouped_api import GroupedPlan, grouped_matmul, plan_grouped_matmul
from layoutalg.kernels.calls.operation import Prepared
from layoutalg.kernels.calls.preparing import prepare
from layoutalg.kernels.calls.product_api import MatmulPlan, matmul, plan_matmul
from layoutalg.kernels.calls.reduce_api import (
    NORM_FUNCTIONS,
    cross_entropy,
    layer_norm,
    reduce,
    rms_norm,
    softmax,
)

__all__ = [
    "GroupedPlan",
    "MatmulPlan",
    "Prepared",
    "attention",
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

globals().update(NORM_FUNCTIONS)
__all__ += sorted(NORM_FUNCTIONS.keys() - set(__all__))
