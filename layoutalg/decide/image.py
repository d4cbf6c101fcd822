"""The image of a layout, and whether two layouts are one function: decided, not enumerated.

The idea.

    same_function   coalesced leaves are unique, so plain layouts are compared leaf by leaf; swizzled ones
                    by the residues of their inner offsets modulo the swizzle period
    is_injective    modes sorted by stride, else an exact search (layoutalg.decide.equation); a swizzle is a
                    bijection and changes nothing
    image_size      modes that chain or stay apart by products, others by boxes (layoutalg.decide.distinct)

None of these depends on the number of elements: only on the number of modes and on the swizzle's period.
An F2-linear layout needs one elimination instead.

>>> from layoutalg.layout import ComposedLayout, Swizzle
>>> big = ComposedLayout(Swizzle(3, 4, 3), 0, Layout((1 << 20, 1 << 20), (1 << 20, 1)))
>>> cosize(big) == 1 << 40, is_bijective(big)
(True, True)

Notes.  Where no closed form applies, up to Most.ONE_BY_ONE coordinates or offsets are looked at one by
one, and past that an UndecidedError is raised.  Comparison with CuTe: its cosize of a swizzled layout is
that of the inner layout; the other questions it does not answer.
"""

from __future__ import annotations

from layoutalg.budget import Budget
from layoutalg.compose import NormalForm, find_normal_form, require_same
from layoutalg.decide.distinct import WINDOW_BITS, count_sums
from layoutalg.decide.equation import find_relation, is_spread
from layoutalg.decide.extent import SMALL_BITS, contiguous_from_zero, cosize, offsets_table, whole_periods
from layoutalg.decide.solving import find_collision, under_swizzles
from layoutalg.errors import NotLinearError, ShapeError
from layoutalg.f2 import Columns, affine_f2, basis, contains
from layoutalg.layout import (
    AnyLayout,
    Layout,
    Swizzles,
    check_integers,
    check_layouts,
    has_symbols,
    integer_leaves,
    is_symbolic,
    leaf_lists,
    leaves,
    merge,
    size,
    span,
    whole_number,
)
from layoutalg.limits import Most


def find_difference(a: AnyLayout, b: AnyLayout) -> int | None:
    """A flat coordinate at which `a` and `b` differ, or None when they are the same function.

    Raises ShapeError when their sizes differ, UndecidedError where there is neither a closed form nor a
    small domain.

    >>> find_difference(Layout((4, 8), (8, 1)), Layout((4, 8), (8, 2)))
    4
    """
    check_layouts("find_difference", a, b)
    if size(a) != size(b):
        if isinstance(a, Layout) and isinstance(b, Layout) and is_symbolic(size(a) - size(b)):
            require_same(a, b)
            return None
        raise ShapeError(
            f"find_difference: {a} has {size(a)} coordinates and {b} has {size(b)}: they are not comparable"
        )
    left, right = find_normal_form(a), find_normal_form(b)
    if left is None or right is None:
        return _other_difference(a, b)
    if left[:2] == right[:2]:
        return _plain_difference(left.layout, right.layout)
    return _swizzled_difference(a, b, left, right)


def _plain_difference(a: Layout, b: Layout) -> int | None:
    base = 1
    for (s, d), (t, e) in zip(
        zip(*merge(*leaf_lists(a)), strict=True), zip(*merge(*leaf_lists(b)), strict=True), strict=False
    ):
        if (d != e or s != t) and (has_symbols(a) or has_symbols(b)):
            require_same(a, b)
            return None
        if d != e:
            return base
        if s != t:
            return base * min(s, t)
        base *= s
    return None


