"""What the compiler makes of accesses to global memory: vectors stay vectors, loads know their space.

A vector store torn into words costs four times the sectors, and a load of a place that could be anywhere (LD
instead of LDG) waits for shared memory too.  Neither changes a result; hardware counters found both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from layoutalg.codegen.gpu import SassInstruction, compile_cubin, disassemble, parse_sass, to_cuda
from layoutalg.codegen.program import Do, For, If, Kernel, Stmt, Unroll
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.programs import simt as gemm_simt
from layoutalg.kernels.gemm.programs import sm80 as gemm_sm80
from layoutalg.kernels.gemm.work.splitk import build_combine
from layoutalg.kernels.move.plan import configs as permute_configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.programs import permute as permute_family
from layoutalg.kernels.rowwise import norm_problem, plans, reduce_problem
from layoutalg.kernels.rowwise.programs import norm as norm_family
from layoutalg.kernels.rowwise.programs import reduce as reduce_family

TARGET = "sm_90a"
OPCODE_BITS = {"STG.E.128": 128, "STG.E.64": 64, "STG.E": 32, "STG.E.U16": 16, "STG.E.U8": 8}


def matrix(name: str, m: int, n: int, dtype: str) -> Kernel:
    p = FAMILIES[name].problem(m, n, dtype)
    return FAMILIES[name].build(p, FAMILIES[name].configs(p, "sm_90")[0])


def permute(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> Kernel:
    x = normalise(permute_problem(shape, axes, dtype))
    return permute_family.build(x, permute_configs(x)[0])


def reduction(shape: tuple[int, ...], axes: int, dtype: str) -> Kernel:
    return reduce_family.build(plans(reduce_problem(shape, axes, "sum", dtype))[0])[0]


def norm(shape: tuple[int, ...], axes: int, dtype: str) -> Kernel:
    return norm_family.plan(norm_problem("softmax", shape, (axes,), dtype)).kernels[-1]


def tensor(n: int, dtype: str, which: int) -> Kernel:
    p = gemm_problem(n, n, n, dtype)
    return gemm_sm80.build(p, [c for c in SM80.configs(p, TARGET) if c.splits == 1][which])


def parts(dtype: str) -> Kernel:
    p = gemm_problem(256, 256, 2048, dtype, b_major="mn")
    return gemm_simt.build(p, next(c for c in SIMT.configs(p, TARGET) if c.splits > 1))


def step(family: str, name: str) -> Kernel:
    chosen = FAMILIES[family]
    return chosen.build(chosen.problem(512), chosen.steps[name])


KERNELS: dict[str, Callable[[], Kernel]] = {
    "copy f32, edges": lambda: matrix("tiled_copy", 320, 500, "f32"),
    "copy f64, edges": lambda: matrix("tiled_copy", 99, 500, "f64"),
    "transpose f16, edges": lambda: matrix("transpose", 320, 500, "f16"),
    "transpose c128, edges": lambda: matrix("transpose", 333, 199, "c128"),
    "permute f32, edges": lambda: permute((3, 7, 101, 55), (3, 1, 0, 2), "f32"),
    "permute c128": lambda: permute((5, 60, 60, 3), (0, 3, 1, 2), "c128"),
    "sum of columns f32": lambda: reduction((300, 520), 0, "f32"),
    "softmax of columns f32": lambda: norm((301, 521), 0, "f32"),
    "tensor s8": lambda: tensor(512, "s8", 1),
    "tensor tf32, edges": lambda: tensor(500, "tf32", 0),
    "tensor f16, edges": lambda: tensor(500, "f16", 0),
    "sums of parts": lambda: build_combine(gemm_problem(256, 256, 2048, "f16")),
    "SIMT parts f64": lambda: parts("f64"),
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
    kernel = matrix("tiled_copy", 320, 500, "f32")
    assert stores(kernel.body) == {128: 5}  # four of a whole tile, one in the loop over the edges
    words = [SassInstruction(0, "STG.E desc[UR4][R2.64], R4")] * 20
    assert torn(kernel, words)
    assert torn(kernel, [SassInstruction(0, "STG.E.128 desc[UR4][R2.64], R4")] * 4)
    assert not torn(kernel, [SassInstruction(0, "STG.E.128 desc[UR4][R2.64], R4")] * 5)
