"""Proofs about the coordinates of tensors: they stay below the extents, and vectors start where they may.

The idea.  An access through a tensor keeps its coordinate, and the branches it stands in are predicates.  For
every mode with an extent the coordinate must be below it, by one of

    facts          the coordinate's interval ends below the extent's
    a predicate    tile * 64 + 64 <= m holds here, and what is added to tile * 64 is below 64
    a range        tile counts the m // 64 tiles of the grid, so that tile * 64 + 64 <= m // 64 * 64 <= m

A vector's elements lie along the mode of stride 1; its last one stays inside where its first one does, if
both the coordinate and the extent are multiples of it.  Every other stride has to be a multiple of it too.

Notes.  What is stated by nobody, an extent of None, is not asked for.  Shared memory is judged by its bytes,
see bounds, and registers by their shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from layoutalg.codegen.expr import (
    Const,
    Expr,
    FloorDiv,
    Le,
    Lt,
    Minus,
    Mod,
    Mul,
    Select,
    Var,
    simplify,
    substitute,
    variables,
    weights,
)
from layoutalg.codegen.program.conditions import Conditions
from layoutalg.codegen.program.tile import Do, For, Global, If, Kernel, Let, MemRef, Stmt, Unroll
from layoutalg.errors import AlignmentError, IRError

if TYPE_CHECKING:
    from layoutalg.codegen.language.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at a statement: the values of names, and the conditions of the branches around it."""

    lets: Mapping[Var, Expr]
    here: Conditions = field(default_factory=Conditions)
    _plain: dict[Expr, Expr] = field(default_factory=dict)
    _proved: set[tuple[Expr, Expr]] = field(default_factory=set)

    def let(self, var: Var, value: Expr) -> Known:
        """The same, with a value named."""
        return Known({**self.lets, var: value}, self.here)

    def where(self, condition: Expr, *, holds: bool = True) -> Known:
        """The same, inside a branch, or in the other one."""
        return Known(self.lets, self.here.under(simplify(condition), holds), self._plain)

    def plain(self, e: Expr) -> Expr:
        """The expression without names."""
        if e not in self._plain:
            found = e
            while named := {v: self.lets[v] for v in variables(found) if v in self.lets}:
                found = substitute(found, named)
            self._plain[e] = simplify(found)
        return self._plain[e]

    def is_below(self, coordinate: Expr, extent: Expr) -> bool:
        """Whether coordinate < extent was proved; False says nothing.

        >>> m = Var("m", 1024, "param")
        >>> tile = Var("tile", m // 64, "block")
        >>> Known({}).is_below(tile * 64 + Var("i", 64), m), Known({}).is_below(tile * 64 + Var("j", 65), m)
        (True, False)
        """
        if (coordinate, extent) in self._proved or self.here.decided(simplify(coordinate < extent)):
            return True
        place, end = self.plain(coordinate), self.plain(extent)
        if (
            self._is_below(place, end)
            or self.here.orders(coordinate + 1, extent)
            or simplify(place < end) == Const(1)
        ):
            self._proved.add((coordinate, extent))  # a tile that is copied is loaded, then stored
            return True
        return False

    def _is_below(self, place: Expr, end: Expr) -> bool:
        for x, w in weights(place).items():
            if isinstance(x, Select):
                rest = _without(place, x)
                return self.where(x.condition)._is_below(simplify(rest + x.a * w), end) and self._is_below(
                    simplify(rest + x.b * w), end
                )
        for low, high in (*self._orders(), *_ranges(place)):
            low, high = self.plain(low), self.plain(high)
            for times in _scales(low, high, place):
                if _is_ahead(low, place, times) and _is_at_most(simplify(high * times), end):
                    return True
        return False

    def _orders(self) -> Iterator[tuple[Expr, Expr]]:
        """(low, high) with low <= high, by the comparisons that are true or false here."""
        for fact, true in self.here.truths.items():
            match fact:
                case Le(a, b):
                    yield (a, b) if true else (b + 1, a)
                case Lt(a, b):
                    yield (a + 1, b) if true else (b, a)


