"""The atoms of the registry by the architecture that brought them; ADD AN MMA OR COPY ATOM HERE.

sm_61    arithmetic of one thread, and the copies that every architecture has
sm_70    mma.m8n8k4 of half precision
sm_75    the first mma.sync of a whole warp; ldmatrix
sm_80    mma.sync of every type; cp.async
sm_89    mma.sync of 8-bit floating point
sm_90    mma.sync of f64, stmatrix; wgmma is in layoutalg.atoms.wgmma
sm_100   tcgen05, in layoutalg.atoms.tensor_memory
sm_120   mma.sync of 4, 6 and 8-bit floating point, scaled in blocks
"""

from __future__ import annotations

from itertools import product

from layoutalg.arch import TCGEN05_KINDS
from layoutalg.atoms.atom import Arithmetic, CopyAtom, MMAAtom
from layoutalg.atoms.rows import MMARow, copy_atom, type_codes, types_of
from layoutalg.atoms.tensor_memory import TENSOR_MEMORY_COPIES
from layoutalg.atoms.wgmma import WgmmaRow, wgmma_rows
from layoutalg.layout import Layout

# --- sm_61 and before ---------------------------------------------------------------------------------
#
# Arithmetic of one thread, and the copies that every architecture has.
#
# A fused multiply-add, dp4a and dp2a are matrix instructions of extent 1 x 1.  A vector copy moves the bits
# of one thread, and a 2 x 2 transpose exchanges words between two lanes with a shuffle.
#
# Source: PTX ISA 9.0, 9.7.3.6 (fma), 9.7.1.23 (dp4a), 9.7.1.24 (dp2a), 9.7.9.6 (shfl.sync), 9.7.9.8 (ld),
# 9.7.9.12 (st); CUTLASS, include/cute/atom/mma_traits.hpp, mma_traits_sm61.hpp, copy_traits.hpp,
# copy_traits_sm50.hpp.


def _thread(name: str, k: int, types_text: str, ptx: str, section: str) -> MMAAtom:
    line, single = Layout((1, k)), Layout((1, 1))
    types = types_of(types_text)
    source = f"PTX ISA 9.0, {section}"
    return MMAAtom(name, (1, 1, k), Layout(1), line, line, single, types, source, "sm_61", ptx)


SCALAR_ATOMS: tuple[MMAAtom, ...] = (
    _thread("UniversalFMA<float,float,float,float>", 1, "f32 f32 f32 f32", "fma.rn.f32", "9.7.3.6"),
    _thread("UniversalFMA<double,double,double,double>", 1, "f64 f64 f64 f64", "fma.rn.f64", "9.7.3.6"),
    _thread("SM61_DP4A", 4, "s32 s8 s8 s32", "dp4a.s32.s32", "9.7.1.23"),
    _thread("SM61_DP2A", 2, "s32 s16 s8 s32", "dp2a.lo.s32.s32", "9.7.1.24"),
)
"""Multiply-adds; dot products of four bytes with four, and of two halves with the two low bytes of a word.

CuTe gives dp2a halves on both sides and a mnemonic without .lo, which does not assemble."""

_VECTOR = {8: "b8", 16: "b16", 32: "b32", 64: "b64", 128: "v4.b32"}


def _universal(bits: int) -> CopyAtom:
    name, tv, ptx = f"UniversalCopy<uint{bits}_t>", Layout((1, bits)), f"ld.{_VECTOR[bits]}"
    return copy_atom(name, tv, tv, ptx, "sm_61", "9.7.9.8, 9.7.9.12")


def _memory(kind: str, space: str, bits: int) -> CopyAtom:
    tv, op = Layout((1, bits)), f"{kind}.{space}.b{bits}"
    section = "9.7.9.8" if kind == "ld" else "9.7.9.12"
    sides = {"src_op": op} if kind == "ld" else {"dst_op": op}
    return copy_atom(op, tv, tv, f"{kind}.{space}.{_VECTOR[bits]}", "sm_61", section, **sides)


