"""How far shared accesses reach: intervals hold every value, no run goes further, what leaves is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Const, Eq, Expr, Minus, Select, Var, as_expr, evaluate
from layoutalg.codegen.instr import LDS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do as Run
from layoutalg.codegen.program import For, If, Kernel, Let, MemRef, Reg, Shared, Stmt, Unroll, walk
from layoutalg.codegen.program.bounds import find_outside, interval, shared_reach
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.errors import IRError, SimulationError
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.problem import normalise
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
        found = tuple(shared_reach(kernel))
        assert len(sites) == len(found)
        for site, reach in zip(sites, found, strict=True):
            ran = trace.instructions(site)
            end = int(ran.addresses[ran.active].max()) + reach.nbytes if ran.active.any() else 0
            assert end <= reach.most <= reach.buffer.size_bytes
        stage = Stage(x, c)
        if found and stage.src_aligned and not stage.lead and not stage.config.swizzle.bits:
            assert stage.tile_bytes - max(r.most for r in found) < LINE_BYTES  # and no line is spared


def test_an_interval_of_two_is_the_hull_of_what_they_may_make() -> None:
    """By all numbers of drawn intervals of operands, thread by thread; of some operators only a bound."""
    rng = np.random.default_rng(2)
    x, y = Var("x", 12, "let"), Var("y", 12, "let", 1)
    exact = (
        x + y,
        x * y,
        Minus(x + 20, y),
        x < y,
        x <= y,
        Eq(x, y),
        x // y,
        Select(x < 5, y, Const(3)),
        x % 4,
    )
    for node in (*exact, x % y, x & y, x | y, x ^ y):
        for _ in range(8):
            (a, b), (c, d) = (np.sort(rng.integers(low, 12, (2, 32)), axis=0) for low in (0, 1))
            b[:16], d[::2] = a[:16], c[::2]
            low, high = (np.broadcast_to(v, 32) for v in interval(node, {x: (a, b), y: (c, d)}))
            for t in range(32):
                grid = np.meshgrid(np.arange(a[t], b[t] + 1), np.arange(c[t], d[t] + 1))
                made = evaluate(node, dict(zip((x, y), grid, strict=True)))
                assert low[t] <= np.min(made) and np.max(made) <= high[t], (node, t)
                if node in exact[:7]:
                    assert (low[t], high[t]) == (np.min(made), np.max(made)), (node, t)


@pytest.mark.deep(only=("2",))
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


def drawn_body(rng: random.Random, k: KernelBuilder, v: Reg, seen: list[Var], depth: int) -> None:
    """Loops, branches and names around accesses to a tile; counts and conditions are of what is seen."""
    x: Var = rng.choice(seen)
    match rng.choice(("for", "for", "unroll", "if", "let")) if depth else "access":
        case "for":
            most = rng.choice([y for y in seen if y.facts.hi > 0])
            counts = (most % 4, (most + 1) // 2 % 5) if depth == 1 else ()  # their counters are intervals
            count = rng.choice((Const(rng.randint(1, 4)), *counts))
            with k.For(f"i{depth}", count) as i:
                drawn_body(rng, k, v, [*seen, i], depth - 1)
        case "unroll":
            with k.Unroll(f"u{depth}", rng.randint(1, 3)) as u:
                drawn_body(rng, k, v, [*seen, u], depth - 1)
        case "if":
            with k.If(rng.choice((x < rng.randrange(8), x >= 5, (x % 3).eq(1)))):
                drawn_body(rng, k, v, seen, depth - 1)
            with k.Else():
                drawn_body(rng, k, v, seen, depth - 1)
        case "let":
            drawn_body(rng, k, v, [*seen, k.let(f"n{depth}", x * 3 % 7)], depth - 1)
        case _:
            index = sum((y * rng.randrange(4) for y in seen), as_expr(rng.randrange(3)))
            tile = Shared("tile", 4, Layout(512), 2048, 16, 0)
            k.do(LDS[4], v, MemRef(tile, index * 4))


def touched(body: tuple[Stmt, ...], known: dict[Var, int]) -> Iterator[tuple[int, int]]:
    """The accesses of one thread, by their statements, and the first byte behind each."""
    for s in body:
        match s:
            case Run(_, args):
                (place,) = (a for a in args if isinstance(a, MemRef))
                yield id(s), int(evaluate(place.index, known)) + 4
            case Let(var, value) if isinstance(value, Expr):
                known = {**known, var: int(evaluate(value, known))}
            case For(var, count, inner) | Unroll(var, count, inner):
                for n in range(int(evaluate(count, known)) if isinstance(count, Expr) else count):
                    yield from touched(inner, {**known, var: n})
            case If(condition, inner, orelse):
                yield from touched(inner if evaluate(condition, known) else orelse, known)


@each("seed", range(60), sample=41)
def test_an_access_reaches_as_far_as_the_threads_that_get_there(seed: int) -> None:
    rng = random.Random(seed)
    k = KernelBuilder("k", threads=32)
    drawn_body(rng, k, k.reg("v", 1), [k.tid], 3)
    kernel = k.build()
    far: dict[int, int] = {}
    for tid in range(32):
        for access, end in touched(kernel.body, {kernel.tid: tid}):
            far[access] = max(far.get(access, 0), end)
    wanted = [far.get(id(s), 0) for s in walk(kernel.body) if isinstance(s, Run)]
    assert [reach.most for reach in shared_reach(kernel)] == wanted


def test_a_loop_of_a_parameter_keeps_its_remainders_inside() -> None:
    k, tile = tile_of(40)
    v, m = k.reg("v", 1), k.param("m", 100)
    with k.For("n", m) as n:
        k.do(LDS[4], v, k.at(tile, n % 2 * 8 + k.tid % 32))
    assert [r.most for r in shared_reach(k.build())] == [160]
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
