"""Quantisation to block-scaled formats: elements of 4 or 8 bits, and scales in the tiles that cuBLAS takes.

    problem    QuantizeProblem, the rules, and quantized: the definition
    program    the program, its ways, and the families by format

>>> print(quantize_problem("nvfp4", (300, 4096)))
nvfp4 of (300,4096) bf16 -> e2m1
"""

from __future__ import annotations

from layoutalg.kernels.quantize.problem import QuantizeProblem, quantize_problem, quantized
from layoutalg.kernels.quantize.program import QUANTIZE_FAMILIES, QuantizeConfig

__all__ = [
    "QUANTIZE_FAMILIES",
    "QuantizeConfig",
    "QuantizeProblem",
    "quantize_problem",
    "quantized",
]
