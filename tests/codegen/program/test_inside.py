"""Proofs about coordinates: never wrong on small ranges, and found where kernels need them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.expr import Const, Expr, Minus, Operand, Select, Var, evaluate, simplify, variables
from layoutalg.codegen.instr import CP_ASYNC_ZFILL, LDG, STG
from layoutalg.codegen.language import KernelBuilder, Tensor, local_tile
from layoutalg.codegen.program import For, If, Kernel, Let, Role, Roles, Unroll
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.conditions import Conditions, check_tensors
from layoutalg.codegen.sim import simulate
from layoutalg.errors import AlignmentError, IRError, ShapeError
from layoutalg.layout import Layout
from tests.sweeps import each

M = Var("m", 41, "param", 1)
ROUND = Var("r", 49, "param", 8, multiple=8)
TILE, COUNT = Var("tile", M // 8, "block"), Var("count", (M + 7) // 8, "block")
OF_ROUND, LANE, BIT = Var("t", ROUND // 8, "block"), Var("lane", 8), Var("bit", 2)

PLACES: list[tuple[bool, tuple[Expr, ...], Expr, Expr]] = [
    (True, (), LANE, Const(8)),
    (True, (), TILE * 8 + LANE, M),
    (True, (), OF_ROUND * 8 + LANE, ROUND),
    (True, (COUNT * 8 + 8 <= M,), COUNT * 8 + LANE, M),
    (True, ((COUNT * 8 + LANE < M) & (LANE < 3),), COUNT * 8 + LANE, M),
    (True, (TILE + 1 < M // 8,), TILE * 8 + LANE + 8, M),
    (True, (Const(1) < M // 8,), LANE + 8, M),
    (True, (COUNT * 8 + 8 <= M,), Select(COUNT * 8 + 8 <= M, COUNT * 8, Const(0)) + LANE, M),
    (True, (), COUNT % M, M),
    (True, (), Minus(ROUND, Const(8)) + LANE, ROUND),
    (False, (), COUNT * 8 + LANE, M),
    (False, (), TILE * 8 + LANE + BIT, M),
    (False, (COUNT * 8 + 7 <= M,), COUNT * 8 + LANE, M),
    (False, (TILE + 1 < M // 8,), TILE * 8 + LANE + 16, M),
    (False, (), Minus(M, Const(8)) + LANE, M),
]
"""Whether a place is below an end, under what holds."""


@each(("below", "true", "place", "end"), PLACES)
def test_a_place_is_proved_where_it_is_so(
    below: bool, true: tuple[Expr, ...], place: Expr, end: Expr
) -> None:
    assert known(true).is_below(place, end) == holds(true, place, end) == below


def holds(true: tuple[Expr, ...], place: Expr, end: Expr) -> bool:
    """By all values of the variables."""
    for m, r in itertools.product(range(1, 41), range(8, 49, 8)):
        counts = {TILE: m // 8, COUNT: -(-m // 8), OF_ROUND: r // 8, LANE: 8, BIT: 2}
        used = frozenset().union(*(variables(e) for e in (*true, place, end)))
        grids = np.meshgrid(*(np.arange(n if v in used else 1) for v, n in counts.items()), indexing="ij")
        env = dict(zip(counts, grids, strict=True)) | {M: np.int64(m), ROUND: np.int64(r)}
        live = np.ones(grids[0].shape, bool)
        for condition in true:
            live &= np.broadcast_to(evaluate(condition, env), live.shape) == 1
        below = np.broadcast_to(evaluate(place, env) < evaluate(end, env), live.shape)
        if (live & ~below).any():
            return False
    return True


def known(true: tuple[Expr, ...]) -> Conditions:
    out = Conditions()
    for condition in true:
        out = out.under(simplify(condition), True)
    return out


def test_what_is_proved_in_a_branch_is_not_proved_beside_it() -> None:
    place, start = COUNT * 8 + LANE, Var("start", 41, "let")
    outside, tiles = Conditions(), simplify(COUNT * 8 + 8 <= M)
    assert outside.under(tiles, True).is_below(place, M)
    assert not outside.is_below(place, M) and not outside.under(tiles, False).is_below(place, M)
    assert outside.let(start, TILE * 8).is_below(start + LANE, M)
    for other in (outside, outside.let(start, COUNT * 8)):
        assert not other.is_below(start + LANE, M)
    full = outside.under(
        simplify(M < COUNT * 8 + 8), False
    )  # in the else of the condition that it sticks out
    assert full.is_below(place, M) and not full.is_below(place + BIT, M)


@pytest.mark.deep
def test_no_proof_is_wrong() -> None:
    rng, proofs = random.Random(1), 0
    parts = [TILE, COUNT, OF_ROUND, LANE, BIT, TILE % 2, COUNT // 2, Minus(ROUND, Const(8)), Minus(M, LANE)]
    for _ in range(300):
        place: Expr = Const(rng.choice((0, 0, 1, 8)))
        for x in rng.sample(parts, rng.randint(1, 3)):
            place = place + x * rng.choice((1, 1, 2, 8))
        end = rng.choice((M, ROUND, M + 8, ROUND // 2, Const(16)))
        low = rng.choice((TILE * 8 + 8, COUNT * 8 + 8, OF_ROUND * 4 + 4, COUNT + 2, LANE + 1))
        true = rng.choice(((), (low <= end,), (low < end // 8 if end != Const(16) else low < end,)))
        if known(true).is_below(place, end):
            proofs += 1
            assert holds(true, place, end), (list(map(str, true)), str(place), str(end))
    assert proofs > 20


COPY = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((16, 8), (8, 1)), Layout((1, 4)))


def copied(
    ld_multiple: int = 4, n_multiple: int = 4, *, guard: str = "where", up: bool = True, width: int = 1
) -> Kernel:
    """A copy of tiles of 64 x 32, that may stick out."""
    k = KernelBuilder("copy", 128)
    m, n, ld = k.extent("m", 512), k.extent("n", 512, n_multiple), k.extent("ld", 512, ld_multiple)
    src = k.tensor("src", "f32", (m, n), (ld, width))
    dst = k.tensor("dst", "f32", (m, n), (ld, 1), writable=True)
    x, y = k.block(0, (m + 63 * up) // 64), k.block(1, (n + 31 * up) // 32)
    s, d = (
        part(local_tile(t, (64, 32), (x, y)))
        for t, part in ((src, k.get_slice(COPY).partition_S), (dst, k.get_slice(COPY).partition_D))
    )
    if guard == "where":
        k.store(k.load(s, where=s.inside), d, where=d.inside)
    else:
        rows, columns = x * 64 + 64 <= m, y * 32 + 32 <= n
        with k.If({"full": rows & columns, "half": rows}[guard]) if guard else nullcontext():
            k.store(k.load(s), d)
    return k.build()


@each("m, n", [(64, 32), (65, 36), (3, 4), (130, 100)])
def test_predicates_of_a_copy(m: int, n: int) -> None:
    """By vectors, by tiles, or none where tiles divide; one element needs no stride of 1."""
    x, y = np.random.default_rng(0).standard_normal((m, n)).astype("f4"), np.zeros((m, n), "f4")
    simulate(copied(), {"m": m, "n": n, "ld": n, "src": x, "dst": y})
    assert (x == y).all()
    for kernel in (copied(), copied(guard="full"), copied(guard="", up=False), hand(4, (128, 2), 5)):
        check(kernel)


N = Var("n", 64, "param", 1)


def stored(shape: tuple[Operand, ...], strides: tuple[Operand, ...]) -> Tensor:
    k = KernelBuilder("k", 128)
    k.extent("n", 63)
    return k.tensor("x", "f32", shape, strides, writable=True)


def hand(nbytes: int, strides: tuple[int, int], column: int, *, stores: bool = False) -> Kernel:
    k = KernelBuilder("hand", 32)
    x, v = k.tensor("x", "f32", (8, 64), strides, writable=True), k.reg("v", nbytes // 4)
    k.do(*((STG[nbytes], x.at(3, column), v) if stores else (LDG[nbytes], v, x.at(3, column))))
    return k.build()


REFUSED: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: copied(guard=""), IRError, r"^extent: 'ldg128\(.*\)' can pass the extent m of mode 0 of src"),
    (lambda: copied(guard="half"), IRError, "can pass the extent n of mode 1 of src"),
    (lambda: copied(n_multiple=2), IRError, "can pass the extent n of mode 1 of src"),
    (lambda: copied(ld_multiple=2), AlignmentError, "and the stride ld of mode 0 of src"),
    (lambda: hand(16, (128, 2), 0), AlignmentError, "stride of x is 1: 128, 2"),
    (lambda: hand(16, (64, 1), 1), AlignmentError, "the coordinate 1 of mode 1 of x is not known"),
    (lambda: hand(4, (64, 1), 64, stores=True), IRError, "can pass the extent 64 of mode 1 of x"),
    (lambda: hand(4, (32, 1), 0, stores=True), IRError, "^overlap: elements of x .*: 8 every 32,"),
    (lambda: stored((4, 4, 8), (16, 8, 1)), IRError, "4 every 16, 4 every 8, 8 every 1"),
    (lambda: stored((4, N, 8), (N * 4, 8, 1)), IRError, r"4 every n \* 4, n every 8, 8 every 1"),
    (lambda: stored((N,), (0,)), IRError, "elements of x lie over each other: n every 0"),
    (
        lambda: KernelBuilder("k", 128).get_slice(COPY).partition_S(stored((16, 48), (48, 1))),
        ShapeError, "mode 1 of .* has 48 elements and the tile 32",
    ),
]  # fmt: skip


@each(("build", "kind", "message"), REFUSED)
def test_refused(build: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build()


def test_a_proof_holds_in_its_branch_alone_whatever_stands_around_the_access() -> None:
    k = KernelBuilder("k", 32)
    n, v = k.extent("n", 64), k.reg("v", 1)
    x = k.tensor("x", "f32", (n,), (1,))
    with k.If(k.tid < n):
        k.do(LDG[4], v, x.at(k.tid))
    kernel = k.build()
    (guarded,) = kernel.body
    assert isinstance(guarded, If)
    proofs = 0
    for seed in range(200):
        rng, s, dead, inside = random.Random(seed), guarded.body[0], False, set[bool]()
        for depth in range(rng.randint(0, 4)):
            condition = rng.choice((k.tid < n, n <= k.tid, k.tid < 3, Const(0), Const(1)))
            count = Var(f"i{depth}", 3, rng.choice(("loop", "unroll")))
            match rng.choice(("body", "else", "loop", "role", "let")):
                case "body" | "else" as branch:
                    s = If(condition, (s,)) if branch == "body" else If(condition, (), (s,))
                    dead |= condition == Const(int(branch == "else"))
                    inside |= {branch == "body"} if condition == (k.tid < n) else set()
                    inside |= {branch == "else"} if condition == (n <= k.tid) else set()
                case "loop":
                    s = For(count, Const(3), (s,)) if count.kind == "loop" else Unroll(count, 3, (s,))
                case "role":
                    s = Roles((Role("first", 0, 1, ()), Role("second", 1, 1, (s,))))
                case _:
                    s = If(Const(1), (Let(Var(f"n{depth}", 32, "let"), k.tid), s))
        proved = dead or True in inside
        if not dead and len(inside) == 2:
            continue  # of what contradicts itself everything may be said
        proofs += proved
        with nullcontext() if proved else pytest.raises(IRError, match="can pass the extent n of mode 0"):
            check_tensors(replace(kernel, body=(s,)))
    assert 40 < proofs < 160


def test_rows_that_may_overlap_are_a_condition_of_the_launch() -> None:
    k = KernelBuilder("k", 32)
    n, ld = k.extent("n", 64), k.extent("ld", 64)
    k.tensor("x", "f32", (8, n), (ld, 1), writable=True)
    assert [str(c) for c in k.build().conditions] == ["n <= ld"]
    m = k.extent("m", 64)
    k.tensor("dense", "f32", (8, m, n), (m * n, n, 1), writable=True)
    k.tensor("either", "f32", (m, n), (3, ld), writable=True)
    assert [str(c) for c in k.build().conditions] == ["n <= ld", "(m * 3 <= ld) | (n * ld < 4)"]


def test_a_guard_of_the_instruction_is_a_predicate_and_what_never_runs_needs_none() -> None:
    k = KernelBuilder("k", 32)
    n = k.extent("n", 64, 4)
    x, s, v = k.tensor("x", "f32", (n,), (1,)), k.shared("s", "f32", Layout(128)), k.reg("v", 1)
    k.do(CP_ASYNC_ZFILL[16], s.at(k.tid * 4), x.at(k.tid * 4), k.tid * 4 < n)
    with k.If(n >= 80):
        k.do(LDG[4], v, x.at(k.tid))
    k.build()
    with k.If(n >= 8):
        k.do(LDG[4], v, x.at(k.tid))
    with pytest.raises(IRError, match="can pass the extent n"):
        k.build()
    k = KernelBuilder("k", 32)
    n = k.extent("n", 64, 4)
    x, s = k.tensor("x", "f32", (n,), (1,)), k.shared("s", "f32", Layout(128))
    k.do(CP_ASYNC_ZFILL[16], s.at(k.tid * 4), x.at(k.tid * 4), k.tid * 4 < n + 4)
    with pytest.raises(IRError, match="can pass the extent n"):
        k.build()


def test_shared_buffers_that_overlap() -> None:
    k = KernelBuilder("k", 32)
    a, b = k.shared("a", "f32", Layout(64)), k.shared("b", "f32", Layout(64))
    over = k.shared("c", "f32", Layout(64), over=True)
    kernel = k.build()
    assert [t.buffer for t in (a, b, over)] == list(kernel.shared)
    check(kernel)
    first, second, _ = kernel.shared
    with pytest.raises(IRError, match="overlap: a and b overlap in shared memory"):
        check(replace(kernel, shared=(first, replace(second, offset_bytes=128))))
