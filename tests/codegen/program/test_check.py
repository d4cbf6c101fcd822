"""The grammar of tile programs: each rule refuses its own kind of mistake, by name, and so does a run."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.arch import find_arch
from layoutalg.codegen import instr as isa
from layoutalg.codegen.expr import Const
from layoutalg.codegen.instr import BAR, CP_WAIT, LDG, LDS, STG, STS
from layoutalg.codegen.instr.record import imm, write
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Reg, RegRef
from layoutalg.codegen.program.checks import check, check_available
from layoutalg.codegen.sim import simulate
from layoutalg.errors import AlignmentError, IRError, LayoutAlgError, ResourceError, UnsupportedError
from layoutalg.layout import Layout
from tests.sweeps import each


def parts(threads: int = 128) -> Any:
    """A builder with pointers, shared memory and registers; `other` is another kernel's pointer."""
    k = KernelBuilder("k", threads)
    return SimpleNamespace(
        k=k, tid=k.tid, do=k.do, at=k.at, x=k.pointer("x", 4), y=k.pointer("y", 4, writable=True),
        tile=k.shared_buffer("tile", 4, Layout(128), 128, 128), n=k.param("n", 1 << 20),
        v=k.reg("v", 1), two=k.reg("two", 2), four=k.reg("four", 4), pairs=k.reg("pairs", 4, 2),
        other=KernelBuilder("other", 32).pointer("z", 4),
    )  # fmt: skip


def under(p: Any, condition: Any) -> None:
    with p.k.If(condition):
        p.do(BAR)


def unrolled(p: Any, count: int, statement: Callable[[Any], None]) -> None:
    with p.k.Unroll("i", count) as i:
        statement(i)


def escaped(p: Any) -> None:
    with p.k.For("j", 4) as j:
        pass
    p.do(LDG[4], p.v, p.at(p.x, j))


def shadowed(p: Any) -> None:
    with p.k.For("j", 4), p.k.For("j", 2):
        pass


def divergent(p: Any) -> None:
    with p.k.For("j", p.tid + 1):
        p.do(BAR)


def taken(p: Any) -> None:
    p.do(LDG[4], p.k.reg("ldg32", 1), p.at(p.x, p.tid))


def narrow(p: Any) -> None:
    p.do(LDG[16], p.four, p.at(p.k.pointer("z", 4, align_bytes=4), p.tid * 4))


