"""What threads of a norm tell each other: in a warp, in a block, and from one kernel to the next.

The idea.  Threads that share a statistic meet by butterflies in their warp, then through shared memory, where
each unit of threads that agree leaves what it has:

    combine(b, "max", m)      m of all threads that share a statistic, in each of them
    save(b, m, s)             a block's statistics, for the second kernel
    parts(b, m, s)            in the second kernel, those of part after part

Notes.  Each exchange has its own buffer, so that one barrier is enough.  In a skewed tile the rows of a unit
start alike, and units meet by column: at places that rows' shifts do not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from layoutalg.codegen.expr import Expr, as_expr
from layoutalg.codegen.instr import BAR, LDG, LDS, NEUTRAL, STG_WHOLE, STS, Instr, butterfly, fold
from layoutalg.codegen.program import Global, MemRef, Reg, RegRef, Shared
from layoutalg.kernels.rowwise.norm_pieces import Index
from layoutalg.kernels.rowwise.norm_program import Body
from layoutalg.kernels.rowwise.norm_walk import WARP, powers
from layoutalg.layout import Layout


def combine(b: Body, op: str, d: Reg, *, last: bool = False) -> None:
    """Join the statistics d of all threads that share them: the same bits in each.

    The `last` ones of a kernel that saves its statistics are joined by the threads that do.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> from layoutalg.kernels.rowwise.norm_walk import NormConfig
    >>> x = shortest(norm_problem("softmax", (8, 128), 1, "f32"))
    >>> b = Body("softmax", x, NormConfig(4, 1, 64, "registers"), [], writes=True)
    >>> combine(b, "max", b.reg("m", 1))
    >>> [s.name for s in b.k.build().shared]
    ['part0']
    """
    (n,), kept, sharing = d.shape, b.config.rows_per_block, b.config.threads_per_row
    low, high = (1, min(WARP, sharing)) if b.walk.rows else (kept, min(WARP, kept * sharing))
    for mask in powers(low, high):
        b.k.do(butterfly(op, n), mask, d)
    unit = b.walk.exchange_unit
    if unit is not None:
        alike = b.walk.period == 1 or n == 1
        if b.walk.rows:
            _of_rows(b, op, d, unit)
        else:
            (_of_columns if alike else _of_skewed)(b, op, d, unit, [b.y.eq(0)] if last and b.saves else [])


def _of_rows(b: Body, op: str, d: Reg, unit: int) -> None:
    """Join what each warp has of a row."""
    k, warps = b.k, b.config.threads_per_row // unit
    part = _buffer(b, b.config.threads // unit)
    with k.If((k.tid % unit).eq(0)):
        k.do(STS[4], k.at(part, k.tid // unit), d)
    k.do(BAR)
    k.do(LDS[4], d, k.at(part, b.side * warps + k.tid % warps))
    for mask in powers(1, warps):
        k.do(butterfly(op, 1), mask, d)


def _of_columns(b: Body, op: str, d: Reg, unit: int, readers: Sequence[Expr]) -> None:
    """Join what each unit of threads has of a tile of columns."""
    k, (n,), kept = b.k, d.shape, b.config.rows_per_block
    units = b.config.threads // unit
    part = _buffer(b, units * kept * n)
    with _writers(b):
        put(b, STS, part, (k.tid // unit * kept + b.side) * n, d)
    k.do(BAR)
    other = b.reg(f"other{n}", n)
    with b.where(readers):
        b.filled(d.name, n, NEUTRAL[op])
        with k.Unroll("w", units) as w:
            get(b, LDS, part, (w * kept + b.side) * n, other)
            k.do(fold(op, n, n), d, other)


def _of_skewed(b: Body, op: str, d: Reg, unit: int, readers: Sequence[Expr]) -> None:
    """Join what each unit of threads has of a skewed tile, column by column."""
    k, (n,), kept = b.k, d.shape, b.config.rows_per_block
    units = b.config.threads // unit
    part = _buffer(b, units * kept * n)
    places = [at % n * kept + at // n for at in b.places]  # elements of one number lie side by side
    with _writers(b):
        for e, place in enumerate(places):
            k.do(STS[4], k.at(part, k.tid // unit * (kept * n) + place), d[e])
    k.do(BAR)
    other = b.reg(f"other{n}", n)
    with b.where(readers):
        b.filled(d.name, n, NEUTRAL[op])
        with k.Unroll("w", units) as w:
            for e, place in enumerate(places):
                k.do(LDS[4], other[e], k.at(part, w * (kept * n) + place))
            k.do(fold(op, n, n), d, other)


def _buffer(b: Body, size: int) -> Shared:
    """Shared memory of one exchange, in words."""
    return b.k.shared_buffer(f"part{b.next_exchange()}", 4, Layout((size,)), size, 16)


def _writers(b: Body) -> AbstractContextManager[None]:
    """Code of one thread of each column of a unit."""
    return b.where([b.k.tid % WARP < b.config.rows_per_block] if b.config.rows_per_block < WARP else [])


# --- between kernels -----------------------------------------------------------------------------------


def save(b: Body, *planes: Reg) -> None:
    """Write the statistics of a block's part; one thread of those that share them does.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> from layoutalg.kernels.rowwise.norm_walk import NormConfig
    >>> x = shortest(norm_problem("softmax", (64, 8), 0, "f32"))
    >>> b = Body("columns", x, NormConfig(4, 2, 16, "global", splits=4), [], writes=True)
    >>> save(b, b.reg("m", 4), b.reg("s", 4))
    >>> [p.name for p in b.k.build().params]
    ['src', 'dst', 'partial']
    """
    partial = b.k.pointer("partial", 4, writable=True)
    with b.present(), b.k.If(b.y.eq(0)):
        for nbytes, place, some in _told(b, partial, b.split, planes):
            b.k.do(STG_WHOLE[nbytes], place, some)


def parts(b: Body, *planes: Reg) -> Iterator[None]:
    """Read the statistics of part after part, each thread of those that share them its own.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> from layoutalg.kernels.rowwise.norm_walk import NormConfig
    >>> x = shortest(norm_problem("softmax", (64, 8), 0, "f32"))
    >>> b = Body("columns", x, NormConfig(4, 2, 16, "global", splits=4), [], writes=True)
    >>> [b.walk.config.splits for _ in parts(b, b.reg("m", 4), b.reg("s", 4))]
    [4]
    """
    partial = b.k.pointer("partial", 4)
    splits, sharing = b.config.splits, b.config.threads_per_row
    with b.present(), b.k.For("part", -(-splits // sharing)) as part:
        split = b.k.let("of", part * sharing + b.y)
        with b.where([split < splits] if splits % sharing else []):
            for nbytes, place, some in _told(b, partial, split, planes):
                b.k.do(LDG[nbytes], some, place)
            yield


def _told(
    b: Body, partial: Global, split: Expr, planes: Sequence[Reg]
) -> Iterator[tuple[int, MemRef, RegRef]]:
    """Where what a part tells lies, piece by piece: (bytes, place, registers)."""
    for plane, d in enumerate(planes):
        at = b.walk.told_at(plane, split, b.column)
        if b.walk.skewed and d.shape != (1,):
            for e, place in enumerate(b.places):
                yield 4, b.k.at(partial, at + place), d[e]
        else:
            for first, count, there in _pieces(b, partial, at, d):
                yield 4 * count, there, d.slice(first, count=count)


def get(b: Body, table: Mapping[int, Instr], buffer: Global | Shared, index: Index, d: Reg) -> None:
    """Load all words of d from consecutive places of 4 bytes, up to four at once: `table` is by bytes.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> from layoutalg.kernels.rowwise.norm_walk import NormConfig
    >>> x = shortest(norm_problem("softmax", (64, 8), 0, "f32"))
    >>> b = Body("columns", x, NormConfig(4, 2, 16, "global", splits=4), [], writes=True)
    >>> get(b, LDG, b.extra("weight"), 0, b.reg("m", 4))
    """
    for first, count, place in _pieces(b, buffer, index, d):
        b.k.do(table[4 * count], d.slice(first, count=count), place)


def put(b: Body, table: Mapping[int, Instr], buffer: Global | Shared, index: Index, d: Reg) -> None:
    """Store all words of d at consecutive places of 4 bytes, up to four at once: `table` is by bytes.

    >>> from layoutalg.kernels.rowwise.norm_modes import norm_problem, shortest
    >>> from layoutalg.kernels.rowwise.norm_walk import NormConfig
    >>> x = shortest(norm_problem("softmax", (64, 8), 0, "f32"))
    >>> b = Body("columns", x, NormConfig(4, 2, 16, "global", splits=4), [], writes=True)
    >>> put(b, STG_WHOLE, b.dst, 0, b.reg("m", 4))
    """
    for first, count, place in _pieces(b, buffer, index, d):
        b.k.do(table[4 * count], place, d.slice(first, count=count))


def _pieces(b: Body, buffer: Global | Shared, index: Index, d: Reg) -> Iterator[tuple[int, int, MemRef]]:
    (n,) = d.shape
    for first in range(0, n, 4):
        yield first, min(4, n), b.k.at(buffer, as_expr(index) + first)
