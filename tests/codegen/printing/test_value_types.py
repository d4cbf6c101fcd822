"""What a text says of registers: types, bits that stay bits, names that are used, lines that are short."""

from __future__ import annotations

import re

import numpy as np

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import BYTE_PERMUTE, LDG, STG, fold
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import WIDTH, comment, wrapped
from layoutalg.codegen.printing.value_types import Types
from layoutalg.codegen.program import Kernel, lower, printed
from layoutalg.codegen.sim import simulate
from tests.hostshim import run_cuda_text

LANES = 32
NANS = np.arange(LANES, dtype=np.uint32) * 7919 + np.uint32(0x7F800001)
"""Signalling NaNs with payloads, which arithmetic on floats would quiet."""


def mixed(permutes: int, folds: int) -> Kernel:
    """A register that is taken for bits so often, and for a float so often."""
    k = KernelBuilder("mixed", LANES)
    src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    v, total = k.reg("v", 1), k.reg("total", 1)
    k.do(LDG[4], v, k.at(src, k.tid))
    k.do(LDG[4], total, k.at(src, k.tid))
    for _ in range(permutes):
        k.do(BYTE_PERMUTE, v, v, v, 0x3210)
    for _ in range(folds):
        k.do(fold("sum", 1, 1), total, v)
    k.do(STG[4], k.at(dst, k.tid), total)
    return k.build()


def test_a_register_that_is_two_things_is_converted_where_it_is_the_other() -> None:
    numbers = np.arange(LANES, dtype=np.float32) / 7
    for permutes, folds, kind in ((1, 5, "float"), (2, 1, "u32")):
        kernel = mixed(permutes, folds)
        assert Types(printed(kernel)).word("v") == kind
        text = to_cuda(kernel)
        assert f"{kind} v[1];" in text and "as_" in text
        seen, wanted = np.zeros(LANES, np.uint32), np.zeros(LANES, np.uint32)
        run_cuda_text(text, "mixed", (1,), (LANES,), [numbers.view(np.uint32).copy(), seen])
        simulate(lower(kernel), {"src": numbers.view(np.uint32), "dst": wanted}, trace=False)
        assert seen.tolist() == wanted.tolist()


def test_what_is_only_moved_is_bits() -> None:
    k = KernelBuilder("moved", LANES)
    src, dst, v = k.pointer("src", 4), k.pointer("dst", 4, writable=True), k.reg("v", 1)
    k.do(LDG[4], v, k.at(src, k.tid))
    k.do(STG[4], k.at(dst, k.tid), v)
    text = to_cuda(k.build())
    assert "float" not in text and "const u32* __restrict__ src" in text
    seen = np.zeros_like(NANS)
    run_cuda_text(text, "moved", (1,), (LANES,), [NANS.copy(), seen])
    assert seen.tolist() == NANS.tolist()


def test_floats_pass_memory_as_words() -> None:
    """A register that is computed with keeps the bits of what it is loaded with, too."""
    k = KernelBuilder("kept", LANES)
    src, dst, v, m = k.pointer("src", 4), k.pointer("dst", 4, writable=True), k.reg("v", 4), k.reg("m", 1)
    k.do(LDG[16], v, k.at(src, k.tid * 4))
    k.do(LDG[4], m, k.at(src, k.tid))
    k.do(fold("sum", 4, 1), m, v)
    k.do(STG[16], k.at(dst, k.tid * 4), v)
    text = to_cuda(k.build())
    assert "float v[4];" in text and "float4" not in text and "const float* __restrict__ src" in text
    data, seen = np.tile(NANS, 4), np.zeros(4 * LANES, np.uint32)
    run_cuda_text(text, "kept", (1,), (LANES,), [data.copy(), seen])
    assert seen.tolist() == data.tolist()


def test_what_nobody_reads_is_not_printed() -> None:
    k = KernelBuilder("unused", LANES)
    src, dst, v, w = k.pointer("src", 4), k.pointer("dst", 4, writable=True), k.reg("v", 1), k.reg("w", 1)
    k.let("nothing", k.tid * 3)
    at = k.let("at", k.tid + 0)
    k.do(LDG[4], v, k.at(src, at))
    k.do(STG[4], k.at(dst, at), v)
    text = to_cuda(k.build())
    assert "nothing" not in text and not re.search(rf"\b{w.name}\b", text.partition("{")[2])


def test_lines_are_broken_where_the_fewest_parentheses_are() -> None:
    inner = ", ".join(f"g({'a' * 20}{i})" for i in range(6))
    lines = list(wrapped(f"    f({inner}) + h(1);"))
    assert all(len(line) <= WIDTH for line in lines) and lines[1].startswith("        ")
    assert "".join(line.strip() for line in lines).replace(" ", "") == f"f({inner})+h(1);".replace(" ", "")
    assert list(wrapped('asm("' + "x, " * 60 + '");')) == ['asm("' + "x, " * 60 + '");']  # never in a string
    assert all(len(line) <= WIDTH for line in comment("word " * 60).splitlines())
    assert comment("continued \\") == "// continued /"
