"""The definitions, by enumeration: obvious, slow, and written without the algebra they judge."""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.layout import AnyLayout, IntTuple, Layout, flatten_tree, layout_size


def table(layout: AnyLayout) -> list[int]:
    """Every offset, in the order of the flat index."""
    inner = layout
    while not isinstance(inner, Layout):
        inner = inner.inner
    return [layout(i) for i in range(layout_size(inner))]


def is_one_mode(values: Sequence[int]) -> bool:
    """True when some layout of size len(values) has exactly these offsets, 0 first."""
    n = len(values)
    if n == 1:
        return True
    return any(
        all(values[x] == x * values[1] for x in range(t))
        and all(values[x + t * y] == values[x] + values[t * y] for x in range(t) for y in range(n // t))
        and is_one_mode(values[::t])
        for t in range(2, n + 1)
        if n % t == 0
    )


def is_layout_of(shape: IntTuple, values: Sequence[int]) -> bool:
    """True when some layout whose shape refines `shape` has exactly these offsets."""
    base = 1
    singles: list[Sequence[int]] = []
    for s in flatten_tree(shape):
        singles.append([values[base * x] for x in range(s)])
        base *= s
    if not all(map(is_one_mode, singles)):
        return False
    for i, value in enumerate(values):
        total, rest = 0, i
        for single in singles:
            total += single[rest % len(single)]
            rest //= len(single)
        if total != value:
            return False
    return True
