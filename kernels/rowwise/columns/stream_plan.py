"""The rows of memory that form a row of a stream, and their division among blocks, best first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, gcd, sqrt

from layoutalg.dtype import DType
from layoutalg.kernels.rowwise.columns.form import Stream, rows_of, with_fold
from layoutalg.kernels.rowwise.problems import Form
from layoutalg.kernels.rowwise.walk import LINE_BYTES, VECTOR_BYTES

MOST_FOLD = 256
"""The most rows of memory that form a row of the stream."""

SIDES, STREAM_THREADS = (16, 32, 64, 128), (128, 256, 512)
"""The numbers of threads side by side, and of threads of a block, that are tried."""

WAVES = (1, 2, 3, 4, 5, 6, 8, 10, 12)
"""The numbers of blocks of a multiprocessor that are tried."""

TORN, NARROW, SINGLE = 1.04, 8.0, 8.0
"""The factor for rows of the stream that are not whole lines; the bytes that each run of a tile costs; bytes
per byte of the remaining rows, which are taken element by element."""

MOST_JOINING, JOINED_BYTES = 256, 420e3
"""The most threads that join a group's partials; the bytes that memory moves while each adds a partial."""

MOST_COST = 4.5
"""The most bytes of memory per byte of the tensor: streams of few rows have many partials."""

ENOUGH, RESIDENT = 1280, 1536
"""The approximate numbers of threads of a multiprocessor: those that suffice, and those that it holds."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A way to read a stream: vectors, threads side by side and of a column, columns of a row, splits.

    `cost` is in bytes of memory per byte of the tensor.
    """

    vec: int
    side: int
    share: int
    width: int
    splits: int
    cost: float


def folds(form: Form, vec: int, element: DType) -> Iterator[Stream]:
    """The streams of a form with vectors of so many elements: the least fold, and those of whole lines."""
    line = LINE_BYTES // element.nbytes
    for inside, row in rows_of(form):
        least, whole = vec // gcd(row, vec), line // gcd(row, line)
        tried = {fold << n for fold in (least, whole) for n in range(MOST_FOLD.bit_length())}
        for fold in sorted(fold for fold in tried if fold <= MOST_FOLD):
            found = with_fold(form, inside, fold)
            if found is not None and found.has_vectors(vec):
                yield found


def streamed(form: Form, element: DType, planes: int, sms: int) -> list[Streamed]:
    """All ways to read a form as a stream by the widest vectors that have any, the cheapest first.

    `planes` partials belong to a column.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> form = normalise(axes_problem((557855, 117), 0, "f16", keeps=True))
    >>> streamed(form, dtype("f16"), 2, 132)[0].width % (8 * 117)
    0
    """
    vec = VECTOR_BYTES // element.nbytes
    while vec * element.nbytes >= 4:
        ways = (way for s in folds(form, vec, element) for way in _divided(s, vec, element, planes, sms))
        if found := [way for way in ways if way.cost <= MOST_COST]:
            return sorted(found, key=lambda way: way.cost)
        vec //= 2
    return []


def _divided(s: Stream, vec: int, element: DType, planes: int, sms: int) -> Iterator[Streamed]:
    steps, size = s.columns.count, element.nbytes
    total = s.form.count * s.form.outputs * size
    single = SINGLE * (s.rows.extent % s.fold) / s.rows.extent
    for side, threads in product(SIDES, STREAM_THREADS):
        share = threads // side
        if not share:
            continue
        tiles, run = ceil(s.places / vec / side), min(s.width, side * vec) * size
        if run < LINE_BYTES:
            continue
        for splits in dict.fromkeys(max(1, each * sms // tiles) for each in WAVES):
            if steps < splits * share:
                continue
            rounds = ceil(steps / (share * splits))
            idle = tiles * side * vec / s.places * (rounds * share * splits / steps)
            partials = 2 * 4 * planes * (splits + 1) * s.places / total
            joined = planes * (s.places * splits / s.form.outputs / MOST_JOINING) * JOINED_BYTES / total
            apart = TORN if s.width * size % LINE_BYTES else 1.0
            apart *= 1 + NARROW / run
            cost = 3 * idle * apart / _filled(tiles * splits, threads, sms) + partials + joined + single
            yield Streamed(vec, side, share, s.width, splits, cost)


def _filled(blocks: int, threads: int, sms: int) -> float:
    """The share of the memory's rate: blocks may be few, and unevenly spread over the multiprocessors."""
    fill: float = min(1.0, blocks * threads / (sms * ENOUGH)) ** 0.6
    uneven, waves = ceil(blocks / sms) * sms / blocks, blocks * threads / (sms * RESIDENT)
    last = 1.0 if waves <= 1 else waves / (ceil(waves) if waves < 2 else waves + 0.25)
    return fill * sqrt(last) / (1 + 0.5 * (uneven - 1))
