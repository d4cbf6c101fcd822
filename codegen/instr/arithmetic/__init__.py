"""Arithmetic on registers: each element of a vector from those at the same place.

arith        outer products and the steps of an epilogue, f16 and bf16 packed and unpacked
conversions  between any two types of elements
formula      formulas of vectors, one instruction each
"""

from __future__ import annotations

from layoutalg.codegen.instr.arithmetic.arith import ONE, add_same, add_scaled, fma_outer, pack, scale, unpack
from layoutalg.codegen.instr.arithmetic.conversions import CONVERTED, convert, converted
from layoutalg.codegen.instr.arithmetic.formula import (
    Apply,
    Cast,
    Formula,
    Input,
    Number,
    Word,
    computed,
    element_of,
    elementwise,
)

__all__ = [
    "CONVERTED",
    "ONE",
    "Apply",
    "Cast",
    "Formula",
    "Input",
    "Number",
    "Word",
    "add_same",
    "add_scaled",
    "computed",
    "convert",
    "converted",
    "element_of",
    "elementwise",
    "fma_outer",
    "pack",
    "scale",
    "unpack",
]
