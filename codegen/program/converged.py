"""The threads that are sure to arrive together, as barriers and the instructions of a whole warp need.

The idea.  Threads part where a condition, or the number of a loop's turns, differs between them.  For every
expression there is the largest group of threads that is proved to agree on it:

    BLOCK    n < 64, kt + 1 < tiles         blocks, parameters and loop variables: one value per block
    WARPGROUP, WARP   tid // 32 < 2         one value per four warps or per warp, by the proof below
    THREAD   tid < 40                       nothing is proved

With tid = 32 warp + lane, `simplify` takes most expressions apart so that the lane is gone.  The rest of it
has to be in parts with no other variables than these two; each is tabulated over the threads of a
block, and has to be the same in all lanes of a warp.

Notes.  The proof is sound, not complete: of (tid + n) // 32 it knows that lanes agree where n is declared as
a multiple of 32, not where n is always one for other reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from layoutalg.codegen.expr import Expr, Var, evaluate, resolved, simplify, substitute, variables
from layoutalg.codegen.instr import WARP, WARPGROUP
from layoutalg.codegen.program.tile import Stmt, calls
from layoutalg.errors import ResourceError

_UNIFORM = frozenset({"block", "param", "loop", "unroll", "base"})


class Together(IntEnum):
    """Threads that do the same: alone, in their warp, in their four warps, in their block."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    BLOCK = 3


def agreement(e: Expr, lets: Mapping[Var, Expr]) -> Together:
    """The threads that are proved to have the same value of an expression.

    `lets` are the values of the let variables in scope.

    >>> tid, n = Var("tid", 128, "thread"), Var("n", 64, "param")
    >>> [agreement(e, {}).name for e in (n < 7, tid // 32 < n, tid % 64 < 32, tid < n)]
    ['BLOCK', 'WARP', 'WARP', 'THREAD']
    """
    if all(v.kind in _UNIFORM for v in variables(e)):
        return Together.BLOCK
    full = resolved(e, lets)
    used = variables(full)
    threads = [v for v in used if v.kind == "thread"]
    if any(v.kind not in _UNIFORM and v.kind != "thread" for v in used):
        return Together.THREAD
    if not threads:
        return Together.BLOCK
    if len(threads) > 1:
        return Together.THREAD
    (tid,) = threads
    for lanes, together in ((WARPGROUP, Together.WARPGROUP), (WARP, Together.WARP)):
        warp = Var("warp", -(-(tid.facts.hi + 1) // lanes), "thread")
        lane = Var("lane", lanes, "thread")
        apart = simplify(substitute(full, {tid: warp * lanes + lane}))
        if _same_in_lanes(apart, warp, lane):
            return together
    return Together.THREAD


def _same_in_lanes(e: Expr, warp: Var, lane: Var) -> bool:
    """Whether the lane, of a warp or of four, makes no difference: by the absence of it, or by the table of
    all values.
    """
    used = variables(e)
    if lane not in used:
        return True
    if not used <= {warp, lane}:
        return all(_same_in_lanes(part, warp, lane) for part in e.children)
    import numpy

    try:
        table = evaluate(
            e,
            {warp: numpy.arange(warp.facts.hi + 1)[:, None], lane: numpy.arange(lane.facts.hi + 1)[None, :]},
        )
    except ResourceError:  # values past 63 bits
        return False
    return bool((table == table[:, :1]).all())


def of_whole_warps(body: Iterable[Stmt]) -> bool:
    """Whether statements contain an instruction that all lanes of a warp execute together.

    >>> from layoutalg.codegen.instr import WARP_SYNC
    >>> from layoutalg.codegen.program.tile import Do
    >>> of_whole_warps([Do(WARP_SYNC, ())])
    True
    """
    return any(s.instr.requires.warp_converged for s in calls(tuple(body)))