def _exchange(distance: int, dst_tv: Layout) -> CopyAtom:
    name = f"SM50_Shuffle_U32_2x2Trans_XOR{distance}"
    return copy_atom(name, Layout((32, 64), (64, 1)), dst_tv, "shfl.sync.bfly.b32", "sm_61", "9.7.9.6")


VECTOR_COPIES: tuple[CopyAtom, ...] = (
    *(_universal(bits) for bits in _VECTOR),
    *(_memory(kind, space, b) for kind in ("ld", "st") for space in ("shared", "global") for b in _VECTOR),
    _exchange(1, Layout(((2, 16), (32, 2)), ((32, 128), (1, 64)))),
    _exchange(4, Layout(((4, 2, 4), (32, 2)), ((64, 32, 512), (1, 256)))),
)
"""Vector copies of 8 to 128 bits, by CuTe's name and by the access they are; transposes by shuffle."""


# --- sm_70 --------------------------------------------------------------------------------------------
#
# Mma.m8n8k4 of half precision, four at once, each by a quad pair of 8 threads.
#
# The threads of a quad pair are 4 neighbours and the 4 that are 16 lanes further on.  Each holds a row of a
# row-major operand, or a column of half a column-major one:
#
#     A row-major, or B column-major     (8,4):(1,8)              thread t: row t
#     A column-major, or B row-major     ((4,2),4):((8,4),1)      thread t: column t % 4, rows 4 (t / 4) to +3
#
# The letters of a name are BLAS's: TN is A row-major and B column-major.  Accumulators of f16 are rows; of
# f32 each thread has 2 x 2 elements of 2 x 2 quadrants.  None of it follows the core-matrix rule.
#
# Source: PTX ISA 9.0, 9.7.14.5.1 (matrix fragments for mma.m8n8k4 with .f16);
# CUTLASS, include/cute/atom/mma_traits_sm70.hpp.

QUAD_PAIR = Layout((4, 2), (1, 16))
"""Lanes of the first quad pair; the others are 4, 8 and 12 lanes further on."""

_ROWS = Layout((8, 4), (1, 8))
_COLUMNS = Layout(((4, 2), 4), ((8, 4), 1))
_SUMS = {
    "f16": Layout((8, 8), (1, 8)),
    "f32": Layout(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))),
}


def _mma(sums: str, order: str) -> MMAAtom:
    a_order, b_order = ("row" if order[0] == "T" else "col"), ("col" if order[1] == "N" else "row")
    types = f"{sums} f16 f16 {sums}"
    return MMAAtom(
        name=f"SM70_8x8x4_{type_codes(types)}_{order}",
        shape_mnk=(8, 8, 4),
        thr_layout=QUAD_PAIR,
        a_tv=_ROWS if a_order == "row" else _COLUMNS,
        b_tv=_ROWS if b_order == "col" else _COLUMNS,
        c_tv=_SUMS[sums],
        dtypes=types_of(types),
        source="PTX ISA 9.0, 9.7.14.5.1",
        arch="sm_70",
        ptx=f"mma.sync.aligned.m8n8k4.{a_order}.{b_order}.{types.replace(' ', '.')}",
    )


QUAD_PAIR_ATOMS: tuple[MMAAtom, ...] = tuple(
    _mma(sums, order) for sums in ("f16", "f32") for order in ("TN", "NT", "NN", "TT")
)
"""mma.m8n8k4 by type of the sums and order of the operands."""


# --- sm_75 --------------------------------------------------------------------------------------------
#
# The first mma.sync of a whole warp, and the matrix loads that feed it.
#
# ldmatrix reads 8 x 8 matrices of 16-bit elements.  Lane 8 i + r gives the address of row r of matrix i (of
# as many matrices as there are; other lanes repeat the addresses, stride 0), and every lane receives one
# register of each matrix: the core matrix, or with .trans its transpose.  In bits, lanes of the transpose
# hold 16 bits of rows 2 l and 2 l + 1, 256 bits apart.
#
# movmatrix.trans transposes one matrix that is in registers already.
#
# Source: PTX ISA 9.0, 9.7.14.5.3 (mma.m8n8k16), 9.7.14.5.7 (mma.m16n8k8), 9.7.14.5.15 (ldmatrix),
# 9.7.14.5.17 (movmatrix); CUTLASS, include/cute/atom/mma_traits_sm75.hpp, copy_traits_sm75.hpp.