def _swizzled_difference(
    a: AnyLayout,
    b: AnyLayout,
    left: NormalForm,
    right: NormalForm,
) -> int | None:
    """S(o + A) against T(p + B): with R = T^-1 S, R(x) = x + g(x mod period) must be p + B, mode by mode."""
    relative = Swizzles(right.swizzles.inverse(), left.swizzles)
    period = relative.period
    modes = _refine(leaf_lists(left.layout), leaf_lists(right.layout))
    if modes is None or period > 1 << SMALL_BITS:
        linear = _linear_pair(a, b)
        if linear is not None or modes is None or period > 1 << WINDOW_BITS:
            return _other_difference(a, b)

    def moved(x: int) -> int:
        return int(relative(x)) - x

    budget = Budget(
        lambda: f"same_function of {a} and {b}:", reached="the offsets of a period were not all compared when"
    )
    x, gap = left.offset % period, right.offset - left.offset
    if moved(x) != gap:
        return 0
    seen = {x: 0}
    gaps = {x: gap}
    base = 1
    for s, d, e in modes:
        new = list(seen)
        for _ in range(s - 1):
            fresh: list[int] = []
            for x in new:
                y = (x + d) % period
                gap = gaps[y] if y in gaps else moved(y)
                if gap != gaps[x] + e - d:
                    return seen[x] + base
                if y not in seen:
                    seen[y], gaps[y] = seen[x] + base, gap
                    fresh.append(y)
            budget.spend(1 + 2 * len(new))
            new = fresh
            if not new:
                break
        base *= s
    return None


def _linear_pair(a: AnyLayout, b: AnyLayout) -> tuple[tuple[int, Columns], tuple[int, Columns]] | None:
    """Both layouts as matrices over F2, or None."""
    try:
        return affine_f2(a), affine_f2(b)
    except NotLinearError:
        return None


def _other_difference(a: AnyLayout, b: AnyLayout) -> int | None:
    """By matrices where both layouts are linear over F2, else one coordinate after the other."""
    linear = _linear_pair(a, b)
    if linear is None:
        pairs = zip(offsets_table("same_function", a), offsets_table("same_function", b), strict=True)
        return next((i for i, (x, y) in enumerate(pairs) if x != y), None)
    (constant, columns), (other, others) = linear
    if constant != other:
        return 0
    return next((1 << j for j, (x, y) in enumerate(zip(columns, others, strict=True)) if x != y), None)


