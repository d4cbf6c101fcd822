"""The printed CUDA text: goldens, widths, names that never reach it, and what the compiler makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import HELPERS_BEGIN, HELPERS_END, print_kernel
from layoutalg.codegen.program import dynamic_bytes
from layoutalg.errors import ResourceError, UnsupportedError
from layoutalg.kernels import FAMILIES
from layoutalg.layout import Layout
from tests.draws.sequences import MATRIX_OPS
from tests.sweeps import each, first

GOLDENS = [
    ("transpose", "f32", 0), ("transpose", "f16", 0), ("transpose", "u8", 0), ("transpose", "c128", 0),
    ("tiled_copy", "f32", 0), ("tiled_copy", "f32", 1), ("tiled_copy", "u8", 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "which"), GOLDENS)
def test_golden(name: str, dtype: str, which: int, golden: Callable[[str, str], None]) -> None:
    family = FAMILIES[name]
    p = family.problem(4096, 4096, dtype)
    text = to_cuda(family.build(p, family.configs(p, "sm_90")[which]))
    golden(f"{name}_{dtype}_{which}.cu", text)


@pytest.mark.parametrize("arch", first(1, ["sm_90a", "sm_80"]))
@each("dtype", ["u8", "f16", "f32", "f64", "c128"], sample=1)
@each("name", MATRIX_OPS, sample=1)
def test_every_configuration_compiles_without_spills(name: str, dtype: str, arch: str) -> None:
    family = FAMILIES[name]
    for leading in (4096, 4097):
        p = family.problem(4096, 4096, dtype, leading, leading)
        for config in family.configs(p, arch):
            kernel = family.build(p, config)
            cubin = compile_cubin(to_cuda(kernel, arch), kernel.name, arch)
            assert cubin.spill_bytes == 0
            assert cubin.registers * kernel.threads <= 65536
            assert cubin.shared_bytes == kernel.shared_bytes - dynamic_bytes(kernel)


def test_offsets_past_32_bits_make_64_bit_index_code() -> None:
    family = FAMILIES["transpose"]
    for edge, wide in ((1 << 15, False), (1 << 17, True)):
        p = family.problem(edge, edge, "u8")
        kernel = family.build(p, family.configs(p, "sm_90")[0])
        text = to_cuda(kernel)
        body = text[text.index("{", text.index("__global__")) :]
        assert ("(u64)" in body) == wide
        compile_cubin(text, kernel.name, "sm_90a")


@pytest.mark.parametrize(("most", "kind"), [((1 << 32) - 1, "u32"), (1 << 32, "u64")])
def test_a_loop_counts_in_a_type_that_holds_its_end(most: int, kind: str) -> None:
    """Its variable stays below 2^32, but what ends the loop is that it reaches the count."""
    k = KernelBuilder("k", 32)
    n, x, v = k.param("n", most), k.pointer("x", 4), k.reg("v", 1)
    with k.For("i", n):
        k.do(LDG[4], v, k.at(x, k.tid))
    assert f"for ({kind} i = 0; i < n; ++i)" in to_cuda(k.build())


def test_only_used_helpers_are_printed_and_two_of_one_name_are_refused() -> None:
    k = KernelBuilder("k", threads=32)
    x, r = k.pointer("x", 4, writable=True), k.reg("r", 1)
    k.do(LDG[4], r, k.at(x, k.tid))
    k.do(STG[4], k.at(x, k.tid), r)
    text = to_cuda(k.build())
    helpers = text[text.index(HELPERS_BEGIN) : text.index(HELPERS_END)]
    assert re.findall(r"void (\w+)\(", helpers) == ["ldg32", "stg32"]
    k.do(replace(LDG[4], text="void ldg32(u32& d, const void* p) {}"), r, k.at(x, k.tid))
    with pytest.raises(UnsupportedError, match="two different instructions are named ldg32"):
        to_cuda(k.build())


def test_a_note_cannot_leave_its_comment() -> None:
    k = KernelBuilder("k", threads=32, notes=["harmless\nint evil;", "continued \\", "carriage\rint evil;"])
    text = print_kernel(k.build())
    assert [line for line in text.splitlines() if "evil" in line] == ["// int evil;", "// int evil;"]
    assert "\\" not in text
    compile_cubin(text, "k", "sm_80")


def test_more_than_48_kb_of_shared_memory_is_dynamic() -> None:
    family = FAMILIES["transpose"]
    p = family.problem(8192, 8192, "u8")
    kernel = family.build(p, family.configs(p, "sm_90")[0])
    assert kernel.shared_bytes == 64 * 1024
    assert dynamic_bytes(kernel)
    assert "extern __shared__" in to_cuda(kernel)
    with pytest.raises(ResourceError, match="shared memory bytes"):
        k = KernelBuilder("k", threads=32)
        k.shared_buffer("tile", 4, Layout(1 << 16), 1 << 16, 128)
        to_cuda(k.build())
