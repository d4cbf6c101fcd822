"""The steps of softmax, layer norm and rms norm: what each writes into the block that computes it.

The idea.  A norm is a record of functions that write a step each into a block; all have the same steps, which
`build` of `norm` puts together as the configuration says:

    held       statistics of vectors that stay: a visit and an exchange between threads for each
    online     a thread's statistics from one visit, of vectors that are read again
    combine    joins the statistics of the threads that share them; in a cluster first in each warp, then of
               all warps of all blocks
    join       adds the partials of a split to what a thread has, in the second kernel
    single     the partials of a single element, as `join` takes them
    ready      from statistics to factors
    apply      a vector becomes its result

    softmax       m = max x           s = sum e^(x - m)            r = 1 / s
    layer norm    mean of x           q = sum (x - mean)^2         r = 1 / sqrt(q / count + eps)
    rms norm                          q = sum x^2                  r = 1 / sqrt(q / count + eps)

Online, softmax rescales its sum when the maximum grows, and layer norm merges (count, mean, q) of a group of
vectors into those of all before: no difference of large squares is ever taken.

Notes.  Statistics are floats for all element types.  Rows with +infinity or NaN, and rows of -infinity only,
become NaN, as by definition.  Sums are made in a fixed order: equal launches give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const
from layoutalg.codegen.program import Reg, RegRef
from layoutalg.kernels.rowwise.programs.block import Group, NormBlock, RowBlock, Vector, float_word
from layoutalg.kernels.rowwise.programs.block_reduce import all_reduce
from layoutalg.kernels.rowwise.programs.vectors import parametrised

Step: TypeAlias = Callable[[RowBlock], None]
Join: TypeAlias = Callable[[NormBlock], None]
"""Steps of a norm: they write code into a block, that has vectors or statistics alone."""


# --- softmax -------------------------------------------------------------------------------------------


def _softmax_start(b: NormBlock) -> None:
    b.filled("m", b.statistics, instr.NEUTRAL["max"])
    b.filled("s", b.statistics, 0)


def _largest(b: RowBlock, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(instr.fold("max", b.tiling.vec, n), b.stat("m"), b.masked(v, low)))


def _exponentials(b: RowBlock, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(instr.add_exp(b.tiling.vec, n), b.stat("s"), b.masked(v, low), b.stat("m")))


def _softmax_held(b: RowBlock) -> None:
    _softmax_start(b)
    b.filled("low", 1, instr.NEUTRAL["max"])
    for group in b.groups():
        _largest(b, group)
    all_reduce(b, "max", b.stat("m"))
    for group in b.groups():
        _exponentials(b, group)
    all_reduce(b, "sum", b.stat("s"))


def _softmax_online(b: RowBlock) -> None:
    b.filled("low", 1, instr.NEUTRAL["max"])
    for group in b.groups():
        old = b.copied("old", b.stat("m"))
        _largest(b, group)
        b.k.do(instr.rescale(b.statistics), b.stat("s"), old, b.stat("m"))
        _exponentials(b, group)


def _softmax_single(b: NormBlock, x: RegRef) -> None:
    b.k.do(instr.MOVE, b.stat("m_b")[0], x)
    b.filled("s_b", 1, float_word(1.0))


def _softmax_join(b: NormBlock) -> None:
    n, m, s, m_b, s_b = b.statistics, *map(b.stat, ("m", "s", "m_b", "s_b"))
    old = b.copied("old", m)
    b.k.do(instr.fold("max", n, n), m, m_b)
    b.k.do(instr.rescale(n), s, old, m)
    b.k.do(instr.rescale(n), s_b, m_b, m)
    b.k.do(instr.fold("sum", n, n), s, s_b)


def _softmax_combine(b: NormBlock) -> None:
    m, s = b.stat("m"), b.stat("s")
    old = b.copied("old", m)
    all_reduce(b, "max", m)
    b.k.do(instr.rescale(b.statistics), s, old, m)
    all_reduce(b, "sum", s, last=True)


def _softmax_ready(b: NormBlock) -> None:
    b.k.do(instr.reciprocal(b.statistics), b.stat("s"))


def _softmax_apply(b: NormBlock, f: RegRef) -> None:
    b.k.do(instr.apply_softmax(b.tiling.vec, b.statistics), f, b.stat("m"), b.stat("s"))


# --- layer norm ----------------------------------------------------------------------------------------


def _norm_start(b: NormBlock) -> None:
    for name in ("count", "mean", "q"):
        b.zeros(name)


def _share(b: NormBlock) -> Const:
    """1 / count of a statistic, as a word."""
    return Const(float_word(1 / b.count))


def _norm_held(b: RowBlock) -> None:
    n, vec, mean, q, zero = b.statistics, b.tiling.vec, *map(b.zeros, ("mean", "q", "zero"))
    b.each(lambda v: b.k.do(instr.fold("sum", vec, n), mean, b.masked(v, zero)))
    all_reduce(b, "sum", mean)
    b.k.do(instr.scale(n), mean, _share(b))
    b.each(lambda v: b.k.do(instr.add_square(vec, n), q, b.masked(v, mean), mean))
    all_reduce(b, "sum", q)


def _norm_online(b: RowBlock) -> None:
    n, vec, zero = b.statistics, b.tiling.vec, b.zeros("zero")
    per = float(vec if b.walk.rows else 1)
    each = b.filled("each", 1, float_word(per))
    for group in b.groups():
        mean, q = b.zeros("mean_b"), b.zeros("q_b")
        more = b.filled("more", 1, float_word(per * group.count) if group.plain else 0)

        def add(v: Vector, mean: Reg = mean, more: Reg = more) -> None:
            b.k.do(instr.fold("sum", vec, n), mean, b.masked(v, zero))
            if not v.plain:
                _count(b, v, more, each)

        def square(v: Vector, mean: Reg = mean, q: Reg = q) -> None:
            b.k.do(instr.add_square(vec, n), q, b.masked(v, mean), mean)

        group.visit(add)
        b.k.do(instr.average(n), mean, more)
        group.visit(square)
        _norm_merge(b)


def _count(b: RowBlock, v: Vector, more: Reg, each: Reg) -> None:
    """Add the number of a vector's elements that are the row's."""
    if not (v.cut and b.walk.rows):
        b.k.do(instr.add_one(1), more, each)
        return
    b.k.do(instr.count_within(b.tiling.vec), more, *v.chunk.ends)


def _norm_single(b: NormBlock, x: RegRef) -> None:
    b.filled("more", 1, float_word(1.0))
    b.k.do(instr.MOVE, b.stat("mean_b")[0], x)
    b.zeros("q_b")


def _norm_merge(b: NormBlock) -> None:
    b.k.do(instr.merge_moments(b.statistics), *map(b.stat, ("count", "mean", "q", "more", "mean_b", "q_b")))


def _norm_combine(b: NormBlock) -> None:
    n, count, mean, q = b.statistics, *map(b.stat, ("count", "mean", "q"))
    every, total = b.copied("every", count), b.copied("total", mean)
    all_reduce(b, "sum", every)
    b.k.do(instr.multiply(n, 1), total, count)
    all_reduce(b, "sum", total)
    b.k.do(instr.average(n), total, every)
    apart = b.zeros("apart")
    b.k.do(instr.add_square(n, n), apart, mean, total)
    b.k.do(instr.multiply(n, 1), apart, count)
    b.k.do(instr.fold("sum", n, n), q, apart)
    all_reduce(b, "sum", q, last=True)
    b.copied("mean", total)


def _norm_ready(b: NormBlock) -> None:
    b.k.do(instr.deviation(b.statistics), b.stat("q"), _share(b), Const(float_word(b.problem.eps)))


def _norm_apply(b: NormBlock, f: RegRef) -> None:
    b.k.do(instr.apply_norm(b.tiling.vec, b.statistics), f, b.stat("mean"), b.stat("q"))


# --- rms norm ------------------------------------------------------------------------------------------


def _rms_start(b: NormBlock) -> None:
    for name in ("zero", "mean", "q"):
        b.zeros(name)


def _rms_online(b: RowBlock) -> None:
    n, zero, mean, q = b.statistics, *map(b.stat, ("zero", "mean", "q"))
    b.each(lambda v: b.k.do(instr.add_square(b.tiling.vec, n), q, b.masked(v, zero), mean))


def _rms_held(b: RowBlock) -> None:
    _rms_start(b)
    _rms_online(b)
    all_reduce(b, "sum", b.stat("q"))


def _rms_single(b: NormBlock, x: RegRef) -> None:
    b.k.do(instr.add_square(1, 1), b.zeros("q_b"), x, b.stat("zero"))


def _rms_join(b: NormBlock) -> None:
    b.k.do(instr.fold("sum", b.statistics, b.statistics), b.stat("q"), b.stat("q_b"))


def _rms_combine(b: NormBlock) -> None:
    all_reduce(b, "sum", b.stat("q"), last=True)


def _rms_apply(b: NormBlock, f: RegRef) -> None:
    b.k.do(instr.multiply(b.tiling.vec, b.statistics), f, b.stat("q"))


# --- all of them ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Norm:
    """The steps of a norm, see the module's text.

    `partials` are the registers that a part leaves, and those that they are read into; `own` those that a
    thread has of them before statistics are combined; `factors` those that `apply` reads.
    """

    start: Join
    held: Step
    online: Step
    single: Callable[[NormBlock, RegRef], None]
    join: Join
    combine: Join
    ready: Join
    apply: Callable[[NormBlock, RegRef], None]
    partials: Mapping[str, str]
    own: tuple[str, ...]
    factors: tuple[str, ...]

    def planes(self, b: NormBlock) -> list[Reg]:
        """The registers that a part leaves."""
        return [b.stat(name) for name in self.partials]

    def others(self, b: NormBlock) -> list[Reg]:
        """The registers that those of another part are read into."""
        return [b.stat(name) for name in self.partials.values()]

    def joined(self, b: NormBlock, parts: Iterable[None]) -> None:
        """Join the statistics of parts that are read one after the other, and those of all threads."""
        self.start(b)
        for _ in parts:
            self.join(b)
        self.combine(b)

    def results(self, b: RowBlock, *, backwards: bool = False) -> None:
        """Statistics become factors, and every vector its result."""
        self.ready(b)
        b.each(lambda v: self.result(b, v), backwards=backwards)

    def result(self, b: RowBlock, v: Vector) -> None:
        """A vector becomes its result, which is stored."""
        self.apply(b, f := b.floats(v))
        if b.problem.parameters:
            parametrised(b, f, v)
        b.store(f, v)


NORMS: Mapping[str, Norm] = MappingProxyType(
    {
        "softmax": Norm(
            _softmax_start, _softmax_held, _softmax_online, _softmax_single, _softmax_join, _softmax_combine,
            _softmax_ready, _softmax_apply, {"m": "m_b", "s": "s_b"}, ("m", "s"), ("m", "s"),
        ),
        "layer_norm": Norm(
            _norm_start, _norm_held, _norm_online, _norm_single, _norm_merge, _norm_combine,
            _norm_ready, _norm_apply, {"mean": "mean_b", "q": "q_b", "every": "more"},
            ("mean", "q", "count"), ("mean", "q"),
        ),
        "rms_norm": Norm(
            _rms_start, _rms_held, _rms_online, _rms_single, _rms_join, _rms_combine,
            _norm_ready, _rms_apply, {"q": "q_b"}, ("q",), ("q",),
        ),
    }
)  # fmt: skip
"""The steps of each norm, by name."""
