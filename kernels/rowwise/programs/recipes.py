"""The steps of softmax, layer norm and rms norm: what each writes into the block that computes it.

The idea.  A `Norm` writes each step into a block; all have the same steps, which `build` of `norm` puts
together as the configuration says:

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

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const
from layoutalg.codegen.program import Reg, RegRef
from layoutalg.kernels.rowwise.programs.block import Group, NormBlock, RowBlock, Vector, float_word
from layoutalg.kernels.rowwise.programs.block_reduce import all_reduce
from layoutalg.kernels.rowwise.programs.vectors import parametrised


class Norm(ABC):
    """The steps of a norm, see the module's text.

    `partials` are the registers that a part leaves, and those that they are read into; `own` those that a
    thread has of them before statistics are combined; `factors` those that `apply` reads.
    """

    partials: Mapping[str, str]
    own: tuple[str, ...]
    factors: tuple[str, ...]

    @abstractmethod
    def start(self, b: NormBlock) -> None:
        """Statistics of no elements."""

    @abstractmethod
    def online(self, b: RowBlock) -> None:
        """Statistics of a thread from one visit of its vectors."""

    @abstractmethod
    def single(self, b: NormBlock, x: RegRef) -> None:
        """The partials of a single element."""

    @abstractmethod
    def join(self, b: NormBlock) -> None:
        """Partials are joined to the statistics of a thread."""

    @abstractmethod
    def combine(self, b: NormBlock) -> None:
        """Statistics of all threads that share them, in each of these."""

    @abstractmethod
    def apply(self, b: NormBlock, f: RegRef) -> None:
        """A vector becomes its result, without weights."""

    def held(self, b: RowBlock) -> None:
        """Statistics of vectors that stay."""
        self.start(b)
        self.online(b)
        self.combine(b)

    def ready(self, b: NormBlock) -> None:
        """Statistics become factors."""
        b.k.do(instr.deviation(b.statistics), b.stat("q"), _share(b), Const(float_word(b.problem.eps)))

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


class _Softmax(Norm):
    """The maximum m, and s = sum e^(x - m)."""

    partials, own, factors = MappingProxyType({"m": "m_b", "s": "s_b"}), ("m", "s"), ("m", "s")

    def start(self, b: NormBlock) -> None:
        b.filled("m", b.statistics, instr.NEUTRAL["max"])
        b.filled("s", b.statistics, 0)

    def held(self, b: RowBlock) -> None:
        self.start(b)
        b.filled("low", 1, instr.NEUTRAL["max"])
        for group in b.groups():
            self._largest(b, group)
        all_reduce(b, "max", b.stat("m"))
        for group in b.groups():
            self._exponentials(b, group)
        all_reduce(b, "sum", b.stat("s"))

    def online(self, b: RowBlock) -> None:
        b.filled("low", 1, instr.NEUTRAL["max"])
        for group in b.groups():
            old = b.copied("old", b.stat("m"))
            self._largest(b, group)
            b.k.do(instr.rescale(b.statistics), b.stat("s"), old, b.stat("m"))
            self._exponentials(b, group)

    def _largest(self, b: RowBlock, group: Group) -> None:
        n, low = b.statistics, b.reg("low", 1)
        group.visit(lambda v: b.k.do(instr.fold("max", b.tiling.vec, n), b.stat("m"), b.masked(v, low)))

    def _exponentials(self, b: RowBlock, group: Group) -> None:
        add, low, m, s = instr.add_exp(b.tiling.vec, b.statistics), b.reg("low", 1), b.stat("m"), b.stat("s")
        group.visit(lambda v: b.k.do(add, s, b.masked(v, low), m))

    def single(self, b: NormBlock, x: RegRef) -> None:
        b.k.do(instr.MOVE, b.stat("m_b")[0], x)
        b.filled("s_b", 1, float_word(1.0))

    def join(self, b: NormBlock) -> None:
        n, (m, s), (m_b, s_b) = b.statistics, self.planes(b), self.others(b)
        old = b.copied("old", m)
        b.k.do(instr.fold("max", n, n), m, m_b)
        b.k.do(instr.rescale(n), s, old, m)
        b.k.do(instr.rescale(n), s_b, m_b, m)
        b.k.do(instr.fold("sum", n, n), s, s_b)

    def combine(self, b: NormBlock) -> None:
        m, s = self.planes(b)
        old = b.copied("old", m)
        all_reduce(b, "max", m)
        b.k.do(instr.rescale(b.statistics), s, old, m)  # once for all: exchanges add plain sums
        all_reduce(b, "sum", s, last=True)

    def ready(self, b: NormBlock) -> None:
        b.k.do(instr.reciprocal(b.statistics), b.stat("s"))

    def apply(self, b: NormBlock, f: RegRef) -> None:
        b.k.do(instr.apply_softmax(b.tiling.vec, b.statistics), f, b.stat("m"), b.stat("s"))


class _LayerNorm(Norm):
    """The mean of `count` elements, and q = sum (x - mean)^2."""

    partials = MappingProxyType({"mean": "mean_b", "q": "q_b", "every": "more"})
    own, factors = ("mean", "q", "count"), ("mean", "q")

    def start(self, b: NormBlock) -> None:
        for name in ("count", "mean", "q"):
            b.zeros(name)

    def held(self, b: RowBlock) -> None:
        n, vec, mean, q, zero = b.statistics, b.tiling.vec, *map(b.zeros, ("mean", "q", "zero"))
        b.each(lambda v: b.k.do(instr.fold("sum", vec, n), mean, b.masked(v, zero)))
        all_reduce(b, "sum", mean)
        b.k.do(instr.scale(n), mean, _share(b))
        b.each(lambda v: b.k.do(instr.add_square(vec, n), q, b.masked(v, mean), mean))
        all_reduce(b, "sum", q)

    def online(self, b: RowBlock) -> None:
        n, vec, zero = b.statistics, b.tiling.vec, b.zeros("zero")
        per = float(vec if b.walk.rows else 1)
        each, (mean, q, more) = b.filled("each", 1, float_word(per)), self.others(b)

        def add(v: Vector) -> None:
            b.k.do(instr.fold("sum", vec, n), mean, b.masked(v, zero))
            if v.cut and b.walk.rows:
                b.k.do(instr.count_within(vec), more, *v.chunk.ends)
            elif not v.plain:
                b.k.do(instr.add_same(1, "f32"), more, each)

        def square(v: Vector) -> None:
            b.k.do(instr.add_square(vec, n), q, b.masked(v, mean), mean)

        for group in b.groups():
            b.zeros("mean_b")
            b.zeros("q_b")
            b.filled("more", 1, float_word(per * group.count) if group.plain else 0)
            group.visit(add)
            b.k.do(instr.average(n), mean, more)
            group.visit(square)
            self.join(b)

    def single(self, b: NormBlock, x: RegRef) -> None:
        b.filled("more", 1, float_word(1.0))
        b.k.do(instr.MOVE, b.stat("mean_b")[0], x)
        b.zeros("q_b")

    def join(self, b: NormBlock) -> None:
        planes = map(b.stat, ("count", "mean", "q", "more", "mean_b", "q_b"))
        b.k.do(instr.merge_moments(b.statistics), *planes)

    def combine(self, b: NormBlock) -> None:
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

    def apply(self, b: NormBlock, f: RegRef) -> None:
        b.k.do(instr.apply_norm(b.tiling.vec, b.statistics), f, b.stat("mean"), b.stat("q"))


class _RmsNorm(Norm):
    """q = sum x^2, of squares from a mean that is 0."""

    partials, own, factors = MappingProxyType({"q": "q_b"}), ("q",), ("q",)

    def start(self, b: NormBlock) -> None:
        for name in ("zero", "mean", "q"):
            b.zeros(name)

    def online(self, b: RowBlock) -> None:
        n, zero, mean, q = b.statistics, *map(b.stat, ("zero", "mean", "q"))
        b.each(lambda v: b.k.do(instr.add_square(b.tiling.vec, n), q, b.masked(v, zero), mean))

    def single(self, b: NormBlock, x: RegRef) -> None:
        b.k.do(instr.add_square(1, 1), b.zeros("q_b"), x, b.stat("zero"))

    def join(self, b: NormBlock) -> None:
        b.k.do(instr.fold("sum", b.statistics, b.statistics), b.stat("q"), b.stat("q_b"))

    def combine(self, b: NormBlock) -> None:
        all_reduce(b, "sum", b.stat("q"), last=True)

    def apply(self, b: NormBlock, f: RegRef) -> None:
        b.k.do(instr.multiply(b.tiling.vec, b.statistics), f, b.stat("q"))


def _share(b: NormBlock) -> Const:
    """1 / count of a statistic, as a word."""
    return Const(float_word(1 / b.problem.axes.count))


NORMS: Mapping[str, Norm] = MappingProxyType(
    {"softmax": _Softmax(), "layer_norm": _LayerNorm(), "rms_norm": _RmsNorm()}
)
"""The steps of each norm, by name."""
