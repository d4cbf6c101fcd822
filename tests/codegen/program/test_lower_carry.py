"""Places that a loop carries: the lowered program addresses what the written one does, whatever the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr, Var, evaluate, total, variables
from layoutalg.codegen.instr import BAR, LDG, LDS, STG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Do, For, Global, If, Kernel, Let, MemRef, Unroll, lower, walk
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.lowering import parted
from layoutalg.codegen.program.tile import Carry
from layoutalg.codegen.sim import simulate
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.hostshim import run_cuda_text
from tests.sweeps import each

THREADS, OUTER, INNER, UNROLLED = 32, 3, 2, 2
SIZES = {"n": 5, "m": 3}
VISITS = OUTER * INNER * UNROLLED * THREADS

Index = Callable[["Places"], Expr]


class Places:
    """The variables a source index may use, at the place of the load."""

    def __init__(self, k: KernelBuilder, **variables: Var) -> None:
        self.k, self.tid, self.block, self.lets = k, k.tid, k.block(0, 2), 0
        self.n, self.m, self.kt, self.j, self.u, self.before = (
            variables[name] for name in ("n", "m", "kt", "j", "u", "before")
        )

    def let(self, value: Expr) -> Var:
        """A let of the loop's body."""
        self.lets += 1
        return self.k.let(f"inner{self.lets}", value)


def gather(*indices: Index, divergent: bool = False, inner: int = INNER) -> Kernel:
    """out_b[visit] = x_b[index], of one or more buffers, in a loop in a loop with an unroll in it."""
    k = KernelBuilder("gather", THREADS)
    n, m = k.param("n", 7), k.param("m", 4)
    names = range(len(indices))
    sources = [k.pointer(f"x{b}", 4) for b in names]
    targets = [k.pointer(f"y{b}", 4, writable=True) for b in names]
    v = k.reg("v", 1)
    block = k.block(0, 2)
    before = k.let("before", k.tid // 4 * 3 + block)
    limit = k.tid % 3 + 1 if divergent else Const(OUTER)
    with k.For("kt", limit) as kt, k.For("j", inner) as j, k.Unroll("u", UNROLLED) as u:
        p = Places(k, n=n, m=m, kt=kt, j=j, u=u, before=before)
        visit = (((block * OUTER + kt) * inner + j) * UNROLLED + u) * THREADS + k.tid
        for source, target, index in zip(sources, targets, indices, strict=True):
            k.do(LDG[4], v, k.at(source, index(p)))
            k.do(STG[4], k.at(target, visit), v)
    return k.build()


def run(kernel: Kernel, **options: Any) -> list[np.ndarray]:
    """What every target buffer holds in the end; a source holds its own indices."""
    args: dict[str, Any] = dict(SIZES)
    for p in kernel.params:
        if isinstance(p, Global):
            size = 2 * VISITS if p.writable else 1 << 16
            args[p.name] = np.full(size, -1, np.int32) if p.writable else np.arange(size, dtype=np.int32)
    simulate(kernel, args, trace=False, **options)
    return [args[p.name] for p in kernel.params if isinstance(p, Global) and p.writable]


def alike(kernel: Kernel, **given: Any) -> tuple[Kernel, dict[str, Any]]:
    """The lowered program, and what it, the written one and the printed text all leave in these arrays."""
    lowered, found = lower(kernel), []
    check(lowered)
    for one in (kernel, lowered, None):
        args = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in given.items()}
        if one is None:
            run_cuda_text(print_kernel(lowered), kernel.name, (1,), (THREADS,), list(args.values()))
        else:
            simulate(one, args, trace=False)
        found.append(args)
    for args in found[1:]:
        for name, x in found[0].items():
            np.testing.assert_array_equal(args[name], x)
    return lowered, found[0]


def carries(kernel: Kernel) -> list[Carry]:
    return [c for s in walk(kernel.body) if isinstance(s, For) for c in s.carry]


def assert_lowers(kernel: Kernel) -> Kernel:
    check(kernel)
    lowered = lower(kernel)
    check(lowered)
    for options in ({"group": "block"}, {"group": "warp", "seed": 1}):
        for wanted, got in zip(run(kernel, **options), run(lowered, **options), strict=True):
            np.testing.assert_array_equal(wanted, got)
    return lowered


CASES: dict[str, tuple[Index, int]] = {
    "one place": (lambda p: p.tid + p.kt * 32, 1),
    "a step that is a parameter": (lambda p: (p.kt * 2 + p.tid) * p.n + p.j, 1),
    "a step of two parameters": (lambda p: p.tid + p.kt * p.n * p.m, 1),
    "a step by thread": (lambda p: p.kt * p.tid + p.u, 1),
    "two terms of one loop": (lambda p: p.kt * 8 + p.tid + p.kt * p.n, 1),
    "from the start": (lambda p: p.kt * 4 + p.u, 1),
    "an inner loop": (lambda p: p.tid * p.n + p.kt * 64 + p.j * 16 + p.u * 4, 1),
    "a block": (lambda p: p.block * 100 + p.tid + p.kt * p.m * 32, 1),
    "a let before": (lambda p: p.before * p.n + p.kt * 4, 1),
    "a let inside": (lambda p: p.let(p.kt % 2 * 32 + p.tid) + p.kt * 64, 1),
    "a let of the loop alone": (lambda p: p.let(p.kt * 64) + p.tid, 0),
    "a let inside that scales": (lambda p: p.let(p.j + 1) * p.kt + p.tid, 0),
    "a ring": (lambda p: p.kt % 2 * 64 + p.tid, 0),
    "a ring and a step": (lambda p: p.kt % 2 * 64 + p.kt * 128 + p.tid, 1),
    "a square": (lambda p: p.kt * p.kt * 32 + p.tid, 0),
    "an unrolled factor": (lambda p: p.kt * p.u + p.tid, 0),
    "no loop": (lambda p: p.tid * p.n + p.j, 0),
}


