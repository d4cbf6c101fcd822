"""The exchanges of threads: in a warp, in a block, and from one kernel to the next.

The idea.  Threads that share a row exchange by butterflies in their warp, then by partials in shared memory:

    butterflies(b, "max", m)      m of the lanes of a row, in each of them
    all_reduce(b, "max", m)       m of all threads of a row, in each of them: one barrier
    tree_reduce(b, "sum", d)      the same in the first group of lanes alone: a barrier per halving
    give(b, x, m, s)              a warp's statistics, to all blocks of a cluster
    given(b, x, m, s)             those of its warps, in all blocks, lane by lane
    save(b, m, s)                 a block's statistics as partials in global memory, for the second kernel
    meet(b, turn, m, s)           the same, and all blocks of a row wait for each other
    partials(b, m, s)             in the second kernel, or behind `meet`, those of split after split

Notes.  Each exchange has its own buffer, so that one barrier is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import TYPE_CHECKING

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Expr, as_expr
from layoutalg.codegen.language import Tensor
from layoutalg.codegen.program import Global, MemRef, Reg, RegRef, Shared
from layoutalg.kernels.rowwise.programs.block import Block, NormBlock, RowBlock
from layoutalg.kernels.rowwise.walk import WARP, Index, Walk

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.programs.cluster import Exchange


COUNTER_WORDS = 32
"""The distance from one counter to the next: each has a line of its own."""


def powers(low: int, high: int) -> list[int]:
    """The powers of two from `low`, itself one, below `high`.

    >>> powers(1, 32)
    [1, 2, 4, 8, 16]
    """
    return [1 << n for n in range(low.bit_length() - 1, (high - 1).bit_length())]


# --- in a block ----------------------------------------------------------------------------------------


def tree_reduce(b: Block, op: str, d: Reg) -> None:
    """Join the values d of the threads of a row: in the lanes of the first group is what all have."""
    k, t, (n,) = b.k, b.tiling, d.shape
    for mask in reversed(powers(1, t.lanes)):
        k.do(instr.butterfly(op, n), mask, d)
    if t.groups == 1:
        return
    part, other = b.partials(t.groups * t.rows_per_block * n), k.reg("other", n)
    first = [b.lane.eq(0)] if t.lanes > 1 else []

    def slot(group: Index) -> Index:
        return (group * t.rows_per_block + b.thread[0]) * n

    for half in reversed(powers(1, t.groups)):
        with b.where([*first, b.group >= half, b.group < 2 * half]):
            put(b, instr.STS, part, slot(b.group), d)
        k.do(instr.BAR)
        with b.where([*first, b.group < half]):
            get(b, instr.LDS, part, slot(b.group + half), other)
            k.do(instr.fold(op, n, n), d, other)


def all_reduce(b: NormBlock, op: str, d: Reg, *, last: bool = False) -> None:
    """Join the statistics d of all threads that share them: the same bits in each.

    The `last` ones of a kernel that saves its statistics are joined by the threads that do.
    """
    t, (n,) = b.tiling, d.shape
    low = 1 if t.groups == 1 else t.rows_per_block  # threads from one of a row's to the next
    for mask in powers(low, min(WARP, low * t.threads_per_row)):
        b.k.do(instr.butterfly(op, n), mask, d)
    unit = max(WARP, low)  # threads that have one statistic now
    if low * t.threads_per_row <= unit or b.in_warps:
        return
    if b.walk.rows:
        _of_rows(b, op, d, unit)
        return
    _of_columns(b, op, d, unit, [b.y.eq(0)] if last and b.saves else [])


def _of_rows(b: NormBlock, op: str, d: Reg, unit: int) -> None:
    """Join what each warp has of a row."""
    k, warps = b.k, b.tiling.threads_per_row // unit
    part = b.partials(b.tiling.threads // unit)
    with k.If((k.tid % unit).eq(0)):
        k.do(instr.STS[4], k.at(part, k.tid // unit), d)
    k.do(instr.BAR)
    # every lane takes a warp's part: butterflies leave the same bits in all of them, behind one barrier
    k.do(instr.LDS[4], d, k.at(part, b.row * warps + k.tid % warps))
    for mask in powers(1, warps):
        k.do(instr.butterfly(op, 1), mask, d)


def _of_columns(b: NormBlock, op: str, d: Reg, unit: int, readers: Sequence[Expr]) -> None:
    """Join what each unit of threads has of a tile of columns; elements of one number lie side by side."""
    k, (n,), t = b.k, d.shape, b.tiling
    units, size = t.threads // unit, t.rows_per_block * n
    part, words = b.partials(units * size), list(_vectors(n, b.row * n))
    with b.where([k.tid % WARP < t.rows_per_block] if t.rows_per_block < WARP else []):
        for first, count, at in words:
            k.do(instr.STS[4 * count], k.at(part, k.tid // unit * size + at), d.slice(first, count=count))
    k.do(instr.BAR)
    other = b.reg(f"other{n}", n)
    with b.where(readers):
        # from nothing on and not from the own part, since all readers have to join in one order
        b.filled(d.name, n, instr.NEUTRAL[op])
        with k.Unroll("w", units) as w:
            for first, count, at in words:
                k.do(instr.LDS[4 * count], other.slice(first, count=count), k.at(part, w * size + at))
            k.do(instr.fold(op, n, n), d, other)


# --- in a cluster --------------------------------------------------------------------------------------


def give(b: RowBlock, x: Exchange, *planes: Reg) -> None:
    """Send the statistics of a warp, one word each, to all blocks of the cluster."""
    lane = b.k.tid % WARP
    x.meet()
    with b.k.If(lane < x.blocks):
        x.send(b.k.tid // WARP, lane, *planes)


def given(b: RowBlock, x: Exchange, *planes: Reg) -> Iterator[None]:
    """Read the statistics of warp after warp of the cluster, each lane its own."""
    k, lane = b.k, b.k.tid % WARP
    x.wait()
    with k.For("part", -(-x.slots // WARP)) as part:
        slot = k.let("of", part * WARP + lane)
        with b.where([slot < x.slots] if x.slots % WARP else []):
            x.take(slot, *planes)
            yield


# --- between kernels -----------------------------------------------------------------------------------


def save(b: RowBlock, *planes: Reg) -> None:
    """Write the statistics of a block's split; one thread of those that share them does."""
    partial = b.split_partials(writable=True)
    with b.present(), b.k.If(b.y.eq(0)):
        for nbytes, place, some in _saved(b, partial, b.split, planes):
            b.k.do(instr.STG_WHOLE[nbytes], place, some)


