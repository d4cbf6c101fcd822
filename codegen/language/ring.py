"""pipeline: a ring of tiles in shared memory, filled by cp.async while it is read, stated once.

    with `stages` = S, and tile t in stage t % S:
        start the copies of tiles 0 .. S-2, a group each
        for each tile t:
            wait until its group is finished; barrier
            consume(t, stage)
            start the copies of tile t + S - 1 into the stage that was read last, if there is such a tile
        wait for all

The barrier does two things: it shows every thread what the others have copied, and it says that all have read
the stage that is filled next.

Source: CUTLASS, include/cutlass/gemm/collective/sm80_mma_multistage.hpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from layoutalg.codegen.expr import Const, Expr, Operand, as_expr
from layoutalg.codegen.instr import BAR, CP_COMMIT, CP_WAIT
from layoutalg.errors import IRError

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder

Step: TypeAlias = "Callable[[Expr, Expr], None]"
"""What is written for a tile and its stage."""


def pipeline(k: KernelBuilder, tiles: Operand, stages: int, produce: Step, consume: Step) -> None:
    """Write a ring of `stages` over `tiles` tiles: `produce` copies tile t into a stage, `consume` reads it.

    Raises IRError for fewer than two stages.

    >>> from layoutalg.codegen.language.builder import KernelBuilder
    >>> k, seen = KernelBuilder("ring", 32), []
    >>> pipeline(k, 4, 3, lambda t, s: seen.append(f"copy {t} to {s}"), lambda t, s: seen.append(f"read {s}"))
    >>> print(*seen, sep="; ")
    copy 0 to 0; copy 1 to 1; read kt % 3; copy kt + 2 to (kt + 2) % 3
    """
    if stages < 2:
        raise IRError("pipeline", stages, f"a ring of {stages} stages: two or more are needed")
    ahead, count = stages - 1, as_expr(tiles)
    for s in range(ahead):
        with k.If(Const(s) < count):
            produce(Const(s), Const(s))
        k.do(CP_COMMIT)
    with k.For(k.fresh("kt"), count) as kt:
        k.do(CP_WAIT, stages - 2)
        k.do(BAR)
        consume(kt, kt % stages)
        with k.If(kt + ahead < count):
            produce(kt + ahead, (kt + ahead) % stages)
        k.do(CP_COMMIT)
    k.do(CP_WAIT, 0)