def _refine(
    a: tuple[tuple[int, ...], tuple[int, ...]], b: tuple[tuple[int, ...], tuple[int, ...]]
) -> list[tuple[int, int, int]] | None:
    """(extent, stride in a, stride in b) of the common refinement, or None when the extents cross."""
    left, right = list(zip(*merge(*a), strict=True))[::-1], list(zip(*merge(*b), strict=True))[::-1]
    out: list[tuple[int, int, int]] = []
    while left and right:
        (s, d), (t, e) = left.pop(), right.pop()
        common = min(s, t)
        if s % common or t % common:
            return None
        out.append((common, d, e))
        if s > common:
            left.append((s // common, d * common))
        if t > common:
            right.append((t // common, e * common))
    return out


def find_offset_bit(layout: AnyLayout, bit: int) -> int | None:
    """A flat coordinate whose offset has the given bit set, or None when there is none.

    Decided by the residues of the offsets modulo 2^(bit + 1).  Raises UndecidedError as `same_function`.

    >>> find_offset_bit(Layout((4, 8), (8, 1)), 3), find_offset_bit(Layout((4, 8), (8, 1)), 5)
    (1, None)
    """
    check_integers("find_offset_bit", layout)
    bit = whole_number(bit, "find_offset_bit: the bit")
    if bit < 0:
        raise ShapeError(f"find_offset_bit({layout}, {bit}): bits count from 0")
    bit = min(bit, 4 * Most.INT_BITS.number)  # from there on, all bits of an offset are its sign
    parts = find_normal_form(layout)
    period = 2 << bit
    if parts is not None:
        period = max(period, parts.swizzles.period)
    if parts is None or period > 1 << SMALL_BITS:
        try:
            constant, columns = affine_f2(layout)
        except NotLinearError:
            pass
        else:
            places = [0, *(1 << j for j in range(len(columns)))]
            pairs = zip(places, (constant, *(constant ^ c for c in columns)), strict=True)
            return next((i for i, x in pairs if x >> bit & 1), None)
    if parts is None or period > 1 << WINDOW_BITS:
        table = offsets_table("find_offset_bit", layout)
        return next((i for i, x in enumerate(table) if x >> bit & 1), None)
    swizzles, offset, inner = parts
    budget = Budget(
        lambda: f"find_offset_bit({layout}, {bit}):",
        reached="the offsets of a period were not all found when",
    )
    seen = {offset % period: 0}
    base = 1
    for s, d in leaves(inner):
        new = list(seen)
        for _ in range(s - 1):
            budget.spend(1 + 3 * len(new))
            fresh = {(x + d) % period: seen[x] + base for x in reversed(new)}
            new = [x for x in fresh if x not in seen]
            seen.update((x, fresh[x]) for x in new)
            if not new:
                break
        base *= s
    return min((c for x, c in seen.items() if swizzles(x) >> bit & 1), default=None)


def same_function(a: AnyLayout, b: AnyLayout) -> bool:
    """True when `a` and `b` have one size and one offset at every flat coordinate.

    Raises UndecidedError as `find_difference` does.

    >>> same_function(Layout((2, 4)), Layout(8)), same_function(Layout(8), Layout(9))
    (True, False)
    """
    check_layouts("same_function", a, b)
    same_size = size(a) == size(b) or is_symbolic(size(a) - size(b))
    return same_size and find_difference(a, b) is None


def is_injective(layout: AnyLayout) -> bool:
    """True when no two coordinates share an offset.

    Raises UndecidedError when the exact search runs out of its budget.

    >>> is_injective(Layout((4, 8), (1, 5))), is_injective(Layout((4, 8), (1, 3)))
    (True, False)
    """
    inner = under_swizzles(layout)
    if isinstance(inner, Layout):
        extents, strides = integer_leaves("is_injective", inner)
        return is_spread(strides, extents) or (
            find_relation(lambda: f"is {inner} injective?", strides, extents) is None
        )
    check_integers("is_injective", inner)
    parts = find_normal_form(inner)
    if parts is None:
        table = offsets_table("is_injective", inner)
        return len(set(table)) == len(table)
    return find_collision(parts.layout) is None


def is_surjective(layout: AnyLayout, codomain: int | None = None) -> bool:
    """True when every offset in [0, codomain) is reached; `codomain` is the cosize when omitted.

    Raises UndecidedError where there is neither a closed form nor a small codomain.

    >>> is_surjective(Layout((4, 8), (1, 3))), is_surjective(Layout((4, 8), (1, 5)))
    (True, False)
    """
    check_integers("is_surjective", layout)
    target = cosize(layout) if codomain is None else whole_number(codomain, "is_surjective: the codomain")
    if target < 0:
        raise ShapeError(f"is_surjective({layout}, {target}): a codomain has no negative size")
    if size(layout) < target:
        return False
    if target == 0:
        return True
    parts = find_normal_form(layout)
    if parts is not None and span(parts.layout)[0] >= 0:
        swizzles, offset, inner = parts
        if not swizzles and not offset:
            return contiguous_from_zero(inner) >= target
        if whole_periods(swizzles, offset, inner) and contiguous_from_zero(inner) >= target:
            return True
        try:
            constant, columns = affine_f2(parts.whole)
        except NotLinearError:
            pass
        else:
            space = basis(columns)
            units = {1 << j for j in range((target - 1).bit_length())}
            return units.issubset(space) and contains(space, constant)
        period = swizzles.period
        if not offset and contiguous_from_zero(inner) >= -(-target // period) * period:
            return True
    return set(offsets_table("is_surjective", layout)) >= set(range(target))


def is_bijective(layout: AnyLayout) -> bool:
    """True when the layout is one-to-one onto [0, size).

    >>> is_bijective(Layout((4, 8), (8, 1))), is_bijective(Layout((4, 8), (9, 1)))
    (True, False)
    """
    check_integers("is_bijective", layout)
    if cosize(layout) != size(layout) or not is_injective(layout):
        return False
    # What is left fills an interval of the right length: does it start at 0?
    parts = find_normal_form(layout)
    return (
        min(offsets_table("is_bijective", layout)) == 0
        if parts is None
        else span(parts.layout)[0] + parts.offset >= 0
    )


def image_size(layout: AnyLayout) -> int:
    """Number of distinct offsets.

    Raises UndecidedError when the boxes of `layoutalg.decide.distinct` exceed its budget.

    >>> image_size(Layout((4, 8), (1, 2))), image_size(Layout((4, 8), (0, 1)))
    (18, 8)
    """
    inner = under_swizzles(layout)
    if not isinstance(inner, Layout):
        check_integers("image_size", inner)
        parts = find_normal_form(inner)
        if parts is None:
            return len(set(offsets_table("image_size", inner)))
        inner = parts.layout
    extents, strides = integer_leaves("image_size", inner)
    return count_sums(layout, [(abs(d), s) for s, d in zip(extents, strides, strict=True) if d])
