"""What users call on arrays, wherever these are: moves, reductions, norms and products.

    arrays          arrays of every library as forms: addresses, shapes and strides
    api             permute, transpose, relayout
    reduce_api      reduce, softmax, layer_norm, rms_norm
    entropy_api     cross_entropy
    product_api     matmul; product_plan: what is asked of its arrays, and the problem that a kernel computes
    grouped_api     grouped_matmul, plan_grouped_matmul: groups of rows by a matrix each
    product_choice  the ways to compute it, padded copies among them; product_report: plan_matmul says them
    repeated        calls that were made before: from what arrays show to launches; preparing: prepare

A form is looked at once; what is launched for it is kept.
"""

from __future__ import annotations

from layoutalg.kernels.calls.api import permute, relayout, transpose
from layoutalg.kernels.calls.entropy_api import cross_entropy
from layoutalg.kernels.calls.grouped_api import GroupedPlan, grouped_matmul, plan_grouped_matmul
from layoutalg.kernels.calls.preparing import prepare
from layoutalg.kernels.calls.product_api import matmul
from layoutalg.kernels.calls.product_report import MatmulPlan, plan_matmul
from layoutalg.kernels.calls.reduce_api import layer_norm, reduce, rms_norm, softmax
from layoutalg.kernels.calls.repeated import Prepared

__all__ = [
    "GroupedPlan",
    "MatmulPlan",
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
