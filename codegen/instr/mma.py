"""Tensor-core instructions of a warp: mma.sync and mma.m8n8k4, ldmatrix, stmatrix and movmatrix.

The idea.  An mma is one row of a table that names its atom; the atom's thread-value layouts onto
column-major tiles, as CuTe writes them, say everything else: the words of each operand, the PTX text, and
the effect, which gathers A, B and C by those layouts, multiplies, and scatters the sum.

    SM80_16x8x16_F32F16F16F32_TN
    A ((4,8),(2,2,2)):((32,1),(16,8,128))
    B ((4,8),(2,2)):((16,1),(8,64))
    C ((4,8),(2,2)):((32,1),(16,8))

Notes.  The simulator multiplies in float64 and rounds once; the hardware adds in an order of its own.  On
small integers both are exact.  tf32 operands are float32 words whose low 13 bits are ignored.  A double is
two words.  Forms of 8 x 8 are on GPUs that have no 16 x 8 of a type: two of them are one.

Volta.  mma.m8n8k4 is four products of 8 x 8 x 4, one for each quad pair: four neighbouring lanes and the four
that are 16 lanes later.  Each multiplies matrices of its own, which its 8 lanes hold as the atom's layouts
say, so that a warp covers 16 x 16 x 4 with two quad pairs along M and two along N.  The hardware runs it as
HMMA.884; operands may be row- or column-major, which changes who holds what.  NVRTC 13 and nvcc 13 have no
target sm_70: kernels with it are simulated, and compiled for sm_75 and later, which execute it by other
instructions.  For a V100, CUDA 12 compiles the printed text.

stmatrix is ldmatrix backwards.  Lane l gives the address of row l % 8 of matrix l // 8, 16 bytes, so that x1,
x2 and x4 take 8, 16 and 32 addresses; register r of a lane holds two elements of matrix r:

    STMATRIX[4]          of row l // 4, columns 2 (l % 4) and the next
    STMATRIX_TRANS[4]    of column l // 4, rows 2 (l % 4) and the next

Source: PTX ISA 9.0, 9.7.14.5 (mma, ldmatrix, movmatrix): matrix fragments; 9.7.14.5.1 (mma.m8n8k4);
9.7.14.5.14 (which architecture has which shape); 9.7.14.5.16 (stmatrix).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.atoms import MMAAtom, Operand, find_mma_atom, places
from layoutalg.codegen.instr.record import WARP, Instr, Requires, into, out, read, table, updated, write
from layoutalg.codegen.instr.words import ADDRESS, PACKED, Array, at, decode, double_at, encode, holes, ref
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.layout import Layout

ARITHMETIC: Mapping[str, str] = MappingProxyType({"multiply": "", "xor.popc": "xor", "and.popc": "and"})
"""The part of an mma's name that tells its arithmetic, see layoutalg.atoms."""


