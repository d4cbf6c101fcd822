"""Tensor-core instructions of a warp: ldmatrix and mma.sync.

The idea.  An mma is one row of a table that names its atom; the atom's thread-value layouts onto
column-major tiles, as CuTe writes them, say everything else: the words of each operand, the PTX text, and
the effect, which gathers A, B and C by those layouts, multiplies, and scatters the sum.

    SM80_16x8x16_F32F16F16F32_TN
    A ((4,8),(2,2,2)):((32,1),(16,8,128))
    B ((4,8),(2,2)):((16,1),(8,64))
    C ((4,8),(2,2)):((32,1),(16,8))

Notes.  The simulator multiplies in float64 and rounds once; the hardware adds in an order of its own.  On
small integers both are exact.  tf32 operands are float32 words whose low 13 bits are ignored.

Source: PTX ISA 9.0, 9.7.14.5 (mma, ldmatrix): matrix fragments.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.atoms import MMAAtom, find_mma_atom, places
from layoutalg.codegen.instr.record import Instr, Requires, into, out, read, updated
from layoutalg.codegen.instr.words import PACKED, decode, encode, ref
from layoutalg.errors import UnknownNameError
from layoutalg.layout import Layout

Array = numpy.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Mma:
    """An mma.sync of 16 x 8 x `k`, by its atom.

    >>> Mma(find_mma_atom("SM80_16x8x16_F32F16F16F32_TN")).name
    'mma_m16n8k16_f16_f32'
    """

    atom: MMAAtom

    @property
    def operand(self) -> str:
        """Element type of A and B."""
        return self.atom.dtypes.a.name

    @property
    def accumulator(self) -> str:
        """Element type of C and D."""
        return self.atom.dtypes.d.name

    @property
    def k(self) -> int:
        """Columns of A."""
        return self.atom.shape_mnk[2]

    @property
    def sm(self) -> int:
        """The first architecture that has it."""
        return int(self.atom.arch.removeprefix("sm_"))

    @property
    def ptx(self) -> str:
        """Mnemonic."""
        return self.atom.ptx

    @property
    def cores(self) -> int:
        """Core matrices along K, each 16 bytes wide: 1 or 2."""
        return self.k * self.atom.dtype("A").bits // 128

    @property
    def words(self) -> tuple[int, int, int]:
        """32-bit words a lane of A, B and C."""
        return self.atom.registers("A"), self.atom.registers("B"), self.atom.registers("C")

    @property
    def name(self) -> str:
        """Name of the helper."""
        return f"mma_m16n8k{self.k}_{self.operand}_{self.accumulator}"


MMAS: tuple[Mma, ...] = tuple(
    Mma(find_mma_atom(name))
    for name in (
        "SM75_16x8x8_F32F16F16F32_TN", "SM75_16x8x8_F16F16F16F16_TN",
        "SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x16_F16F16F16F16_TN",
        "SM80_16x8x8_F32BF16BF16F32_TN", "SM80_16x8x16_F32BF16BF16F32_TN",
        "SM80_16x8x4_F32TF32TF32F32_TN", "SM80_16x8x8_F32TF32TF32F32_TN",
        "SM80_16x8x16_S32S8S8S32_TN", "SM80_16x8x32_S32S8S8S32_TN",
        "SM80_16x8x16_S32U8U8S32_TN", "SM80_16x8x32_S32U8U8S32_TN",
    )
)  # fmt: skip
"""The shapes a generated kernel may use."""


def find_mma(operand: str, accumulator: str, k: int) -> Mma:
    """The row of the table.  Raises UnknownNameError.

    >>> find_mma("f16", "f32", 16).words
    (4, 2, 4)
    """
    for row in MMAS:
        if (row.operand, row.accumulator, row.k) == (operand, accumulator, k):
            return row
    known = [f"{m.operand}.{m.accumulator}.k{m.k}" for m in MMAS]
    raise UnknownNameError("mma", f"{operand}.{accumulator}.k{k}", known)


_places = functools.cache(places)


def _gather(words: Array, tv: Layout, element: str, rows: int) -> Array:
    """The tiles (warps, rows, columns) that words (lanes, n) hold."""
    values = decode(words, element).reshape(len(words) // 32, 32, -1)
    tiles = numpy.empty((len(values), values[0].size), dtype=values.dtype)
    tiles[:, _places(tv)] = values
    return tiles.reshape(len(values), -1, rows).transpose(0, 2, 1)


def _multiply(mma: Mma, machine: Any, group: Any, d: Array, a: Array, b: Array) -> Array:
    atom = mma.atom
    left = _gather(a, atom.a_tv, mma.operand, 16)
    right = _gather(b, atom.b_tv, mma.operand, 8).transpose(0, 2, 1)
    with numpy.errstate(all="ignore"):
        tiles = left @ right + _gather(d, atom.c_tv, mma.accumulator, 16)
        flat = tiles.transpose(0, 2, 1).reshape(len(tiles), -1)
        return encode(flat[:, _places(atom.c_tv)].reshape(len(d), -1), mma.accumulator)


def _mma(mma: Mma) -> Instr:
    a, b, c = mma.words
    given, floats = ("f", "f32") if mma.accumulator == "f32" else ("r", "")
    packed = PACKED.get(mma.operand, "")
    names = [f"{x}{i}" for x, n in (("d", c), ("a", a), ("b", b)) for i in range(n)]
    holes = {name: f"%{i}" for i, name in enumerate(names)}

    def group(x: str, n: int) -> str:
        return "{" + ", ".join(holes[f"{x}{i}"] for i in range(n)) + "}"

    registers = f"{group('d', c)}, {group('a', a)}, {group('b', b)}, {group('d', c)};"
    held = [*(f"a[{i}]" for i in range(a)), *((f"b[{i}]" for i in range(b)) if b > 1 else ["b"])]
    inputs = ", ".join(f'"r"({x})' for x in held)
    updates = ", ".join(f'"+{given}"(d[{i}])' for i in range(c))
    signature = ", ".join(
        (ref("d", c, floats), ref("a", a, packed, const=True), ref("b", b, packed, const=True))
    )
    text = (
        f"void {mma.name}({signature}) {{\n"
        f'    asm volatile("{mma.ptx} "\n        "{registers}"\n'
        f"        : {updates}\n        : {inputs});\n}}"
    )
    operands = (updated("d", c, floats), into("a", a, packed), into("b", b, packed))
    return Instr(
        mma.name,
        operands,
        text,
        functools.partial(_multiply, mma),
        Requires(sm=mma.sm, warp_converged=True),
    )


MMA_SYNC: Mapping[Mma, Instr] = MappingProxyType({m: _mma(m) for m in MMAS})
"""d += a b, by the row of the table."""


def _rows(machine: Any, group: Any, rows: Array) -> Array:
    """Register r of lane l is word l % 4 of the row that lane 8 r + l // 4 addresses."""
    matrices = rows.reshape(-1, 4, 8, 4)  # warp, matrix, row, word
    return matrices.transpose(0, 2, 3, 1).reshape(-1, 4)


