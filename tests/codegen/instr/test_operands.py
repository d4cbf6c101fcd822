"""Operands that do not fit their instruction are refused before anything runs."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from layoutalg.codegen.instr import LDG, LDS, STG, Instr
from layoutalg.codegen.instr.record import imm, write
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import MemRef, Reg, RegRef
from layoutalg.codegen.sim import simulate
from layoutalg.errors import IRError, LayoutAlgError, UnsupportedError
from layoutalg.layout import Layout


def _builder() -> tuple[KernelBuilder, dict[str, Any]]:
    k = KernelBuilder("operands", 32)
    things = {
        "x": k.pointer("x", 4),
        "tile": k.shared_buffer("tile", 4, Layout((32,)), 32, 16),
        "v": k.reg("v", 4, 2),
    }
    return k, things


def _refused(k: KernelBuilder, error: type[LayoutAlgError], message: str) -> None:
    with pytest.raises(error, match=message):
        simulate(k.build(), {"x": numpy.zeros(32, dtype=numpy.float32)})


def test_a_register_of_another_size() -> None:
    k, t = _builder()
    k.do(LDG[4], t["v"][0], k.at(t["x"], k.tid))
    _refused(k, IRError, r"operand d of 'ldg32\(v\[0\], x\[tid\]\)' is out of 1 words; it got v\[0\]")


def test_an_int_for_a_register() -> None:
    k, t = _builder()
    k.do(LDG[4], 3, k.at(t["x"], k.tid))
    _refused(k, IRError, "operand d .* is out of 1 words; it got 3")


def test_a_register_index_past_its_mode() -> None:
    k, t = _builder()
    with k.Unroll("i", 5) as i:
        k.do(LDG[8], t["v"][i], k.at(t["x"], 0))
    _refused(k, IRError, r"register index: v\[i\]: i reaches 4, the mode has 4")


def test_the_wrong_space() -> None:
    k, t = _builder()
    k.do(LDS[8], t["v"][0], k.at(t["x"], 0))
    _refused(k, IRError, "space: operand p of lds64 is in shared memory")


def test_a_store_through_a_const_pointer() -> None:
    k, t = _builder()
    k.do(LDG[8], t["v"][0], k.at(t["x"], 0))
    k.do(STG[8], k.at(t["x"], k.tid), t["v"][0])
    _refused(k, IRError, "read only: x is read only and 'stg64")


def test_registers_and_buffers_of_another_kernel() -> None:
    k, t = _builder()
    k.do(LDG[4], Reg("w", (1,)), k.at(t["x"], 0))
    _refused(k, IRError, r"register: w of 'ldg32\(w, x\[0\]\)' is not a register of the kernel")
    k, t = _builder()
    other = KernelBuilder("other", 32).pointer("z", 4)
    k.do(LDG[8], t["v"][0], k.at(other, 0))
    _refused(k, IRError, r"buffer: z of 'ldg64\(v\[0\], z\[0\]\)' is not a buffer of the kernel")


def test_an_engine_nobody_has() -> None:
    k, t = _builder()
    odd = Instr("odd", (write("p", "shared", 4, "st.shared.b32"),), "", engine="dma")
    k.do(odd, k.at(t["tile"], k.tid))
    _refused(k, UnsupportedError, "the simulator has no engine dma, which 'odd")


def test_immediates_reach_the_effect() -> None:
    seen = []
    k, _ = _builder()
    k.do(Instr("pair", (imm("a"), imm("b")), "", lambda machine, group, a, b: seen.append((a, b))), 3, 4)
    simulate(k.build(), {"x": numpy.zeros(32, dtype=numpy.float32)})
    assert seen == [(3, 4)]


def test_registers_lie_side_by_side() -> None:
    """Arrays of several modes, whose words must not overlap."""
    k = KernelBuilder("side", 32)
    y = k.pointer("y", 8, (32, 1), writable=True)
    a, b, c = k.reg("a", 3, 2, 2), k.reg("b", 2, 2), k.reg("c", 2)
    for move in (False, True):
        with k.Unroll("i", 3) as i, k.Unroll("j", 2) as j:
            _move(k, move, a[i, j], k.at(y, i * 2 + j, k.tid))
        with k.Unroll("i2", 2) as i:
            _move(k, move, b[i], k.at(y, i + 6, k.tid))
        _move(k, move, RegRef(c, ()), k.at(y, 8, k.tid))
    data = numpy.arange(9 * 32, dtype=numpy.uint64) * 0x100000001
    scrambled = data.copy()
    simulate(k.build(), {"y": scrambled})
    assert (scrambled == data).all()
    assert k.build().regs == (a, b, c)


def _move(k: KernelBuilder, out: bool, ref: RegRef, place: MemRef) -> None:
    if out:
        k.do(STG[8], place, ref)
    else:
        k.do(LDG[8], ref, place)
