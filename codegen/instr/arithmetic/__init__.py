"""Arithmetic on registers: each element of a vector from those at the same place.

arith        f32 arithmetic and outer products, f16 and bf16 packed and unpacked
double       the same steps of an epilogue, of f64
conversions  between any two types of elements
formula      formulas of vectors, one instruction each
"""

from __future__ import annotations

from layoutalg.codegen.instr.arithmetic.arith import fma_outer, pack, scale, unpack
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
    "Apply",
    "Cast",
    "Formula",
    "Input",
    "Number",
    "Word",
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
