"""Instructions: one record per instruction, its CUDA text and its effect on arrays.

    record     Instr, Operand: what every instruction states
    words      numbers in the 32-bit words that carry them, and device functions that several helpers call
    memory     loads, stores, asynchronous copies, barriers, waiting for the kernel in front
    mma        mma.sync and ldmatrix
    shuffle    warp shuffles and byte permutes
    arith      f32 arithmetic, conversions
    double     f64 arithmetic
    formula    formulas of vectors, one instruction each
    functions  functions of one number: an expression and its meaning
    reduce     partial sums and maxima
    norm       the steps of softmax and layer norm

An architecture that adds instructions adds records here; nothing else knows what an instruction does.
"""

from __future__ import annotations

from layoutalg.codegen.instr.arith import fma_outer, pack, scale, unpack
from layoutalg.codegen.instr.formula import (
    OPERATIONS,
    Apply,
    Cast,
    Formula,
    Input,
    Number,
    Operation,
    Word,
    computed,
    element_of,
    elementwise,
)
from layoutalg.codegen.instr.functions import GELU, RELU, SILU, ScalarFunction
from layoutalg.codegen.instr.memory import (
    BAR,
    CLEAR,
    CP_ASYNC,
    CP_ASYNC_LINE,
    CP_ASYNC_ZFILL,
    CP_COMMIT,
    CP_WAIT,
    GRID_WAIT,
    LDG,
    LDG_FRESH,
    LDS,
    MOVE,
    STG,
    STG_WHOLE,
    STS,
    TRANSPOSE_8,
    TRANSPOSE_16,
    WARP_SYNC,
)
from layoutalg.codegen.instr.mma import LDMATRIX, LDMATRIX_TRANS, MMA_SYNC, MMAS, Mma
from layoutalg.codegen.instr.norm import (
    add_exp,
    add_one,
    add_square,
    apply_norm,
    apply_softmax,
    average,
    deviation,
    merge_moments,
    multiply,
    reciprocal,
    rescale,
)
from layoutalg.codegen.instr.record import (
    ANY,
    WARP,
    Instr,
    Operand,
    Requires,
    barrier,
    guard,
    imm,
    into,
    moves,
    out,
    place,
    read,
    tensor_map,
    updated,
    value,
    write,
)
from layoutalg.codegen.instr.reduce import NEUTRAL, butterfly, fill, fold, window, within
from layoutalg.codegen.instr.shuffle import BYTE_PERMUTE, SELECT, SHUFFLE_LANE, SHUFFLE_XOR
from layoutalg.codegen.instr.words import WORD_ELEMS, decode, encode, float_literal

__all__ = [
    "ANY",
    "BAR",
    "BYTE_PERMUTE",
    "CLEAR",
    "CP_ASYNC",
    "CP_ASYNC_LINE",
    "CP_ASYNC_ZFILL",
    "CP_COMMIT",
    "CP_WAIT",
    "GELU",
    "GRID_WAIT",
    "LDG",
    "LDG_FRESH",
    "LDMATRIX",
    "LDMATRIX_TRANS",
    "LDS",
    "MMAS",
    "MMA_SYNC",
    "MOVE",
    "NEUTRAL",
    "OPERATIONS",
    "RELU",
    "SELECT",
    "SHUFFLE_LANE",
    "SHUFFLE_XOR",
    "SILU",
    "STG",
    "STG_WHOLE",
    "STS",
    "TRANSPOSE_8",
    "TRANSPOSE_16",
    "WARP",
    "WARP_SYNC",
    "WORD_ELEMS",
    "Apply",
    "Cast",
    "Formula",
    "Input",
    "Instr",
    "Mma",
    "Number",
    "Operand",
    "Operation",
    "Requires",
    "ScalarFunction",
    "Word",
    "add_exp",
    "add_one",
    "add_square",
    "apply_norm",
    "apply_softmax",
    "average",
    "barrier",
    "butterfly",
    "computed",
    "decode",
    "deviation",
    "element_of",
    "elementwise",
    "encode",
    "fill",
    "float_literal",
    "fma_outer",
    "fold",
    "guard",
    "imm",
    "into",
    "merge_moments",
    "moves",
    "multiply",
    "out",
    "pack",
    "place",
    "read",
    "reciprocal",
    "rescale",
    "scale",
    "tensor_map",
    "unpack",
    "updated",
    "value",
    "window",
    "within",
    "write",
]
