"""Proofs about the coordinates of tensors: they stay below the extents, and vectors start where they may.

The idea.  An access through a tensor keeps its coordinate, and the branches around it are predicates.  In
every mode with an extent the coordinate must be below it, by what is known there: see conditions.

A vector's elements lie along the mode of stride 1; its last one stays inside where its first one does, if
both the coordinate and the extent are multiples of it.  Every other stride has to be a multiple of it too.

Notes.  An extent that is not stated, None, is not checked.  Shared memory is judged by its bytes,
see bounds, and registers by their shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.codegen.expr import Const, Expr, simplify
from layoutalg.codegen.program.conditions import Conditions
from layoutalg.codegen.program.tile import Body, Do, Global, If, Kernel, Let, MemRef, bodies
from layoutalg.errors import AlignmentError, IRError

if TYPE_CHECKING:
    from layoutalg.codegen.language import Tensor


def check_tensors(kernel: Kernel) -> None:
    """Every access through a tensor stays below its extents, and every vector is aligned.

    Raises IRError for a coordinate that can pass an extent, AlignmentError that names the stride.

    >>> from layoutalg.codegen.language.builder import KernelBuilder
    >>> check_tensors(KernelBuilder("empty", threads=32).build())
    """
    _body(kernel.body, Conditions())


def _body(body: Body, known: Conditions) -> None:
    for s in body:
        match s:
            case Let(var, value):
                known = known.let(var, value)
            case If(condition, inner, orelse):
                condition = simplify(condition)
                if condition != Const(0):  # what can never run needs no proof
                    _body(inner, known.under(condition, True))
                if condition != Const(1):
                    _body(orelse, known.under(condition, False))
            case Do():
                here = known
                for guard in s.guards:
                    here = here.under(simplify(guard), True)
                for operand, ref in s.memory:
                    match ref:
                        case MemRef(Global() as buffer, _, tensor) if tensor is not None:
                            _access(s, ref, tensor, buffer, operand.bytes, here)
            case _:
                for inner in bodies(s):
                    _body(inner, known)


def _access(s: Do, ref: MemRef, tensor: Tensor, buffer: Global, nbytes: int, known: Conditions) -> None:
    """Check one access, of as many elements as it has bytes for along the mode of stride 1."""
    values = max(1, nbytes // buffer.element_bytes)
    strides = [simplify(d) for d in buffer.strides]
    along = strides.index(Const(1)) if Const(1) in strides else None
    if values > 1:
        _check_vector(s, ref, values, strides, along)
    for r, (c, extent) in enumerate(zip(ref.coordinate, tensor.extents, strict=True)):
        if extent is None:
            continue
        fits = c.facts.divisible_by(values) and extent.facts.divisible_by(values)
        last = c if fits or r != along else simplify(c + (values - 1))
        if not known.is_below(last, extent):
            raise IRError(
                "extent", s,
                f"'{s}' can pass the extent {extent} of mode {r} of {buffer.name}; a predicate such as "
                f"where=part.inside is needed, or a tile that divides the extent",
            )  # fmt: skip


def _check_vector(s: Do, ref: MemRef, values: int, strides: list[Expr], along: int | None) -> None:
    """Every summand of the index of a vector is a multiple of its elements."""
    if along is None:
        steps = ", ".join(map(str, strides))
        raise AlignmentError(
            f"'{s}' moves {values} elements per lane, and no stride of {ref.buffer.name} is 1: {steps}"
        )
    for r, (c, d) in enumerate(zip(ref.coordinate, strides, strict=True)):
        if (c * d).facts.divisible_by(values):
            continue
        what = f"the coordinate {c} of mode {r}" if r == along else f"the stride {d} of mode {r}"
        raise AlignmentError(
            f"'{s}' moves {values} elements per lane, and {what} of {ref.buffer.name} is not known to be a "
            f"multiple of {values}",
            required_bytes=values * ref.buffer.element_bytes,
        )
