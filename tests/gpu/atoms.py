"""Ask a GPU: one mma of every kind on given registers, one matrix load, store and transpose.

The kernels take the registers of a warp as words in memory, [lane][word], and give them back the same way.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutalg.atoms import COPY_ATOMS, MMA_ATOMS, CopyAtom, MMAAtom, Operand, places
from layoutalg.dtype import DType

WARP_ATOMS = [
    atom for name, atom in MMA_ATOMS.items()
    if not name.startswith(("SM90_64x", "SM90_SPARSE")) and atom.instructions == 1
]  # fmt: skip
"""Every mma that is one instruction of at most a warp."""

OPERANDS: tuple[Operand, ...] = ("A", "B", "C")

MATRIX_ATOMS = [atom for atom in COPY_ATOMS.values() if "matrix" in atom.ptx]

_HEAD = """
typedef unsigned int u32; typedef unsigned short u16;
"""


def _operand(atom: MMAAtom, operand: Operand, hole: int) -> tuple[str, str, str]:
    """(declaration and loads from the address in %hole, use, stores to the address in %3)."""
    kind, width = {"f32": ("f32", 4), "f64": ("f64", 8)}.get(atom.dtype(operand).name, ("b32", 4))
    names = [f"{operand.lower()}{i}" for i in range(4 * atom.registers(operand) // width)]
    loads = " ".join(f"ld.global.{kind} {x}, [%{hole}+{width * i}];" for i, x in enumerate(names))
    stores = " ".join(f"st.global.{kind} [%3+{width * i}], {x};" for i, x in enumerate(names))
    vector = names[0] if atom.threads == 1 else "{" + ", ".join(names) + "}"
    return f".reg .{kind} {', '.join(names)}; {loads}", vector, stores


def mma_source() -> str:
    """CUDA text of a kernel that runs atom number `which` of WARP_ATOMS in one warp."""
    cases = []
    for i, atom in enumerate(WARP_ATOMS):
        parts = [_operand(atom, operand, hole) for hole, operand in enumerate(OPERANDS)]
        (enter_a, a, _), (enter_b, b, _), (enter_c, c, leave) = parts
        counts = [atom.registers(operand) for operand in (*OPERANDS, "C")]
        inputs = ", ".join(f'"l"({x} + threadIdx.x * {n})' for x, n in zip("abcd", counts, strict=True))
        ptx = f"{enter_a} {enter_b} {enter_c} {atom.ptx} {c}, {a}, {b}, {c}; {leave}"
        cases.append(f'    case {i}: asm volatile("{{{{ {ptx} }}}}" :: {inputs} : "memory"); break;')
    body = "\n".join(cases).replace("{{", "{").replace("}}", "}")
    return (
        f'{_HEAD}extern "C" __global__ void mma_probe(\n'
        f"    int which, const u32* a, const u32* b, const u32* c, u32* d) {{\n"
        f"  if (threadIdx.x >= 32) return;\n  switch (which) {{\n{body}\n  }}\n}}\n"
    )


def matrix_source() -> str:
    """CUDA text of a kernel that runs atom number `which` of MATRIX_ATOMS on 4 matrices of shared memory."""
    cases = []
    for i, atom in enumerate(MATRIX_ATOMS):
        words = max(1, _words(atom))
        registers = "{" + ", ".join(f"%{j}" for j in range(words)) + "}"
        values = ", ".join(f'"+r"(r[{j}])' for j in range(words))
        if atom.ptx.startswith("ldmatrix"):
            text, tail = f"{atom.ptx} {registers}, [%{words}];", ' : "r"(row) : "memory"'
        elif atom.ptx.startswith("stmatrix"):
            text, tail = f"{atom.ptx} [%{words}], {registers};", ' : "r"(row) : "memory"'
        else:
            text, tail = f"{atom.ptx} %0, %0;", ""
        cases.append(f'    case {i}: asm volatile("{text}" : {values}{tail}); break;')
    body = "\n".join(cases)
    return (
        f'{_HEAD}extern "C" __global__ void matrix_probe(\n'
        "    int which, int rows, u32* registers, u32* memory) {\n"
        "  __shared__ __align__(128) u32 tile[128];\n"
        "  if (threadIdx.x >= 32) return;\n"
        "  const u32 lane = threadIdx.x;\n"
        "  for (int i = 0; i < 4; ++i) tile[4 * lane + i] = memory[4 * lane + i];\n"
        "  __syncwarp();\n"
        "  u32 r[4];\n"
        "  for (int i = 0; i < 4; ++i) r[i] = registers[4 * lane + i];\n"
        "  const u32 row = (u32)__cvta_generic_to_shared(tile + 4 * (lane % rows));\n"
        f"  switch (which) {{\n{body}\n  }}\n"
        "  __syncwarp();\n"
        "  for (int i = 0; i < 4; ++i) registers[4 * lane + i] = r[i];\n"
        "  for (int i = 0; i < 4; ++i) memory[4 * lane + i] = tile[4 * lane + i];\n"
        "}\n"
    )


def _words(atom: CopyAtom) -> int:
    """Registers of a lane of a matrix instruction."""
    side = atom.dst_tv if atom.ptx.startswith("ldmatrix") else atom.src_tv
    return len(list(places(side)[0])) // 32


def ask_mma(atom: MMAAtom, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    """Words of D, [lane][word], of words of A, B and C."""
    import cupy

    from tests.gpu.hopper import _function, _launch

    out = cupy.zeros(c.shape, "uint32")
    held = [cupy.asarray(x) for x in (a, b, c)]
    arguments = [ctypes.c_int(WARP_ATOMS.index(atom)), *(ctypes.c_uint64(x.data.ptr) for x in (*held, out))]
    _launch(_function(mma_source(), "mma_probe"), 0, arguments)
    found: NDArray[Any] = out.get()
    return found


def ask_matrix(atom: CopyAtom, rows: int, registers: NDArray[Any], memory: NDArray[Any]) -> tuple[Any, Any]:
    """(registers, memory) after one matrix instruction: [lane][word] and 32 rows of 4 words."""
    import cupy

    from tests.gpu.hopper import _function, _launch

    r, m = cupy.asarray(registers), cupy.asarray(memory)
    numbers = [ctypes.c_int(MATRIX_ATOMS.index(atom)), ctypes.c_int(rows)]
    arguments = [*numbers, *(ctypes.c_uint64(x.data.ptr) for x in (r, m))]
    _launch(_function(matrix_source(), "matrix_probe"), 0, arguments)
    return r.get(), m.get()


_FLOAT_CODES = {"e4m3": {0: 0, 1: 0x38, 2: 0x40}, "e5m2": {0: 0, 1: 0x3C, 2: 0x40}}


def codes_of(values: NDArray[Any], element: DType) -> NDArray[Any]:
    """Integers from -2 to 3 as the bits of an element type, one uint64 each."""
    whole = values.astype(np.int64)
    if element.name in _FLOAT_CODES:
        table = _FLOAT_CODES[element.name]
        coded = [table[abs(x)] | (0x80 if x < 0 else 0) for x in whole.ravel().tolist()]
        return np.array(coded, np.uint64).reshape(whole.shape)
    if element.name in ("f16", "f64"):
        floats = whole.astype(element.numpy_name)
        return floats.view(f"uint{element.bits}").astype(np.uint64)
    if element.name in ("f32", "tf32", "bf16"):
        bits = whole.astype(np.float32).view(np.uint32).astype(np.uint64)
        return bits >> np.uint64(16) if element.name == "bf16" else bits
    return (whole & ((1 << element.bits) - 1)).astype(np.uint64)


def pack(values: NDArray[Any], element: DType) -> NDArray[Any]:
    """(lanes, values) -> (lanes, words): the first value in the lowest bits, zeros above the last."""
    codes = codes_of(values, element)
    if element.bits == 64:
        return np.ascontiguousarray(codes).view(np.uint32)
    per_word = 32 // element.bits
    padded = np.zeros((len(codes), -(-codes.shape[1] // per_word) * per_word), np.uint64)
    padded[:, : codes.shape[1]] = codes
    shifts = (np.arange(per_word) * element.bits).astype(np.uint64)
    words: NDArray[Any] = np.bitwise_or.reduce(padded.reshape(len(codes), -1, per_word) << shifts, axis=2)
    return words.astype(np.uint32)


def unpack(words: NDArray[Any], element: DType) -> NDArray[Any]:
    """(lanes, words) -> (lanes, values) of an accumulator."""
    found: NDArray[Any] = np.ascontiguousarray(words).view(element.numpy_name)
    return found
