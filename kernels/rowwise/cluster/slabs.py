"""The statistics of a slab of columns, from the threads of a cluster's blocks to the factors of all of them.

The idea.  Every join costs exponentials or divisions, so few threads make them:

    warps       butterflies join the rows of a warp; its first threads write what it has of each column
    a barrier
    one warp    its threads take the warps' words in turn, join them, and butterflies join the threads
    exchange    they send them to all blocks, and take those of all blocks in the same way
    a barrier   factors lie in shared memory, where every thread reads those of its columns

Notes.  The order is the same in all blocks, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from layoutalg.codegen.expr import Expr, as_expr
from layoutalg.codegen.instr import BAR, LDS, STS
from layoutalg.codegen.program import Reg, Shared
from layoutalg.kernels.rowwise.block import RowBlock
from layoutalg.kernels.rowwise.block_reduce import get, put
from layoutalg.kernels.rowwise.cluster.exchange import Exchange
from layoutalg.kernels.rowwise.walk import WARP

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.norm import Norm


def join_slab(b: RowBlock, norm: Norm, exchange: Exchange) -> None:
    """From the statistics of threads to the factors of the cluster's columns, in every thread."""
    k, side, warps = b.k, b.tiling.rows_per_block, b.tiling.threads // WARP
    own, others = ([b.stat(name) for name in names] for names in (norm.partials, norm.partials.values()))
    factors = [b.stat(name) for name in norm.factors]
    b.in_warps = True
    norm.combine(b)
    part = b.partials(warps * side * _words(own))
    with b.where([k.tid % WARP < side] if side < WARP else []):
        _each(b, part, k.tid // WARP, own, store=True)
    k.do(BAR)
    exchange.meet()
    final = b.partials(side * _words(factors))
    with k.If(k.tid < WARP):
        _join(b, norm, warps, lambda warp: _each(b, part, warp, others, store=False))
        for to in _shares(b, exchange.blocks):
            exchange.send(b.row, to, *own)
        exchange.wait()
        _join(b, norm, exchange.blocks, lambda block: exchange.take(block * side + b.row, *others))
        norm.ready(b)
        with b.where([b.y.eq(0)]):
            _each(b, final, 0, factors, store=True)
    k.do(BAR)
    _each(b, final, 0, factors, store=False)


def _words(planes: list[Reg]) -> int:
    return sum(d.shape[0] for d in planes)


def _each(b: RowBlock, buffer: Shared, slot: Expr | int, planes: list[Reg], *, store: bool) -> None:
    """Store, or load, the words of a thread's columns in a slot of all columns, plane after plane."""
    side, before = b.tiling.rows_per_block, as_expr(slot) * (b.tiling.rows_per_block * _words(planes))
    for d in planes:
        (n,) = d.shape
        (put if store else get)(b, STS if store else LDS, buffer, before + b.row * n, d)
        before = before + side * n


def _join(b: RowBlock, norm: Norm, slots: int, take: Callable[[Expr], None]) -> None:
    """Join the statistics of all slots, in the threads of the first warp."""
    norm.start(b)
    for slot in _shares(b, slots):
        take(slot)
        norm.join(b)
    norm.combine(b)


def _shares(b: RowBlock, count: int) -> Iterator[Expr]:
    """Of so many slots those that a thread of the first warp has, as code for each."""
    readers = max(1, WARP // b.tiling.rows_per_block)
    with b.k.Unroll("turn", -(-count // readers)) as turn:
        slot = turn * readers + b.y
        with b.where([slot < count] if count % readers else []):
            yield slot
