"""Softmax, layer norm, rms norm: dst = f(src, statistics over some modes), any strides, f32, f16 or bf16.

    problem = norm_problem("softmax", shape, axes, dtype, src, dst, src_offset, dst_offset,
                           eps=1e-5, weight=False, bias=False, in_place=False)
    launches = plan(problem, "sm_90")         raises ShapeError for a tensor without elements: a no-op
    launches.workspace_elems                  floats of a scratch buffer `partial`; 0: none is needed
    for kernel in launches.kernels:           one or two, launched in this order on one stream
        load(kernel)(**arguments(kernel, src=..., dst=..., weight=..., bias=..., partial=...))

The idea.  A norm is a record of functions that write a step each into a block; all have the same steps, which
`build` puts together as the configuration says:

    held       statistics of vectors that stay: a visit and an exchange between threads for each
    online     a thread's statistics from one visit, of vectors that are read again
    combine    joins the statistics of the threads that share them
    join       adds the partials of a split to what a thread has, in the second kernel
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

import struct
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
    add_exp,
    add_one,
    add_square,
    apply_norm,
    apply_softmax,
    average,
    deviation,
    fold,
    merge_moments,
    multiply,
    reciprocal,
    rescale,
    scale,
    window,
    within,
)
from layoutalg.codegen.program import Global, Kernel, Reg, RegRef
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise.block import Group, RowBlock, Vector
from layoutalg.kernels.rowwise.block_reduce import all_reduce, partials, save
from layoutalg.kernels.rowwise.norm_plan import NormConfig, Schedule, configs, form_of, walk_of
from layoutalg.kernels.rowwise.problems import NormProblem
from layoutalg.kernels.rowwise.walk import Index, Walk, minus

Part: TypeAlias = Literal["whole", "statistics", "result"]
"""What a kernel does: all of it, or one of the two halves of a split."""


@dataclass(frozen=True, slots=True)
class NormLaunches:
    """What computes a problem: kernels in order, and the floats of scratch memory between them."""

    problem: NormProblem
    config: NormConfig
    kernels: tuple[Kernel, ...]
    workspace_elems: int


def plan(problem: NormProblem, arch: str | Arch = "sm_90", config: NormConfig | None = None) -> NormLaunches:
    """The launches of a problem, by the best configuration or a given one.

    Raises ShapeError for a tensor without elements, UnsupportedError for a split whose parts are held.

    >>> from layoutalg.kernels.rowwise.problems import norm_problem
    >>> [k.name for k in plan(norm_problem("softmax", (8, 1000), 1, "f16")).kernels]
    ['softmax_f16']
    """
    c = configs(problem, arch)[0] if config is None else config
    walk = walk_of(form_of(problem), problem.dtype, c)
    if c.splits == 1:
        return NormLaunches(problem, c, (build(problem, walk, c),), 0)
    if c.hold != "global":
        raise UnsupportedError(f"{problem} split in {c.splits} by {c.hold}: parts are read twice, by global")
    kernels = build(problem, walk, c, "statistics"), build(problem, walk, c, "result")
    words = sum(walk.values if each else 1 for each in NORMS[problem.op].partials.values())
    return NormLaunches(problem, c, kernels, c.splits * walk.places * words)


def arguments(kernel: Kernel, **given: Any) -> dict[str, Any]:
    """Those of the given arguments that a kernel has.

    >>> from layoutalg.kernels.rowwise.problems import norm_problem
    >>> (kernel,) = plan(norm_problem("softmax", (8, 1000), 1, "f16")).kernels
    >>> arguments(kernel, src=1, dst=2, weight=None)
    {'src': 1, 'dst': 2}
    """
    return {p.name: given[p.name] for p in kernel.params if p.name in given}


def build(p: NormProblem, walk: Walk, c: NormConfig, part: Part = "whole") -> Kernel:
    """The tile program of a configuration, or of one half of a split.

    >>> from layoutalg.kernels.rowwise.problems import norm_problem
    >>> p, c = norm_problem("layer_norm", (8, 1024), 1, "f32"), NormConfig(4, 1, 128, "registers")
    >>> build(p, walk_of(form_of(p), p.dtype, c), c).name
    'layer_norm_f32'
    """
    name, last = f"{p.op}_{p.dtype}" + ("" if part == "whole" else f"_{part}"), part == "result"
    b = RowBlock(name, p, walk, c, _notes(p, walk, c, part), writes=part != "statistics", backwards=last)
    norm = NORMS[p.op]
    b.hold()
    if part == "whole" and c.hold != "global":
        norm.held(b)
    else:
        norm.start(b)
        b.only_written = last
        b.ahead(backwards=last)
        if last:
            sizes = {name: b.statistics if each else 1 for name, each in norm.partials.items()}
            for _ in partials(b, *(b.reg(name, n) for name, n in sizes.items())):
                norm.join(b)
        else:
            norm.online(b)
        if part == "whole":
            b.only_written = True
            b.ahead(backwards=True)
        norm.combine(b)
    if part == "statistics":
        save(b, *(b.reg(name, b.statistics if each else 1) for name, each in norm.saved.items()))
        return b.k.build()
    norm.ready(b)

    def result(v: Vector) -> None:
        f = b.floats(v)
        norm.apply(b, f, v)
        b.store(f, v)

    b.each(result, backwards=c.hold == "global")
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
    if c.splits > 1:
        half = "its statistics are written" if part == "statistics" else "the statistics of all are joined"
        lines.append(f"{c.splits} blocks have a part of a statistic each; {half}.")
    return lines


def _formula(p: NormProblem) -> str:
    """What becomes of an element x."""
    if p.op == "softmax":
        return "e^(x - max) / sum e^(x - max)"
    extra = f"{' * weight' if p.weight else ''}{' + bias' if p.bias else ''}"
    what, spread = ("(x - mean)", "variance") if p.op == "layer_norm" else ("x", "mean x^2")
    return f"{what} / sqrt({spread} + {p.eps}){extra}"


def float_word(x: float) -> int:
    """The bits of the float nearest to x.

    >>> hex(float_word(1.0))
    '0x3f800000'
    """
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return int(bits)


# --- softmax -------------------------------------------------------------------------------------------


def _softmax_start(b: RowBlock) -> None:
    b.filled("m", b.statistics, NEUTRAL["max"])
    b.filled("s", b.statistics, 0)


def _largest(b: RowBlock, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(fold("max", b.tiling.vec, n), b.reg("m", n), b.masked(v, low)))


def _exponentials(b: RowBlock, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(add_exp(b.tiling.vec, n), b.reg("s", n), b.masked(v, low), b.reg("m", n)))


def _softmax_held(b: RowBlock) -> None:
    n = b.statistics
    _softmax_start(b)
    b.filled("low", 1, NEUTRAL["max"])
    for group in b.groups():
        _largest(b, group)
    all_reduce(b, "max", b.reg("m", n))
    for group in b.groups():
        _exponentials(b, group)
    all_reduce(b, "sum", b.reg("s", n))


def _softmax_online(b: RowBlock) -> None:
    n = b.statistics
    b.filled("low", 1, NEUTRAL["max"])
    for group in b.groups():
        old = b.copied("old", b.reg("m", n))
        _largest(b, group)
        b.k.do(rescale(n), b.reg("s", n), old, b.reg("m", n))
        _exponentials(b, group)


def _softmax_join(b: RowBlock) -> None:
    n = b.statistics
    m, s, m_b, s_b = (b.reg(name, n) for name in ("m", "s", "m_b", "s_b"))
    old = b.copied("old", m)
    b.k.do(fold("max", n, n), m, m_b)
    b.k.do(rescale(n), s, old, m)
    b.k.do(rescale(n), s_b, m_b, m)
    b.k.do(fold("sum", n, n), s, s_b)


def _softmax_combine(b: RowBlock) -> None:
    n = b.statistics
    m, s = b.reg("m", n), b.reg("s", n)
    old = b.copied("old", m)
    all_reduce(b, "max", m)
    b.k.do(rescale(n), s, old, m)
    all_reduce(b, "sum", s, last=True)


def _softmax_ready(b: RowBlock) -> None:
    b.k.do(reciprocal(b.statistics), b.reg("s", b.statistics))


def _softmax_apply(b: RowBlock, f: RegRef, v: Vector) -> None:
    n = b.statistics
    b.k.do(apply_softmax(b.tiling.vec, n), f, b.reg("m", n), b.reg("s", n))


# --- layer norm ----------------------------------------------------------------------------------------


def _norm_start(b: RowBlock) -> None:
    b.filled("count", 1, 0)
    b.filled("mean", b.statistics, 0)
    b.filled("q", b.statistics, 0)


def _share(b: RowBlock) -> Const:
    """1 / count of a statistic, as a word."""
    return Const(float_word(1 / b.count))


def _norm_held(b: RowBlock) -> None:
    n, vec = b.statistics, b.tiling.vec
    mean, q = b.filled("mean", n, 0), b.filled("q", n, 0)
    zero = b.filled("zero", 1, 0)
    b.each(lambda v: b.k.do(fold("sum", vec, n), mean, b.masked(v, zero)))
    all_reduce(b, "sum", mean)
    b.k.do(scale(n), mean, _share(b))
    b.each(lambda v: b.k.do(add_square(vec, n), q, b.masked(v, mean), mean))
    all_reduce(b, "sum", q)


def _norm_online(b: RowBlock) -> None:
    n, vec = b.statistics, b.tiling.vec
    zero, per = b.filled("zero", 1, 0), float(vec if b.walk.rows else 1)
    each = b.filled("each", 1, float_word(per))
    for group in b.groups():
        mean, q = b.filled("mean_b", n, 0), b.filled("q_b", n, 0)
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
    vec, chunk = b.tiling.vec, v.chunk
    ones = b.filled("ones", vec, float_word(1.0))
    b.k.do(within(vec), ones, as_expr(chunk.at), as_expr(chunk.low), as_expr(chunk.high), zero)
    b.k.do(fold("sum", vec, 1), more, ones)


def _norm_merge(b: RowBlock) -> None:
    n = b.statistics
    mine = b.reg("count", 1), b.reg("mean", n), b.reg("q", n)
    b.k.do(merge_moments(n), *mine, b.reg("more", 1), b.reg("mean_b", n), b.reg("q_b", n))


def _norm_combine(b: RowBlock) -> None:
    n = b.statistics
    count, mean, q = b.reg("count", 1), b.reg("mean", n), b.reg("q", n)
    every, total = b.copied("every", count), b.copied("total", mean)
    all_reduce(b, "sum", every)
    b.k.do(multiply(n, 1), total, count)
    all_reduce(b, "sum", total)
    b.k.do(average(n), total, every)
    apart = b.filled("apart", n, 0)
    b.k.do(add_square(n, n), apart, mean, total)
    b.k.do(multiply(n, 1), apart, count)
    b.k.do(fold("sum", n, n), q, apart)
    all_reduce(b, "sum", q, last=True)
    b.copied("mean", total)


def _norm_ready(b: RowBlock) -> None:
    n = b.statistics
    b.k.do(deviation(n), b.reg("q", n), _share(b), Const(float_word(b.problem.eps)))


def _norm_apply(b: RowBlock, f: RegRef, v: Vector) -> None:
    n, vec, p = b.statistics, b.tiling.vec, b.problem
    b.k.do(apply_norm(vec, n), f, b.reg("mean", n), b.reg("q", n))
    _weighted(b, f, v)
    if p.bias:
        w = _factors(b, v, "bias")
        b.k.do(fold("sum", vec, vec) if b.walk.rows else add_one(vec), f, w)


def _weighted(b: RowBlock, f: RegRef, v: Vector) -> None:
    if b.problem.weight:
        b.k.do(multiply(b.tiling.vec, b.tiling.vec if b.walk.rows else 1), f, _factors(b, v, "weight"))


def _factors(b: RowBlock, v: Vector, name: str) -> RegRef:
    """Weights or biases of a vector: one for each element of a row, one for all of a column."""
    k, vec, chunk, buffer = b.k, b.tiling.vec, v.chunk, b.extra(name)
    start = chunk.weight + b.problem.parameters[name]
    if not b.walk.rows:
        return _one_factor(b, buffer, start)
    if b.vector_weights:
        raw = b.reg("w", b.tiling.words)
        if b.walk.cut:
            _shifted(b, v, buffer, start, raw)
        else:
            k.do(LDG[b.tiling.nbytes], raw, k.at(buffer, start + chunk.at))
        return b.widened(RegRef(raw, ()), vec, "wide")
    found = b.filled("wide", vec, 0)
    for e in range(vec):
        with b.where([chunk.has(e)] if v.cut else []):
            one = _one_factor(b, buffer, start + b.walk.weight_of(chunk, e))
            k.do(MOVE, found[e], one)
    return RegRef(found, ())


def _shifted(b: RowBlock, v: Vector, buffer: Global, start: Index, raw: Reg) -> None:
    """The weights of a vector of a ragged row: the end of one vector of weights and the start of the next."""
    k, vec, chunk, n = b.k, b.tiling.vec, v.chunk, b.tiling.words
    before, after = b.filled("w_before", n, 0), b.filled("w_after", n, 0)
    with b.where([as_expr(chunk.at) >= vec]):
        earlier = minus(chunk.at, vec, b.walk.lead.extent + vec) // vec * vec
        k.do(LDG[b.tiling.nbytes], before, k.at(buffer, start + earlier))
    with b.where([as_expr(chunk.at) < b.walk.lead.extent]):
        k.do(LDG[b.tiling.nbytes], after, k.at(buffer, start + chunk.at))
    k.do(window(vec, b.element.nbytes), raw, before, after, as_expr(vec - chunk.low))


def _one_factor(b: RowBlock, buffer: Global, index: Index) -> RegRef:
    raw = b.reg("w1", 1)
    b.k.do(LDG[b.element.nbytes], raw, b.k.at(buffer, index))
    return b.widened(RegRef(raw, ()), 1, "wide1")


# --- rms norm ------------------------------------------------------------------------------------------


def _rms_start(b: RowBlock) -> None:
    b.filled("zero", 1, 0)
    b.filled("mean", b.statistics, 0)
    b.filled("q", b.statistics, 0)


def _rms_online(b: RowBlock) -> None:
    n, zero = b.statistics, b.reg("zero", 1)

    def square(v: Vector) -> None:
        b.k.do(add_square(b.tiling.vec, n), b.reg("q", n), b.masked(v, zero), b.reg("mean", n))

    b.each(square)


def _rms_held(b: RowBlock) -> None:
    _rms_start(b)
    _rms_online(b)
    all_reduce(b, "sum", b.reg("q", b.statistics))


def _rms_combine(b: RowBlock) -> None:
    all_reduce(b, "sum", b.reg("q", b.statistics), last=True)


def _rms_join(b: RowBlock) -> None:
    n = b.statistics
    b.k.do(fold("sum", n, n), b.reg("q", n), b.reg("q_b", n))


def _rms_apply(b: RowBlock, f: RegRef, v: Vector) -> None:
    b.k.do(multiply(b.tiling.vec, b.statistics), f, b.reg("q", b.statistics))
    _weighted(b, f, v)


# --- all of them ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Norm:
    """The steps of a norm, see the module's text.

    `saved` are the registers that a split leaves as partials, `partials` those that they are read into, both
    with whether there is one for each statistic.
    """

    held: Callable[[RowBlock], None]
    start: Callable[[RowBlock], None]
    online: Callable[[RowBlock], None]
    combine: Callable[[RowBlock], None]
    saved: Mapping[str, bool]
    partials: Mapping[str, bool]
    join: Callable[[RowBlock], None]
    ready: Callable[[RowBlock], None]
    apply: Callable[[RowBlock, RegRef, Vector], None]


NORMS: Mapping[str, Norm] = MappingProxyType(
    {
        "softmax": Norm(
            held=_softmax_held,
            start=_softmax_start,
            online=_softmax_online,
            combine=_softmax_combine,
            saved={"m": True, "s": True},
            partials={"m_b": True, "s_b": True},
            join=_softmax_join,
            ready=_softmax_ready,
            apply=_softmax_apply,
        ),
        "layer_norm": Norm(
            held=_norm_held,
            start=_norm_start,
            online=_norm_online,
            combine=_norm_combine,
            saved={"mean": True, "q": True, "every": False},
            partials={"mean_b": True, "q_b": True, "more": False},
            join=_norm_merge,
            ready=_norm_ready,
            apply=_norm_apply,
        ),
        "rms_norm": Norm(
            held=_rms_held,
            start=_rms_start,
            online=_rms_online,
            combine=_rms_combine,
            saved={"q": True},
            partials={"q_b": True},
            join=_rms_join,
            ready=_norm_ready,
            apply=_rms_apply,
        ),
    }
)
"""The steps of each norm, by name."""
