"""Softmax and layer norm, step by step: what is folded, what threads exchange, what becomes of a vector.

The idea.  A recipe is a record of functions that write a step each into a `Body`; both have the same steps.

    held      statistics of vectors that stay: two visits, each with an exchange between threads
    online    a thread's statistics from one visit
    meet      joins the statistics of the threads that share them
    tell      what a part of a split leaves for the second kernel; join adds it to what a thread has
    ready     from statistics to factors
    apply     a vector becomes its result

    softmax       m = max x           s = sum e^(x - m)            r = 1 / s
    layer norm    mean of x           q = sum (x - mean)^2         r = 1 / sqrt(q / count + eps)

Notes.  Online, softmax rescales its sum when the maximum grows, and layer norm merges (count, mean, q) of a
group of vectors into those of all before: no difference of large squares is ever taken.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.codegen.expr import Const, as_expr, minus
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
from layoutalg.codegen.program import Global, Reg, RegRef
from layoutalg.kernels.rowwise.norm_exchange import combine
from layoutalg.kernels.rowwise.norm_pieces import Index
from layoutalg.kernels.rowwise.norm_program import Body, Group, Vector
from layoutalg.kernels.rowwise.norm_vectors import words


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps of a norm, see the module's text; `told` are the registers that a part is read into."""

    held: Callable[[Body], None]
    start: Callable[[Body], None]
    online: Callable[[Body], None]
    meet: Callable[[Body], None]
    tell: Callable[[Body], tuple[Reg, ...]]
    told: tuple[str, ...]
    join: Callable[[Body], None]
    ready: Callable[[Body], None]
    apply: Callable[[Body, RegRef, Vector], None]


def float_word(x: float) -> int:
    """The bits of the float nearest to x.

    >>> hex(float_word(1.0))
    '0x3f800000'
    """
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    return int(bits)


# --- softmax -------------------------------------------------------------------------------------------


def _softmax_start(b: Body) -> None:
    b.filled("m", b.statistics, NEUTRAL["max"])
    b.filled("s", b.statistics, 0)


def _largest(b: Body, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(fold("max", b.config.vec, n), b.reg("m", n), b.masked(v, low)))


def _exponentials(b: Body, group: Group) -> None:
    n, low = b.statistics, b.reg("low", 1)
    group.visit(lambda v: b.k.do(add_exp(b.config.vec, n), b.reg("s", n), b.masked(v, low), b.reg("m", n)))


def _softmax_held(b: Body) -> None:
    n = b.statistics
    _softmax_start(b)
    b.filled("low", 1, NEUTRAL["max"])
    for group in b.groups():
        _largest(b, group)
    combine(b, "max", b.reg("m", n))
    for group in b.groups():
        _exponentials(b, group)
    combine(b, "sum", b.reg("s", n))


def _softmax_online(b: Body) -> None:
    n = b.statistics
    b.filled("low", 1, NEUTRAL["max"])
    for group in b.groups():
        old = b.copied("old", b.reg("m", n))
        _largest(b, group)
        b.k.do(rescale(n), b.reg("s", n), old, b.reg("m", n))
        _exponentials(b, group)


def _softmax_join(b: Body) -> None:
    n = b.statistics
    m, s, m_b, s_b = (b.reg(name, n) for name in ("m", "s", "m_b", "s_b"))
    old = b.copied("old", m)
    b.k.do(fold("max", n, n), m, m_b)
    b.k.do(rescale(n), s, old, m)
    b.k.do(rescale(n), s_b, m_b, m)
    b.k.do(fold("sum", n, n), s, s_b)


def _softmax_meet(b: Body) -> None:
    n = b.statistics
    m, s = b.reg("m", n), b.reg("s", n)
    old = b.copied("old", m)
    combine(b, "max", m)
    b.k.do(rescale(n), s, old, m)
    combine(b, "sum", s, last=True)


def _softmax_tell(b: Body) -> tuple[Reg, ...]:
    return b.reg("m", b.statistics), b.reg("s", b.statistics)


def _softmax_ready(b: Body) -> None:
    b.k.do(reciprocal(b.statistics), b.reg("s", b.statistics))


def _softmax_apply(b: Body, f: RegRef, v: Vector) -> None:
    n = b.statistics
    b.k.do(apply_softmax(b.config.vec, n), f, b.reg("m", n), b.reg("s", n))


# --- layer norm ----------------------------------------------------------------------------------------


def _norm_start(b: Body) -> None:
    b.filled("count", 1, 0)
    b.filled("mean", b.statistics, 0)
    b.filled("q", b.statistics, 0)


def _share(b: Body) -> Const:
    """1 / count of a statistic, as a word."""
    return Const(float_word(1 / b.modes.count))


def _norm_held(b: Body) -> None:
    n, vec = b.statistics, b.config.vec
    mean, q = b.filled("mean", n, 0), b.filled("q", n, 0)
    zero = b.filled("zero", 1, 0)
    b.each(lambda v: b.k.do(fold("sum", vec, n), mean, b.masked(v, zero)))
    combine(b, "sum", mean)
    b.k.do(scale(n), mean, _share(b))
    b.each(lambda v: b.k.do(add_square(vec, n), q, b.masked(v, mean), mean))
    combine(b, "sum", q)


