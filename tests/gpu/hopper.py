"""Ask a Hopper GPU: one wgmma on an image of shared memory, one TMA copy into it, each instruction of a warp.

Everything is as small as it can be, so that a wrong address shows: the operands of `wgmma` are whatever bytes
the caller puts into shared memory, and `tma_load` returns all bytes of shared memory that a copy has changed.
Those of a warp take its registers as words in memory, [lane][word], and give them back the same way.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layoutalg.arch import SmemDescriptor, TensorMap, encode_descriptor
from layoutalg.atoms import COPY_ATOMS, MMA_ATOMS, CopyAtom, MMAAtom, Operand, places
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.codegen.gpu.driver import encode_tensor_map
from layoutalg.dtype import DType

MAP_BYTES = 128
"""Size of a tensor map."""

FILL = 0xEE
"""What shared memory holds before a copy."""

_HEAD = """
typedef unsigned char u8; typedef unsigned int u32; typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 opaque[16]; };
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
"""

_WGMMA = """
extern "C" __global__ void __launch_bounds__(128) wgmma_probe(
    const uint4* image, int vectors, u64 desc_a, u64 desc_b, DTYPE* out) {
  extern __shared__ __align__(1024) u8 smem[];
  const u32 base = shared_address(smem);
  if (base & 1023) __trap();
  for (int i = threadIdx.x; i < vectors; i += 128) reinterpret_cast<uint4*>(smem)[i] = image[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  desc_a += base >> 4;
  desc_b += base >> 4;
  DTYPE d[COUNT];
  for (int i = 0; i < COUNT; ++i) d[i] = 0;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{\\n.reg .pred p;\\nsetp.ne.b32 p, %PRED, 0;\\nINSTRUCTION\\n}" : OUTPUTS
               : "l"(desc_a), "l"(desc_b), "r"(0));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < COUNT; ++i) out[i * 128 + threadIdx.x] = d[i];
}
"""

_TMA = """
extern "C" __global__ void tma_probe(
    const __grid_constant__ TensorMap map, int rank, int offset, int bytes, int vectors, uint4* out,
    int* done) {
  extern __shared__ __align__(1024) u8 smem[];
  __shared__ __align__(8) u64 barrier;
  const u32 base = shared_address(smem), mbar = shared_address(&barrier);
  if (base & 1023) __trap();
  for (int i = threadIdx.x; i < vectors; i += 128)
    reinterpret_cast<uint4*>(smem)[i] = make_uint4(0xEEEEEEEEu, 0xEEEEEEEEu, 0xEEEEEEEEu, 0xEEEEEEEEu);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(mbar) : "memory");
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(mbar), "r"(bytes) : "memory");
    const int z = 0;
    COPIES
  }
  int ready = 0;
  for (int i = 0; i < 200000 && !ready; ++i)
    asm volatile("{\\n.reg .pred p;\\nmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\\n"
                 "selp.s32 %0, 1, 0, p;\\n}" : "=r"(ready) : "r"(mbar) : "memory");
  if (threadIdx.x == 0) *done = ready;
  __syncthreads();
  for (int i = threadIdx.x; i < vectors; i += 128) out[i] = reinterpret_cast<uint4*>(smem)[i];
}
"""


def wgmma_source(n: int, a: str, b: str, accumulator: str, trans_a: bool, trans_b: bool) -> str:
    """CUDA text of one wgmma m64nNk; integers take no scales, only 16-bit types take transpositions."""
    k = {"f16": 16, "bf16": 16, "tf32": 8, "b1": 256}.get(a, 32)
    count = n // 2
    registers = ", ".join(f"%{i}" for i in range(count))
    immediates = "" if accumulator == "s32" else ", 1, 1"
    if a in ("f16", "bf16"):
        immediates += f", {int(trans_a)}, {int(trans_b)}"
    operands = f"{{{registers}}}, %{count}, %{count + 1}, p{immediates};"
    instruction = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{accumulator}.{a}.{b} {operands}"
    ctype, constraint = ("int", "+r") if accumulator == "s32" else ("float", "+f")
    outputs = ", ".join(f'"{constraint}"(d[{i}])' for i in range(count))
    body = _WGMMA.replace("DTYPE", ctype).replace("COUNT", str(count)).replace("OUTPUTS", outputs)
    return _HEAD + body.replace("INSTRUCTION", instruction).replace("%PRED", f"%{count + 2}")


def tma_source() -> str:
    """CUDA text of a tensor copy of any rank, from coordinate 0."""
    lines = []
    for rank in range(1, 6):
        zeros = ", ".join(["%3"] * rank)
        lines.append(
            f'if (rank == {rank}) asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile'
            f'.mbarrier::complete_tx::bytes [%0], [%1, {{{zeros}}}], [%2];" '
            f':: "r"(base + offset), "l"(&map), "r"(mbar), "r"(z) : "memory");'
        )
    return _HEAD + _TMA.replace("COPIES", "\n    ".join(lines))


@functools.cache
def _driver() -> ctypes.CDLL:
    import cupy

    cupy.cuda.Device().synchronize()  # the primary context is current from here on
    return ctypes.CDLL("libcuda.so.1")


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA driver error {status}")


@functools.cache
def _function(source: str, name: str) -> ctypes.c_void_p:
    image = compile_cubin(source, name, "sm_90a").image
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(_driver().cuModuleLoadData(ctypes.byref(module), image))
    _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    _check(_driver().cuFuncSetAttribute(function, 8, 200 * 1024))  # MAX_DYNAMIC_SHARED_SIZE_BYTES
    return function


def _launch(function: ctypes.c_void_p, shared_bytes: int, arguments: Sequence[Any]) -> None:
    import cupy

    pointers, none = (ctypes.c_void_p * len(arguments))(*map(ctypes.addressof, arguments)), ctypes.c_void_p(0)
    launch = _driver().cuLaunchKernel
    _check(launch(function, 1, 1, 1, 128, 1, 1, shared_bytes, none, pointers, none))
    cupy.cuda.Device().synchronize()


def wgmma(
    image: NDArray[Any], a: SmemDescriptor, b: SmemDescriptor, n: int, types: tuple[str, str, str],
    transposed: tuple[bool, bool] = (False, False),
) -> NDArray[Any]:  # fmt: skip
    """D (64 x n) of one wgmma whose descriptors address `image`, the bytes of shared memory from 0."""
    import cupy

    accumulator, a_type, b_type = types
    function = _function(wgmma_source(n, a_type, b_type, accumulator, *transposed), "wgmma_probe")
    padded = np.zeros(-(-len(image) // 16) * 16, np.uint8)
    padded[: len(image)] = image
    memory = cupy.asarray(padded)
    out = cupy.zeros((n // 2, 128), "int32" if accumulator == "s32" else "float32")
    count, descriptors = ctypes.c_int(len(padded) // 16), [encode_descriptor(a), encode_descriptor(b)]
    start, *others = map(ctypes.c_uint64, (memory.data.ptr, *descriptors, out.data.ptr))
    _launch(function, len(padded), (start, count, *others))
    values = out.get()
    held = MMA_ATOMS[f"SM90_64x{n}x16_F32F16F16_SS"].c_tv
    d = np.zeros(64 * n, values.dtype)
    d[held(np.arange(64 * n))] = values.reshape(-1)  # value r of thread t is number t + 128 r
    return d.reshape(n, 64).T


def tma_load(
    tensor: NDArray[Any], tensor_map: TensorMap, offset_bytes: int, expected_bytes: int, shared_bytes: int
) -> tuple[bool, NDArray[Any]]:
    """(did all expected bytes arrive, shared memory) after one copy of the first box to `offset_bytes`."""
    import cupy

    memory = cupy.asarray(tensor)
    image = ctypes.create_string_buffer(encode_tensor_map(tensor_map, memory.data.ptr), MAP_BYTES)
    out = cupy.zeros(shared_bytes, "uint8")
    done = cupy.zeros(1, "int32")
    numbers = map(ctypes.c_int, (tensor_map.rank, offset_bytes, expected_bytes, shared_bytes // 16))
    places = map(ctypes.c_uint64, (out.data.ptr, done.data.ptr))
    _launch(_function(tma_source(), "tma_probe"), shared_bytes, (image, *numbers, *places))
    return bool(done.get()[0]), out.get()


# --- mma and matrix instructions of a warp -----------------------------------------------------------------

WARP_ATOMS = [
    atom for name, atom in MMA_ATOMS.items()
    if not name.startswith(("SM90_64x", "SM90_SPARSE")) and atom.instructions == 1
]  # fmt: skip
"""Every mma that is one instruction of at most a warp."""

OPERANDS: tuple[Operand, ...] = ("A", "B", "C")

MATRIX_ATOMS = [atom for atom in COPY_ATOMS.values() if "matrix" in atom.ptx]


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

    out = cupy.zeros(c.shape, "uint32")
    held = [cupy.asarray(x) for x in (a, b, c)]
    arguments = [ctypes.c_int(WARP_ATOMS.index(atom)), *(ctypes.c_uint64(x.data.ptr) for x in (*held, out))]
    _launch(_function(mma_source(), "mma_probe"), 0, arguments)
    found: NDArray[Any] = out.get()
    return found


def ask_matrix(atom: CopyAtom, rows: int, registers: NDArray[Any], memory: NDArray[Any]) -> tuple[Any, Any]:
    """(registers, memory) after one matrix instruction: [lane][word] and 32 rows of 4 words."""
    import cupy

    r, m = cupy.asarray(registers), cupy.asarray(memory)
    numbers = [ctypes.c_int(MATRIX_ATOMS.index(atom)), ctypes.c_int(rows)]
    arguments = [*numbers, *(ctypes.c_uint64(x.data.ptr) for x in (r, m))]
    _launch(_function(matrix_source(), "matrix_probe"), 0, arguments)
    return r.get(), m.get()


_MANTISSA_BITS = {"e4m3": 3, "e5m2": 2}


def codes_of(values: NDArray[Any], element: DType) -> NDArray[Any]:
    """Small integers as the bits of an element type, one uint64 each."""
    whole = values.astype(np.int64)
    if bits := _MANTISSA_BITS.get(element.name):
        codes = np.arange(1 << bits, 127)  # of what is not subnormal
        exact = (1 + codes % (1 << bits) / (1 << bits)) * 2.0 ** (codes // (1 << bits) - (1 << 6 - bits) + 1)
        places = np.searchsorted(exact, abs(whole))
        coded = np.where(whole == 0, 0, codes[places] | np.where(whole < 0, 0x80, 0))
        return coded.astype(np.uint64)
    if element.name in ("f16", "f64"):
        floats = whole.astype(element.numpy_name)
        return floats.view(f"uint{element.bits}").astype(np.uint64)
    if element.name in ("f32", "tf32", "bf16"):
        words = whole.astype(np.float32).view(np.uint32).astype(np.uint64)
        return words >> np.uint64(16) if element.name == "bf16" else words
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
