"""reduce: sums, extremes, indices, variances over any modes of a tensor, any strides, in one pass or two.

    p = reduce_problem(shape, axes, op, dtype, src=None, dst=None, src_offset=0, dst_offset=0, result=None)
    p.of_nothing            what every output is if no element is reduced (None: elements are)
    plan = plans(p, arch)[0]                best first; of problems that are not empty
    plan.workspace_elems    words that the first pass writes and the second reads; 0: one pass
    kernels = build(plan)   one kernel per pass, each with the pointers `src` and `dst`

    one pass                src -> dst
    two passes              src -> workspace -> dst           launched in this order on one stream

The idea.  The plan decides, the walk says who reads what, and this module writes it down as a tile program:

    1  a thread reads its steps, `depth` vectors at a time, and folds them into its values
    2  the threads of a row join theirs: lanes by butterflies, groups of lanes through shared memory
    3  one thread per row multiplies by the factor of a mean, rounds to the result's type and stores

Values are floats in between, or of several words: those of the second pass are joined, not made of elements.
Integers and indices are exact.  A maximum is exact, and NaN if any element is.  A term of a sum passes
through plan.additions = n roundings at most, so that the sum differs from the true one by no more than
n u / (1 - n u) times the sum of magnitudes, u = 2^-24, before it is rounded to the result's type.  The order
of additions is that of the plan: results do not depend on which block ends first.

Notes.  A kernel is built for one problem: extents and strides are constants, only the pointers are
parameters.  Pointers are multiples of 16 bytes; a tensor that starts elsewhere has an offset.

Source: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 4.2 (the bound).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

import numpy

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, as_expr
from layoutalg.codegen.language import Fragment, Tensor
from layoutalg.codegen.program import Kernel, MemRef, Reg, RegRef
from layoutalg.codegen.terms import where
from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels.rowwise.packed import PackedWalk
from layoutalg.kernels.rowwise.programs.block import Block, all_of, float_word
from layoutalg.kernels.rowwise.programs.block_reduce import tree_reduce
from layoutalg.kernels.rowwise.reductions import FOLDED, WAY, Labels
from layoutalg.kernels.rowwise.tensors import Mode
from layoutalg.kernels.rowwise.unaligned import CutRows, HeadTail
from layoutalg.kernels.rowwise.walk import WORD_BYTES, Chunk, Crd, Index
from layoutalg.kernels.rowwise.ways import Pass, ReducePlan
from layoutalg.layout import Layout


def build(plan: ReducePlan) -> tuple[Kernel, ...]:
    """The tile programs of a plan, one per pass."""
    return tuple(_Reduction(p).kernel() for p in plan.passes)


class _Reduction(Block):
    """The block of a pass."""

    walk: HeadTail

    def __init__(self, p: Pass) -> None:
        walk, c = p.walk, p.config
        super().__init__(f"reduce_{p.op}_{p.element}_{p.result}", walk, _notes(p))
        self.p, self.c, k = p, c, self.k
        self.src = self.tensor("src", "src", () if c.packed else None)
        dealt = c.splits > 1 or len(walk.reduced) > 1
        if dealt and not c.packed:  # rounds that are dealt, or taken apart, are not proven
            self.src = replace(self.src, extents=(*self.src.extents[:-2], None, None))
        self.dst = self.tensor("dst", "dst", p.form.kept if c.splits == 1 else (), p.result, writable=True)
        own = range(c.rows_per_thread)
        self.places = [k.let(f"place{n}", as_expr(walk.place(self.tile, self.row, n))) for n in own]
        offset = walk.form.src_offset  # stays an immediate
        self.bases = []
        for n, place in enumerate(self.places):
            bases = walk.bases(place)
            source = k.let(f"source{n}", as_expr(bases.source) - offset)
            self.bases.append(bases._replace(source=source + offset))
        self.acc = k.reg("acc", p.values * p.words)
        if p.element.name in instr.PACKED:
            self.reg("f", c.vec)
        if isinstance(walk, CutRows) or p.left % c.vec:
            self.filled("neutral", 1, instr.NEUTRAL[p.fold])
        self.labels = None if p.joins else p.labels
        if self.labels is not None:
            element = find_dtype(f"s{8 * self.labels.nbytes}")
            self.target = self.tensor("target", "dst", p.form.kept, element)
        self.packed = k.reg("packed", -(-p.store_vec // 2)) if p.result.name in instr.PACKED else None

    def kernel(self) -> Kernel:
        """The whole program."""
        p = self.p
        if p.words > 1:
            self.k.do(instr.empty(p.fold, p.values), self.acc, Const(0))
        else:
            self.k.do(instr.fill(p.values), self.acc, Const(instr.NEUTRAL[p.fold]))
        if self.labels is not None:
            self._label(self.labels)
        single = max(1, p.element.nbytes // WORD_BYTES)
        edges = self.k.reg("edge", self.c.rows_per_thread, single) if self.walk.edges else None
        early = edges is not None and self.p.edge_rounds == 1
        if self.c.packed:
            self.run.copy_in(self.src.buffer)
        once = self.c.rows_per_thread == 1 and not isinstance(self.walk.places, int)  # dearer in each load
        with self.where(self.has_row(self.places[0]) if once else []):
            self.of_rows = once
            if edges is not None and early:
                self._edges(edges, 0)
            self._vectors()
            if p.left:
                self._left()
            if edges is not None and early:
                self._fold_edges(edges, 0)
            elif edges is not None:
                with self.k.For("e", self.p.edge_rounds, unroll=4) as e:
                    self._edges(edges, e)
                    self._fold_edges(edges, e)
            self.of_rows = False
        tree_reduce(self, self.p.fold, self.acc)
        self._store()
        return self.k.build()

    def _label(self, labels: Labels) -> None:
        """Read the labels of a thread's values: `step` times a class and 1, or what names none."""
        k, p, walk, single = self.k, self.p, self.walk, self.walk.values == 1
        words = labels.nbytes // WORD_BYTES
        named = k.fragment("named", "u32", (words,), values=words)
        step = int(any(m.weight for m in walk.modes))  # 0: all elements are one that broadcasts
        x, ignored = named[0], [named[i].eq(labels.ignore >> 32 * i & 0xFFFFFFFF) for i in range(words)]
        there = reduce(and_, [x < labels.classes, *(named[i].eq(0) for i in range(1, words))])
        number = where(there, x * step + 1, instr.UNKNOWN)
        if -1 << 8 * labels.nbytes - 1 <= labels.ignore < 1 << 8 * labels.nbytes - 1:
            number = where(reduce(and_, ignored), instr.IGNORED, number)
        for n in range(p.values):
            place, e = (self.places[n], 0) if single else (self.places[0], n)
            with self.where(self.has_row(place, exact=True)):
                label = self._result(self.target, self._target(place, e), labels.offset)
                k.do(instr.LDG[labels.nbytes], named.words, label)
                k.map(number, into=self._label_of(n))

    def _label_of(self, n: int) -> Fragment:
        """The label of value n."""
        return Fragment(self.acc, find_dtype("u32"), Layout(1), start=Const(n * self.p.words + 3))

    # --- reading ---------------------------------------------------------------------------------------

    def _vectors(self) -> None:
        k, p, c = self.k, self.p, self.c
        held = k.reg("held", c.depth, c.rows_per_thread, self.tiling.words)
        if p.rounds == 1 and c.splits == 1:
            self._round(held, 0, c.depth, whole=True)
        elif p.rounds:
            count: Index = p.rounds
            if c.splits > 1:
                count = (p.rounds + (c.splits - 1 - self.split)) // c.splits
            with k.For("i", as_expr(count)) as i:
                self._round(held, (i * c.splits + self.split) * c.depth, c.depth, whole=True)
        if p.tail_steps:
            with self.where([self.split.eq(p.rounds % c.splits)] if c.splits > 1 else []):
                depth = -(-p.tail_steps // c.threads_per_row)
                self._round(held, p.rounds * c.depth, depth, whole=False)

    def _round(self, held: Reg, first: Index, depth: int, *, whole: bool) -> None:
        """Fetch `depth` vectors of a thread from number `first` on, all at once, then fold them."""
        k, own = self.k, range(self.c.rows_per_thread)
        with k.Unroll("u", depth) as u:
            for n in own:
                chunk, exists = self._vector(n, first + u, whole=whole)
                self._fetch(held[u, n], chunk, self.c.vec, exists)
        with k.Unroll("u", depth) as u:
            for n in own:
                cut = self.p.words > 1 or isinstance(self.walk, CutRows)
                where = self._vector(n, first + u, whole=whole) if cut else None
                self._fold(held[u, n], n, self.c.vec, where)

    def _left(self) -> None:
        """Fold the row of columns that is left, by the first thread of each column in the first split."""
        k, p, c, walk = self.k, self.p, self.c, self.walk
        (rows,) = walk.outer
        column, *_ = walk.target(self.places[0])
        words, begin = k.reg("left", self.tiling.words), self.bases[0].source + rows.extent * rows.src
        chunk = Chunk(begin, 0, 0, column, 0, p.left)
        one = [self.split.eq(0)] if c.splits > 1 else []
        one += [self.y.eq(0)] if c.threads_per_row > 1 else []
        whole = words.slice(0, count=self.tiling.words)
        self._fetch(whole, chunk, c.vec, [*one, *self.has_row(self.places[0]), as_expr(column < p.left)])
        values = self.widened(whole, c.vec, "f")
        if p.left % c.vec:
            with self.where([column + c.vec > p.left]):
                k.do(instr.within(c.vec), values, *chunk.ends, self.reg("neutral", 1))
        k.do(instr.fold(p.fold, c.vec, c.vec), self.acc, values)

    def _vector(self, n: int, i: Index, *, whole: bool) -> tuple[Chunk, list[Expr]]:
        """Vector i of a thread in its row n, and the predicates that it exists."""
        walk = self.walk
        step = walk.step(self.y, i)
        chunk = walk.chunk(self.bases[n], step)
        exists = walk.inside(chunk) if whole else walk.exists(step, chunk)
        return chunk, [*self.has_row(self.places[n]), *exists]

    def _edge(self, n: int, turn: Index) -> tuple[Chunk, list[Expr]]:
        """A single element, and the predicates that it exists; they are dealt to the splits in turn."""
        turn = turn * self.c.splits + self.split
        one, exists = self.walk.edge(self.bases[n], self.walk.step(self.y, turn))
        return one, [*self.has_row(self.places[n]), *exists]

    def _edges(self, edge: Reg, turn: Index) -> None:
        """Fetch single elements."""
        for n in range(self.c.rows_per_thread):
            one, exists = self._edge(n, turn)
            self._fetch(edge[n], one, 1, exists)

    def _fold_edges(self, edge: Reg, turn: Index) -> None:
        for n in range(self.c.rows_per_thread):
            self._fold(edge[n], n, 1, self._edge(n, turn) if self.p.words > 1 else None)

    def _fetch(self, words: RegRef, chunk: Chunk, vec: int, exists: list[Expr]) -> None:
        """Load `vec` elements where all of `exists` hold, what changes nothing elsewhere.

        Folds then need no condition: under one, the compiler would move every load next to its use.
        """
        k, p = self.k, self.p
        if all_of(exists) != Const(1):
            word = 0 if p.words > 1 else neutral_word(p.fold, p.element.name)
            k.do(instr.fill(words.words), words, Const(word))
        with self.where(exists):
            if self.c.packed:
                k.do(instr.LDS[vec * p.element.nbytes], words, self.run.at(chunk.source))
            else:
                k.do(instr.LDG[vec * p.element.nbytes], words, self.source(chunk))

    def _fold(self, words: RegRef, n: int, vec: int, where: tuple[Chunk, list[Expr]] | None) -> None:
        """Join `vec` elements to the value of row n, or to one value each.

        `where` says of values of several words where they lie, and the predicates that they exist.
        """
        k, p, rows, single = self.k, self.p, self.walk.rows, self.walk.values == 1
        values = self.widened(words, vec, "f")
        if where is not None and isinstance(self.walk, CutRows):
            chunk, where = where[0], None
            with self.where([as_expr(self.walk.whole(chunk)).eq(0)]):
                k.do(instr.within(vec), values, *chunk.ends, self.reg("neutral", 1))
        if where is None:
            k.do(instr.fold(p.fold, vec, 1 if single else vec), self.acc[n] if single else self.acc, values)
            return
        chunk, exists = where
        of_index = FOLDED[p.op] in ("arg", "nll") and not p.joins
        index = self.walk.index(chunk) if of_index else 0
        step = self.walk.lead.weight if of_index and rows else 0
        element = instr.PARTIAL if p.joins else "f32" if p.element.name in instr.PACKED else p.element.name
        way = WAY.get(p.op, "max")
        to = self.acc.slice(n * p.words, count=p.words) if single else self.acc
        made = instr.absorb(p.fold, element, way, vec, 1 if single else vec)
        there, on = self.reg("there", 1), all_of(exists)
        k.do(instr.fill(1), there, Const(int(on == Const(1))))
        if on != Const(1):
            with self.where(exists):
                k.do(instr.fill(1), there, Const(1))
        k.do(made, step, to, values, as_expr(index), there)

    # --- writing ---------------------------------------------------------------------------------------

    def _store(self) -> None:
        k, p, c, single = self.k, self.p, self.c, self.walk.values == 1
        values, size = self.acc, p.words
        if p.words > 1 and c.splits == 1:
            size = max(1, p.result.nbytes // WORD_BYTES)
            values = k.reg("results", p.values * size)
            kind = "f32" if p.result.name in instr.PACKED else p.result.name
            k.do(instr.finish(p.fold, kind, p.values), values, self.acc, Const(float_word(p.factor)))
        elif p.factor != 1.0 and p.words == 1:
            k.do(instr.scale(p.values), self.acc, Const(float_word(p.factor)))
        counts = None
        if p.labels is not None and p.labels.counts and c.splits == 1:
            counts = k.fragment("counts", "f32", (p.values,), values=p.values)
            for n in range(p.values):
                k.map(where(self._label_of(n).eq(instr.IGNORED), 0.0, 1.0), into=counts[n])
        one = [self.lane.eq(0)] if c.lanes_per_row > 1 else []
        one += [self.group.eq(0)] if c.groups_per_row > 1 else []
        for n in range(c.rows_per_thread):
            place = self.places[n]
            with self.where([*one, *self.has_row(place, exact=True)]):
                for e in (n,) if single else range(0, c.vec, p.store_vec):
                    inside = 0 if single else e
                    crd, number = self._target(place, inside), place * self.walk.values + inside
                    self._put(values.slice(e * size, count=p.store_vec * size), crd, number)
                    if counts is not None:
                        self._put(counts.at(e, values=p.store_vec), crd, number, p.form.outputs)

    def _put(self, values: RegRef, crd: Crd, number: Index, behind: int = 0) -> None:
        """Store results: at a coordinate, or by their number in the workspace, split after split.

        They lie some elements `behind` where the first ones would.
        """
        p = self.p
        if self.c.splits == 1:
            to = self._result(self.dst, crd, behind)
        else:
            to = self.at(self.dst, self.split * p.form.outputs + number)
        if self.packed is not None:
            self.k.do(instr.convert(values.words, "f32", p.result.name), self.packed, values)
            values = RegRef(self.packed, ())
        self.k.do(instr.STG_WHOLE[p.store_vec * p.result.nbytes], to, values)

    def _result(self, tensor: Tensor, crd: Crd, behind: int) -> MemRef:
        """The place of a result, or of its label."""
        walk, kept, offset = self.walk, self.p.form.kept, self.p.form.dst_offset + behind
        return self.at(tensor, walk.along(crd, kept, "dst") + offset, walk.counted(crd, kept, "dst"), offset)

    def _target(self, place: Expr, e: int) -> Crd:
        """The coordinate of element e of a place among the kept modes; of a packed walk, in the tensor."""
        walk = self.walk
        return walk.group(self.run.start, place) if isinstance(walk, PackedWalk) else walk.target(place, e)


def place_of(crd: Crd, kept: Sequence[Mode]) -> Index:
    """The number of an output, the first mode fastest.

    >>> place_of((1, 2), (Mode(10, 1, 1, False), Mode(5, 10, 10, False)))
    21
    """
    total: Index = 0
    for i, m in zip(reversed(crd), reversed(kept), strict=True):
        total = total * m.extent + i
    return total


def neutral_word(op: str, element: str) -> int:
    """A word of elements that change nothing in a "sum", "prod", "max" or "min" of floats.

    >>> hex(neutral_word("max", "f16")), hex(neutral_word("max", "bf16")), neutral_word("sum", "f32")
    ('0xfc00fc00', '0xff80ff80', 0)
    """
    word = numpy.array([instr.NEUTRAL[op]], "u4")
    return int(word[0]) if element == "f32" else int(instr.converted(word, "f32", element)[0]) * 0x10001


def _notes(p: Pass) -> list[str]:
    walk, c = p.walk, p.config
    kind = "rows" if walk.rows else "columns"
    scaled = f", sums times 1/{round(1 / p.factor)}" if p.op == "mean" else ""
    lines = [
        "",
        f"{p.op} of {p.element} to {p.result}{scaled}, {kind}: {p.form}.",
        f"A block of {c.threads} threads = {c.lanes_per_row} lanes x {c.rows_per_block} rows x "
        f"{c.groups_per_row} groups; {c.depth * c.rows_per_thread} loads of {walk.tiling.nbytes} bytes in "
        "flight.",
        f"A row is {walk.steps} loads and at most {walk.edge_steps} single elements.",
    ]
    if c.packed:
        lines.append("A block copies runs of rows to shared memory as they lie, and loads are from there.")
    if p.left:
        lines.append(
            f"Behind the last row are {p.left} elements of another one, which the first threads add."
        )
    if c.splits > 1:
        lines.append(f"{c.splits} blocks share the loads of a row; their results go to a workspace.")
    return lines
