"""The results of a vector that a row starts or ends in: of its elements those of the row are written.

The idea.  Where all are the row's, the vector is one store.  Otherwise those of columns are written one by
one, each under its predicate; those of a row are words, and elements of words that are cut: under small
predicates, at places that constants are added to, each is one instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Minus, as_expr
from layoutalg.codegen.program import RegRef
from layoutalg.kernels.rowwise.walk import Chunk

if TYPE_CHECKING:
    from layoutalg.kernels.rowwise.programs.block import RowBlock


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