TURING_ROWS: tuple[MMARow, ...] = (
    MMARow("SM75", (16, 8, 8), "f32 f16 f16 f32", "9.7.14.5.7"),
    MMARow("SM75", (16, 8, 8), "f16 f16 f16 f16", "9.7.14.5.7"),
    MMARow("SM75", (8, 8, 16), "s32 s8 s8 s32", "9.7.14.5.3"),
)
"""Half precision and bytes."""

_ROW_BITS, _MATRIX_BITS = 128, 1024


def matrix_rows(matrices: int) -> Layout:
    """(lane, bit) of the rows of `matrices` 8 x 8 matrices, 1, 2 or 4: a row a lane.

    >>> print(matrix_rows(2), matrix_rows(4))
    ((16,2),128):((128,0),1) (32,128):(128,1)
    """
    lanes = 8 * matrices
    if lanes == 32:
        return Layout((32, _ROW_BITS), (_ROW_BITS, 1))
    return Layout(((lanes, 32 // lanes), _ROW_BITS), ((_ROW_BITS, 0), 1))


def matrix_registers(matrices: int, *, transposed: bool) -> Layout:
    """(lane, bit) of one register a matrix: 32 bits of a row, or 16 bits of each of two rows.

    >>> print(matrix_registers(2, transposed=False), matrix_registers(1, transposed=True))
    (32,(32,2)):(32,(1,1024)) ((4,8),(16,2)):((256,16),(1,128))
    """
    if transposed:
        lanes, steps, part = (4, 8), (2 * _ROW_BITS, 16), ((16, 1), (2, _ROW_BITS))
        values = (*part, (matrices, _MATRIX_BITS)) if matrices > 1 else part
        return Layout((lanes, tuple(s for s, _ in values)), (steps, tuple(d for _, d in values)))
    if matrices == 1:
        return Layout((32, 32), (32, 1))
    return Layout((32, (32, matrices)), (32, (1, _MATRIX_BITS)))


def _matrix_copy(mnemonic: str, matrices: int, *, transposed: bool) -> CopyAtom:
    """ldmatrix, or stmatrix, which is ldmatrix with source and destination exchanged."""
    loads = mnemonic == "ldmatrix"
    sm, code, section = ("75", "LDSM", "9.7.14.5.15") if loads else ("90", "STSM", "9.7.14.5.16")
    name = f"U16x{2 * matrices}_{code}_T" if transposed else f"U32x{matrices}_{code}_N"
    trans = ".trans" if transposed else ""
    memory, held = matrix_rows(matrices), matrix_registers(matrices, transposed=transposed)
    op = f"{mnemonic}.x{matrices}{trans}"
    sides = {"reference": "dst", "src_op": op} if loads else {"dst_op": op}
    source, target = (memory, held) if loads else (held, memory)
    ptx = f"{mnemonic}.sync.aligned.m8n8.x{matrices}{trans}.shared.b16"
    return copy_atom(f"SM{sm}_{name}", source, target, ptx, f"sm_{sm}", section, **sides)


MATRIX_LOADS: tuple[CopyAtom, ...] = (
    *(_matrix_copy("ldmatrix", matrices, transposed=t) for t in (False, True) for matrices in (1, 2, 4)),
    copy_atom(
        "SM75_U32x1_MOVM_T",
        matrix_registers(1, transposed=False),
        matrix_registers(1, transposed=True),
        "movmatrix.sync.aligned.m8n8.trans.b16",
        "sm_75",
        "9.7.14.5.17",
        reference="dst",
    ),
)
"""Matrix loads, and the transpose in registers.  CuTe's traits of the latter state the identity."""


# --- sm_80 --------------------------------------------------------------------------------------------
#
# Mma.sync of every type, and asynchronous copies to shared memory.
#
# All fragments follow the core-matrix rule, f64 included, where a register pair takes the place of a
# register.  CUTLASS multiplies complex matrices with four real instructions, or with three in Gauss's way,
# which sums a c, b d and (a + b)(c + d) apart.
#
# Source: PTX ISA 9.0, 9.7.14.5.2 to 9.7.14.5.13 (matrix fragments by shape), 9.7.9.25.3 (cp.async);
# CUTLASS, include/cute/arch/mma_sm80.hpp, copy_sm80.hpp.

_AMPERE_FLOATS = (
    MMARow("SM80", (16, 8, 8), "f16 f16 f16 f16", "9.7.14.5.7"),
    MMARow("SM80", (16, 8, 16), "f16 f16 f16 f16", "9.7.14.5.8"),
    MMARow("SM80", (16, 8, 8), "f32 f16 f16 f32", "9.7.14.5.7"),
    MMARow("SM80", (16, 8, 16), "f32 f16 f16 f32", "9.7.14.5.8"),
    MMARow("SM80", (16, 8, 8), "f32 bf16 bf16 f32", "9.7.14.5.7"),
    MMARow("SM80", (16, 8, 16), "f32 bf16 bf16 f32", "9.7.14.5.8"),
    MMARow("SM80", (16, 8, 4), "f32 tf32 tf32 f32", "9.7.14.5.6"),
    MMARow("SM80", (16, 8, 8), "f32 tf32 tf32 f32", "9.7.14.5.7"),
    MMARow("SM80", (8, 8, 4), "f64 f64 f64 f64", "9.7.14.5.2"),
    MMARow("SM80", (8, 8, 4), "c128 c128 c128 c128", "9.7.14.5.2"),
    MMARow("SM80", (8, 8, 4), "c128 c128 c128 c128", "9.7.14.5.2", "gauss"),
)

_INTEGER_SHAPES = {
    8: (((8, 8, 16), "9.7.14.5.3"), ((16, 8, 16), "9.7.14.5.9"), ((16, 8, 32), "9.7.14.5.10")),
    4: (((8, 8, 32), "9.7.14.5.4"), ((16, 8, 32), "9.7.14.5.10"), ((16, 8, 64), "9.7.14.5.11")),
}
_INTEGER_SUMS: tuple[Arithmetic, ...] = ("multiply", "saturate")

_BIT_SHAPES = (((8, 8, 128), "9.7.14.5.5"), ((16, 8, 128), "9.7.14.5.12"), ((16, 8, 256), "9.7.14.5.13"))
_BIT_SUMS: tuple[Arithmetic, ...] = ("and.popc", "xor.popc")


AMPERE_ROWS: tuple[MMARow, ...] = (
    *_AMPERE_FLOATS,
    *(
        MMARow("SM80", shape, f"s32 {a}{bits} {b}{bits} s32", section, sums)
        for bits, shapes in _INTEGER_SHAPES.items()
        for a, b, (shape, section), sums in product("su", "su", shapes, _INTEGER_SUMS)
    ),
    *(
        MMARow("SM80", shape, "s32 b1 b1 s32", section, sums)
        for sums, (shape, section) in product(_BIT_SUMS, _BIT_SHAPES)
    ),
)
"""Floating point, bytes and nibbles of either sign, bits."""


def _cp_async(cache: str, nbytes: int, *, zfill: bool) -> CopyAtom:
    name = f"SM80_CP_ASYNC_CACHE{cache}{'_ZFILL' if zfill else ''}<uint{8 * nbytes}_t>"
    tv, ptx = Layout((1, 8 * nbytes)), f"cp.async.{'cg' if cache == 'GLOBAL' else 'ca'}.shared.global"
    op = f"cp.async.{nbytes}"
    return copy_atom(name, tv, tv, ptx, "sm_80", "9.7.9.25.3", src_op=f"{op}:global", dst_op=op)


ASYNC_COPIES: tuple[CopyAtom, ...] = (
    *(_cp_async("ALWAYS", n, zfill=z) for z in (False, True) for n in (4, 8, 16)),
    *(_cp_async("GLOBAL", 16, zfill=z) for z in (False, True)),
)
"""cp.async through L1 (4, 8 or 16 bytes) and past it (16); ZFILL writes zeros where it does not read."""


# --- sm_89 --------------------------------------------------------------------------------------------
#
# Mma.sync of 8-bit floating point, e4m3 and e5m2 in any pairing, sums in f32 or f16.
#
# The fragments are those of bytes, by the core-matrix rule.
#
# Source: PTX ISA 9.0, 9.7.14.5.10 (matrix fragments for mma.m16n8k32);
# CUTLASS, include/cute/arch/mma_sm89.hpp.

_FLOATS = ("e4m3", "e5m2")

ADA_ROWS: tuple[MMARow, ...] = tuple(
    MMARow("SM89", (16, 8, 32), f"{sums} {a} {b} {sums}", "9.7.14.5.10")
    for sums in ("f32", "f16")
    for a in _FLOATS
    for b in _FLOATS
)
"""By type of the sums, of A and of B."""


# --- sm_90 --------------------------------------------------------------------------------------------
#
# Wider mma.sync of f64, and stmatrix; wgmma is in layoutalg.atoms.tables.wgmma.
#
# Source: PTX ISA 9.0, 9.7.14.5.6 to 9.7.14.5.8 (matrix fragments), 9.7.14.5.16 (stmatrix);
# CUTLASS, include/cute/arch/mma_sm90.hpp, copy_sm90.hpp.

_SECTIONS = {4: "9.7.14.5.6", 8: "9.7.14.5.7", 16: "9.7.14.5.8"}

HOPPER_ROWS: tuple[MMARow, ...] = tuple(
    MMARow("SM90", (16, 8, k), f"{element} {element} {element} {element}", section)
    for element in ("f64", "c128")
    for k, section in _SECTIONS.items()
)
"""f64, and complex f64 in four instructions."""


MATRIX_STORES: tuple[CopyAtom, ...] = tuple(
    _matrix_copy("stmatrix", matrices, transposed=t) for t in (False, True) for matrices in (1, 2, 4)
)
"""Matrix stores."""


# --- sm_120 -------------------------------------------------------------------------------------------
#
# Mma.sync of the narrow types, in bytes (K = 32) or packed (K = 64), without factors or with a scale factor
# per 32 or 16 elements along K.
#
# Source: PTX ISA 9.0, 9.7.14.5.10 (mma.m16n8k32), 9.7.14.5.11 (mma.m16n8k64), 9.7.14.3 (block scaling);
# CUTLASS, include/cute/atom/mma_traits_sm120.hpp.

_NARROW = TCGEN05_KINDS["f8f6f4"].operands

BLACKWELL_ROWS: tuple[MMARow, ...] = (
    *(
        MMARow("SM120", (16, 8, 32), f"{d} {a} {b} {d}", "9.7.14.5.10", kind="f8f6f4")
        for d, a, b in product(("f32", "f16"), _NARROW, _NARROW)
    ),
    *(
        MMARow("SM120", (16, 8, kind.k), f"f32 {a} {b} f32", section, kind=kind.name, block=block)
        for kind, section in (
            (TCGEN05_KINDS["mxf8f6f4"], "9.7.14.5.10"), (TCGEN05_KINDS["mxf4nvf4"], "9.7.14.5.11"),
        )
        for a, b, block in product(kind.operands, kind.operands, kind.blocks)
    ),
)  # fmt: skip
"""Narrow types, and those that are scaled in blocks."""


MMA_ATOMS: tuple[MMAAtom | MMARow | WgmmaRow, ...] = (
    *SCALAR_ATOMS, *QUAD_PAIR_ATOMS, *TURING_ROWS, *AMPERE_ROWS, *ADA_ROWS, *HOPPER_ROWS, *wgmma_rows(),
    *BLACKWELL_ROWS,
)  # fmt: skip
"""Every matrix instruction: an atom, or the row that one is built from."""

COPY_ATOMS: tuple[CopyAtom, ...] = (
    *VECTOR_COPIES, *MATRIX_LOADS, *ASYNC_COPIES, *MATRIX_STORES, *TENSOR_MEMORY_COPIES,
)  # fmt: skip
"""Every copy instruction."""
