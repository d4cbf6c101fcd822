"""Softmax, layer norm, rms norm: dst = f(src, statistics over some modes), any strides, f32, f16 or bf16.

    problem = norm_problem("softmax", shape, axes, dtype, src, dst, src_offset, dst_offset,
                           eps=1e-5, weight=False, bias=False, in_place=False)
    launches = plan(problem, "sm_90")         raises ShapeError for a tensor without elements: a no-op
    launches.workspace_elems                  floats of a scratch buffer `partial`; 0: none is needed
    for kernel in launches.kernels:           a few, launched in this order on one stream
        load(kernel)(**arguments(kernel, src=..., dst=..., weight=..., bias=..., partial=...))

The idea.  A norm is a record of functions that write a step each into a block; all have the same steps, which
`build` puts together as the configuration says:

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

Notes.  `arguments` picks those that a kernel has; in place there is no `src`.  Pointers are multiples of 16
bytes: a tensor that starts elsewhere has an offset (elements from such a place on).  Where rows do not start
at vectors, whole 16-byte units are read: those that hold an element.  Weight and bias are contiguous.
Statistics are floats, whatever the elements.  Rows with +infinity or NaN, and rows of -infinity only, become
NaN, as by definition.  Sums are made in a fixed order: equal launches give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from layoutalg.arch import Arch
from layoutalg.codegen.expr import Const, as_expr
from layoutalg.codegen.instr import (
    LDG,
    MOVE,
    NEUTRAL,
    STG,
    add_exp,
    add_one,
    add_square,
    apply_norm,
    apply_softmax,
    average,
    deviation,
    fill,
    fold,
    merge_moments,
    multiply,
    reciprocal,
    rescale,
    scale,
    window,
    within,
)
from layoutalg.codegen.language import KernelBuilder, Tensor
from layoutalg.codegen.program import Kernel, MemRef, Reg, RegRef
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise.block import ONE_WORD, Group, NormBlock, RowBlock, Vector, float_word
from layoutalg.kernels.rowwise.block_reduce import all_reduce, counters, give, given, meet, partials, save
from layoutalg.kernels.rowwise.cluster import Exchange
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.packed import PackedWalk
from layoutalg.kernels.rowwise.problems import NormProblem
from layoutalg.kernels.rowwise.schedule import NormConfig, Schedule, can_cluster, stream_with, walk_of
from layoutalg.kernels.rowwise.slabs import build_slabs
from layoutalg.kernels.rowwise.streams import build_joined, build_results, workspace
from layoutalg.kernels.rowwise.unaligned import minus
from layoutalg.kernels.rowwise.walk import WARP, Index, Walk

Part: TypeAlias = Literal["whole", "statistics", "joined", "result"]
"""What a kernel does: all of it, one of the two halves of a split, or what is between those of a stream."""

Step: TypeAlias = Callable[[RowBlock], None]
Join: TypeAlias = Callable[[NormBlock], None]
"""Steps of a norm: they write code into a block, that has vectors or statistics alone."""


@dataclass(frozen=True, slots=True)
class NormLaunches:
    """What computes a problem: kernels in order, and the floats of scratch memory between them.

    >>> from layoutalg.kernels.rowwise import norm_problem
    >>> found = plan(norm_problem("softmax", (64, 1000), 1, "f16"))
    >>> len(found.kernels), found.workspace_elems
    (1, 0)
    """

    problem: NormProblem
    config: NormConfig
    kernels: tuple[Kernel, ...]
    workspace_elems: int


def plan(problem: NormProblem, arch: str | Arch = "sm_90", config: NormConfig | None = None) -> NormLaunches:
    """The launches of a problem, by the best configuration or a given one.

    Raises ShapeError for a tensor without elements, UnsupportedError for a split whose parts are held, for
    clusters that keep anything but a row, or columns that start at vectors, for runs that are split or read
    twice, or in place do not start at units, and what `packed_walk` raises.
    """
    c = configs(problem, arch)[0] if config is None else config
    if c.turns and (c.splits > 1 or c.hold == "global"):
        raise UnsupportedError(
            f"{problem} by runs, split in {c.splits}, by {c.hold}: runs are whole, and held"
        )
    walk = walk_of(form_of(problem), problem.dtype, c)
    if c.cluster > 1 and not can_cluster(walk, c):
        raise UnsupportedError(
            f"{problem} in clusters of {c.cluster} by {c.hold}: a row, or aligned columns, are kept, on chip"
        )
    if problem.in_place and isinstance(walk, PackedWalk) and not walk.starts_at_units:
        raise UnsupportedError(f"{problem} by runs: two blocks would share a unit of {walk.unit} elements")
    if c.width:
        return _streamed(problem, walk, c)
    if c.splits == 1:
        return NormLaunches(problem, c, (build(problem, walk, c),), 0)
    at_once = c.resident / c.splits
    if c.together and not (walk.rows and c.staged and at_once in range(1, walk.tiles + 1)):
        raise UnsupportedError(
            f"{problem} by {c.resident} resident blocks: {c.splits} times the rows that are read at once, 1 "
            f"to {walk.tiles}, which keep what they read last in a ring of staged vectors"
        )
    if c.hold != "global":
        raise UnsupportedError(f"{problem} split in {c.splits} by {c.hold}: parts are read twice, by global")
    words = c.splits * walk.places * _words(problem, walk)
    if c.together:
        places = counters(walk, _words(problem, walk))
        return NormLaunches(problem, c, (_clear(problem, places), build(problem, walk, c)), places.stop)
    kernels = build(problem, walk, c, "statistics"), build(problem, walk, c, "result")
    return NormLaunches(problem, c, kernels, words)


def _words(p: NormProblem, walk: Walk) -> int:
    """Words of the partials of a row."""
    return sum(1 if name in ONE_WORD else walk.values for name in NORMS[p.op].partials)


def _clear(p: NormProblem, places: range) -> Kernel:
    """What sets the counters of barriers to 0, behind the partials."""
    k = KernelBuilder(f"{p.op}_{p.dtype}_clear", WARP, notes=["", "Counters of arrivals are 0."])
    zero, partial = k.reg("zero", 1), k.pointer("partial", 4, writable=True)
    k.do(fill(1), zero, Const(0))
    with k.For("n", -(-len(places) // WARP)) as n:
        which = k.let("which", n * WARP + k.tid)
        with k.If(which < len(places)):
            k.do(STG[4], k.at(partial, places.start + which * places.step), zero)
    return k.build()


def _streamed(p: NormProblem, walk: Walk, c: NormConfig) -> NormLaunches:
    """Statistics of columns of memory, those of groups, and results."""
    s, norm = stream_with(form_of(p), c), NORMS[p.op]
    joined = build_joined(f"{p.op}_{p.dtype}_joined", p, s, c, _notes(p, walk, c, "joined"), norm)
    kernels = build(p, walk, c, "statistics"), joined, build(p, walk, c, "result")
    return NormLaunches(p, c, kernels, workspace(s, c, norm))


def arguments(kernel: Kernel, **given: Any) -> dict[str, Any]:
    """Those of the given arguments that a kernel has.

    >>> from layoutalg.kernels.rowwise.problems import norm_problem
    >>> (kernel,) = plan(norm_problem("softmax", (8, 1000), 1, "f16")).kernels
    >>> arguments(kernel, src=1, dst=2, weight=None)
    {'src': 1, 'dst': 2}
    """
    return {p.name: given[p.name] for p in kernel.params if p.name in given}


def build(p: NormProblem, walk: Walk, c: NormConfig, part: Part = "whole") -> Kernel:
    """The tile program of a configuration, or of one half of a split."""
    name, last = f"{p.op}_{p.dtype}" + ("" if part == "whole" else f"_{part}"), part == "result"
    norm = NORMS[p.op]
    if (c.cluster > 1 or c.resident) and not walk.rows:
        return build_slabs(name, p, walk, c, _notes(p, walk, c, part), norm)
    b = RowBlock(name, p, walk, c, _notes(p, walk, c, part), writes=part != "statistics", backwards=last)
    b.k.min_blocks = c.blocks_per_sm
    if c.turns:
        return _packed(b, norm)
    if c.together:
        return _together(b, norm)
    if c.width and last:
        return build_results(b, stream_with(form_of(p), c), c, norm)
    x = Exchange(b.k, c.threads // WARP, len(norm.partials)) if c.cluster > 1 else None
    if x is not None:
        x.open()
    b.hold()
    if x is not None:
        _cluster(b, x, norm)
    elif part == "whole" and c.hold != "global":
        norm.held(b)
    else:
        norm.start(b)
        b.only_written = last
        b.ahead(backwards=last)
        if last:
            for _ in partials(b, *map(b.stat, norm.partials.values())):
                norm.join(b)
        else:
            norm.online(b)
        if part == "whole":
            b.only_written = True
            b.ahead(backwards=True)
        norm.combine(b)
    if part == "statistics":
        save(b, *map(b.stat, norm.partials))
        return b.k.build()
    norm.ready(b)

    b.each(lambda v: norm.result(b, v), backwards=c.hold == "global")
    return b.k.build()


def _cluster(b: RowBlock, x: Exchange, norm: Norm) -> None:
    """Statistics of a row that a cluster holds: those of each warp, which all warps of all blocks join."""
    b.in_warps = True
    norm.start(b)
    norm.online(b)
    norm.combine(b)
    give(b, x, *map(b.stat, norm.partials))
    norm.start(b)
    for _ in given(b, x, *map(b.stat, norm.partials.values())):
        norm.join(b)
    norm.combine(b)


def _together(b: RowBlock, norm: Norm) -> Kernel:
    """The program of blocks that are resident: statistics of each, which all of a row join."""
    with b.rows_in_turn() as turn:
        norm.start(b)
        b.ahead()
        norm.online(b)
        norm.combine(b)
        meet(b, turn, *map(b.stat, norm.partials))
        norm.start(b)
        for _ in partials(b, *map(b.stat, norm.partials.values())):
            norm.join(b)
        norm.combine(b)
        norm.ready(b)
        b.each(lambda v: norm.result(b, v), backwards=True)
    return b.k.build()


def _packed(b: RowBlock, norm: Norm) -> Kernel:
    """The program of a block that copies a run of rows: all steps are taken in shared memory."""
    b.run.copy_in(b.src.buffer)
    with b.turns():
        norm.held(b)
        norm.ready(b)
        b.each(lambda v: norm.result(b, v))
    b.run.copy_out(b.dst.buffer)
    return b.k.build()


def _notes(p: NormProblem, w: Walk, c: NormConfig, part: Part) -> list[str]:
    rounds = Schedule(w, c).rounds
    held = {
        "registers": "held in registers",
        "shared": "held in shared memory" + (f", {c.staged} of them, or in registers" if c.staged else ""),
        "global": f"read twice, {c.depth} vectors of a thread at a time"
        + (f", {c.staged} on their way to shared memory" if c.staged else ""),
    }[c.hold]  # fmt: skip
    lines = [
        "",
        f"{p.op} of {w.form}, {p.dtype}: {_formula(p)}.",
        f"{c.threads_per_row} threads share the statistics of a {'row' if w.rows else 'column'}, "
        f"{c.rows_per_block} groups of them per block; vectors of {c.vec} elements, "
        f"{rounds} per thread, {held}.",
    ]
    if isinstance(w, PackedWalk):
        lines.append("A block copies a run of rows to shared memory as it lies, and back.")
    if c.cluster > 1:
        what = "a row" if w.rows else f"a slab of {c.rows_per_block * c.vec} columns"
        stay = f"; {c.resident} clusters go from slab to slab" if 0 < c.resident < w.tiles else ""
        lines.append(
            f"The {c.cluster} blocks of a cluster hold {what} together, "
            f"and exchange its statistics once{stay}."
        )
    if c.width:
        does = {"statistics": "statistics of columns", "joined": "statistics of groups", "result": "results"}
        lines.append(f"A stream of rows of {c.width} columns, by {c.splits} blocks in turn: {does[part]}.")
    elif c.splits > 1:
        half = "its statistics are written" if part == "statistics" else "the statistics of all are joined"
        if c.together:
            half = "all are resident, join those of all, and keep what they have read last"
        lines.append(f"{c.splits} blocks have a part of a statistic each; {half}.")
    return lines


def _formula(p: NormProblem) -> str:
    """What becomes of an element x."""
    if p.op == "softmax":
        return "e^(x - max) / sum e^(x - max)"
    extra = f"{' * weight' if p.weight else ''}{' + bias' if p.bias else ''}"
    what, spread = ("(x - mean)", "variance") if p.op == "layer_norm" else ("x", "mean x^2")
    return f"{what} / sqrt({spread} + {p.eps}){extra}"


# --- softmax -------------------------------------------------------------------------------------------


def _softmax_start(b: NormBlock) -> None:
    b.filled("m", b.statistics, NEUTRAL["max"])
    b.filled("s", b.statistics, 0)


def _largest(b: RowBlock, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(fold("max", b.tiling.vec, n), b.stat("m"), b.masked(v, low)))


def _exponentials(b: RowBlock, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(add_exp(b.tiling.vec, n), b.stat("s"), b.masked(v, low), b.stat("m")))


def _softmax_held(b: RowBlock) -> None:
    _softmax_start(b)
    b.filled("low", 1, NEUTRAL["max"])
    for group in b.groups():
        _largest(b, group)
    all_reduce(b, "max", b.stat("m"))
    for group in b.groups():
        _exponentials(b, group)
    all_reduce(b, "sum", b.stat("s"))


def _softmax_online(b: RowBlock) -> None:
    b.filled("low", 1, NEUTRAL["max"])
    for group in b.groups():
        old = b.copied("old", b.stat("m"))
        _largest(b, group)
        b.k.do(rescale(b.statistics), b.stat("s"), old, b.stat("m"))
        _exponentials(b, group)


def _softmax_single(b: NormBlock, x: RegRef) -> None:
    b.k.do(MOVE, b.stat("m_b")[0], x)
    b.filled("s_b", 1, float_word(1.0))


def _softmax_join(b: NormBlock) -> None:
    n, m, s, m_b, s_b = b.statistics, *map(b.stat, ("m", "s", "m_b", "s_b"))
    old = b.copied("old", m)
    b.k.do(fold("max", n, n), m, m_b)
    b.k.do(rescale(n), s, old, m)
    b.k.do(rescale(n), s_b, m_b, m)
    b.k.do(fold("sum", n, n), s, s_b)


def _softmax_combine(b: NormBlock) -> None:
    m, s = b.stat("m"), b.stat("s")
    old = b.copied("old", m)
    all_reduce(b, "max", m)
    b.k.do(rescale(b.statistics), s, old, m)
    all_reduce(b, "sum", s, last=True)


def _softmax_ready(b: NormBlock) -> None:
    b.k.do(reciprocal(b.statistics), b.stat("s"))


def _softmax_apply(b: NormBlock, f: RegRef) -> None:
    b.k.do(apply_softmax(b.tiling.vec, b.statistics), f, b.stat("m"), b.stat("s"))


# --- layer norm ----------------------------------------------------------------------------------------


def _norm_start(b: NormBlock) -> None:
    for name in ("count", "mean", "q"):
        b.zeros(name)


def _share(b: NormBlock) -> Const:
    """1 / count of a statistic, as a word."""
    return Const(float_word(1 / b.count))


def _norm_held(b: RowBlock) -> None:
    n, vec, mean, q, zero = b.statistics, b.tiling.vec, *map(b.zeros, ("mean", "q", "zero"))
    b.each(lambda v: b.k.do(fold("sum", vec, n), mean, b.masked(v, zero)))
    all_reduce(b, "sum", mean)
    b.k.do(scale(n), mean, _share(b))
    b.each(lambda v: b.k.do(add_square(vec, n), q, b.masked(v, mean), mean))
    all_reduce(b, "sum", q)


def _norm_online(b: RowBlock) -> None:
    n, vec, zero = b.statistics, b.tiling.vec, b.zeros("zero")
    per = float(vec if b.walk.rows else 1)
    each = b.filled("each", 1, float_word(per))
    for group in b.groups():
        mean, q = b.zeros("mean_b"), b.zeros("q_b")
        more = b.filled("more", 1, float_word(per * group.count) if group.plain else 0)

        def add(v: Vector, mean: Reg = mean, more: Reg = more) -> None:
            b.k.do(fold("sum", vec, n), mean, b.masked(v, zero))
            if not v.plain:
                _count(b, v, more, each, zero)

        def square(v: Vector, mean: Reg = mean, q: Reg = q) -> None:
            b.k.do(add_square(vec, n), q, b.masked(v, mean), mean)

        group.visit(add)
        b.k.do(average(n), mean, more)
        group.visit(square)
        _norm_merge(b)


def _count(b: RowBlock, v: Vector, more: Reg, each: Reg, zero: Reg) -> None:
    """Add the number of a vector's elements that are the row's."""
    if not (v.cut and b.walk.rows):
        b.k.do(add_one(1), more, each)
        return
    ones = b.filled("ones", b.tiling.vec, float_word(1.0))
    b.k.do(within(b.tiling.vec), ones, *v.chunk.ends, zero)
    b.k.do(fold("sum", b.tiling.vec, 1), more, ones)


def _norm_single(b: NormBlock, x: RegRef) -> None:
    b.filled("more", 1, float_word(1.0))
    b.k.do(MOVE, b.stat("mean_b")[0], x)
    b.zeros("q_b")


def _norm_merge(b: NormBlock) -> None:
    b.k.do(merge_moments(b.statistics), *map(b.stat, ("count", "mean", "q", "more", "mean_b", "q_b")))


def _norm_combine(b: NormBlock) -> None:
    n, count, mean, q = b.statistics, *map(b.stat, ("count", "mean", "q"))
    every, total = b.copied("every", count), b.copied("total", mean)
    all_reduce(b, "sum", every)
    b.k.do(multiply(n, 1), total, count)
    all_reduce(b, "sum", total)
    b.k.do(average(n), total, every)
    apart = b.zeros("apart")
    b.k.do(add_square(n, n), apart, mean, total)
    b.k.do(multiply(n, 1), apart, count)
    b.k.do(fold("sum", n, n), q, apart)
    all_reduce(b, "sum", q, last=True)
    b.copied("mean", total)


def _norm_ready(b: NormBlock) -> None:
    b.k.do(deviation(b.statistics), b.stat("q"), _share(b), Const(float_word(b.problem.eps)))


def _norm_apply(b: NormBlock, f: RegRef) -> None:
    b.k.do(apply_norm(b.tiling.vec, b.statistics), f, b.stat("mean"), b.stat("q"))


# --- weight and bias -----------------------------------------------------------------------------------


def _parametrised(b: RowBlock, f: RegRef, v: Vector) -> None:
    """Multiply a vector with its weights, and add its biases, where there are such."""
    vec, rows = b.tiling.vec, b.walk.rows
    if "weight" in b.problem.parameters:
        b.k.do(multiply(vec, vec if rows else 1), f, _factors(b, v, "weight"))
    if "bias" in b.problem.parameters:
        w = _factors(b, v, "bias")
        b.k.do(fold("sum", vec, vec) if rows else add_one(vec), f, w)


def _factors(b: RowBlock, v: Vector, name: str) -> RegRef:
    """Weights or biases of a vector: one for each element of a row, one for all of a column."""
    k, vec, chunk, walk, buffer = b.k, b.tiling.vec, v.chunk, b.walk, b.extra(name)
    offset = b.problem.parameters[name]
    start, crd = chunk.weight + offset, walk.weights(chunk)
    if not walk.rows:
        return _one_factor(b, b.at(buffer, start, crd, offset))
    if b.vector_weights:
        raw = b.reg("w", b.tiling.words)
        if walk.cut:
            _shifted(b, v, buffer, start, raw)
        else:
            k.do(LDG[b.tiling.nbytes], raw, b.at(buffer, start + chunk.at, crd, offset))
        return b.widened(RegRef(raw, ()), vec, "wide")
    found = b.filled("wide", vec, 0)
    for e in range(vec):
        with b.where([chunk.has(e)] if v.cut else []):
            place = b.at(buffer, start + walk.weight_of(chunk, e), crd, offset + e * walk.lead.weight)
            k.do(MOVE, found[e], _one_factor(b, place))
    return RegRef(found, ())


def _shifted(b: RowBlock, v: Vector, buffer: Tensor, start: Index, raw: Reg) -> None:
    """The weights of a vector of a ragged row: the end of one vector of weights and the start of the next."""
    k, vec, chunk, n = b.k, b.tiling.vec, v.chunk, b.tiling.words
    before, after = b.filled("w_before", n, 0), b.filled("w_after", n, 0)
    with b.where([as_expr(chunk.at) >= vec]):
        earlier = minus(chunk.at, vec, b.walk.lead.extent + vec) // vec * vec
        k.do(LDG[b.tiling.nbytes], before, b.at(buffer, start + earlier))
    with b.where([as_expr(chunk.at) < b.walk.lead.extent]):
        k.do(LDG[b.tiling.nbytes], after, b.at(buffer, start + chunk.at))
    k.do(window(vec, b.element.nbytes), raw, before, after, as_expr(vec - chunk.low))


def _one_factor(b: RowBlock, place: MemRef) -> RegRef:
    raw = b.reg("w1", 1)
    b.k.do(LDG[b.element.nbytes], raw, place)
    return b.widened(RegRef(raw, ()), 1, "wide1")


# --- rms norm ------------------------------------------------------------------------------------------


def _rms_start(b: NormBlock) -> None:
    for name in ("zero", "mean", "q"):
        b.zeros(name)


def _rms_online(b: RowBlock) -> None:
    n, zero, mean, q = b.statistics, *map(b.stat, ("zero", "mean", "q"))
    b.each(lambda v: b.k.do(add_square(b.tiling.vec, n), q, b.masked(v, zero), mean))


def _rms_held(b: RowBlock) -> None:
    _rms_start(b)
    _rms_online(b)
    all_reduce(b, "sum", b.stat("q"))


def _rms_single(b: NormBlock, x: RegRef) -> None:
    b.k.do(add_square(1, 1), b.zeros("q_b"), x, b.stat("zero"))


def _rms_join(b: NormBlock) -> None:
    b.k.do(fold("sum", b.statistics, b.statistics), b.stat("q"), b.stat("q_b"))


def _rms_combine(b: NormBlock) -> None:
    all_reduce(b, "sum", b.stat("q"), last=True)


def _rms_apply(b: NormBlock, f: RegRef) -> None:
    b.k.do(multiply(b.tiling.vec, b.statistics), f, b.stat("q"))


# --- all of them ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Norm:
    """The steps of a norm, see the module's text.

    `partials` are the registers that a part leaves, and those that they are read into; `factors` those that
    `apply` reads.
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
    factors: tuple[str, ...]

    def result(self, b: RowBlock, v: Vector) -> None:
        """A vector becomes its result, which is stored."""
        self.apply(b, f := b.floats(v))
        _parametrised(b, f, v)
        b.store(f, v)


NORMS: Mapping[str, Norm] = MappingProxyType(
    {
        "softmax": Norm(
            _softmax_start, _softmax_held, _softmax_online, _softmax_single, _softmax_join, _softmax_combine,
            _softmax_ready, _softmax_apply, {"m": "m_b", "s": "s_b"}, ("m", "s"),
        ),
        "layer_norm": Norm(
            _norm_start, _norm_held, _norm_online, _norm_single, _norm_merge, _norm_combine,
            _norm_ready, _norm_apply, {"mean": "mean_b", "q": "q_b", "every": "more"}, ("mean", "q"),
        ),
        "rms_norm": Norm(
            _rms_start, _rms_held, _rms_online, _rms_single, _rms_join, _rms_combine,
            _norm_ready, _rms_apply, {"q": "q_b"}, ("q",),
        ),
    }
)  # fmt: skip
"""The steps of each norm, by name."""
