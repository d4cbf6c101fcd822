"""mma.m8n8k4 of half precision: one instruction of a warp, four products of 8 x 8 x 4, one per quad pair.

The idea.  A quad pair is four neighbouring lanes and the four that are 16 lanes later; the warp has four:

    quad pair     lanes
    0             0  1  2  3    16 17 18 19
    1             4  5  6  7    20 21 22 23
    2             8  9 10 11    24 25 26 27
    3            12 13 14 15    28 29 30 31

Each multiplies matrices of its own, which its 8 lanes hold as the atom's layouts say (layoutalg.atoms), so
that a warp covers 16 x 16 x 4 with two quad pairs along M and two along N:

    make_tiled_mma("SM70_8x8x4_F32F16F16F32_TN", (2, 2, 1))        32 threads

The hardware runs it as HMMA.884, a step per four lanes of the sum.  Operands may be row- or column-major,
which changes who holds what: four orders for sums of f32, four for f16.

Notes.  NVRTC 13 and nvcc 13 have no target sm_70: kernels with it are simulated here, and compiled for sm_75
and later, which execute it by other instructions.  For a V100, CUDA 12 compiles the printed text.

Source: PTX ISA 9.0, 9.7.14.5.1 (mma.m8n8k4 with .f16 floating point type); 9.7.14.5.14 (mma: .m8n8k4 is
optimized for sm_70).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.atoms import MMAAtom, Operand, find_mma_atom
from layoutalg.codegen.instr.record import WARP, Instr, Requires, into, updated
from layoutalg.codegen.instr.words import Array, decode, encode, ref

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


def _multiply(atom: MMAAtom, machine: Any, group: Any, d: Array, a: Array, b: Array) -> Array:
    """d + a b of each quad pair; products are exact, sums rounded once."""
    left, right = _tiles(a, atom, "A"), _tiles(b, atom, "B").swapaxes(2, 3)
    with numpy.errstate(all="ignore"):
        sums = left @ right + _tiles(d, atom, "C")
        flat = sums.swapaxes(2, 3).reshape(len(sums), _QUAD_PAIRS, -1)
        values = numpy.empty((len(sums), WARP, atom.values("C")), dtype=sums.dtype)
        values[:, _lanes(atom)] = flat[:, :, _held(atom, "C")]
        return encode(values.reshape(len(d), -1), atom.dtypes.d.name)


def _instr(atom: MMAAtom) -> Instr:
    c, a, b = (atom.registers(operand) for operand in ("C", "A", "B"))
    of_floats = atom.dtypes.d.name == "f32"
    holes = [f"%{i}" for i in range(c + a + b)]
    groups = ["{" + ", ".join(holes[i:j]) + "}" for i, j in ((0, c), (c, c + a), (c + a, c + a + b))]
    updates = ", ".join(f'"+{"f" if of_floats else "r"}"(d[{i}])' for i in range(c))
    inputs = ", ".join(f'"r"({x}[{i}])' for x, n in (("a", a), ("b", b)) for i in range(n))
    kind = "f32" if of_floats else ""
    order = atom.name.rsplit("_", 1)[1].lower()
    name = f"mma_m8n8k4_{order}_{atom.dtypes.d.name}"
    packed = ref("a", a, "f16x2", const=True), ref("b", b, "f16x2", const=True)
    text = (
        f"void {name}({ref('d', c, kind)}, {', '.join(packed)}) {{\n"
        f'    asm volatile("{atom.ptx} "\n        "{groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};"\n'
        f"        : {updates}\n        : {inputs});\n}}"
    )
    operands = (updated("d", c, kind), into("a", a, "f16x2"), into("b", b, "f16x2"))
    effect = functools.partial(_multiply, atom)
    return Instr(name, operands, text, effect, Requires(sm=70, warp_converged=True))


QUAD_PAIR_MMA: Mapping[str, Instr] = MappingProxyType(
    {
        name: _instr(find_mma_atom(name))
        for sums in ("F32F16F16F32", "F16F16F16F16")
        for order in ("TN", "NT", "NN", "TT")
        for name in (f"SM70_8x8x4_{sums}_{order}",)
    }
)
"""d += a b of four quad pairs, by the name of the atom."""