@each("divergent", [False, True], ids=["together", "divergent"])
@each("name", CASES, sample=5)
def test_a_carried_place_is_where_the_index_was(name: str, divergent: bool) -> None:
    index, count = CASES[name]
    lowered = assert_lowers(gather(index, divergent=divergent))
    loaded = [c for c in carries(lowered) if not c.buffer.writable]
    assert len(loaded) == count
    assert_lowers(lowered)
    assert len(carries(lower(lowered))) == len(carries(lowered))


def test_what_shares_a_place() -> None:
    """What lies further by a constant does, another buffer does not, and names are not taken twice."""
    index, _ = CASES["one place"]
    lowered = assert_lowers(gather(index, index))
    assert sorted(c.var.name for c in carries(lowered)) == ["x0_at0", "x1_at0", "y0_at0", "y1_at0"]
    k = KernelBuilder("k", THREADS)
    x, y, v = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.reg("x_at0", 1)
    inner = k.let("x_at1", k.tid * 2)
    with k.For("kt", 3) as kt:
        for i, ahead in enumerate((8, 9, 2, 4)):
            k.do(LDG[4], v, k.at(x, inner + kt * 64 + ahead))
            with k.If(kt * 32 + k.tid < 70):
                k.do(STG[4], k.at(y, k.tid + kt * 32 + 96 * i), v)
    lowered, found = alike(k.build(), x=np.arange(300, dtype=np.int32), y=np.zeros(4 * 96, dtype=np.int32))
    assert [c.var.name for c in carries(lowered)] == ["x_at2", "y_at0", "x_at3"]
    wanted = np.arange(96) * 2 + np.array([[8], [9], [2], [4]])
    assert (found["y"].reshape(4, 96)[:, :70] == wanted[:, :70]).all()
    assert [str(s.condition) for s in walk(lowered.body) if isinstance(s, If)] == ["kt * 32 + tid < 70"] * 4


