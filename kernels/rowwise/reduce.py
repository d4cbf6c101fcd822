"""reduce: sum, max and mean over any modes of f32, f16 and bf16 tensors, any strides, in one pass or two.

    p = reduce_problem(shape, axes, op, dtype, src=None, dst=None, src_offset=0, dst_offset=0, result=None)
    p.of_nothing            what every output is if no element is reduced (None: elements are)
    plan = plans(p, arch)[0]                best first; of problems that are not empty
    plan.workspace_elems    f32 elements that the first pass writes and the second reads; 0: one pass
    kernels = build(plan)   one kernel a pass, each with the pointers `src` and `dst`
    predict(plan, arch)     what every access costs, a prediction a pass

    one pass                src -> dst
    two passes              src -> workspace -> dst           launched in this order on one stream

The idea.  The plan (reduce_plan) decides, the walk (reduce_walk) says who reads what, and this module writes
it down as a tile program:

    1  a thread reads its steps, `depth` vectors at a time, and folds them into its values
    2  lanes of a warp that share outputs fold theirs in a butterfly, groups of lanes through shared memory
    3  one thread an output multiplies by the factor of a mean, rounds to the result's type and stores

Values are floats in between.  A maximum is exact, and NaN if any element is.  A term of a sum passes through
plan.additions = n roundings at most, so that the sum differs from the true one by no more than
n u / (1 - n u) times the sum of magnitudes, u = 2^-24, before it is rounded to the result's type.  The order
of additions is that of the plan: results do not depend on which block ends first.

Notes.  A kernel is built for one problem: extents and strides are constants, only the pointers are
parameters.  Pointers are multiples of 16 bytes; a tensor that starts elsewhere has an offset.

Source: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, 4.2 (the bound).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from layoutalg.codegen.expr import Const, Expr, as_expr, simplify
from layoutalg.codegen.instr import (
    BAR,
    LDG,
    LDS,
    NEUTRAL,
    STG_WHOLE,
    STS,
    butterfly,
    fill,
    fold,
    pack,
    scale,
    unpack,
)
from layoutalg.codegen.program import Kernel, KernelBuilder, Reg, RegRef, Shared
from layoutalg.kernels.rowwise.reduce_plan import Pass, ReducePlan, ReduceProblem, plans, reduce_problem
from layoutalg.kernels.rowwise.reduce_walk import Index, flipped
from layoutalg.layout import Layout

__all__ = ["ReducePlan", "ReduceProblem", "build", "build_pass", "plans", "reduce_problem", "reference"]


def build(plan: ReducePlan) -> tuple[Kernel, ...]:
    """The tile programs of a plan, one a pass.

    >>> plan = plans(reduce_problem((1 << 26,), 0, "sum", "f32"))[0]
    >>> [kernel.name for kernel in build(plan)]
    ['reduce_sum_f32_f32', 'reduce_sum_f32_f32']
    """
    return tuple(build_pass(p) for p in plan.passes)


def build_pass(p: Pass) -> Kernel:
    """The tile program of one pass.

    >>> build_pass(plans(reduce_problem((64, 64), 1, "max", "f16"))[0].passes[0]).name
    'reduce_max_f16_f16'
    """
    return _Writer(p).kernel()


class _Writer:
    """Writes the tile program of a pass."""

    def __init__(self, p: Pass) -> None:
        self.p, self.walk, self.c = p, p.walk, p.config
        walk, c = self.walk, self.c
        k = KernelBuilder(f"reduce_{p.op}_{p.element}_{p.result}", c.threads, notes=_notes(p))
        self.k = k
        self.src = k.pointer("src", p.element.nbytes)
        self.dst = k.pointer("dst", p.result.nbytes, writable=True)
        block = k.block(0, walk.blocks)
        self.group: Index = k.let("group", block % walk.groups) if c.splits > 1 else block
        self.split: Index = k.let("part", block // walk.groups) if c.splits > 1 else 0
        tid = k.tid
        self.lane, self.column = tid % c.lanes_per_row, tid // c.lanes_per_row % c.rows_per_block
        self.slow = tid // (c.lanes_per_row * c.rows_per_block)
        self.sharer = k.let("sharer", as_expr(self.lane + self.slow * c.lanes_per_row))
        self.places = [
            k.let(f"place{n}", as_expr(walk.place(self.group, n, self.column)))
            for n in range(c.rows_per_thread)
        ]
        self.starts = [k.let(f"start{n}", as_expr(walk.source(x))) for n, x in enumerate(self.places)]
        self.words = max(1, c.vec * p.element.nbytes // 4)
        self.acc = k.reg("acc", walk.values)
        self.wide = None if p.element.name == "f32" else k.reg("wide", max(2, c.vec))
        self.packed = None if p.result.name == "f32" else k.reg("packed", -(-p.store_vec // 2))

    def kernel(self) -> Kernel:
        """The whole program."""
        self.k.do(fill(self.walk.values), self.acc, Const(NEUTRAL[self.p.fold]))
        edges = self.k.reg("edge", self.c.rows_per_thread, 1) if self.walk.edges else None
        early = edges is not None and self.walk.edge_rounds == 1
        if edges is not None and early:
            self._edges(edges, 0)
        self._vectors()
        if edges is not None and early:
            self._fold_edges(edges)
        elif edges is not None:
            with self.k.For("e", self.walk.edge_rounds, unroll=4) as e:
                self._edges(edges, e)
                self._fold_edges(edges)
        self._between_threads()
        self._store()
        return self.k.build()

    # --- reading ---------------------------------------------------------------------------------------

    def _vectors(self) -> None:
        k, walk, c = self.k, self.walk, self.c
        held = k.reg("held", c.depth, c.rows_per_thread, self.words)
        if walk.rounds == 1 and c.splits == 1:
            self._round(held, 0, c.depth, whole=True)
        elif walk.rounds:
            count: Index = walk.rounds
            if c.splits > 1:
                count = (walk.rounds + flipped(self.split, c.splits)) // c.splits
            with k.For("i", as_expr(count)) as i:
                self._round(held, (i * c.splits + self.split) * walk.stride, c.depth, whole=True)
        if walk.left:
            with k.If(_all([self.split.eq(walk.rounds % c.splits)] if c.splits > 1 else [])):
                self._round(held, walk.rounds * walk.stride, -(-walk.left // c.threads_per_row), whole=False)

    def _round(self, held: Reg, first: Index, depth: int, *, whole: bool) -> None:
        """Fetch `depth` steps from number `first` on, all at once, then fold them."""
        k, walk, c = self.k, self.walk, self.c
        with k.Unroll("u", depth) as u:
            number = first + u * c.threads_per_row + self.sharer
            for n in range(c.rows_per_thread):
                at, exists = walk.step(number, self.starts[n])
                asked = [*self._present(n), *exists, *([] if whole else [number < walk.steps])]
                self._fetch(held[u, n], at, c.vec, asked)
        with k.Unroll("u", depth) as u:
            for n in range(c.rows_per_thread):
                self._fold(held[u, n], n, c.vec)

    def _edges(self, edge: Reg, turn: Index) -> None:
        """Fetch single elements, the first of the splits all of them."""
        number = self.sharer + turn * self.c.threads_per_row
        mine = [self.split.eq(0)] if self.c.splits > 1 else []
        for n in range(self.c.rows_per_thread):
            at, exists = self.walk.edge(number, self.starts[n])
            self._fetch(edge[n], at, 1, [*mine, *self._present(n), number < self.walk.edge_steps, *exists])

    def _fold_edges(self, edge: Reg) -> None:
        for n in range(self.c.rows_per_thread):
            self._fold(edge[n], n, 1)

    def _fetch(self, words: RegRef, at: Index, vec: int, exists: list[Expr]) -> None:
        """Load `vec` elements where all of `exists` hold, what changes nothing elsewhere.

        Folds then need no condition: under one, the compiler would move every load next to its use.
        """
        k, p = self.k, self.p
        asked = simplify(_all(exists))
        load = LDG[vec * p.element.nbytes]
        if asked == Const(1):
            k.do(load, words, k.at(self.src, at))
            return
        k.do(fill(words.words), words, Const(neutral_word(p.fold, p.element.name)))
        with k.If(asked):
            k.do(load, words, k.at(self.src, at))

    def _present(self, n: int) -> list[Expr]:
        """What says that the thread has an output number n."""
        return [self.places[n] < self.walk.places] if self.walk.ragged else []

    def _fold(self, words: RegRef, n: int, vec: int) -> None:
        """Join `vec` elements to the values of output n, or to one value each."""
        if self.wide is not None:
            wide = self.wide.slice(0, count=max(2, vec))
            self.k.do(unpack(max(2, vec), self.p.element.name), wide, words)
            words = self.wide.slice(0, count=vec)
        if self.walk.rows:
            self.k.do(fold(self.p.fold, vec, 1), self.acc[n], words)
        else:
            self.k.do(fold(self.p.fold, vec, vec), self.acc, words)

    # --- between threads -------------------------------------------------------------------------------

    def _between_threads(self) -> None:
        k, c, values = self.k, self.c, self.walk.values
        mask = c.lanes_per_row // 2
        while mask:
            k.do(butterfly(self.p.fold, values), mask, self.acc)
            mask //= 2
        if c.groups_per_row == 1:
            return
        size = c.groups_per_row * c.rows_per_block * values
        sums = k.shared_buffer("sums", 4, Layout(size, 1), size, 16)
        other = k.reg("other", values)
        half = c.groups_per_row // 2
        while half:
            with k.If(_all([*self._leads(), self.slow >= half, self.slow < 2 * half])):
                self._exchange(sums, self.slow, self.acc, store=True)
            k.do(BAR)
            with k.If(_all([*self._leads(), self.slow < half])):
                self._exchange(sums, self.slow + half, other, store=False)
                k.do(fold(self.p.fold, values, values), self.acc, other)
            half //= 2

    def _leads(self) -> list[Expr]:
        return [self.lane.eq(0)] if self.c.lanes_per_row > 1 else []

    def _exchange(self, sums: Shared, slow: Index, words: Reg, *, store: bool) -> None:
        """Move a thread's values to the place of group `slow`, or from it."""
        values = self.walk.values
        width = next(w for w in (4, 2, 1) if values % w == 0)
        for n in range(0, values, width):
            place = self.k.at(sums, (slow * self.c.rows_per_block + self.column) * values + n)
            if store:
                self.k.do(STS[4 * width], place, words.slice(n, count=width))
            else:
                self.k.do(LDS[4 * width], words.slice(n, count=width), place)

    # --- writing ---------------------------------------------------------------------------------------

    def _store(self) -> None:
        k, walk, p = self.k, self.walk, self.p
        if p.factor != 1.0:
            k.do(scale(walk.values), self.acc, Const(struct.unpack("<I", struct.pack("<f", p.factor))[0]))
        first = [self.slow.eq(0)] if self.c.groups_per_row > 1 else []
        for n in range(self.c.rows_per_thread):
            with k.If(_all([*self._leads(), *first, *self._present(n)])):
                for e in range(n, n + 1) if walk.rows else range(0, self.c.vec, p.store_vec):
                    to = walk.target(self.places[n], 0 if walk.rows else e, self.split)
                    self._put(self.acc.slice(e, count=p.store_vec), to)

    def _put(self, values: RegRef, to: Index) -> None:
        p = self.p
        if self.packed is not None:
            self.k.do(pack(values.words, p.result.name), self.packed, values)
            values = RegRef(self.packed, ())
        self.k.do(STG_WHOLE[p.store_vec * p.result.nbytes], self.k.at(self.dst, to), values)


