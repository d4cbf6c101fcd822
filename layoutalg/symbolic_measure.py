"""Numbers of symbolic layouts: which modes continue each other, the span of the offsets, modes that move.

>>> import sympy
>>> n = sympy.Symbol("n", integer=True, positive=True)
>>> continues(n, n + 1, n**2 + n), span_symbols(Layout((n, 4), (1, n)))
(True, (0, 4*n - 1))

Notes.  The rest of the algebra in symbols, and the table of what takes symbols, is in symbolic_algebra.
"""

from __future__ import annotations

from typing import Any

from layoutalg.errors import UnsupportedError
from layoutalg.layout import Layout, any_leaves
from layoutalg.scaled_basis import ScaledBasis
from layoutalg.symbols import canonical, is_symbolic, require


def continues(extent: Any, stride: Any, following: Any) -> bool:
    """True when extent * stride == following for all values of the symbols.

    >>> continues(4, ScaledBasis(1, 0), ScaledBasis(4, 0))
    True
    """
    if isinstance(stride, ScaledBasis) and isinstance(following, ScaledBasis):
        return stride.modes == following.modes and continues(extent, stride.value, following.value)
    if isinstance(stride, ScaledBasis) or isinstance(following, ScaledBasis):
        return bool(stride == following)
    product = extent * stride
    if is_symbolic(product) or is_symbolic(following):
        return bool(canonical(product - following) == 0)
    return bool(product == following)


def span_symbols(layout: Layout) -> tuple[Any, Any]:
    """(least, greatest) offset of a symbolic layout; the signs of its strides must be decided.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> span_symbols(Layout((n, 4), (1, -n)))
    (-3*n, n - 1)
    """
    import sympy

    low: Any = 0
    high: Any = 0
    for s, d in any_leaves(layout):
        if isinstance(d, ScaledBasis):
            raise UnsupportedError(
                f"cosize, extremes of {layout}: its strides move along modes; coordinates have none"
            )
        if s == 1 or d == 0:
            continue
        if require(f"cosize of {layout}", sympy.Le(0, d)):
            high += (s - 1) * d
        else:
            low += (s - 1) * d
    return canonical(low), canonical(high)


def require_moving(operation: str, layout: Layout) -> None:
    """Every symbolic stride is different from 0, so that the modes of stride 0 are those that look it.

    >>> import sympy
    >>> require_moving("filter", Layout(4, sympy.Symbol("n", integer=True, positive=True)))
    """
    import sympy

    for _, d in any_leaves(layout):
        value = d.value if isinstance(d, ScaledBasis) else d
        if is_symbolic(value) and not require(f"{operation} of {layout}", sympy.Ne(value, 0)):
            raise UnsupportedError(f"{operation} of {layout}: stride {d} is 0 for all values; write 0")