def meet(b: RowBlock, turn: Index, *planes: Reg) -> None:
    """Write the statistics of a block's split, and wait until all blocks of the row have, for whom that is
    turn number `turn`."""
    save(b, *planes)
    splits, at_once = b.tiling.splits, b.walk.tiles_at_once
    first = counters(b.walk, sum(n for d in planes for n in d.shape)).start
    counter = b.k.at(b.split_partials(writable=True), first + b.tile % at_once * COUNTER_WORDS)
    b.k.do(instr.GRID_SYNC, counter, (as_expr(turn) + 1) * splits)


def counters(walk: Walk, words: int) -> range:
    """Return the places of the counters of rows that are read at once, behind partials of `words` words."""
    first = -(-walk.tiling.splits * walk.places * words // COUNTER_WORDS) * COUNTER_WORDS
    return range(first, first + walk.tiles_at_once * COUNTER_WORDS, COUNTER_WORDS)


def partials(b: RowBlock, *planes: Reg) -> Iterator[None]:
    """Read the statistics of split after split, each thread of those that share them its own."""
    partial = b.split_partials()
    load = instr.LDG_FRESH if partial.writable else instr.LDG
    splits, share = b.tiling.splits, b.tiling.threads_per_row
    with b.present(), b.k.For("part", -(-splits // share)) as part:
        split = b.k.let("of", part * share + b.y)
        with b.where([split < splits] if splits % share else []):
            for nbytes, place, some in _saved(b, partial, split, planes):
                b.k.do(load[nbytes], some, place)
            yield


def _saved(
    b: RowBlock, partial: Global, split: Expr, planes: Sequence[Reg]
) -> Iterator[tuple[int, MemRef, RegRef]]:
    """The statistics of a split in memory, plane after plane of all splits: (bytes, place, registers)."""
    places, before = b.walk.places, 0
    for d in planes:
        (n,) = d.shape
        for first, count, at in _vectors(n, b.place * n):
            where = split * (places * n) + before + at
            yield 4 * count, b.k.at(partial, where), d.slice(first, count=count)
        before += b.tiling.splits * places * n


# --- words side by side --------------------------------------------------------------------------------


def get(b: Block, table: Mapping[int, instr.Instr], buffer: Global | Shared, index: Index, d: Reg) -> None:
    """Load all words of d from consecutive places of 4 bytes, up to four at once: `table` is by bytes."""
    for first, count, at in _vectors(d.shape[0], index):
        b.k.do(table[4 * count], d.slice(first, count=count), b.k.at(buffer, at))


def put(
    b: Block, table: Mapping[int, instr.Instr], buffer: Global | Shared | Tensor, index: Index, d: Reg
) -> None:  # fmt: skip
    """Store all words of d at consecutive places of 4 bytes, up to four at once: `table` is by bytes."""
    for first, count, at in _vectors(d.shape[0], index):
        b.k.do(table[4 * count], b.k.at(buffer, at), d.slice(first, count=count))


def _vectors(n: int, index: Index) -> Iterator[tuple[int, int, Expr]]:
    """n words from an index on, in vectors: (first word, words, place)."""
    width = gcd(n, 4)
    for first in range(0, n, width):
        yield first, width, as_expr(index) + first