def _norm_online(b: Body) -> None:
    n, vec = b.statistics, b.config.vec
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


def _count(b: Body, v: Vector, more: Reg, each: Reg, zero: Reg) -> None:
    """Add the number of a vector's elements that are the row's."""
    if not (v.cut and b.walk.rows):
        b.k.do(add_one(1), more, each)
        return
    vec, chunk = b.config.vec, v.chunk
    ones = b.filled("ones", vec, float_word(1.0))
    b.k.do(within(vec), ones, as_expr(chunk.at), as_expr(chunk.low), as_expr(chunk.high), zero)
    b.k.do(fold("sum", vec, 1), more, ones)


def _norm_merge(b: Body) -> None:
    n = b.statistics
    mine = b.reg("count", 1), b.reg("mean", n), b.reg("q", n)
    b.k.do(merge_moments(n), *mine, b.reg("more", 1), b.reg("mean_b", n), b.reg("q_b", n))


def _norm_meet(b: Body) -> None:
    n = b.statistics
    count, mean, q = b.reg("count", 1), b.reg("mean", n), b.reg("q", n)
    every, total = b.copied("every", count), b.copied("total", mean)
    combine(b, "sum", every)
    b.k.do(multiply(n, 1), total, count)
    combine(b, "sum", total)
    b.k.do(average(n), total, every)
    apart = b.filled("apart", n, 0)
    b.k.do(add_square(n, n), apart, mean, total)
    b.k.do(multiply(n, 1), apart, count)
    b.k.do(fold("sum", n, n), q, apart)
    combine(b, "sum", q, last=True)
    b.copied("mean", total)


def _norm_tell(b: Body) -> tuple[Reg, ...]:
    return b.reg("mean", b.statistics), b.reg("q", b.statistics), b.reg("every", 1)


def _norm_ready(b: Body) -> None:
    n = b.statistics
    b.k.do(deviation(n), b.reg("q", n), _share(b), Const(float_word(b.modes.problem.eps)))


def _norm_apply(b: Body, f: RegRef, v: Vector) -> None:
    n, vec, p = b.statistics, b.config.vec, b.modes.problem
    b.k.do(apply_norm(vec, n), f, b.reg("mean", n), b.reg("q", n))
    if p.weight:
        w = _factors(b, v, "weight")
        b.k.do(multiply(vec, vec if b.walk.rows else 1), f, w)
    if p.bias:
        w = _factors(b, v, "bias")
        b.k.do(fold("sum", vec, vec) if b.walk.rows else add_one(vec), f, w)


def _factors(b: Body, v: Vector, name: str) -> RegRef:
    """Weights or biases of a vector: one for each element of a row, one for all of a column."""
    k, vec, chunk, buffer = b.k, b.config.vec, v.chunk, b.extra(name)
    start = chunk.weight + b.modes.problem.parameters[name]
    if not b.walk.rows:
        return _one_factor(b, buffer, start)
    if b.walk.vector_weights:
        raw = b.reg("w", words(vec, b.size))
        if b.walk.ragged:
            _shifted(b, v, buffer, start, raw)
        else:
            k.do(LDG[b.nbytes], raw, k.at(buffer, start + chunk.at))
        return b.widened(RegRef(raw, ()), vec, "wide")
    found = b.filled("wide", vec, 0)
    for e in range(vec):
        with b.where([chunk.has(e)] if v.cut else []):
            one = _one_factor(b, buffer, start + b.walk.weight_of(chunk, e))
            k.do(MOVE, found[e], one)
    return RegRef(found, ())


def _shifted(b: Body, v: Vector, buffer: Global, start: Index, raw: Reg) -> None:
    """The weights of a vector of a ragged row: the end of one vector of weights and the start of the next."""
    k, vec, chunk, n = b.k, b.config.vec, v.chunk, words(b.config.vec, b.size)
    before, after = b.filled("w_before", n, 0), b.filled("w_after", n, 0)
    with b.where([as_expr(chunk.at) >= vec]):
        earlier = minus(chunk.at, vec)
        k.do(LDG[b.nbytes], before, k.at(buffer, start + earlier // vec * vec))
    with b.where([as_expr(chunk.at) < b.walk.lead.extent]):
        k.do(LDG[b.nbytes], after, k.at(buffer, start + chunk.at))
    k.do(window(vec, b.size), raw, before, after, as_expr(vec - chunk.low))


def _one_factor(b: Body, buffer: Global, index: Index) -> RegRef:
    raw = b.reg("w1", 1)
    b.k.do(LDG[b.size], raw, b.k.at(buffer, index))
    return b.widened(RegRef(raw, ()), 1, "wide1")


RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "softmax": Recipe(
            _softmax_held, _softmax_start, _softmax_online, _softmax_meet, _softmax_tell, ("m_b", "s_b"),
            _softmax_join, _softmax_ready, _softmax_apply,
        ),
        "layer_norm": Recipe(
            _norm_held, _norm_start, _norm_online, _norm_meet, _norm_tell, ("mean_b", "q_b", "more"),
            _norm_merge, _norm_ready, _norm_apply,
        ),
    }
)  # fmt: skip
"""The steps of each norm."""
