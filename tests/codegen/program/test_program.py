"""Statements as generators: effects, their shapes and their poison."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import BAR, LDG, LDS, STG, STS, Instr, Operand
from layoutalg.codegen.instr.record import out
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Kernel, MemRef, Unroll, printed, walk
from layoutalg.codegen.sim import simulate
from layoutalg.errors import IRError, SimulationError
from layoutalg.kernels import FAMILIES
from layoutalg.layout import Layout
from tests.draws.sequences import MATRIX_OPS
from tests.sweeps import each


def _effect_on_one_word(effect: Any, written_bytes: int) -> Kernel:
    """y[tid] = effect(word) where the last bytes of the word were never written."""
    k = KernelBuilder("taint", 32)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    tile, v = k.shared_buffer("tile", 4, Layout((32,)), 32, 16), k.reg("v", 1)
    k.do(LDG[4], v, k.at(x, k.tid))
    for n in range(written_bytes):
        k.do(STS[1], MemRef(tile, k.tid * 4 + n), v)
    k.do(LDS[4], v, k.at(tile, k.tid))
    k.do(Instr("taint_effect", (Operand("d", "inout", 1),), "", lambda machine, group, d: effect(d)), v)
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


EFFECTS = {
    "keeps low bytes": (lambda d: d & numpy.uint32(0xFFFF), 2),
    "needs one more byte": (lambda d: d & numpy.uint32(0x1FFFF), 3),
    "shifts out": (lambda d: d << numpy.uint32(16), 2),
    "adds": (lambda d: d + numpy.uint32(1), 4),
    "cancels": (lambda d: d ^ d, 0),
    "a float sum": (lambda d: (d.view(numpy.float32) + numpy.float32(0)).view(numpy.uint32), 4),
}
"""An effect, and how many bytes of its operand it needs."""


@each("written", range(5))
@each("name", EFFECTS)
def test_poison_goes_where_the_effect_takes_it(name: str, written: int) -> None:
    effect, needed = EFFECTS[name]
    args = {"x": numpy.full(32, 0x3F, dtype=numpy.uint32), "y": numpy.zeros(32, dtype=numpy.uint32)}
    kernel = _effect_on_one_word(effect, written)
    if written >= needed:
        simulate(kernel, args)
    else:
        with pytest.raises(SimulationError, match=r"thread 0 .* stores uninitialised shared memory to y"):
            simulate(kernel, args)


@pytest.mark.parametrize(
    "result",
    [
        None,
        numpy.zeros((32, 2), numpy.uint32),
        numpy.zeros(32, numpy.uint32),
        numpy.zeros((32, 1), numpy.int64),
    ],
    ids=["nothing", "too wide", "flat", "not u32"],
)
def test_an_effect_returns_what_its_operands_declare(result: Any) -> None:
    k = KernelBuilder("shapes", 32)
    k.do(Instr("odd", (out("d", 1),), "", lambda machine, group: result), k.reg("v", 1))
    with pytest.raises(IRError, match=r"odd must return uint32 of 32 x \[1\], returned"):
        simulate(k.build(), {})


def test_an_effect_may_have_several_outputs_and_is_as_wide_as_it_runs() -> None:
    widths = []

    def swap(machine: Any, group: Any, a: Any, b: Any) -> Any:
        widths.append((group.lanes, a.shape))
        return b, a

    k = KernelBuilder("swap", 128)
    y, v = k.pointer("y", 4, writable=True), k.reg("v", 2, 1)
    both = (Operand("a", "inout", 1), Operand("b", "inout", 1))
    for n in range(2):
        k.do(LDG[4], v[n], k.at(y, k.tid + 128 * n))
    k.do(Instr("swap_words", both, "", swap), v[0], v[1])
    for n in range(2):
        k.do(STG[4], k.at(y, k.tid + 128 * n), v[n])
    data = numpy.arange(256, dtype=numpy.uint32)
    for group in ("block", "warp"):
        simulate(k.build(), {"y": data}, group=group)
    assert data.tolist() == list(range(256)) and widths == [(128, (128, 1)), *[(32, (32, 1))] * 4]


@given(st.integers(0, 5), st.integers(1, 4), st.integers(0, 3))
def test_loops_nest(trips: int, unrolled: int, below: int) -> None:
    seen: list[int] = []
    k = KernelBuilder("nest", 32)
    v = k.reg("v", unrolled, 1)
    n = k.param("n", 10, least=0)
    zero = Instr(
        "zero", (out("d", 1),), "", lambda machine, group: numpy.zeros((group.lanes, 1), dtype=numpy.uint32)
    )
    probe = Instr("probe", (), "", lambda machine, group: seen.append(1))
    with k.For("a", n) as a, k.Unroll("b", unrolled) as b:
        k.do(zero, v[b])
        with k.If(a < below):
            k.do(probe)
    run = simulate(k.build(), {"n": trips})
    assert run.executed["zero"] == (trips * unrolled,)
    assert len(seen) == run.executed["probe"][0] == min(trips, below) * unrolled


# --- the program that is printed ----------------------------------------------------------------------


@pytest.mark.parametrize("name", MATRIX_OPS)
def test_its_text_is_the_kernels(name: str) -> None:
    family = FAMILIES[name]
    p = family.problem(70, 44, "f16")
    for config in family.configs(p, "sm_90"):
        kernel = family.build(p, config)
        assert print_kernel(printed(kernel)) == to_cuda(kernel)
        assert not any(isinstance(s, Unroll) and s.count == 1 for s in walk(printed(kernel).body))
    k = KernelBuilder("divided", threads=64)
    with k.If(k.tid < 7):
        k.do(BAR)
    with pytest.raises(IRError, match="block_sync"):
        printed(k.build())
