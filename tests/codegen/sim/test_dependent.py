"""Kernels that may start early: they wait first, what they read then is fresh, and results stay the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import compile_cubin, disassemble, to_cuda
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Global, Kernel, LaunchSequence, MemRef, calls, dependent, overlapped
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import norm_problem, plans, reduce_problem
from layoutalg.kernels.rowwise.families import sequence_of
from tests.draws.sequences import launches_of

PROBLEMS = (
    reduce_problem((1 << 26,), 0, "sum", "f32"), reduce_problem((65536, 1024), 0, "max", "f16"),
    norm_problem("softmax", (40000, 24), 0, "bf16"), norm_problem("layer_norm", (40001, 33), 0, "f32"),
    norm_problem("softmax", (1, 1 << 20), 1, "f32", in_place=True),
)  # fmt: skip
EVERY = pytest.mark.parametrize("problem", PROBLEMS, ids=str)


def loads(kernel: Kernel) -> list[tuple[str, str]]:
    """Every load from global memory: the instruction, and the pointer."""
    return [
        (s.instr.name, arg.buffer.name)
        for s in calls(kernel.body)
        for operand, arg in s.pairs
        if operand.role == "read" and isinstance(arg, MemRef) and isinstance(arg.buffer, Global)
    ]


@EVERY
def test_what_the_first_kernel_writes_is_read_behind_the_wait_and_nothing_else(problem: Any) -> None:
    chain, before = launches_of(problem, "sm_90a"), launches_of(problem, "sm_80")
    first, second = chain.kernels
    assert (first.dependent, second.dependent) == (False, True)
    assert str(second).splitlines()[1].strip() == "grid_wait()" and "grid_wait" not in str(first)
    buffer = dict(zip((p.name for p in second.params), chain.buffers[1], strict=True))
    read = {(buffer[pointer], name.endswith("_fresh")) for name, pointer in loads(second)}
    kept = {(other, False) for other in set(chain.buffers[1]) - {"scratch"} if (other, False) in read}
    assert read == {("scratch", True), *kept}
    assert not any(name.endswith("_fresh") for name, _ in loads(first))
    assert overlapped(before, "sm_80") == before and len(before.kernels) == 2
    for kernel in before.kernels:
        assert not kernel.dependent and "grid_wait" not in str(kernel) and "_fresh" not in str(kernel)
    with pytest.raises(UnsupportedError, match="grid_wait"):
        to_cuda(second, "sm_80")


@pytest.mark.deep(but=("1",))
@pytest.mark.parametrize("nbytes", LDG)
def test_loads_of_every_width_stay_behind_the_wait(nbytes: int) -> None:
    k = KernelBuilder("read", threads=32)
    v, each = k.reg("v", max(1, nbytes // 4)), min(nbytes, 16)
    partial, dst = (
        k.pointer(name, each, writable=name == "dst", align_bytes=32) for name in ("scratch", "dst")
    )
    with k.If(k.tid < 9):
        k.do(LDG[nbytes], v, k.at(partial, k.tid * (nbytes // each)))
        k.do(STG[nbytes], k.at(dst, k.tid * (nbytes // each)), v)
    arch = "sm_90" if nbytes < 32 else "sm_100"
    kernel = dependent(k.build(), ["scratch"], arch)
    assert loads(kernel) == [(f"ldg{8 * nbytes}_fresh", "scratch")]
    text = disassemble(compile_cubin(to_cuda(kernel, arch), "read", arch).image)
    suffix = {1: ".U8", 2: ".U16", 4: "", 8: ".64", 16: ".128", 32: ".ENL2.256"}[nbytes]
    assert re.findall(r"\b(ACQBULK|LDG\S*)", text) == ["ACQBULK", f"LDG.E{suffix}"]


SPLIT = next(p for p in plans(reduce_problem((8000, 4), 0, "sum", "f32")) if len(p.passes) == 2)
SMALL = (sequence_of(SPLIT), launches_of(norm_problem("softmax", (9000, 4), 0, "f32"), "sm_80"))


@pytest.mark.parametrize("chain", SMALL, ids=lambda chain: str(chain.kernels[0].name))
def test_the_simulator_gives_the_same_bits(chain: LaunchSequence) -> None:
    src = np.random.default_rng(3).standard_normal(36000).astype("f4")
    results = []
    for one in (chain, overlapped(chain, "sm_90")):
        dst = np.zeros(36000, "u4")
        simulate_sequence(one, {"src": src.view("u4"), "dst": dst})
        results.append(dst)
    assert (results[0] == results[1]).all() and results[0].any()


@pytest.mark.deep(but=("sum of (67108864) over (0) f32, src (1) -> dst (0)",))
@EVERY
def test_machine_code_waits_first_and_loads_what_is_fresh_past_the_read_only_path(problem: Any) -> None:
    second = launches_of(problem, "sm_90a").kernels[1]
    text = disassemble(compile_cubin(to_cuda(second, "sm_90a"), second.name, "sm_90a").image)
    memory = re.findall(r"\b(ACQBULK|LDG\S*|STG\S*)", text)
    assert memory[0] == "ACQBULK" and memory.count("ACQBULK") == 1
    assert any(op.startswith("LDG") and "CONSTANT" not in op for op in memory)
