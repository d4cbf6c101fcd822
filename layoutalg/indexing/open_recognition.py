"""The layout with symbols that a function of coordinates and symbols is, or why it is none.

The idea.  A function whose symbols meet sums and products alone is a polynomial in them.  Its values at as
many numbers per symbol as its degree and one more give its coefficients, each a table over the coordinates,
and a layout's strides are polynomials where every table moves by equal steps along the same digits.

>>> from layoutalg.reading import read_python
>>> read = read_python("def f(row, col, ld): return (row % 4) * ld + row // 4 * 64 + col")
>>> print(found_open(read, (8, 4), values_of("ld in 4..64", ["ld"])).layout)
((4,2),4):((ld,64),1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product as tuples
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.codegen.expr import Add, Const, Expr, Minus, Mul, Shl, Var, variables
from layoutalg.errors import UndecidedError
from layoutalg.indexing.laws import Broken, modes_of
from layoutalg.indexing.proofs import as_expression
from layoutalg.layout import Layout, concat, plain
from layoutalg.limits import Most
from layoutalg.reading import IndexFunction, evaluated
from layoutalg.symbolic import SymbolicLayout, Values, values_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FoundOpen", "found_open", "values_of"]


class FoundOpen(NamedTuple):
    """A layout, or None, why, and coordinates that show it."""

    layout: Layout | SymbolicLayout | None
    why: str
    witness: tuple[tuple[int, ...], ...] = ()


def found_open(read: IndexFunction, sizes: Sequence[int], values: Mapping[str, Values]) -> FoundOpen:
    """The layout of a function whose last parameters, or others by these names, are symbols.

    Raises UndecidedError where a number may leave its type for some values, as far as intervals tell.
    """
    import numpy as np

    modes = [name for name in read.names if name not in values]
    known = {name: Var(name, n) for name, n in zip(modes, sizes, strict=True)}
    known |= {n: Var(n, v.most + 1, "param", v.least, v.modulus, v.residue) for n, v in values.items()}
    read_as, _ = as_expression(f"the layout of {read.name}", read.term, known)
    degrees: dict[str, int] = {}
    for name, v in values.items():
        degree = _degree(read_as, known[name])
        if degree is None and len(v) > Most.PARTS.number:
            raise UndecidedError(
                f"{read.name} is not a polynomial in {name}, of which {len(v):,} values are asked; up to "
                f"{Most.PARTS.number} are looked at one by one"
            )
        degrees[name] = len(v) - 1 if degree is None else min(degree, len(v) - 1)
    count = math.prod(d + 1 for d in degrees.values())
    Most.POINTS.guard(count * math.prod(sizes), "coordinates of the function at values of its symbols")
    grid = [axis.reshape(-1) for axis in np.indices(tuple(sizes), dtype=np.int64)]
    samples = {name: [*values[name].range()[: degrees[name] + 1]] for name in values}
    tables = {}
    for point in tuples(*samples.values()):
        fixed = dict(zip(values, point, strict=True))
        env = dict(zip(modes, grid, strict=True)) | {n: np.int64(x) for n, x in fixed.items()}
        table, bad = evaluated(read.term, env)
        if bad is not None:
            at, why = bad.first()
            at_values = ", ".join(f"{n} = {x}" for n, x in fixed.items())
            return FoundOpen(None, f"for {at_values} there is {why}", (tuple(int(g[at]) for g in grid),))
        tables[point] = np.broadcast_to(table, grid[0].shape).reshape(tuple(sizes))
    return _of_tables(tables, samples)


def _degree(node: Expr, v: Var) -> int | None:
    """The degree of an expression in a symbol; None where an operator is not a polynomial in it."""
    match node:
        case Var():
            return int(node == v)
        case Const():
            return 0
        case Add(a, b) | Mul(a, b) | Minus(a, b) if not isinstance(node, Minus) or node.exact:
            left, right = _degree(a, v), _degree(b, v)
            if left is None or right is None:
                return None
            return left + right if isinstance(node, Mul) else max(left, right)
        case Shl(a, _):
            return _degree(a, v)
    return None if v in variables(node) else 0


def _of_tables(tables: Mapping[tuple[int, ...], NDArray[Any]], samples: Mapping[str, list[int]]) -> FoundOpen:
    """The layout whose coefficients are those of the polynomials through the tables."""
    import numpy as np
    import sympy

    symbols = [sympy.Symbol(name, integer=True, nonnegative=True) for name in samples]
    points = [*tables]
    monomials = [*tuples(*(range(len(xs)) for xs in samples.values()))]
    rows = [
        [math.prod(x**p for x, p in zip(at, powers, strict=True)) for powers in monomials] for at in points
    ]
    inverse = sympy.Matrix(rows).inv()
    scale = int(sympy.ilcm(1, *(entry.q for entry in inverse)))
    stacked = np.stack([tables[at].astype(object) for at in points])
    channels, terms = [], []
    for k, powers in enumerate(monomials):
        weights = [int(entry * scale) for entry in inverse.row(k)]
        total = sum(w * table for w, table in zip(weights, stacked, strict=True))
        if np.any(total % scale):
            return FoundOpen(None, "its coefficients are no integers, which strides are")
        channels.append(((total // scale).astype(np.int64), 0))
        terms.append(math.prod((s**p for s, p in zip(symbols, powers, strict=True)), start=sympy.Integer(1)))
    try:
        parts = modes_of(channels)
    except Broken as broken:
        return FoundOpen(
            None, f"{broken.law}, in the coefficient of a monomial of its symbols", broken.witness
        )

    def polynomial(steps: Sequence[int]) -> Any:
        return sympy.expand(sum((int(c) * t for c, t in zip(steps, terms, strict=True)), sympy.Integer(0)))

    layout = concat(*(plain(extents, [polynomial(d) for d in steps]) for extents, steps in parts))
    first = polynomial([table.flat[0] for table, _ in channels])
    if first == 0:
        return FoundOpen(layout, "")
    return FoundOpen(SymbolicLayout(layout.shape, layout.stride, (), first), "")
