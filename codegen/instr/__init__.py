"""Instructions: one record per instruction, its CUDA text and its effect on arrays.

    record     Instr, Operand: what every instruction states
    words      numbers in 32-bit words, and device functions that several helpers call
    memory     loads, stores, cp.async, barriers of a block; moves, selects and shuffles of registers
    mma        products of a warp, ldmatrix, stmatrix and movmatrix
    wgmma      products of a warpgroup, and their operands in shared memory
    asynchronous   mbarriers, TMA, fences between proxies, clusters, cooperative grids
    lanewise   operations on numbers, and statements of them: printed and computed from one table
    arithmetic     tables of it: outer products, the steps of epilogues, of softmax and of norms
    conversions    each element of a vector as one of another type
    formula    formulas of registers, one instruction each
    functions  functions of one number by name: relu, gelu, silu
    reduce     partial sums and maxima
    folds      the same for values of several words: 64-bit integers, indices, moments

An architecture that adds instructions adds records here; no other module knows an instruction's effect.
"""

from __future__ import annotations

from layoutalg.codegen.instr.arithmetic import (
    ONE,
    add_exp,
    add_same,
    add_scaled,
    add_square,
    apply_norm,
    apply_softmax,
    average,
    deviation,
    fma_outer,
    merge_moments,
    multiply,
    reciprocal,
    rescale,
    scale,
    scale_and_add,
)
from layoutalg.codegen.instr.asynchronous import (
    ARRIVE,
    ARRIVE_EXPECT_TX,
    ARRIVE_REMOTE,
    ARRIVE_REMOTE_RELEASE,
    BULK_COMMIT,
    BULK_WAIT,
    BULK_WAIT_READ,
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_WAIT,
    FENCE_BARRIER_INIT,
    FENCE_PROXY_ASYNC,
    FENCE_PROXY_ASYNC_CTA,
    GRID_SYNC,
    LDS_REMOTE,
    MBARRIER_INIT,
    NAMED_ARRIVE,
    NAMED_BARRIER,
    SETMAXNREG_DEC,
    SETMAXNREG_INC,
    ST_ASYNC,
    STS_REMOTE,
    TMA_LOAD,
    TMA_LOAD_MULTICAST,
    TMA_STORE,
    TRY_WAIT,
    TRY_WAIT_CLUSTER,
)
from layoutalg.codegen.instr.conversions import CONVERTED, WORD_BITS, convert, converted
from layoutalg.codegen.instr.folds import FOLDS, IGNORED, PARTIAL, UNKNOWN, absorb, empty, finish, join
from layoutalg.codegen.instr.formula import (
    COMPUTED,
    Apply,
    Cast,
    Formula,
    Input,
    Number,
    Word,
    computed,
    element_of,
    elementwise,
    largest,
)
from layoutalg.codegen.instr.functions import FUNCTIONS, ScalarFunction
from layoutalg.codegen.instr.lanewise import OPERATIONS
from layoutalg.codegen.instr.memory import (
    ATOMICS,
    BAR,
    BYTE_PERMUTE,
    CLEAR,
    CP_ASYNC,
    CP_ASYNC_LINE,
    CP_ASYNC_ZFILL,
    CP_COMMIT,
    CP_WAIT,
    FETCHES,
    GRID_WAIT,
    LDG,
    LDG_FRESH,
    LDS,
    MOVE,
    REDUX,
    SELECT,
    SHUFFLE_LANE,
    SHUFFLE_XOR,
    STG,
    STG_WHOLE,
    STS,
    TRANSPOSE_8,
    TRANSPOSE_16,
    WARP_SYNC,
)
from layoutalg.codegen.instr.mma import (
    LDMATRIX,
    LDMATRIX_TRANS,
    MMA_SYNC,
    MMAS,
    MOVMATRIX,
    QUAD_PAIR_MMA,
    STMATRIX,
    STMATRIX_TRANS,
    Mma,
    find_mma,
    mma_instruction,
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
    update,
    updated,
    value,
    write,
)
from layoutalg.codegen.instr.reduce import NEUTRAL, butterfly, count_within, fill, fold, window, within
from layoutalg.codegen.instr.wgmma import (
    WARPGROUP,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WGMMA_WAIT,
    Product,
    SharedTile,
    find_wgmma,
    hold,
)
from layoutalg.codegen.instr.words import PACKED, WORD_ELEMS, decode, encode, float_literal, words_of_vector
