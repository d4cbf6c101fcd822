"""An index expression as an affine map over F2: which bits of which variable flip which bits of its value.

The idea.  A swizzled address of powers of two never carries, so that it is a XOR of columns, one for every
bit of every variable:

    (tid * 4 ^ u * 4) + u * 64        tid: 4, 8, 16    u: 4 + 64, 8 + 128

Shifts, masks and XORs are linear; a sum is a XOR where its summands share no bit.  What is read off the
expression node by node is a closed form of the whole table of its values.

Source: the layouts' own matrices are layoutalg.f2's; this is the same map after the layout was called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from layoutalg.codegen.expr.nodes import (
    Add,
    And,
    Const,
    Expr,
    FloorDiv,
    Minus,
    Mod,
    Mul,
    Or,
    Shl,
    Shr,
    Var,
    Xor,
)
from layoutalg.f2 import Columns


@dataclass(frozen=True, slots=True)
class Affine:
    """constant ^ (the columns of all bits that are set in the variables).

    >>> t, u = Var("tid", 8), Var("u", 4, "unroll")
    >>> found = affine((t * 4 ^ u * 4) + u * 64 + 1)
    >>> found.constant, found.columns[t], found.columns[u]
    (1, (4, 8, 16), (68, 136))
    """

    constant: int = 0
    columns: Mapping[Var, Columns] = field(default_factory=dict)

    @property
    def support(self) -> int:
        """The bits that are ever set."""
        return reduce(or_, (c for columns in self.columns.values() for c in columns), self.constant)

    def mapped(self, shift: int, mask: int = -1) -> Affine:
        """Every column shifted to the left, or for a negative `shift` to the right, and masked."""

        def move(c: int) -> int:
            return (c << shift if shift >= 0 else c >> -shift) & mask

        return Affine(move(self.constant), {v: tuple(map(move, cs)) for v, cs in self.columns.items()})

    def xor(self, other: Affine) -> Affine:
        """The XOR of both."""
        columns = dict(self.columns)
        for v, cs in other.columns.items():
            mine = columns.get(v, (0,) * len(cs))
            columns[v] = tuple([a ^ b for a, b in zip(mine, cs, strict=True)])
        return Affine(self.constant ^ other.constant, columns)


def affine(node: Expr) -> Affine | None:
    """The map of an expression; None where it is not seen to be one.

    >>> affine(Var("i", 8) * 3) is None
    True
    """
    match node:
        case Const(value):
            return Affine(value)
        case Var():
            return Affine(0, {node: tuple([1 << j for j in range(node.facts.hi.bit_length())])})
        case Xor(a, b):
            return _both(a, b, disjoint=False)
        case Add(a, b) | Or(a, b):
            return _both(a, b, disjoint=True)
        case Minus(Const() as c, a) if a.facts.may & ~c.value == 0:  # nothing is borrowed
            return _both(a, c, disjoint=False)
        case Mul(a, Const(c)) | Mul(Const(c), a):
            return _times(a, c)
        case Shl(a, amount):
            return _moved(a, amount)
        case Shr(a, amount):
            return _moved(a, -amount)
        case FloorDiv(a, Const(c)) if c & (c - 1) == 0:
            return _moved(a, 1 - c.bit_length())
        case Mod(a, Const(c)) if c & (c - 1) == 0:
            return _moved(a, 0, c - 1)
        case And(a, Const(c)) | And(Const(c), a):
            return _moved(a, 0, c)
        case _:
            return None


def _moved(a: Expr, shift: int, mask: int = -1) -> Affine | None:
    linear = affine(a)
    return None if linear is None else linear.mapped(shift, mask)


def _both(a: Expr, b: Expr, *, disjoint: bool) -> Affine | None:
    left, right = affine(a), affine(b)
    if left is None or right is None or (disjoint and left.support & right.support):
        return None
    return left.xor(right)


def _times(a: Expr, c: int) -> Affine | None:
    """A sum of shifted copies, one per bit of the factor."""
    linear, out = affine(a), Affine()
    if linear is None:
        return None
    for shift in range(c.bit_length()):
        if c >> shift & 1:
            copy = linear.mapped(shift)
            if out.support & copy.support:
                return None
            out = out.xor(copy)
    return out
