"""Layouts over F2, the field of two elements: the matrix of a layout whose offsets add without carries.

The idea.  A matrix is a tuple of integer columns (layoutalg.f2.matrix): what the map is at 1, 2, 4, ...

Swizzles are such maps for every argument.  A Layout is one exactly when its weights (stride * 2^j for
every bit j of every coordinate) have pairwise disjoint binary supports, because a + b = a ^ b if and only
if a & b = 0; `to_f2` tests that, and never by sampling.

>>> to_f2(Layout((4, 8), (8, 1)))
(8, 16, 1, 2, 4)

Notes.  Strides need not be powers of two: 8:9 has the weights 9, 18, 36, which are disjoint.  8:3 has 3
and 6, which are not: 3 + 6 = 9 and 3 ^ 6 = 5.
"""

from __future__ import annotations

from layoutalg.errors import NotLinearError, named
from layoutalg.f2.matrix import Columns, apply
from layoutalg.layout import AnyLayout, Layout, check_layouts, integer_leaves


def weights(layout: Layout) -> Columns:
    """stride * 2^j for every coordinate bit j, leftmost mode first: the columns, if the layout is linear.

    Raises NotLinearError when an extent is not a power of two or a stride is negative.

    >>> weights(Layout((4, 2), (1, 6)))
    (1, 2, 6)
    """
    out: list[int] = []
    for extent, stride in zip(*integer_leaves("to_f2", layout), strict=True):
        if extent & (extent - 1):
            raise NotLinearError(f"{layout} is not linear over F2: extent {extent} is not a power of two")
        if stride < 0 and extent > 1:
            raise NotLinearError(f"{layout} is not linear over F2: stride {stride} is negative")
        out.extend(stride << j for j in range(extent.bit_length() - 1))
    return tuple(out)


def affine_f2(layout: AnyLayout) -> tuple[int, Columns]:
    """(constant, columns) with layout(c) = constant ^ columns * c for every flat index c.

    Raises NotLinearError, naming what carries, when there is no such pair or when it cannot be seen stage
    by stage: each offset and each layout that is applied must be free of carries by itself.

    >>> from layoutalg.layout import ComposedLayout, Swizzle
    >>> affine_f2(ComposedLayout(Swizzle(1, 0, 1), 4, Layout((2, 2))))
    (4, (1, 3))
    >>> affine_f2(ComposedLayout(Layout((2, 2), (4, 1)), 2, Layout(2)))
    (1, (4,))
    """
    if isinstance(layout, Layout):
        columns = weights(layout)
        _disjoint(layout, 0, columns)
        return 0, columns
    if isinstance(layout.inner, Layout):
        constant, columns = 0, weights(layout.inner)
        _disjoint(layout, layout.offset, columns)
    else:
        constant, columns = affine_f2(layout.inner)
        _disjoint(layout, layout.offset, (_union(constant, columns),))
    constant += layout.offset
    if isinstance(layout.outer, Layout):
        matrix = _open_weights(layout, layout.outer, _union(constant, columns))
        return apply(matrix, constant), tuple([apply(matrix, c) for c in columns])
    return layout.outer(constant), tuple(map(layout.outer, columns))


def _union(constant: int, columns: Columns) -> int:
    for column in columns:
        constant |= column
    return constant


def _disjoint(layout: AnyLayout, constant: int, columns: Columns) -> None:
    """Refuse numbers that share a bit, so that their sum carries."""
    seen = constant
    for weight in columns:
        if seen & weight:
            other = next((w for w in (constant, *columns) if w is not weight and w & weight), constant)
            raise NotLinearError(
                f"{layout} is not linear over F2: {other} + {weight} = {other + weight} carries, "
                f"the XOR is {other ^ weight}"
            )
        seen |= weight


def _open_weights(original: AnyLayout, outer: Layout, live: int) -> Columns:
    """The columns of `outer` for indices whose bits are in `live`; its last mode has no end."""
    bits = live.bit_length()
    out: list[int] = []
    modes = list(zip(*integer_leaves("to_f2", outer), strict=True))
    for i, (extent, stride) in enumerate(modes):
        count = bits - len(out) if i == len(modes) - 1 else min(extent.bit_length() - 1, bits - len(out))
        if stride < 0 or (extent & (extent - 1) and i < len(modes) - 1 and count < bits - len(out)):
            raise NotLinearError(f"{original} is not linear over F2: neither is its outer layout {outer}")
        out.extend(stride << j for j in range(count))
    out.extend([0] * (bits - len(out)))
    _disjoint(original, 0, tuple(w for j, w in enumerate(out) if live >> j & 1))
    return tuple(out)


def to_f2(layout: AnyLayout) -> Columns:
    """The columns of a layout that is linear over F2: one per coordinate bit, leftmost mode first.

    Raises NotLinearError when it is not linear, an offset other than 0 included.

    >>> from layoutalg.layout import ComposedLayout, Swizzle
    >>> to_f2(ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1))))
    (5, 10, 1, 2)
    """
    check_layouts("to_f2", layout)
    try:
        constant, columns = affine_f2(layout)
    except NotLinearError as error:
        named("to_f2", error, layout)
    if constant:
        raise NotLinearError(f"to_f2 of {layout}: affine over F2, not linear: coordinate 0 has {constant}")
    return columns
