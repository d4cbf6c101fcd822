"""Norms over streams: statistics of columns of memory, those of a group joined, results of columns.

The idea.  Three kernels, whose order is that of the data they need:

    statistics    blocks read rows of the stream in turn, whole vectors of whole lines; a thread keeps its
                  columns, and each block saves a partial statistic for every column
    joined        some threads per group join the partials of all blocks and of all columns of the group, and
                  the elements of the rows that are left; factors are written for every column, and the
                  results of the rows that are left
    result        the first kernel's walk backwards, while L2 has what was read last

    rms norm (9873,2369,3) over (0,2) bf16, 1 split      454848 partials, joined by 192, and 17 x 3 elements

Notes.  Factors lie behind the partials in the same buffer.  Sums are made in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from layoutalg.codegen.expr import as_expr
from layoutalg.codegen.instr import BAR, LDG, LDS, STG, STG_WHOLE, STS, convert
from layoutalg.codegen.program import Global, Kernel, RegRef
from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels.rowwise.forms import Stream
from layoutalg.kernels.rowwise.norms import NormProblem
from layoutalg.kernels.rowwise.programs.block import ONE_WORD, NormBlock, RowBlock
from layoutalg.kernels.rowwise.programs.block_reduce import get, put
from layoutalg.kernels.rowwise.programs.recipes import Norm
from layoutalg.kernels.rowwise.walk import WARP, Bases, Chunk, Tiling, Walk, power_above
from layoutalg.kernels.rowwise.ways import MOST_JOINING, NormConfig

JOINING, MOST_THREADS = 8, 512
"""The preferred number of partials per thread that joins, and the most threads of a block of these."""

FILLED = 132
"""The least number of joining blocks if groups lie side by side in a block: partials are whole sectors."""


def planes(s: Stream, c: NormConfig, partials: Mapping[str, str]) -> tuple[dict[str, int], int]:
    """Return the start of each plane of partials, and of the factors behind them, in words.

    Planes of one word have one for each vector.
    """
    begins, before = {}, 0
    for name in partials:
        begins[name] = before
        before += c.splits * s.places // (c.vec if name in ONE_WORD else 1)
    return begins, -(-before // 4) * 4


def workspace(s: Stream, c: NormConfig, norm: Norm) -> int:
    """Words of the buffer of partials and factors."""
    return planes(s, c, norm.partials)[1] + len(norm.factors) * s.places


def joining(s: Stream, c: NormConfig) -> Tiling:
    """The threads that join: those of a group side by side where its columns lie so."""
    form = s.joined(c.splits)
    share = min(MOST_JOINING, power_above(form.count / JOINING))
    beside = 1 << max(1, form.outputs // FILLED).bit_length() - 1
    rows = max(WARP // share, min(MOST_THREADS // share, WARP, beside))
    if form.lead.reduced:
        return Tiling(find_dtype("f32"), 1, rows, share, 1)
    return Tiling(find_dtype("f32"), 1, rows, 1, share)


class JoinBlock(NormBlock):
    """A block that joins the partials of groups of columns."""

    def __init__(self, name: str, p: NormProblem, s: Stream, c: NormConfig, notes: list[str]) -> None:
        tiling = joining(s, c)
        super().__init__(name, p, Walk(s.joined(c.splits), tiling), notes)
        self.stream, self.config, self.element = s, c, p.dtype
        self.partial: Global = self.k.pointer("partial", 4, writable=True)
        self.made = Walk(s.joined(1), tiling)
        self.rest = None if s.left is None else Walk(s.left, tiling)
        self._stand()
        if self.rest is not None:
            self.dst = self.tensor("dst", "dst", (), p.result, writable=True)
            self.src = self.dst if p.in_place else self.tensor("src", "src", (), p.dtype)

    @contextmanager
    def steps(self, walk: Walk, bases: Bases) -> Iterator[Chunk]:
        """Code for every step of a walk, by the threads of a group in turn."""
        share = self.tiling.threads_per_row
        rounds = -(-walk.steps // share)
        with self.present(), self.k.For("i", rounds, unroll=4) as i:
            step = self.k.let("step", as_expr(walk.step(self.y, i)))
            with self.where([step < walk.steps] if walk.steps % share else []):
                yield walk.chunk(bases, step)

    def join(self, norm: Norm) -> None:
        """Join the partials of a group."""
        k, begins = self.k, planes(self.stream, self.config, norm.partials)[0]
        with self.steps(self.walk, self.bases) as chunk:
            at = k.let("column", as_expr(chunk.source))
            for name, into in norm.partials.items():
                place = at // self.config.vec if name in ONE_WORD else at
                k.do(LDG[4], self.stat(into), k.at(self.partial, place + begins[name]))
            norm.join(self)

    def join_left(self, walk: Walk, norm: Norm) -> None:
        """Join the elements of the rows that are left."""
        with self.steps(walk, walk.bases(self.place)) as chunk:
            norm.single(self, self._element(chunk))
            norm.join(self)

    def _element(self, chunk: Chunk) -> RegRef:
        raw = self.reg("raw", 1)
        self.k.do(LDG[self.problem.dtype.nbytes], raw, self.at(self.src, chunk.source))
        return self.widened(RegRef(raw, ()), 1, "x")

    def results_left(self, walk: Walk, norm: Norm) -> None:
        """Results of the rows that are left."""
        k, element = self.k, self.problem.result
        with self.steps(walk, walk.bases(self.place)) as chunk:
            f = self._element(chunk)
            norm.apply(self, f)
            if element.name != "f32":
                packed = self.reg("packed", 1)
                k.do(convert(1, "f32", element.name), packed, f)
                f = RegRef(packed, ())
            k.do(STG[element.nbytes], self.at(self.dst, chunk.target), f)

    def factors(self, norm: Norm) -> None:
        """Write the factors of a group for all its columns."""
        k, first = self.k, planes(self.stream, self.config, norm.partials)[1]
        with self.steps(self.made, self.made.bases(self.place)) as chunk:
            at = k.let("column", as_expr(chunk.target))
            for n, name in enumerate(norm.factors):
                place = k.at(self.partial, at + (first + n * self.stream.places))
                k.do(STG_WHOLE[4], place, self.stat(name))


def build_joined(name: str, p: NormProblem, s: Stream, c: NormConfig, notes: list[str], norm: Norm) -> Kernel:
    """The kernel that joins the partials of all groups."""
    b = JoinBlock(name, p, s, c, notes)
    norm.start(b)
    b.join(norm)
    if b.rest is not None:
        b.join_left(b.rest, norm)
    norm.combine(b)
    norm.ready(b)
    b.factors(norm)
    if b.rest is not None:
        b.results_left(b.rest, norm)
    return b.k.build()


def build_statistics(b: RowBlock, s: Stream, c: NormConfig, norm: Norm) -> Kernel:
    """The kernel that makes the statistics of all columns.

    Threads leave theirs in shared memory, and each then joins all partials of a column or a few.
    """
    k, t, begins = b.k, b.tiling, planes(s, c, norm.partials)[0]
    columns, words = t.rows_per_block * t.vec, {n: 1 if n in ONE_WORD else t.vec for n in norm.partials}
    b.ahead()
    norm.start(b)
    norm.online(b)
    kept = {name: b.partials(t.threads * words[name]) for name in norm.partials}
    for (name, part), own in zip(kept.items(), norm.own, strict=True):
        put(b, STS, part, (b.y * t.rows_per_block + b.row) * words[name], b.stat(own))
    k.do(BAR)
    one = b.by_column()
    with k.For("n", -(-columns // t.threads)) as n:
        column = k.let("column", n * t.threads + k.tid)
        at = k.let("stream_column", b.tile * columns + column)
        exists = [column < columns] if columns % t.threads else []
        with b.where([*exists, at < s.places] if s.places % columns else exists):
            norm.start(one)
            with k.For("w", t.threads_per_row, unroll=8) as w:
                for name, into in norm.partials.items():
                    place = w * columns + column
                    k.do(LDS[4], one.stat(into), k.at(kept[name], place // (t.vec // words[name])))
                norm.join(one)
            norm.combine(one)
            for name in norm.partials:
                each = t.vec // words[name]  # columns that have the word together
                place = begins[name] + b.split * (s.places // each) + at // each
                with b.where([(at % each).eq(0)] if each > 1 else []):
                    k.do(STG_WHOLE[4], k.at(b.split_partials(writable=True), place), one.stat(name))
    return k.build()


def build_results(b: RowBlock, s: Stream, c: NormConfig, norm: Norm) -> Kernel:
    """The kernel that makes the results of all whole rows."""
    partial, first = b.k.pointer("partial", 4), planes(s, c, norm.partials)[1]
    b.ahead(backwards=True)
    with b.present():
        for n, name in enumerate(norm.factors):
            get(b, LDG, partial, b.place * c.vec + (first + n * s.places), b.stat(name))
    b.each(lambda v: norm.result(b, v), backwards=True)
    return b.k.build()
