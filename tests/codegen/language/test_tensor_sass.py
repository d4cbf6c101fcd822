"""Kernels of partitions compile to as few instructions as kernels whose addresses were written by hand."""

from __future__ import annotations

import pytest

from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen import instr as isa
from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, to_cuda, version
from layoutalg.codegen.language import Fragment, KernelBuilder, local_tile
from layoutalg.codegen.program import Kernel
from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout
from tests.codegen.language.test_tensor import transposing_copy
from tests.sweeps import each

NVRTC = (13, 5)
"""The compiler whose instructions are counted."""


def instructions(kernel: Kernel) -> tuple[int, int, int]:
    """Instructions, registers and spilled bytes of a kernel for sm_90."""
    try:
        found = version()
    except LayoutAlgError:
        pytest.skip("NVRTC is not installed")
    if found != NVRTC:
        pytest.skip(f"instructions were counted with NVRTC {NVRTC}, this is {found}")
    cubin = compile_cubin(to_cuda(kernel, "sm_90"), kernel.name, "sm_90a")
    (function,) = parse_sass(disassemble(cubin.image))
    return len(function.instructions), cubin.registers, cubin.spill_bytes


def test_a_transposing_copy_with_ragged_edges() -> None:
    assert instructions(transposing_copy()) == (123, 25, 0)


def softmax(rows: int, cols: int, vec: int, per_block: int, lanes: int, element: str) -> Kernel:
    """Softmax of aligned rows, held in registers: `lanes` threads per row, `per_block` rows per block."""
    nbytes = vec * {"f32": 4, "f16": 2}[element]
    copy = make_tiled_copy(
        "UniversalCopy<uint128_t>", element, Layout((per_block, lanes), (lanes, 1)), Layout((1, vec))
    )
    k = KernelBuilder("softmax", per_block * lanes)
    x = k.tensor("x", element, (rows, cols), (cols, 1))
    y = k.tensor("y", element, (rows, cols), (cols, 1), writable=True)
    (block, _), me = k.grid((rows, cols), (per_block, cols)), k.get_slice(copy)
    s = me.partition_S(local_tile(x, (per_block, cols), (block, 0)))
    d = me.partition_D(local_tile(y, (per_block, cols), (block, 0)))
    largest, total = k.fragment("largest", "f32", (1,)), k.fragment("total", "f32", (1,))
    v = k.load(s)
    wide = v if element == "f32" else k.fragment("wide", "f32", (vec, 1))
    k.do(isa.fill(1), largest, isa.NEUTRAL["max"])
    k.do(isa.fill(1), total, isa.NEUTRAL["sum"])

    def vector(u: object) -> object:
        if element == "f32":
            return v.at(u, values=vec)
        k.do(isa.convert(vec, element, "f32"), wide, v.at(u, values=vec))
        return wide

    def reduce(op: str, found: Fragment) -> None:
        for bit in range(min(5, lanes.bit_length() - 1)):
            k.do(isa.butterfly(op, 1), 1 << bit, found)
        if (warps := lanes // 32) > 1:
            partials = k.shared(f"{op}_partials", "f32", Layout((warps, per_block)))
            with k.If((k.tid % 32).eq(0)):
                k.do(isa.STS[4], partials.at(k.tid // 32 % warps, k.tid // lanes), found)
            k.do(isa.BAR)
            k.do(isa.LDS[4], found, partials.at(k.tid % warps, k.tid // lanes))
            for bit in range(warps.bit_length() - 1):
                k.do(isa.butterfly(op, 1), 1 << bit, found)

    steps = cols // (vec * lanes)
    with k.Unroll("u", steps) as u:
        k.do(isa.fold("max", vec, 1), largest, vector(u * vec))  # type: ignore[arg-type]
    reduce("max", largest)
    with k.Unroll("u", steps) as u:
        k.do(isa.add_exp(vec, 1), total, vector(u * vec), largest)  # type: ignore[arg-type]
    reduce("sum", total)
    k.do(isa.reciprocal(1), total)
    with k.Unroll("u", steps) as u:
        k.do(isa.apply_softmax(vec, 1), vector(u * vec), largest, total)  # type: ignore[arg-type]
        if element != "f32":
            k.do(isa.convert(vec, "f32", element), v.at(u * vec, values=vec), wide)
        k.do(isa.STG_WHOLE[nbytes], d.at(u * vec), v.at(u * vec, values=vec))
    return k.build()


BY_HAND = {
    (8192, 8192, 4, 1, 512, "f32"): (284, 32), (8192, 8192, 8, 1, 256, "f16"): (524, 42),
    (65536, 1024, 4, 1, 64, "f32"): (274, 32), (65536, 1024, 8, 2, 32, "f16"): (488, 56),
    (4096, 4096, 4, 1, 256, "f32"): (280, 32),
}  # fmt: skip
"""Instructions and registers of the same kernels with addresses written by hand."""


@pytest.mark.deep
@each("shape", list(BY_HAND))
def test_softmax_of_aligned_rows(shape: tuple[int, int, int, int, int, str]) -> None:
    count, registers, spilled = instructions(softmax(*shape))
    assert (count <= BY_HAND[shape][0], registers <= BY_HAND[shape][1], spilled) == (True, True, 0)
