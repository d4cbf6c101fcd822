"""What the compiler makes of accesses to global memory: vectors stay vectors, loads know their space.

A vector store torn into words costs four times the sectors, and a load of a place that could be anywhere (LD
instead of LDG) waits for shared memory too.  Neither changes a result; hardware counters found both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from layoutalg.codegen.gpu import SassInstruction, compile_cubin, disassemble, parse_sass, to_cuda
from layoutalg.codegen.program import Do, For, If, Kernel, Stmt, Unroll
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm.problem import gemm_problem

TARGET = "sm_90a"
OPCODE_BITS = {"STG.E.128": 128, "STG.E.64": 64, "STG.E": 32, "STG.E.U16": 16, "STG.E.U8": 8}


def first(family: str, *asked: Any, which: int = 0) -> Kernel:
    """The first kernel of a configuration of a family."""
    f = FAMILIES[family]
    p = f.problem(*asked)
    return f.launches(p, f.configs(p, TARGET)[which], TARGET).kernels[0]


def of_parts() -> tuple[Kernel, ...]:
    """The kernels of a product in parts, the one that adds them behind."""
    p = gemm_problem(256, 256, 2048, "f64", b_major="mn")
    c = next(c for c in FAMILIES["gemm-simt"].configs(p, TARGET) if c.splits > 1)
    return FAMILIES["gemm-simt"].launches(p, c, TARGET).kernels


def step(family: str, name: str) -> Kernel:
    """A step of a ladder."""
    chosen = FAMILIES[family]
    return chosen.build(chosen.problem(512), chosen.steps[name])


KERNELS: dict[str, Callable[[], Kernel]] = {
    "copy f64, edges": lambda: first("tiled_copy", 99, 500, "f64"),
    "transpose f16, edges": lambda: first("transpose", 320, 500, "f16"),
    "transpose c128, edges": lambda: first("transpose", 333, 199, "c128"),
    "permute f32, edges": lambda: first("permute", (3, 7, 101, 55), (3, 1, 0, 2), "f32"),
    "permute u8, ends": lambda: first("permute", (64, 3, 5, 511), (3, 1, 0, 2), "u8"),
    "permute c128": lambda: first("permute", (5, 60, 60, 3), (0, 3, 1, 2), "c128"),
    "sum of columns f32": lambda: first("sum", (300, 520), (0,), "f32"),
    "softmax of columns f32": lambda: first("softmax", (301, 521), (0,), "f32"),
    "tensor s8": lambda: first("gemm-sm80", 512, 512, 512, "s8", which=1),
    "tensor tf32, edges": lambda: first("gemm-sm80", 500, 500, 500, "tf32"),
    "sums of parts": lambda: of_parts()[-1],
    "SIMT parts f64": lambda: of_parts()[0],
    "SIMT through registers": lambda: step("gemm-simt", "prefetch"),
    "tensor through registers": lambda: step("gemm-sm80", "6 two buffers"),
}


def stores(body: Iterable[Stmt], times: int = 1) -> Counter[int]:
    """Stores to global memory as the program writes them, by bits of a lane; unrolled loops written out."""
    found: Counter[int] = Counter()
    for s in body:
        match s:
            case Do():
                ops = [o.op for o in s.instr.operands if o.op.startswith("st.global.b")]
                found.update({int(op.removeprefix("st.global.b")): times for op in ops})
            case Unroll():
                found += stores(s.body, times * s.count)
            case For():
                found += stores(s.body, times)
            case If():
                found += stores(s.body, times) + stores(s.orelse, times)
            case _:
                pass
    return found


def machine_code(kernel: Kernel) -> tuple[SassInstruction, ...]:
    image = compile_cubin(to_cuda(kernel, TARGET), kernel.name, TARGET).image
    return parse_sass(disassemble(image))[0].instructions


def torn(kernel: Kernel, code: Iterable[SassInstruction]) -> bool:
    """Whether stores are of widths that the program has not, or its widest are too few."""
    written, widest = stores(kernel.body), max(stores(kernel.body))
    made = Counter(OPCODE_BITS[i.opcode] for i in code if i.opcode.startswith("STG"))
    return not set(made) <= set(written) or made[widest] < written[widest]


@pytest.mark.deep(but=("sums of parts",))
@pytest.mark.parametrize("name", KERNELS)
def test_vectors_are_stored_whole_and_places_are_global(name: str) -> None:
    kernel = KERNELS[name]()
    code = machine_code(kernel)
    assert not torn(kernel, code)
    assert not [i.opcode for i in code if i.opcode.partition(".")[0] in ("LD", "ST")]


def test_what_the_checks_would_find() -> None:
    kernel = first("tiled_copy", 320, 500, "f32")
    assert stores(kernel.body) == {128: 5}  # four of a whole tile, one in the loop over the edges
    for opcode, count, is_torn in (("STG.E", 20, True), ("STG.E.128", 4, True), ("STG.E.128", 5, False)):
        assert torn(kernel, [SassInstruction(0, f"{opcode} desc[UR4][R2.64], R4")] * count) == is_torn