def test_an_index_past_32_bits_keeps_its_width_and_its_step_too() -> None:
    k = KernelBuilder("k", THREADS)
    ld = k.param("ld", 1 << 30)
    x, y, v = k.pointer("x", 4, (ld, 1)), k.pointer("y", 4, writable=True), k.reg("v", 1)
    with k.For("kt", 3) as kt:
        k.do(LDG[4], v, k.at(x, kt * 8 + k.tid // 4, k.tid % 4))
        k.do(STG[4], k.at(y, kt * 32 + k.tid), v)
    source = np.arange(24 * 20, dtype=np.int32)
    lowered, found = alike(k.build(), ld=20, x=source, y=np.zeros(96, dtype=np.int32))
    text = print_kernel(lowered)
    assert "x + (u64)(tid / 4) * ld + tid % 4;" in text and "x_at0 += (u64)ld * 8" in text
    assert (found["y"].reshape(24, 4) == source.reshape(24, 20)[:, :4]).all()


def test_branches_and_unrolls_around_a_loop_restart_its_places() -> None:
    k = KernelBuilder("k", THREADS)
    x, y, v = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.reg("v", 1)
    with k.Unroll("r", 2) as r:
        with k.If(k.tid < 20), k.For("kt", 3) as kt:
            k.do(LDG[4], v, k.at(x, k.tid + kt * 40 + r * 7))
            k.do(STG[4], k.at(y, (r * 3 + kt) * 32 + k.tid), v)
        with k.Else(), k.For("kt", 2) as kt:
            k.do(LDG[4], v, k.at(x, k.tid * 2 + kt * 50))
            k.do(STG[4], k.at(y, (r * 3 + kt) * 32 + k.tid), v)
    lowered, _ = alike(k.build(), x=np.arange(400, dtype=np.int32), y=np.full(192, -1, dtype=np.int32))
    names = [c.var.name for c in carries(lowered)]
    assert len(names) == len(set(names)) == 4


@pytest.mark.parametrize("opened", ["unroll", "branch"])
def test_scopes_that_are_opened_do_not_name_a_thing_twice(opened: str) -> None:
    k = KernelBuilder("k", THREADS)
    y, v = k.pointer("y", 4, writable=True), k.reg("v", 1)
    k.do(LDG[4], v, k.at(y, k.tid))
    for i in range(2):
        with k.Unroll("i", 1) if opened == "unroll" else k.If(Const(0) < Const(1)):
            to = k.let("to", k.tid + 32 * (i + 1))
            k.do(STG[4], k.at(y, to), v)
    lowered, found = alike(k.build(), y=np.arange(96, dtype=np.int32))
    assert not any(isinstance(s, Unroll) for s in walk(lowered.body))
    assert (found["y"].reshape(3, 32) == np.arange(32)).all()


STAGES = 3
RING = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((16, 64), (64, 1)))


def test_the_place_in_a_ring_stays_outside_the_swizzle() -> None:
    """(A(t) ^ Cx(u)) + kt % S * bytes + Ca(u): one base for every stage and step."""
    k = KernelBuilder("k", THREADS)
    ring = k.shared_buffer("ring", 2, RING, STAGES * 1024, 1024)
    x, y, v = k.pointer("x", 16), k.pointer("y", 16, writable=True), k.reg("v", 4)

    def staged(kt: Expr, u: Expr) -> MemRef:
        at = k.at(ring, k.tid // 8 + u * 4, k.tid % 8 * 8)
        return MemRef(at.buffer, at.index + kt % STAGES * 2048)

    with k.For("kt", 7) as kt:
        with k.Unroll("u", 4) as u:
            k.do(LDG[16], v, k.at(x, (kt * 4 + u) * 32 + k.tid))
            k.do(STS[16], staged(kt, u), v)
        k.do(BAR)
        with k.Unroll("u", 4) as u:
            k.do(LDS[16], v, staged(kt, u))
            k.do(STG[16], k.at(y, (kt * 4 + u) * 32 + k.tid), v)
    kernel, source = k.build(), np.random.default_rng(1).integers(0, 1 << 30, 7 * 128 * 4).astype(np.int32)
    lowered, found = alike(kernel, x=source.view(np.uint8), y=np.zeros(source.nbytes, np.uint8))
    np.testing.assert_array_equal(found["y"].view(np.int32), source)
    hoisted = [s for s in lowered.body if isinstance(s, Let)]
    assert len(hoisted) == 1 and variables(hoisted[0].value) == {kernel.tid}
    args = (arg for s in walk(lowered.body) if isinstance(s, Do) for arg in s.args)
    shared = [arg for arg in args if isinstance(arg, MemRef) and not isinstance(arg.buffer, Global)]
    assert shared and all(kernel.tid not in variables(place.index) for place in shared)


ATOMS: dict[str, Index] = {
    "tid": lambda p: p.tid, "tid * n": lambda p: p.tid * p.n, "tid // 8 * m": lambda p: p.tid // 8 * p.m,
    "kt * 16": lambda p: p.kt * 16, "kt * n * 4": lambda p: p.kt * p.n * 4,
    "(kt + tid) * m": lambda p: (p.kt + p.tid) * p.m, "n * (kt * 2 + u)": lambda p: p.n * (p.kt * 2 + p.u),
    "kt % 2": lambda p: p.kt % 2 * 8, "kt ^ tid": lambda p: p.kt * 4 ^ p.tid, "j * 32": lambda p: p.j * 32,
    "j * kt": lambda p: p.j * p.kt, "u * m": lambda p: p.u * p.m, "u": lambda p: p.u,
    "block": lambda p: p.block * 50, "before": lambda p: p.before, "before * kt": lambda p: p.before * p.kt,
    "inner let": lambda p: p.let(p.kt * 3 + p.tid % 4), "inner let of tid": lambda p: p.let(p.tid * 3) * p.kt,
    "9": lambda p: Const(9),
}  # fmt: skip

TERMS = st.lists(st.sampled_from(sorted(ATOMS)), min_size=1, max_size=5)


def summed(names: list[str]) -> Index:
    return lambda p: total(ATOMS[name](p) for name in names)


@pytest.mark.deep
@settings(max_examples=40, deadline=None)
@given(st.lists(TERMS, min_size=1, max_size=2), st.booleans(), st.integers(1, 2))
def test_random_loops_address_the_same(indices: list[list[str]], divergent: bool, inner: int) -> None:
    kernel = gather(*(summed(names) for names in indices), divergent=divergent, inner=inner)
    assert_lowers(assert_lowers(kernel))


@given(TERMS, st.sampled_from(["loop", "unroll", "thread", "let"]))
def test_an_index_is_the_sum_of_its_parts(names: list[str], kind: str) -> None:
    p = Places(
        KernelBuilder("k", THREADS), n=Var("n", 8, "param", 1), m=Var("m", 5, "param", 1),
        kt=Var("kt", 3, "loop"), j=Var("j", 2, "loop"), u=Var("u", 2, "unroll"),
        before=Var("before", 30, "let"),
    )  # fmt: skip
    index = summed(names)(p)
    own, moving = parted(index, lambda v: v.kind != kind)
    assert all(v.kind != kind for v in variables(own))
    assert all(any(v.kind == kind for v in variables(t)) for t in moving)
    rng = np.random.default_rng(len(names))
    env = {v: rng.integers(v.facts.lo, v.facts.hi + 1, 64) for v in variables(index)}
    np.testing.assert_array_equal(evaluate(total([own, *moving]), env), evaluate(index, env))