def _columns(machine: Any, group: Any, rows: Array) -> Array:
    """Register r of lane l is elements (2 (l % 4), l // 4) and (2 (l % 4) + 1, l // 4) of matrix r."""
    halves = numpy.ascontiguousarray(rows).view(numpy.uint16).reshape(-1, 4, 8, 8)
    turned = numpy.ascontiguousarray(halves.transpose(0, 3, 2, 1).swapaxes(2, 3))  # warp, column, matrix, row
    words = turned.view(numpy.uint32).reshape(-1, 8, 4, 4)
    return numpy.ascontiguousarray(words.transpose(0, 1, 3, 2)).reshape(-1, 4)


def _ldmatrix(*, turned: bool) -> Instr:
    name, suffix = ("ldmatrix_x4_trans", ".trans") if turned else ("ldmatrix_x4", "")
    ptx = f"ldmatrix.sync.aligned.m8n8.x4{suffix}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
    text = (
        f"void {name}(u32* d, const void* s) {{\n"
        "    const u32 from = static_cast<u32>(__cvta_generic_to_shared(s));\n"
        f'    asm volatile("{ptx}"\n'
        '        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");\n'
        "}"
    )
    operands = (out("d", 4), read("s", "shared", 16, f"ldmatrix.x4{suffix}"))
    return Instr(name, operands, text, _columns if turned else _rows, Requires(sm=75, warp_converged=True))


LDMATRIX, LDMATRIX_TRANS = _ldmatrix(turned=False), _ldmatrix(turned=True)
"""Four 8 x 8 matrices of 16-bit elements: lane l addresses row l % 8 of matrix l // 8, 16 bytes."""

INSTRUCTIONS: Mapping[str, Instr] = MappingProxyType(
    {i.name: i for i in (*MMA_SYNC.values(), LDMATRIX, LDMATRIX_TRANS)}
)
"""Every instruction of this module by name."""