def pitch(p: Any, multiple: int = 2) -> None:
    x = p.k.pointer("z", 4, (p.k.param("ld", 1 << 16, 4, multiple), 1))
    p.do(LDG[16], p.four, p.at(x, p.tid // 8, p.tid % 8 * 4))


Mistake = tuple[Callable[[Any], object], str, str]
"""A statement, what `check` says of it, and what a run says, where it says something."""

MISTAKES: dict[str, Mistake] = {
    "a grid of threads": (lambda p: p.k.block(0, p.tid + 1), "grid", ""),
    "a variable out of its scope": (escaped, "j is not in scope at 'ldg32", ""),
    "a variable twice": (shadowed, "j is already in scope", ""),
    "more indices than modes": (
        lambda p: p.do(LDG[4], RegRef(p.four, (Const(0), Const(3))), p.at(p.x, 0)), "four has 1 modes", "",
    ),
    "a register index by thread": (lambda p: p.do(LDG[4], p.four[p.tid], p.at(p.x, 0)), "only unroll", ""),
    "a register index past its mode": (
        lambda p: p.do(LDG[4], p.four[4], p.at(p.x, p.tid)), "index 4 of a mode of 4", ""
    ),
    "an unrolled index past its mode": (
        lambda p: unrolled(p, 5, lambda i: p.do(LDG[8], p.pairs[i], p.at(p.x, 0))),
        "index 4 of a mode of 4", r"register index: pairs\[i\]: i reaches 4, the mode has 4",
    ),
    "a slice past its mode": (
        lambda p: unrolled(p, 4, lambda i: p.do(LDG[8], p.four.slice(i, count=2), p.at(p.x, p.tid * 2))),
        "index 4 of a mode of 4", "",
    ),
    "another size": (
        lambda p: p.do(LDG[16], p.two, p.at(p.x, p.tid * 4)),
        "operand d of ldg128 takes 4 words, two has 2", "operand d of .* is out of 4 words; it got two",
    ),
    "a place for a register": (
        lambda p: p.do(LDG[4], p.at(p.x, p.tid), p.v), "operand d of ldg32 is out", "operand d of .* is out",
    ),
    "a number for a register": (
        lambda p: p.do(LDG[4], 3, p.at(p.x, p.tid)), "operand d", "operand d .* is out of 1 words; it got 3"
    ),
    "a register for a number": (lambda p: p.do(CP_WAIT, p.v), "operand newest", ""),
    "another space": (
        lambda p: p.do(LDS[4], p.v, p.at(p.x, p.tid)), "in shared memory", "operand p of lds32 is in shared"
    ),
    "a store to what is read only": (
        lambda p: p.do(STG[4], p.at(p.x, p.tid), p.v), "x is read only", "x is read only and 'stg32"
    ),
    "a vector at odd places": (
        lambda p: p.do(LDG[16], p.four, p.at(p.x, p.tid * 2)),
        "moves 16 bytes a lane, but its address is only known to be 0 mod 8", "",
    ),
    "a pointer of less alignment": (narrow, "z is only aligned to 4", ""),
    "a pitch that is not a multiple": (pitch, "0 mod 8", ""),
    "past the end of a tile": (
        lambda p: p.do(STS[4], p.at(p.tile, p.tid + 128), p.v),
        "leaves its buffer in thread 0 .*: bytes 512 to 515 of tile, which has 512", "",
    ),
    "a barrier of a warp": (lambda p: under(p, p.tid < 32), "block_sync stands where not every thread", ""),
    "a barrier of some, by a name": (lambda p: under(p, p.k.let("part", p.tid // 64) < 1), "converged", ""),
    "a barrier in a loop by thread": (divergent, "converged", ""),
    "a name of an instruction": (taken, "ldg32 is also the name of an instruction", ""),
    "a condition that is a number": (lambda p: under(p, p.tid + 1), "not a comparison", ""),
    "a register of another kernel": (
        lambda p: p.do(LDG[4], Reg("w", (1,)), p.at(p.x, 0)),
        "w is not a register of k", r"register: w of 'ldg32\(w, x\[0\]\)' is not a register of the kernel",
    ),
    "a buffer of another kernel": (
        lambda p: p.do(LDG[4], p.v, p.at(p.other, 0)),
        "z is not a buffer of k", r"buffer: z of 'ldg32\(v, z\[0\]\)' is not a buffer of the kernel",
    ),
    "an engine that nobody has": (
        lambda p: p.do(
            isa.Instr("odd", (write("p", "shared", 4, "st.shared.b32"),), "", engine="dma"),
            p.at(p.tile, p.tid),
        ),
        "", "the simulator has no engine dma, which 'odd",
    ),
}  # fmt: skip


@each("name", MISTAKES)
def test_a_mistake_is_refused_by_name(name: str) -> None:
    statement, checked, ran = MISTAKES[name]
    p = parts()
    statement(p)
    kernel = p.k.build()
    if checked:
        with pytest.raises((IRError, AlignmentError), match=checked):
            check(kernel)
    if ran:
        with pytest.raises((IRError, UnsupportedError), match=ran):
            arrays = {name: np.zeros(512, "f4") for name in "xy"}
            simulate(kernel, arrays | {"n": 1})


def test_a_correct_program_passes_on_every_architecture() -> None:
    p = parts()
    i = p.k.let("i", p.k.block(0, (p.n + 127) // 128) * 128 + p.tid)
    first = p.k.let("first", p.k.block(1, p.n) * 2)
    with p.k.If(i < p.n):
        p.do(LDG[4], p.v, p.at(p.y, i))
        p.do(STG[4], p.at(p.y, i), p.v)
    under(p, first < p.n)
    pitch(p, 4)
    for arch in ("sm_75", "sm_80", "sm_90"):
        check(p.k.build(), arch)


def copies(arch: str = "", words: int = 0, threads: int = 128) -> KernelBuilder:
    """A kernel with a tile, or with asynchronous copies where it has none."""
    k = KernelBuilder("k", threads)
    tile, x = k.shared_buffer("tile", 4, Layout(words or 128), words or 128, 128), k.pointer("x", 4)
    if not words:
        k.do(isa.CP_ASYNC[16], k.at(tile, k.tid % 32 * 4), k.at(x, k.tid * 4))
        k.do(isa.CP_COMMIT)
        k.do(CP_WAIT, 0)
    return k


@each(
    ("k", "arch", "kind", "said"),
    [
        (copies(threads=48), "sm_90", ResourceError, "multiple of 32"),
        (copies(threads=2048), "sm_90", ResourceError, "1024"),
        (copies(words=60 << 10), "sm_90", ResourceError, "of k on sm_90: 245760 asked, the limit is 232448"),
        (copies(words=20 << 10), "sm_75", ResourceError, "sm_75"),
        (copies(), "sm_75", UnsupportedError, "cp_async_16 needs sm_80; sm_75 does not have it$"),
    ],
)
def test_an_architecture_has_limits(
    k: KernelBuilder, arch: str, kind: type[LayoutAlgError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        check(k.build(), arch)
    if arch == "sm_75":
        check(k.build(), "sm_80")
    for other, instead in (
        ("sm_75", "ldmatrix and"),
        ("sm_80", "cp.async, ldmatrix and"),
        ("sm_100", "cp.async, "),
    ):
        said = f"wgmma_fence exists on sm_90a alone; {other} does not have it; {instead}"
        with pytest.raises(UnsupportedError, match=said):
            check_available(isa.WGMMA_FENCE, find_arch(other))


def test_registers_lie_side_by_side() -> None:
    """Arrays of several modes, whose words must not overlap."""
    k = KernelBuilder("side", 32)
    y = k.pointer("y", 8, (32, 1), writable=True)
    a, b, c = k.reg("a", 3, 2, 2), k.reg("b", 2, 2), k.reg("c", 2)
    refs = [*(a[i, j] for i in range(3) for j in range(2)), b[0], b[1], RegRef(c, ())]
    for n, ref in enumerate(refs):
        k.do(LDG[8], ref, k.at(y, n, k.tid))
    for n, ref in enumerate(refs):
        k.do(STG[8], k.at(y, n, k.tid), ref)
    seen = []
    k.do(isa.Instr("pair", (imm("a"), imm("b")), "", lambda machine, group, a, b: seen.append((a, b))), 3, 4)
    data = np.arange(9 * 32, dtype=np.uint64) * 0x100000001
    scrambled = data.copy()
    simulate(k.build(), {"y": scrambled})
    assert (scrambled == data).all() and k.build().regs == (a, b, c) and seen == [(3, 4)]
