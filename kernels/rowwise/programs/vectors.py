"""The weights and biases of the elements of a vector, and the stores of a vector that a row cuts.

The idea.  A row has a weight for each element: read as vectors where they start at vectors as the row does,
or shifted from two of them, else one by one.  A column has one for all elements of a vector.

Where all elements of a vector are the row's, it is one store.  Otherwise those of columns are written one by
one, each under its predicate; those of a row are words, and elements of words that are cut: under small
predicates, at places that constants are added to, each is one instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Minus, as_expr
from layoutalg.codegen.language import Tensor
from layoutalg.codegen.program import MemRef, Reg, RegRef
from layoutalg.kernels.rowwise.unaligned import minus
from layoutalg.kernels.rowwise.walk import Chunk, Index

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.programs.block import RowBlock, Vector


def store_cut(b: RowBlock, words: RegRef, chunk: Chunk) -> None:
    """Write the elements of a vector that are its row's, or its columns'."""
    k, vec, (at, low, high) = b.k, b.tiling.vec, chunk.ends
    if not b.walk.rows:
        with k.If((low <= at) & (at + vec <= high)):
            b.store_whole(words, chunk)
        with k.Else():
            for e in range(vec):
                with k.If(as_expr(chunk.has(e))):
                    _store_element(b, words, e, as_expr(chunk.target + e))
        return
    begin, end = k.let("begin", Minus(low, at)), k.let("end", Minus(high, at))
    with k.If((begin < 1) & (end >= vec)):
        b.store_whole(words, chunk)
    with k.Else():
        _store_part(b, words, k.let("to", as_expr(chunk.target)), begin, end)


def _store_part(b: RowBlock, words: RegRef, to: Expr, begin: Expr, end: Expr) -> None:
    """Write the elements of a row's vector from `begin` on and below `end`."""
    k, per = b.k, b.tiling.vec // b.result_words
    for first in range(0, b.tiling.vec, per):
        last = first + per - 1
        with k.If((begin <= first) & (end > last)):
            word = RegRef(words.reg, (*words.index, Const(first // per)))
            k.do(instr.STG[per * b.problem.result.nbytes], b.at(b.dst, to + first), word)
        if per > 1:
            with k.If((begin <= first) & end.eq(last)):
                _store_element(b, words, first, to + first)
            with k.If(begin.eq(last) & (end > last)):
                _store_element(b, words, last, to + last)


def _store_element(b: RowBlock, words: RegRef, e: int, to: Expr) -> None:
    """Write element e of a vector."""
    word, upper = divmod(e, b.tiling.vec // b.result_words)
    one = RegRef(words.reg, (*words.index, Const(word)))
    if upper:
        b.k.do(instr.BYTE_PERMUTE, part := b.reg("upper", 1)[0], one, one, 0x1032)
        one = part
    b.k.do(instr.STG[b.problem.result.nbytes], b.at(b.dst, to), one)


def parametrised(b: RowBlock, f: RegRef, v: Vector) -> None:
    """Multiply a vector with its weights, and add its biases, where there are such."""
    vec, rows = b.tiling.vec, b.walk.rows
    if "weight" in b.problem.parameters:
        b.k.do(instr.multiply(vec, vec if rows else 1), f, _factors(b, v, "weight"))
    if "bias" in b.problem.parameters:
        w = _factors(b, v, "bias")
        b.k.do(instr.fold("sum", vec, vec) if rows else instr.add_same(vec, "f32"), f, w)


def _factors(b: RowBlock, v: Vector, name: str) -> RegRef:
    """Weights or biases of a vector: one for each element of a row, one for all of a column."""
    k, vec, chunk, walk, buffer = b.k, b.tiling.vec, v.chunk, b.walk, b.extra(name)
    offset = b.problem.parameters[name]
    start, crd = chunk.weight + offset, walk.weights(chunk)
    if not walk.rows:
        return _one_factor(b, b.at(buffer, start, crd, offset))
    if _by_vectors(b):
        raw = b.reg("w", b.tiling.words)
        if walk.cut:
            _shifted(b, v, buffer, start, raw)
        else:
            k.do(instr.LDG[b.tiling.nbytes], raw, b.at(buffer, start + chunk.at, crd, offset))
        return b.widened(RegRef(raw, ()), vec, "wide")
    found = b.filled("wide", vec, 0)
    for e in range(vec):
        with b.where([chunk.has(e)] if v.cut else []):
            place = b.at(buffer, start + walk.weight_of(chunk, e), crd, offset + e * walk.lead.weight)
            k.do(instr.MOVE, found[e], _one_factor(b, place))
    return RegRef(found, ())


def _by_vectors(b: RowBlock) -> bool:
    """True when a row's weights are read as vectors: two for each of the row's where that is cut."""
    places = [m.weight for m in b.walk.outer] + [*b.problem.parameters.values()]
    return b.walk.lead.weight == 1 and not any(at % b.tiling.vec for at in places)


def _shifted(b: RowBlock, v: Vector, buffer: Tensor, start: Index, raw: Reg) -> None:
    """The weights of a vector of a ragged row: the end of one vector of weights and the start of the next."""
    k, vec, chunk, n = b.k, b.tiling.vec, v.chunk, b.tiling.words
    before, after = b.filled("w_before", n, 0), b.filled("w_after", n, 0)
    with b.where([as_expr(chunk.at) >= vec]):
        earlier = minus(chunk.at, vec, b.walk.lead.extent + vec) // vec * vec
        k.do(instr.LDG[b.tiling.nbytes], before, b.at(buffer, start + earlier))
    with b.where([as_expr(chunk.at) < b.walk.lead.extent]):
        k.do(instr.LDG[b.tiling.nbytes], after, b.at(buffer, start + chunk.at))
    k.do(instr.window(vec, b.element.nbytes), raw, before, after, as_expr(vec - chunk.low))


def _one_factor(b: RowBlock, place: MemRef) -> RegRef:
    raw = b.reg("w1", 1)
    b.k.do(instr.LDG[b.element.nbytes], raw, place)
    return b.widened(RegRef(raw, ()), 1, "wide1")
