"""The coordinates that have an offset, that share one, or in which two layouts meet: solved, not enumerated.

The idea.  layout(c) = t is one equation, sum of x_i d_i = t with 0 <= x_i < s_i (see `equation`).  Two
layouts meet where a(i) - b(j) = 0, which is the same equation; two coordinates of one share an offset where
it is solved by their difference, |x_i| < s_i and t = 0.

>>> find_coordinate(Layout((4, 8), (1, 5)), 16), find_coordinate(Layout((4, 8), (1, 5)), 4)
(13, None)
>>> find_overlap(Layout((4, 4), (1, 8)), Layout(4, 3))
(5, 3)
>>> find_collision(Layout((5, 4), (3, 4)))
(4, 15)
>>> find_collision(Layout((1 << 20, 1 << 20), (1, 1 << 20))) is None
True

Notes.  A swizzle is a bijection: a swizzled layout collides where the layout inside does, and two that share
their swizzles meet where those inside do.  Of other swizzled layouts, those that are linear over F2 are
solved there.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.compose import find_normal_form
from layoutalg.decide.equation import find_digits, find_relation, is_spread
from layoutalg.decide.extent import offsets_table
from layoutalg.errors import ArgumentTypeError, NotLinearError
from layoutalg.f2 import affine_f2, solve
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzles,
    check_integers,
    flatten_tree,
    integer_leaves,
    normalize,
    span,
    to_text,
)


def find_collision(layout: AnyLayout, *, moving: bool = False) -> tuple[int, int] | None:
    """Two flat coordinates a < b with the same offset, or None when there are none.

    `moving` leaves modes of stride 0 of a plain layout out: their coordinates stay 0.  Raises UndecidedError
    when the search in the lattice exceeds its budget, or where there is neither a closed form nor a small
    domain.

    >>> find_collision(Layout((2, 3), (1, 0))), find_collision(Layout((2, 3), (1, 0)), moving=True)
    ((0, 2), None)
    """
    if not isinstance(layout, Layout):
        check_integers("find_collision", layout)
        if moving:
            raise ArgumentTypeError(f"find_collision of {layout}: with moving a plain layout is needed")
        layout = under_swizzles(layout)
        known = find_normal_form(layout)
        if known is None:
            seen: dict[int, int] = {}
            table = enumerate(offsets_table("find_collision", layout))
            return next(((seen[x], i) for i, x in table if seen.setdefault(x, i) != i), None)
        layout = known.layout
    shape, strides = integer_leaves("is_injective, find_collision", layout)
    extents = [s if d else 1 for s, d in zip(shape, strides, strict=True)] if moving else shape
    return None if is_spread(strides, extents) else _collision(layout, shape, strides, extents)


def under_swizzles(layout: AnyLayout) -> AnyLayout:
    """Remove all swizzles and their offsets, which send different numbers to different ones."""
    while isinstance(layout, ComposedLayout) and not isinstance(layout.outer, Layout):
        layout = layout.inner
    return layout


def _collision(
    layout: Layout, shape: Sequence[int], strides: Sequence[int], extents: Sequence[int]
) -> tuple[int, int] | None:
    relation = find_relation(lambda: f"is {layout} injective?", strides, extents)
    if relation is None:
        return None
    pair = _index([max(k, 0) for k in relation], shape), _index([max(-k, 0) for k in relation], shape)
    return min(pair), max(pair)


def _index(digits: Sequence[int], shape: Sequence[int]) -> int:
    """The flat coordinate that has these digits."""
    index, weight = 0, 1
    for x, s in zip(digits, shape, strict=True):
        index += x * weight
        weight *= s
    return index


def find_coordinate(layout: AnyLayout, offset: int) -> int | None:
    """A flat coordinate that has the offset, or None when there is none.

    Raises UndecidedError when the search exceeds its budget, or where there is neither a closed form nor a
    small domain.

    >>> find_coordinate(Layout((4, 8), (8, 1)), 19)
    14
    """
    check_integers("find_coordinate", layout)
    value = normalize(offset, "find_coordinate: the offset")
    if isinstance(value, tuple):
        raise ArgumentTypeError(f"find_coordinate({layout}, {to_text(value)}): an offset is one integer")
    offset, known = value, find_normal_form(layout)
    if known is None:
        table = offsets_table(f"does {layout} reach {offset}?", layout)
        return next((i for i, x in enumerate(table) if x == offset), None)
    swizzles, constant, inner = known
    target = offset
    if swizzles:
        if target < 0:
            return None
        target = swizzles.inverse()(target)
    shape, strides = flatten_tree(inner.shape), flatten_tree(inner.stride)
    digits = find_digits(lambda: f"does {layout} reach {offset}?", strides, shape, target - constant)
    return None if digits is None else _index(digits, shape)


def find_overlap(a: AnyLayout, b: AnyLayout) -> tuple[int, int] | None:
    """Flat coordinates (i, j) with a(i) = b(j), or None when the layouts share no offset.

    Raises UndecidedError as `find_coordinate`.

    >>> find_overlap(Layout((2, 2), (1, 4)), Layout((2, 2), (2, 4)))
    (0, 0)
    """
    check_integers("find_overlap", a)
    check_integers("find_overlap", b)
    left, right = find_normal_form(a), find_normal_form(b)
    question = f"do {a} and {b} overlap?"
    if left is not None and right is not None:
        if left.swizzles == right.swizzles:
            return _plain_overlap(question, (left.offset, left.layout), (right.offset, right.layout))
        if _windows_apart(left, right):
            return None
    try:
        (k, columns), (m, others) = affine_f2(a), affine_f2(b)
    except NotLinearError:
        pass
    else:
        x = solve((*columns, *others), k ^ m)
        return None if x is None else (x & (1 << len(columns)) - 1, x >> len(columns))
    first: dict[int, int] = {}
    for i, offset in enumerate(offsets_table(question, a)):
        first.setdefault(offset, i)
    for j, offset in enumerate(offsets_table(question, b)):
        if offset in first:
            return first[offset], j
    return None


def _plain_overlap(question: str, a: tuple[int, Layout], b: tuple[int, Layout]) -> tuple[int, int] | None:
    (shape, strides), (other, others) = ((flatten_tree(x.shape), flatten_tree(x.stride)) for _, x in (a, b))
    digits = find_digits(question, (*strides, *(-d for d in others)), shape + other, b[0] - a[0])
    if digits is None:
        return None
    return _index(digits[: len(shape)], shape), _index(digits[len(shape) :], other)


def _windows_apart(a: tuple[Swizzles, int, Layout], b: tuple[Swizzles, int, Layout]) -> bool:
    """True when the swizzle periods that the two layouts touch lie apart."""
    period = max(a[0].period, b[0].period)
    (low, high), (least, most) = (
        tuple((offset + edge) // period for edge in span(inner)) for _, offset, inner in (a, b)
    )
    return high < least or most < low


def overlap(a: AnyLayout, b: AnyLayout) -> bool:
    """True when the layouts share an offset.

    Raises UndecidedError as `find_coordinate`.

    >>> overlap(Layout((4, 4), (1, 8)), Layout(4, -1)), overlap(Layout(1), Layout(4))
    (True, True)
    """
    check_integers("overlap", a)
    check_integers("overlap", b)
    return find_overlap(a, b) is not None