def neutral_word(op: str, element: str) -> int:
    """A word of elements that change nothing in a "sum" or a "max".

    >>> hex(neutral_word("max", "f16")), hex(neutral_word("max", "bf16")), neutral_word("sum", "f32")
    ('0xfc00fc00', '0xff80ff80', 0)
    """
    if op == "sum":
        return NEUTRAL[op]
    return {"f32": NEUTRAL[op], "f16": 0xFC00FC00, "bf16": 0xFF80FF80}[element]


def _all(predicates: Iterable[Expr | bool]) -> Expr:
    """The conjunction; 1 of none."""
    total: Expr = Const(1)
    for p in predicates:
        total = total & (Const(int(p)) if isinstance(p, bool) else p)
    return total


def _notes(p: Pass) -> list[str]:
    walk, c = p.walk, p.config
    kind = "rows" if walk.rows else "columns"
    scaled = f", sums times 1/{round(1 / p.factor)}" if p.op == "mean" else ""
    lines = [
        "",
        f"{p.op} of {p.element} to {p.result}{scaled}, {kind}: {p.form}.",
        f"A block of {c.threads} threads = {c.lanes_per_row} lanes x {c.rows_per_block} outputs x "
        f"{c.groups_per_row} groups; loads of {c.vec * p.element.nbytes} bytes, "
        f"{c.depth * c.rows_per_thread} in flight.",
        f"An output is {walk.steps} loads and at most {walk.edge_steps} single elements.",
    ]
    if c.splits > 1:
        lines.append(f"{c.splits} blocks share the loads of an output; their results go to a workspace.")
    return lines


def reference(p: ReduceProblem, src: Any) -> Any:
    """The outputs by definition, float64 of the kept modes' shape: `src` holds numbers, not bits.

    >>> import numpy
    >>> reference(reduce_problem((2, 3), 1, "mean", "f32"), numpy.arange(6.0)).tolist()
    [1.0, 4.0]
    """
    import numpy

    x = p.axes
    steps = tuple(d * src.itemsize for d in x.src)
    view = numpy.lib.stride_tricks.as_strided(src[x.src_offset :], x.shape, steps).astype("f8")
    with numpy.errstate(all="ignore"):
        return numpy.asarray(getattr(view, p.op)(axis=x.axes))