def _ranges(place: Expr) -> Iterator[tuple[Expr, Expr]]:
    """(low, high) with low <= high, from how far the parts of a place can count."""
    for x in weights(place):
        match x:
            case Var(extent=count) | Mod(_, count) if isinstance(count, Expr):
                yield x + 1, count
            case FloorDiv(Var(extent=Mul(q, d)), by) if by in (q, d):
                yield x + 1, q if by == d else d
            case Minus(a, b) if x.exact:
                yield x + b, a


def _without(place: Expr, x: Expr) -> Expr:
    """A sum without the multiple of x."""
    out: Expr = Const(0)
    for y, w in weights(place).items():
        if y != x:
            out = out + y * w
    return out


def _scales(low: Expr, high: Expr, place: Expr) -> set[int]:
    """By what low <= high may be multiplied so that `low` has summands of a place, or `high` no division."""
    found = weights(place)
    out = {1} | {found[x] // w for x, w in weights(low).items() if w and x in found and found[x] >= w}
    match high:
        case FloorDiv(_, Const(by)):
            out.add(by)
    return out


def _is_ahead(low: Expr, place: Expr, times: int) -> bool:
    """place + 1 <= low * times, summand by summand."""
    most, least = weights(place), weights(low)
    ahead = 1
    for x in {*most, *least}:
        w = most.get(x, 0) - least.get(x, 0) * times
        ahead += w * (x.facts.hi if w > 0 else x.facts.lo)
    return ahead <= 0


def _is_at_most(high: Expr, end: Expr) -> bool:
    """high <= end: the same, by their facts, or rounded down."""
    match high:
        case Mul(FloorDiv(a, by), factor) if a == end and by == factor:
            return True
    return high == end or simplify(high <= end) == Const(1)


def check_tensors(kernel: Kernel) -> None:
    """Every access through a tensor stays below its extents, and every vector is aligned.

    Raises IRError for a coordinate that can pass an extent, AlignmentError that names the stride.

    >>> from layoutalg.codegen.language.builder import KernelBuilder
    >>> check_tensors(KernelBuilder("empty", threads=32).build())
    """
    _body(kernel.body, Known({}))


def _body(body: tuple[Stmt, ...], known: Known) -> None:
    for s in body:
        match s:
            case Let(var, value):
                known = known.let(var, value)
            case For(body=inner) | Unroll(body=inner):
                _body(inner, known)
            case If(condition, inner, orelse):
                if condition != Const(0):  # what can never run needs no proof
                    _body(inner, known.where(condition))
                if condition != Const(1):
                    _body(orelse, known.where(condition, holds=False))
            case Do(instr, args):
                here = known
                for operand, arg in zip(instr.operands, args, strict=True):
                    if operand.role == "guard" and isinstance(arg, Expr):
                        here = here.where(arg)
                for operand, arg in zip(instr.operands, args, strict=True):
                    match arg:
                        case MemRef(Global() as buffer, _, tensor) if tensor is not None:
                            _access(s, arg, tensor, buffer, operand.bytes, here)


def _access(s: Do, ref: MemRef, tensor: Tensor, buffer: Global, nbytes: int, known: Known) -> None:
    """One access, of as many elements as it has bytes for along the mode of stride 1."""
    values = max(1, nbytes // buffer.element_bytes)
    strides = [simplify(d) for d in buffer.strides]
    along = strides.index(Const(1)) if Const(1) in strides else None
    if values > 1:
        _check_vector(s, ref, values, strides, along)
    for r, (c, extent) in enumerate(zip(ref.coordinate, tensor.extents, strict=True)):
        if extent is None:
            continue
        whole = c.facts.divisible_by(values) and extent.facts.divisible_by(values)
        last = c if whole or r != along else simplify(c + (values - 1))
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
