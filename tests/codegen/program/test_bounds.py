"""How far shared accesses reach: intervals hold every value, no run goes further, what leaves is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Expr
from layoutalg.codegen.instr import LDS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do as Run
from layoutalg.codegen.program import Kernel, MemRef, Shared, Stmt
from layoutalg.codegen.program.bounds import find_outside, interval, shared_reach
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.errors import IRError, SimulationError
from layoutalg.kernels.move.problem import normalise
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import LINE_BYTES, Stage
from layoutalg.layout import Layout
from tests.draws.expressions import SMALL_VARIABLES, domain, expressions, values
from tests.draws.moves import buffers, plans, random_case
from tests.mutants import planting
from tests.sweeps import each, first


@given(expressions(), st.sets(st.sampled_from(SMALL_VARIABLES)))
def test_an_interval_holds_every_value(node: Expr, written_out: set[Expr]) -> None:
    env = domain(node)
    low, high = interval(node, {v: (x, x) for v, x in env.items() if v in written_out})
    found = values(node, env)
    assert (low <= found).all() and (found <= high).all()
    if written_out >= set(env):
        assert np.array_equal(low, high)


@each("seed", range(24), sample=2)
def test_no_run_of_a_permute_goes_further_and_all_are_proven_to_stay_inside(seed: int) -> None:
    case = random_case(random.Random(f"reach {seed}"), 1200)
    x = normalise(case.problem)
    for c in plans(case):
        kernel = build(x, c)
        src, dst = buffers(case, seed)
        trace = simulate(kernel, {"src": src, "dst": dst}).trace
        sites = [site for site in trace.sites if site.space == "shared"]
        found = shared_reach(kernel)
        assert len(sites) == len(found)
        for site, reach in zip(sites, found, strict=True):
            ran = trace.instructions(site)
            end = int(ran.addresses[ran.active].max()) + reach.nbytes if ran.active.any() else 0
            assert end <= reach.most <= reach.buffer.size_bytes
        stage = Stage(x, c)
        if found and stage.src_aligned and not stage.lead and not stage.config.swizzle.bits:
            assert stage.tile_bytes - max(r.most for r in found) < LINE_BYTES  # and no line is spared


@pytest.mark.parametrize("seed", first(4, range(12)))
def test_a_tile_that_is_too_small_is_refused_where_a_run_leaves_it(seed: int) -> None:
    """Of one block and no swizzle everything is known: `check` refuses what the simulator refuses."""
    rng = random.Random(f"small {seed}")
    while True:
        case = random_case(rng, 600)
        x = normalise(case.problem)
        c = next(plans(case))
        if c.way == "staged" and Stage(x, c).blocks == 1:
            break
    kernel = build(x, c)
    for nbytes in range(16, kernel.shared[0].size_bytes, 16):
        smaller = with_tile(kernel, nbytes)
        src, dst = buffers(case, seed)
        try:
            simulate(smaller, {"src": src, "dst": dst}, trace=False)
        except SimulationError:
            with pytest.raises(IRError, match=r"leaves its buffer in thread .* of block"):
                check(smaller)
        else:
            check(smaller)


def with_tile(kernel: Kernel, nbytes: int) -> Kernel:
    """The same program with another size of its tile."""
    (tile,) = kernel.shared
    smaller = replace(tile, size_bytes=nbytes)

    def moved(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Run):
            return (s,)
        args = [
            replace(a, buffer=smaller) if isinstance(a, MemRef) and a.buffer == tile else a for a in s.args
        ]
        return (replace(s, args=tuple(args)),)

    return replace(planting.rewrite(kernel, moved), shared=(smaller,))


def tile_of(words: int, threads: int = 64) -> tuple[KernelBuilder, Shared]:
    k = KernelBuilder("k", threads)
    return k, k.shared_buffer("tile", 4, Layout(words), words, 16)


def test_what_a_branch_or_a_loop_keeps_inside_is_inside() -> None:
    k, tile = tile_of(40)
    v = k.reg("v", 1)
    m = k.param("m", 100)
    with k.If(k.tid < 8), k.For("i", 5) as i:
        k.do(LDS[4], v, k.at(tile, k.tid + i * 8))
    with k.For("j", 4) as j, k.If(k.tid + j * 64 < 40):
        k.do(LDS[4], v, k.at(tile, k.tid + j * 64))
    with k.For("n", m) as n:
        k.do(LDS[4], v, k.at(tile, n % 2 * 8 + k.tid % 32))
    with k.If(k.tid < 40):
        with k.If(k.tid < 20):
            k.do(LDS[4], v, k.at(tile, k.tid + 20))
        with k.Else():
            k.do(LDS[4], v, k.at(tile, k.tid))
    with k.If(k.tid < 0):
        k.do(LDS[4], v, k.at(tile, k.tid + 1000))
    assert [r.most for r in shared_reach(k.build())] == [160, 160, 160, 160, 160, 0]
    check(k.build())


LEAVES: list[tuple[int, Callable[[KernelBuilder, Expr], Expr], str]] = [
    (
        39,
        lambda k, i: k.tid + i * 8,
        r"thread 7, i = 4 of block \(0, 0, 0\): bytes 156 to 159 of tile, which",
    ),
    (64, lambda k, i: k.tid * 8 + k.block(0, 100) // 99 * 8, r"thread 7 of block \(99, 0, 0\): bytes 256"),
    (
        64,
        lambda k, i: k.param("m", 100),
        "thread 0 of block .*, m = 100: bytes 400 to 403 of tile, which has",
    ),
    (8, lambda k, i: Const(8), r"thread 0 of block \(0, 0, 0\): bytes 32 to 35"),
]


@pytest.mark.parametrize(("words", "index", "said"), LEAVES)
def test_who_leaves_is_named(words: int, index: Callable[[KernelBuilder, Expr], Expr], said: str) -> None:
    k, tile = tile_of(words)
    with k.If(k.tid < 8), k.For("i", 5) as i:
        k.do(LDS[4], k.reg("v", 1), k.at(tile, index(k, i)))
    with pytest.raises(IRError, match=said):
        check(k.build())


def test_long_loops_stay_intervals_and_what_is_not_decided_is_left_to_the_simulator() -> None:
    """b (b + 1) is even, which intervals do not know: there is no proof, and no counterexample."""
    k, tile = tile_of(64)
    v, b = k.reg("v", 1), k.block(0, 1000)
    with k.For("i", 1 << 20) as i, k.If(i < 4):
        k.do(LDS[4], v, k.at(tile, (i + k.tid) % 64))
    with k.For("j", k.tid // 64 + 1) as j:
        k.do(LDS[4], v, k.at(tile, j * 8 + k.tid % 32))
    k.do(LDS[4], v, k.at(tile, b * (b + 1) % 2 * 64 + k.tid % 32))
    kernel = k.build()
    *proven, neither = shared_reach(kernel)
    assert [r.most for r in proven] == [256, 128] and not neither.is_inside and find_outside(kernel) is None
    check(kernel)


def test_a_value_that_stands_twice_and_a_part_of_few_are_taken_value_by_value() -> None:
    """An interval of (b ^ 1) * 96 ^ b * 8 knows two values of b at once, and no thread has both."""
    k = KernelBuilder("k", threads=32)
    tile, v = k.shared_buffer("tile", 1, Layout(256), 256, 16), k.reg("v", 1)
    side, few = k.let("side", k.block(0, 8) // 4), k.block(1, 1 << 20) % 4
    k.do(LDS[4], v, k.at(tile, ((side ^ 1) * 96 + side * 124) * 2))
    k.do(LDS[4], v, k.at(tile, ((few ^ 3) * 20 + few * 20) * 4))
    assert [r.most for r in shared_reach(k.build())] == [252, 244] and find_outside(k.build()) is None


@each("seed", range(20))
def test_no_thread_of_any_block_goes_past_what_is_proven(seed: int) -> None:
    """Of random addresses, with parts of few and of many values, against those of all blocks and threads."""
    rng = random.Random(f"parts {seed}")
    k = KernelBuilder("k", threads=32)
    few, many = k.block(0, 5), k.block(1, 600)
    tile, v = k.shared_buffer("tile", 1, Layout(16), 16, 16), k.reg("v", 1)
    named = k.let("named", many * 3 % 8)

    def drawn(depth: int) -> Expr:
        if not depth:
            return rng.choice((few, many, named, k.tid, many % rng.choice((2, 7, 8))))
        a, b = drawn(depth - 1), drawn(depth - 1)
        return rng.choice((a + b, a ^ b, a * rng.choice((2, 3, 8)), a % rng.choice((4, 5, 59)), a // 4))

    index = drawn(3) * 4
    k.do(LDS[4], v, k.at(tile, index))
    (reach,) = shared_reach(k.build())
    block = {few: np.arange(5)[:, None, None], many: np.arange(600)[:, None], k.tid: np.arange(32)}
    found = values(index, block | {named: block[many] * 3 % 8})
    assert int(np.max(found)) + 4 <= reach.most
