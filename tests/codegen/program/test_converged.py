"""Who is sure to arrive together: the proofs are held to the values of all threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen import instr as isa
from layoutalg.codegen.expr import Const, Expr, Select, Var, evaluate
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.program.checks import Together, agreement, check
from layoutalg.codegen.sim import simulate
from layoutalg.errors import IRError, SimulationError
from layoutalg.layout import Layout
from tests.sweeps import each

TID, N, M = Var("tid", 128, "thread"), Var("n", 97, "param", 0, 32), Var("m", 64, "param")
BLOCK, LOOP = Var("block_x", 7, "block"), Var("i", 5, "loop")

WHOLE: tuple[isa.Instr, ...] = (
    *isa.MMA_SYNC.values(), *isa.LDMATRIX.values(), *isa.LDMATRIX_TRANS.values(), isa.MOVMATRIX,
    isa.SHUFFLE_XOR, isa.SHUFFLE_LANE, isa.butterfly("sum", 1),
    isa.butterfly("max", 4), isa.WARP_SYNC,
)  # fmt: skip
"""Instructions of a whole warp."""


@each(
    ("e", "wanted"),
    [
        (M < 7, "BLOCK"), (BLOCK * 3 + LOOP < M, "BLOCK"), (TID // 32 < M, "WARP"), (TID < 64, "WARP"),
        (TID < 65, "THREAD"), (TID % 64 < 32, "WARP"), ((TID ^ 32) // 32 < M, "WARP"),
        (TID // 16 < 2, "WARP"),
        (TID // 16 < 3, "THREAD"), ((TID + N) // 32 < 3, "WARP"), ((TID + M) // 32 < 3, "THREAD"),
        ((BLOCK * 128 + TID) // 32 < M, "WARP"), ((TID % 64 < 32) & (M < 4), "WARP"),
        (TID // 32 * M < TID // 64 + 3, "WARP"), (BLOCK * 128 + TID < M, "THREAD"),
    ],
)  # fmt: skip
def test_conditions(e: Expr, wanted: str) -> None:
    assert agreement(e, {}).name == wanted
    whole = Var("whole", 2, "let")
    assert agreement(whole.eq(1), {whole: e}).name == wanted and agreement(whole.eq(1), {}).name == "THREAD"


def _drawn(rng: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rng.choice([TID, TID // 32, TID // 32 * 32, TID % 32, N, M, BLOCK])
    a, b = _drawn(rng, depth - 1), _drawn(rng, depth - 1)
    few = rng.choice([2, 8, 32, 64])
    return rng.choice(
        [Select(a < b, a, b), a % few, a // few, a + b, a * rng.choice([0, 3, 32]), a ^ b, a & b]
    )


@pytest.mark.deep
def test_no_proof_is_wrong() -> None:
    """Wherever agreement is proved, all lanes of every warp have one value, for random other variables."""
    rng, proved = random.Random(5), dict.fromkeys(Together, 0)
    for _ in range(1500):
        e = _drawn(rng, rng.randint(0, 3))
        found = agreement(e, {})
        proved[found] += 1
        for _ in range(3):
            others = {N: rng.randrange(0, 97, 32), M: rng.randrange(64), BLOCK: rng.randrange(7)}
            values = np.broadcast_to(evaluate(e, {TID: np.arange(128), **others}), 128).reshape(4, 32)
            of_one = {Together.BLOCK: values[0, 0], Together.WARP: values[:, :1]}.get(found, values)
            assert (values == of_one).all(), str(e)
    assert min(proved.values()) > 100


def _under(instr: isa.Instr, condition: str) -> Kernel:
    """The instruction in a branch."""
    k = KernelBuilder("branch", threads=64)
    n = k.param("n", 64, 1)
    tile = k.shared_buffer("tile", 1, Layout(4096), 4096, 128)
    asked = {"half": k.tid % 32 < 16, "warp": k.tid // 32 < n, "block": n < 9, "lanes": k.tid < n}[condition]
    args: list[Any] = []
    for o in instr.operands:
        if o.role == "read":
            args.append(k.at(tile, k.tid % 32 * o.bytes))
        elif o.role in ("imm", "value"):
            args.append(1)
        else:
            args.append(k.reg(f"{o.name}0", o.words))
            k.do(isa.fill(o.words), args[-1], Const(0))
    if instr is isa.SHUFFLE_LANE:
        args[-1] = k.tid % 32
    with k.If(asked):
        k.do(instr, *args)
    return k.build()


@each("instr", WHOLE, ids=str, sample=19)
def test_an_instruction_of_a_whole_warp_needs_one(instr: isa.Instr) -> None:
    """Tensor cores and matrix loads ran under half of a warp without a word."""
    for condition, n in (("half", 1), ("lanes", 40)):
        kernel = _under(instr, condition)
        with pytest.raises(IRError, match=f"{instr} is of a whole warp"):
            check(kernel)
        with pytest.raises(SimulationError, match=f"{instr} of a whole warp, which thread (16|40)"):
            simulate(kernel, {"n": n})
    for condition in ("warp", "block"):
        for n in (1, 2, 40):
            kernel = _under(instr, condition)
            check(kernel)
            simulate(kernel, {"n": n}, group="warp" if n == 2 else "block")
    simulate(_under(instr, "lanes"), {"n": 32})  # by chance: the simulator sees what happens


@pytest.mark.parametrize(
    ("turns", "instr", "said"),
    [
        (
            lambda k: k.tid // 40 + 1,
            isa.WARP_SYNC,
            r"thread 40 \(warp 1, lane 8\) .* thread 32 does not reach",
        ),
        (lambda k: k.tid % 3, isa.WARP_SYNC, "warp_sync"),
        (lambda k: k.tid // 32 + 1, isa.WARP_SYNC, ""),
        (lambda k: k.tid // 32 % 2, isa.BAR, "block_sync"),
        (lambda k: k.param("m", 64), isa.BAR, ""),
    ],
)
def test_loops_part_lanes_and_warps_too(
    turns: Callable[[KernelBuilder], Expr], instr: isa.Instr, said: str
) -> None:
    k = KernelBuilder("turns", threads=64)
    with k.For("i", turns(k)):
        k.do(instr)
    kernel = k.build()
    given = {p.name: 2 for p in kernel.params}
    if said:
        with pytest.raises(IRError, match=str(instr)):
            check(kernel)
        with pytest.raises(SimulationError, match=said):
            simulate(kernel, given)
    else:
        check(kernel)
        assert simulate(kernel, given).executed[str(instr)][1] == 2