@dataclass(frozen=True, slots=True)
class Mma:
    """An mma.sync of 16 x 8 x `k`, or of 8 x 8 x `k`, by its atom.

    >>> Mma(find_mma_atom("SM80_16x8x16_F32F16F16F32_TN")).name
    'mma_m16n8k16_f16_f32'
    """

    atom: MMAAtom

    @property
    def operand(self) -> str:
        """Element type of A and B, both where they are two."""
        return "_".join(dict.fromkeys((self.atom.dtypes.a.name, self.atom.dtypes.b.name)))

    @property
    def accumulator(self) -> str:
        """Element type of C and D."""
        return self.atom.dtypes.d.name

    @property
    def rows(self) -> int:
        """Rows of A: 16 or 8."""
        return self.atom.shape_mnk[0]

    @property
    def k(self) -> int:
        """Columns of A."""
        return self.atom.shape_mnk[2]

    @property
    def arithmetic(self) -> str:
        """The summands: "" products, "xor" or "and" bits."""
        return ARITHMETIC[self.atom.arithmetic]

    @property
    def sm(self) -> int:
        """The first architecture that has it: CUTLASS names some of 8 x 8 after sm_80 that sm_75 has."""
        early = self.rows == 8 and self.accumulator == "s32" and self.arithmetic != "and"
        return 75 if early else int(self.atom.arch.removeprefix("sm_"))

    @property
    def emulated_from(self) -> int | None:
        """The architecture from which on no tensor core has it, and machine code calls a function: Hopper's
        multiply neither nibbles nor x ^ y of bits."""
        return 90 if self.operand in ("s4", "u4") or self.arithmetic == "xor" else None

    @property
    def ptx(self) -> str:
        """Mnemonic."""
        return self.atom.ptx

    @property
    def cores(self) -> int:
        """Core matrices along K, of four lanes: 1 to 4."""
        return self.k * self.atom.dtype("A").bits // (128 * self.core_words)

    @property
    def core_words(self) -> int:
        """32-bit words of a lane in a core matrix: 2 of doubles."""
        return max(1, self.atom.dtype("A").bits // 32)

    @property
    def words(self) -> tuple[int, int, int]:
        """32-bit words per lane of A, B and C."""
        return self.atom.registers("A"), self.atom.registers("B"), self.atom.registers("C")

    @property
    def name(self) -> str:
        """Name of the helper."""
        bits = f"_{self.arithmetic}" if self.arithmetic else ""
        return f"mma_m{self.rows}n8k{self.k}_{self.operand}_{self.accumulator}{bits}"


MMAS: tuple[Mma, ...] = tuple(
    Mma(find_mma_atom(name))
    for name in (
        "SM75_16x8x8_F32F16F16F32_TN", "SM75_16x8x8_F16F16F16F16_TN",
        "SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x16_F16F16F16F16_TN",
        "SM80_16x8x8_F32BF16BF16F32_TN", "SM80_16x8x16_F32BF16BF16F32_TN",
        "SM80_16x8x4_F32TF32TF32F32_TN", "SM80_16x8x8_F32TF32TF32F32_TN",
        "SM80_8x8x4_F64F64F64F64_TN",
        *(f"SM90_16x8x{k}_F64F64F64F64_TN" for k in (4, 8, 16)),
        "SM75_8x8x16_S32S8S8S32_TN", "SM80_16x8x16_S32S8S8S32_TN", "SM80_16x8x32_S32S8S8S32_TN",
        "SM80_8x8x16_S32U8U8S32_TN", "SM80_16x8x16_S32U8U8S32_TN", "SM80_16x8x32_S32U8U8S32_TN",
        *(f"SM80_{shape}_S32{t}4{t}4S32_TN" for t in "SU" for shape in ("8x8x32", "16x8x32", "16x8x64")),
        *(f"SM89_16x8x32_F32{a}{b}F32_TN" for a in ("E4M3", "E5M2") for b in ("E4M3", "E5M2")),
        *(f"SM80_{shape}_S32U1U1S32_TN_{bits}POPC" for bits in ("XOR", "AND")
          for shape in ("8x8x128", "16x8x128", "16x8x256")),
    )
)  # fmt: skip
"""The shapes a generated kernel may use."""


def find_mma(operand: str, accumulator: str, k: int, rows: int = 16, arithmetic: str = "") -> Mma:
    """The row of the table.  Raises UnknownNameError.

    >>> find_mma("f16", "f32", 16).words
    (4, 2, 4)
    """
    key = (operand, accumulator, k, rows, arithmetic)
    for row in MMAS:
        if (row.operand, row.accumulator, row.k, row.rows, row.arithmetic) == key:
            return row
    known = [f"{m.operand}.{m.accumulator}.k{m.k}" for m in MMAS]
    raise UnknownNameError("mma", f"{operand}.{accumulator}.k{k}", list(dict.fromkeys(known)))


cached_places = functools.cache(places)


def gathered(words: Array, tv: Layout, element: str, rows: int, lanes: int = WARP) -> Array:
    """The tiles (groups, rows, columns) that words (lanes, n) hold, of so many lanes each.

    >>> held = numpy.arange(32, dtype=numpy.uint32)[:, None]
    >>> gathered(held, Layout((32, 1), (1, 0)), "s32", 8)[0, 1].tolist()
    [1, 9, 17, 25]
    """
    values = decode(words, element).reshape(len(words) // lanes, lanes, -1)
    tiles = numpy.empty((len(values), values[0].size), dtype=values.dtype)
    tiles[:, cached_places(tv)] = values
    return tiles.reshape(len(values), -1, rows).transpose(0, 2, 1)


def _multiply(mma: Mma, machine: Any, group: Any, d: Array, a: Array, b: Array) -> Array:
    atom = mma.atom
    left = gathered(a, atom.a_tv, atom.dtypes.a.name, mma.rows)
    right = gathered(b, atom.b_tv, atom.dtypes.b.name, 8).transpose(0, 2, 1)
    with numpy.errstate(all="ignore"):
        tiles = left @ right + gathered(d, atom.c_tv, mma.accumulator, mma.rows)
        if mma.arithmetic == "xor":  # x ^ y = x + y - 2 x y;  x & y = x y
            tiles += left.sum(axis=2, keepdims=True) + right.sum(axis=1, keepdims=True) - 3 * (left @ right)
        flat = tiles.transpose(0, 2, 1).reshape(len(tiles), -1)
        return encode(flat[:, cached_places(atom.c_tv)].reshape(len(d), -1), mma.accumulator)


def _mma(mma: Mma) -> Instr:
    effect, requires = functools.partial(_multiply, mma), Requires(sm=mma.sm, warp_converged=True)
    if mma.operand == "f64":
        a, b, c = mma.words
        operands = updated("d", c), into("a", a), into("b", b)
        return Instr(mma.name, operands, _doubles(mma), effect, requires)
    return _packed(
        mma.name, mma.ptx, mma.words, mma.accumulator, PACKED.get(mma.operand, ""), effect, requires
    )


def _holes(counts: tuple[int, int, int]) -> str:
    """The registers of an mma in the order d, a, b, d, as holes of its text."""
    c, a, b = counts
    return f"{holes(0, c)}, {holes(c, a)}, {holes(c + a, b)}, {holes(0, c)};"


def _packed(
    name: str, ptx: str, words: tuple[int, int, int], accumulator: str, packed: str, effect: Any,
    requires: Requires,
) -> Instr:  # fmt: skip
    """An mma of operands of 32 bits or less."""
    a, b, c = words
    letter, floats = ("f", "f32") if accumulator == "f32" else ("r", "")
    lists = (("a", a), ("b", b))
    inputs = ", ".join(f'"r"({at(x, i, n)})' for x, n in lists for i in range(n))
    updates = ", ".join(f'"+{letter}"(d[{i}])' for i in range(c))
    signature = ", ".join((ref("d", c, floats), *(ref(x, n, packed, const=True) for x, n in lists)))
    text = (
        f"void {name}({signature}) {{\n"
        f'    asm volatile("{ptx} "\n        "{_holes((c, a, b))}"\n'
        f"        : {updates}\n        : {inputs});\n}}"
    )
    operands = updated("d", c, floats), into("a", a, packed), into("b", b, packed)
    return Instr(name, operands, text, effect, requires)


def _doubles(mma: Mma) -> str:
    """The text of an mma of operands of 64 bits, two words each."""
    a, b, c = (n // 2 for n in mma.words)
    inputs = ", ".join(f'"d"({double_at(x, i)})' for x, n in (("a", a), ("b", b)) for i in range(n))
    updates = ", ".join(f'"+d"(x{i})' for i in range(c))
    loads = "".join(f"    double x{i} = {double_at('d', i)};\n" for i in range(c))
    stores = "".join(
        f"    d[{2 * i}] = __double2loint(x{i});\n    d[{2 * i + 1}] = __double2hiint(x{i});\n"
        for i in range(c)
    )
    return (
        f"void {mma.name}(u32* d, const u32* a, const u32* b) {{\n{loads}"
        f'    asm volatile("{mma.ptx} "\n        "{_holes((c, a, b))}"\n'
        f"        : {updates}\n        : {inputs});\n{stores}}}"
    )


MMA_SYNC = table(_mma, MMAS)
"""d += a b, by the row of the table."""


def mma_instruction(atom: MMAAtom) -> Instr:
    """The mma.sync of an atom, by what PTX calls it.

    Raises UnsupportedError for an atom of another kind and for one that no record has.

    >>> mma_instruction(find_mma_atom("SM80_16x8x8_F32F16F16F32_TN")).name
    'mma_m16n8k8_f16_f32'
    """
    for mma, instr in MMA_SYNC.items():
        if (mma.ptx, mma.atom.dtypes) == (atom.ptx, atom.dtypes):
            return instr
    same = [m.atom.name for m in MMAS if m.operand == atom.dtypes.a.name]
    known = f"; of {atom.dtypes.a} there are {', '.join(same)}" if same else ""
    raise UnsupportedError(f"no instruction of generated kernels is {atom}{known}")


def _rows(count: int, machine: Any, group: Any, rows: Array) -> Array:
    """Register r of lane l is word l % 4 of the row that lane 8 r + l // 4 addresses."""
    return _dealt(_matrices(rows, count))


def _columns(count: int, machine: Any, group: Any, rows: Array) -> Array:
    """Register r of lane l is elements (2 (l % 4), l // 4) and (2 (l % 4) + 1, l // 4) of matrix r."""
    return _dealt(_turned(_matrices(rows, count)))


def _matrices(rows: Array, count: int) -> Array:
    """Words (warp, matrix, row, word) of the rows that the first 8 `count` lanes of each warp address."""
    return rows.reshape(-1, 32, 4)[:, : 8 * count].reshape(-1, count, 8, 4)


def _dealt(matrices: Array) -> Array:
    """Registers (lane, matrix) of matrices (warp, matrix, row, word)."""
    return numpy.ascontiguousarray(matrices.transpose(0, 2, 3, 1)).reshape(-1, matrices.shape[1])


def _turned(matrices: Array) -> Array:
    """8 x 8 matrices of 16-bit elements, as words (..., row, word), transposed."""
    halves = numpy.ascontiguousarray(matrices).view(numpy.uint16)
    return numpy.ascontiguousarray(halves.swapaxes(-1, -2)).view(numpy.uint32)


def _ldmatrix(count: int, *, turned: bool) -> Instr:
    name, suffix = f"ldmatrix_x{count}{'_trans' if turned else ''}", ".trans" if turned else ""
    ptx = f"ldmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 {holes(0, count)}, [%{count}];"
    registers = ", ".join(f'"=r"({at("d", i, count)})' for i in range(count))
    text = (
        f"void {name}({ref('d', count)}, const void* s) {{\n"
        "    const u32 from = static_cast<u32>(__cvta_generic_to_shared(s));\n"
        f'    asm volatile("{ptx}"\n'
        f'        : {registers} : "r"(from) : "memory");\n'
        "}"
    )
    operands = (out("d", count), read("s", "shared", 16, f"ldmatrix.x{count}{suffix}", lanes=8 * count))
    effect = functools.partial(_columns if turned else _rows, count)
    return Instr(name, operands, text, effect, Requires(sm=75, warp_converged=True))


LDMATRIX = table(functools.partial(_ldmatrix, turned=False), (1, 2, 4))
"""By the number of 8 x 8 matrices of 16-bit elements: lane l addresses row l % 8 of matrix l // 8, 16 bytes.
Lanes past the last matrix address what lane l % 8 does: sm_75 requires a valid address of every lane."""

LDMATRIX_TRANS = table(functools.partial(_ldmatrix, turned=True), (1, 2, 4))
"""The same, each matrix transposed on the way."""


def _transpose(machine: Any, group: Any, words: Array) -> Array:
    """Transpose a matrix, register l // 4 of whose row is lane l % 4's."""
    return _turned(words.reshape(-1, 8, 4)).reshape(-1, 1)


MOVMATRIX = Instr(
    "movmatrix_trans",
    (out("d", 1), into("v", 1)),
    "void movmatrix_trans(u32& d, const u32& v) {\n"
    '    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(v));\n}',
    _transpose,
    Requires(sm=75, warp_converged=True),
)
"""An 8 x 8 matrix of 16-bit elements in registers, two of row l // 4 in lane l, transposed."""


_QUAD_PAIRS = 4


@functools.cache
def _lanes(atom: MMAAtom) -> Array:
    """The lanes of each quad pair in the atom's order: (quad pair, thread)."""
    lanes: Array = numpy.arange(_QUAD_PAIRS)[:, None] * 4 + atom.thr_layout(numpy.arange(atom.threads))
    return lanes


@functools.cache
def _held(atom: MMAAtom, operand: Operand) -> Array:
    """The flat index of what each thread of a quad pair holds: (thread, value)."""
    tv = atom.tv(operand)
    threads, values = atom.threads, atom.values(operand)
    return numpy.array([[tv(t, v) for v in range(values)] for t in range(threads)])


def _tiles(words: Array, atom: MMAAtom, operand: Operand) -> Array:
    """The matrices (warp, quad pair, rows, columns) that words (lanes, n) hold."""
    values = decode(words, atom.dtype(operand).name).reshape(len(words) // WARP, WARP, -1)
    rows, columns = atom.extents(operand)
    flat = numpy.empty((len(values), _QUAD_PAIRS, rows * columns), dtype=values.dtype)
    flat[:, :, _held(atom, operand)] = values[:, _lanes(atom)]
    return flat.reshape(len(values), _QUAD_PAIRS, columns, rows).swapaxes(2, 3)


def _multiply_in_pairs(atom: MMAAtom, machine: Any, group: Any, d: Array, a: Array, b: Array) -> Array:
    """d + a b of each quad pair; products are exact, sums rounded once."""
    left, right = _tiles(a, atom, "A"), _tiles(b, atom, "B").swapaxes(2, 3)
    with numpy.errstate(all="ignore"):
        sums = left @ right + _tiles(d, atom, "C")
        flat = sums.swapaxes(2, 3).reshape(len(sums), _QUAD_PAIRS, -1)
        values = numpy.empty((len(sums), WARP, atom.values("C")), dtype=sums.dtype)
        values[:, _lanes(atom)] = flat[:, :, _held(atom, "C")]
        return encode(values.reshape(len(d), -1), atom.dtypes.d.name)


def _quad_pair(name: str) -> Instr:
    atom = find_mma_atom(name)
    order, sums = atom.name.rsplit("_", 1)[1].lower(), atom.dtypes.d.name
    words = atom.registers("A"), atom.registers("B"), atom.registers("C")
    effect, requires = functools.partial(_multiply_in_pairs, atom), Requires(sm=70, warp_converged=True)
    return _packed(f"mma_m8n8k4_{order}_{sums}", atom.ptx, words, sums, "f16x2", effect, requires)


_SUMS, _ORDERS = ("F32F16F16F32", "F16F16F16F16"), ("TN", "NT", "NN", "TT")
QUAD_PAIR_MMA = table(_quad_pair, (f"SM70_8x8x4_{sums}_{order}" for sums in _SUMS for order in _ORDERS))
"""d += a b of four quad pairs, by the name of the atom."""


def _stored_rows(count: int, machine: Any, group: Any, v: Array) -> Array:
    """Word w of the row that lane 8 m + i addresses is register m of lane 4 i + w."""
    return _addressed(v.reshape(-1, 8, 4, count).transpose(0, 3, 1, 2), len(v))


def _stored_columns(count: int, machine: Any, group: Any, v: Array) -> Array:
    """Element c of row 2 p + j of matrix m is half j of register m of lane 4 c + p."""
    halves = numpy.ascontiguousarray(v).view(numpy.uint16).reshape(-1, 8, 4, count, 2)
    turned = numpy.ascontiguousarray(halves.transpose(0, 3, 2, 4, 1))  # warp, matrix, p, j, c
    return _addressed(turned.view(numpy.uint32).reshape(-1, count, 8, 4), len(v))


def _addressed(rows: Array, lanes: int) -> Array:
    """Rows (warp, matrix, row, word) by the lane that gives their address, zeros in the others."""
    words = numpy.zeros((lanes // WARP, WARP, 4), dtype=numpy.uint32)
    words[:, : 8 * rows.shape[1]] = rows.reshape(len(rows), -1, 4)
    return words.reshape(lanes, 4)


def _stmatrix(count: int, *, turned: bool) -> Instr:
    suffix = ".trans" if turned else ""
    name = f"stmatrix_x{count}{'_trans' if turned else ''}"
    values = ", ".join(f'"r"({at("v", i, count)})' for i in range(count))
    ptx = f"stmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 [%0], {holes(1, count)};"
    text = (
        f"void {name}(void* s, {ref('v', count, const=True)}) {{\n"
        f'    asm volatile("{ptx}"\n'
        f'        :: "r"(shared_address(s)), {values} : "memory");\n'
        "}"
    )
    operands = (write("s", "shared", 16, f"stmatrix.x{count}{suffix}", lanes=8 * count), into("v", count))
    effect = functools.partial(_stored_columns if turned else _stored_rows, count)
    return Instr(name, operands, text, effect, Requires(sm=90, warp_converged=True), uses=(ADDRESS,))


STMATRIX = table(functools.partial(_stmatrix, turned=False), (1, 2, 4))
"""By the number of matrices: rows from registers that hold parts of rows."""

STMATRIX_TRANS = table(functools.partial(_stmatrix, turned=True), (1, 2, 4))
"""By the number of matrices: rows from registers that hold parts of columns."""
