"""Proofs about coordinates: never wrong on small ranges, and found where kernels need them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.expr import Const, Expr, Minus, Operand, Select, Var, evaluate, simplify, variables
from layoutalg.codegen.instr import CP_ASYNC_ZFILL, LDG, STG
from layoutalg.codegen.language import KernelBuilder, Tensor, local_tile
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.conditions import Conditions
from layoutalg.codegen.sim import simulate
from layoutalg.errors import AlignmentError, IRError, ShapeError
from layoutalg.layout import Layout
from tests.sweeps import each

M = Var("m", 41, "param", 1)
ROUND = Var("r", 49, "param", 8, multiple=8)
TILE, COUNT = Var("tile", M // 8, "block"), Var("count", (M + 7) // 8, "block")
OF_ROUND, LANE, BIT = Var("t", ROUND // 8, "block"), Var("lane", 8), Var("bit", 2)

PROVED: dict[str, tuple[tuple[Expr, ...], Expr, Expr]] = {
    "facts": ((), LANE, Const(8)),
    "a tile of the grid": ((), TILE * 8 + LANE, M),
    "a multiple": ((), OF_ROUND * 8 + LANE, ROUND),
    "a predicate": ((COUNT * 8 + 8 <= M,), COUNT * 8 + LANE, M),
    "the same predicate": (((COUNT * 8 + LANE < M) & (LANE < 3),), COUNT * 8 + LANE, M),
    "a tile ahead": ((TILE + 1 < M // 8,), TILE * 8 + LANE + 8, M),
    "a first tile": ((Const(1) < M // 8,), LANE + 8, M),
    "moved inward": ((COUNT * 8 + 8 <= M,), Select(COUNT * 8 + 8 <= M, COUNT * 8, Const(0)) + LANE, M),
    "a remainder": ((), COUNT % M, M),
    "from the end": ((), Minus(ROUND, Const(8)) + LANE, ROUND),
}

OPEN: dict[str, tuple[tuple[Expr, ...], Expr, Expr]] = {
    "a tile that sticks out": ((), COUNT * 8 + LANE, M),
    "too wide": ((), TILE * 8 + LANE + BIT, M),
    "a predicate of another row": ((COUNT * 8 + 7 <= M,), COUNT * 8 + LANE, M),
    "a tile too far": ((TILE + 1 < M // 8,), TILE * 8 + LANE + 16, M),
    "from the end of few": ((), Minus(M, Const(8)) + LANE, M),
}


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
    assert not outside.is_below(start + LANE, M) and not outside.let(start, COUNT * 8).is_below(
        start + LANE, M
    )


@each("name", list(PROVED))
def test_proved(name: str) -> None:
    true, place, end = PROVED[name]
    assert known(true).is_below(place, end) and holds(true, place, end)


@each("name", list(OPEN))
def test_not_proved_since_it_is_not_so(name: str) -> None:
    true, place, end = OPEN[name]
    assert not holds(true, place, end) and not known(true).is_below(place, end)


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
    m, n = k.extent("m", 512), k.extent("n", 512, n_multiple)
    ld = k.extent("ld", 512, ld_multiple)
    src = k.tensor("src", "f32", (m, n), (ld, width))
    dst = k.tensor("dst", "f32", (m, n), (ld, 1), writable=True)
    rows, columns = ((m + 63) // 64, (n + 31) // 32) if up else (m // 64, n // 32)
    x, y = k.block(0, rows), k.block(1, columns)
    me = k.get_slice(COPY)
    s = me.partition_S(local_tile(src, (64, 32), (x, y)))
    d = me.partition_D(local_tile(dst, (64, 32), (x, y)))
    if guard == "where":
        k.store(k.load(s, where=s.inside), d, where=d.inside)
    elif guard == "full":
        with k.If((x * 64 + 64 <= m) & (y * 32 + 32 <= n)):
            k.store(k.load(s), d)
    elif guard == "half":
        with k.If(x * 64 + 64 <= m):
            k.store(k.load(s), d)
    else:
        k.store(k.load(s), d)
    return k.build()


@each("m, n", [(64, 32), (65, 36), (3, 4), (130, 100)])
def test_predicates_of_a_copy(m: int, n: int) -> None:
    x, y = np.random.default_rng(0).standard_normal((m, n)).astype("f4"), np.zeros((m, n), "f4")
    simulate(copied(), {"m": m, "n": n, "ld": n, "src": x, "dst": y})
    assert (x == y).all()


ACCEPTED: dict[str, Callable[[], Kernel]] = {
    "by a predicate per vector": lambda: copied(),
    "under a predicate of the tile": lambda: copied(guard="full"),
    "where tiles divide": lambda: copied(guard="none", up=False),
}


@each("build", list(ACCEPTED.values()))
def test_accepted(build: Callable[[], Kernel]) -> None:
    check(build())


N = Var("n", 64, "param", 1)


def stored(shape: tuple[Operand, ...], strides: tuple[Operand, ...]) -> Tensor:
    k = KernelBuilder("k", 128)
    k.extent("n", 63)
    return k.tensor("x", "f32", shape, strides, writable=True)


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no predicate": (
        lambda: copied(guard="none"), IRError,
        r"^extent: 'ldg128\(.*\)' can pass the extent m of mode 0 of src; a predicate such as where=part",
    ),
    "half a predicate": (lambda: copied(guard="half"), IRError, "can pass the extent n of mode 1 of src"),
    "a vector past the end": (
        lambda: copied(ld_multiple=4, n_multiple=2), IRError, "can pass the extent n of mode 1 of src"
    ),
    "a stride": (
        lambda: copied(ld_multiple=2), AlignmentError,
        r"^'ldg128\(.*\)' moves 4 elements per lane, and the stride ld of mode 0 of src is not known to be a "
        r"multiple of 4$",
    ),
    "no contiguous mode": (lambda: hand(LDG[16], (128, 2), 0), AlignmentError, "stride of x is 1: 128, 2"),
    "a coordinate": (
        lambda: hand(LDG[16], (64, 1), 1), AlignmentError, "the coordinate 1 of mode 1 of x is not known"
    ),
    "a constant": (lambda: hand(STG[4], (64, 1), 64), IRError, "can pass the extent 64 of mode 1 of x"),
    "rows over each other": (
        lambda: hand(STG[4], (32, 1), 0), IRError, "^overlap: elements of x lie over each other: 8 every 32,"
    ),
    "planes over each other": (
        lambda: stored((4, 4, 8), (16, 8, 1)), IRError, "4 every 16, 4 every 8, 8 every 1"
    ),
    "planes of n rows": (
        lambda: stored((4, N, 8), (N * 4, 8, 1)), IRError, r"4 every n \* 4, n every 8, 8 every 1"
    ),
    "no step": (lambda: stored((N,), (0,)), IRError, "elements of x lie over each other: n every 0"),
    "a copy that does not tile": (
        lambda: KernelBuilder("k", 128).get_slice(COPY).partition_S(stored((16, 48), (48, 1))), ShapeError,
        "mode 1 of .* has 48 elements and the tile 32",
    ),
}  # fmt: skip


def hand(instr: object, strides: tuple[int, int], column: int) -> Kernel:
    k = KernelBuilder("hand", 32)
    x = k.tensor("x", "f32", (8, 64), strides, writable=True)
    v = k.reg("v", instr.operands[0 if instr in LDG.values() else 1].words)  # type: ignore[attr-defined]
    k.do(instr, *((v, x.at(3, column)) if instr in LDG.values() else (x.at(3, column), v)))  # type: ignore[arg-type]
    return k.build()


@each("name", list(REFUSED))
def test_refused(name: str) -> None:
    build, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        build()


def test_rows_that_may_overlap_are_a_condition_of_the_launch() -> None:
    k = KernelBuilder("k", 32)
    n, ld = k.extent("n", 64), k.extent("ld", 64)
    k.tensor("x", "f32", (8, n), (ld, 1), writable=True)
    assert [str(c) for c in k.build().conditions] == ["n <= ld"]
    m = k.extent("m", 64)
    k.tensor("dense", "f32", (8, m, n), (m * n, n, 1), writable=True)
    k.tensor("either", "f32", (m, n), (3, ld), writable=True)
    assert [str(c) for c in k.build().conditions] == ["n <= ld", "(m * 3 <= ld) | (n * ld < 4)"]


def test_a_guard_of_the_instruction_is_a_predicate() -> None:
    k = KernelBuilder("k", 32)
    n = k.extent("n", 64, 4)
    x, s = k.tensor("x", "f32", (n,), (1,)), k.shared("s", "f32", Layout(128))
    k.do(CP_ASYNC_ZFILL[16], s.at(k.tid * 4), x.at(k.tid * 4), k.tid * 4 < n)
    k.build()
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


def test_what_can_never_run_needs_no_proof() -> None:
    k = KernelBuilder("k", 32)
    n = k.extent("n", 16)
    x, v = k.tensor("x", "f32", (n,), (1,)), k.reg("v", 1)
    with k.If(n >= 32):
        k.do(LDG[4], v, x.at(k.tid))
    k.build()
    with k.If(n >= 8):
        k.do(LDG[4], v, x.at(k.tid))
    with pytest.raises(IRError, match="can pass the extent n"):
        k.build()


def test_the_other_branch_knows_the_opposite() -> None:
    """Where the tile does not stick out: in the else of the condition that it does."""
    full = Conditions().under(simplify(M < COUNT * 8 + 8), False)
    assert full.is_below(COUNT * 8 + LANE, M) and not full.is_below(COUNT * 8 + LANE + BIT, M)
    assert holds((COUNT * 8 + 8 <= M,), COUNT * 8 + LANE, M)
