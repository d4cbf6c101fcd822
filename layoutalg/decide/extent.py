"""The least and greatest offsets of a layout, swizzled or not: extremes and cosize.

The idea.  The largest offset of a plain layout is a sum.  Under swizzles it is the largest in a window of one
swizzle period, found bit by bit: from the set of inner offsets in that window, kept as the bits of one
integer, those whose swizzled offset has the highest bit stay, if there are any, then those with the next.
An F2-linear layout needs one elimination instead.

>>> from layoutalg.layout import Swizzle
>>> cosize(ComposedLayout(Swizzle(3, 4, 3), 0, Layout((1 << 20, 1 << 20), (1 << 20, 1)))) == 1 << 40
True

Comparison with CuTe.  Its cosize of a swizzled layout is that of the layout inside.
"""

from __future__ import annotations

from collections.abc import Callable

from layoutalg.budget import Budget
from layoutalg.compose import NormalForm, find_normal_form
from layoutalg.decide.distinct import WINDOW_BITS, sums_below
from layoutalg.errors import NotLinearError, UnsupportedError
from layoutalg.f2 import affine_f2, basis
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzles,
    check_integers,
    check_layouts,
    flatten_tree,
    leaves,
    size,
    span,
)
from layoutalg.limits import Most

SMALL_BITS = 12
"""Windows of at most 2^SMALL_BITS offsets are quicker than an elimination."""


def offsets_table(question: str, layout: AnyLayout) -> list[int]:
    """Every offset, one by one, for small layouts that have no closed form; else UndecidedError.

    >>> offsets_table("image_size", Layout(4, 2))
    [0, 2, 4, 6]
    """
    check_integers(question, layout)
    total = size(layout)
    why = f"{question} of {layout}: there is no closed form for this layout, whose coordinates are looked at"
    Most.ONE_BY_ONE.decide(total, f"{why} one by one")
    Budget(f"{question} of {layout}:").spend(total * (1 + leaf_count(layout)))
    return [layout(i) for i in range(total)]


def leaf_count(layout: AnyLayout) -> int:
    """The number of leaves and swizzles of all parts, which is the work of one offset.

    >>> from layoutalg.layout import Swizzle
    >>> leaf_count(ComposedLayout(Swizzle(1, 0, 1), 4, Layout((4, 2))))
    3
    """
    count = 0
    while isinstance(layout, ComposedLayout):
        count += len(leaves(layout.outer)) if isinstance(layout.outer, Layout) else len(layout.swizzles)
        layout = layout.inner
    return count + len(leaves(layout))


def reached(layout: Layout, length: int) -> int:
    """The set of sums of k * |stride|, k < extent, that are below `length`, as the bits of an integer.

    >>> bin(reached(Layout((2, 2), (1, 4)), 8))
    '0b110011'
    """
    return sums_below(
        lambda: f"which offsets has {layout}?", [(abs(d), s) for s, d in leaves(layout)], length
    )


def contiguous_from_zero(layout: Layout) -> int:
    """The least offset >= 0 that a layout of non-negative strides does not reach.

    >>> contiguous_from_zero(Layout((4, 4), (1, 8)))
    4
    """
    reach = 1
    for d, s in sorted(zip(flatten_tree(layout.stride), flatten_tree(layout.shape), strict=True)):
        if d > reach:
            break
        reach += d * (s - 1)
    return reach


def whole_periods(swizzles: Swizzles, offset: int, inner: Layout) -> bool:
    """True when the inner layout fills [0, n) and n is whole swizzle periods: the swizzles permute that.

    >>> from layoutalg.layout import Swizzle
    >>> whole_periods(Swizzles(Swizzle(1, 0, 1)), 0, Layout((4, 8), (8, 1)))
    True
    """
    if offset:
        return False
    low, high = span(inner)
    return low == 0 and (high + 1) % swizzles.period == 0 and contiguous_from_zero(inner) > high


def cosize(layout: AnyLayout) -> int:
    """The length of the shortest interval that holds 0 and every offset: 1 + the largest offset, for
    layouts that reach no negative one.

    Exact for swizzled layouts.  Raises UnsupportedError when a negative offset is swizzled, UndecidedError
    where there is neither a closed form nor a small domain.

    >>> from layoutalg.layout import Swizzle
    >>> cosize(Layout((4, 8), (8, 2))), cosize(ComposedLayout(Swizzle(1, 0, 2), 0, Layout(5)))
    (39, 6)
    """
    if isinstance(layout, Layout):  # of symbols, too, which have an order only where they must
        low, high = span(layout)
        return high - low + 1
    low, high = _extremes("cosize", layout, least=False)
    return max(0, high) - min(0, low) + 1


def extremes(layout: AnyLayout) -> tuple[int, int]:
    """(least, greatest) offset, exact for swizzled layouts too.

    Raises as `cosize`.

    >>> from layoutalg.layout import Swizzle
    >>> extremes(Layout((4, 8), (-1, 10))), extremes(ComposedLayout(Swizzle(1, 0, 2), 4, Layout(2)))
    ((-3, 70), (4, 5))
    """
    return _extremes("extremes", layout)


def _extremes(operation: str, layout: AnyLayout, *, least: bool = True) -> tuple[int, int]:
    """(least, greatest) offset; without `least`, 0 may stand for a least one that is not negative."""
    check_layouts(operation, layout)
    if isinstance(layout, Layout):
        return span(layout)
    form = find_normal_form(layout)
    if form is None:
        values = offsets_table(operation, layout)
        return min(values), max(values)
    swizzles, offset, inner = form
    low, high = span(inner)
    low, high = low + offset, high + offset
    if not swizzles:
        return low, high
    if whole_periods(swizzles, offset, inner):
        return 0, high
    if low < 0:
        raise UnsupportedError(f"{operation} of {layout}: the negative offset {low} is swizzled")
    return _least(form, low) if least else 0, _largest(form, high)


def _least(form: NormalForm, bottom: int) -> int:
    """The least offset of a swizzled layout, where `bottom` is the least before the swizzles."""
    swizzles, _, inner = form
    bits = swizzles.period.bit_length() - 1
    if bits > SMALL_BITS and (linear := _of_linear(form.whole, min)) is not None:
        return linear
    if bits > WINDOW_BITS:
        return min(offsets_table("extremes", form.whole))
    period = 1 << bits
    first = bottom >> bits << bits
    window = reached(inner, first + period - bottom) << bottom - first
    best = period - 1
    for i, mask in reversed(list(enumerate(_rows(swizzles, bits)))):
        chosen = window & ~_odd_parity(mask, bits)
        if chosen:
            window, best = chosen, best ^ 1 << i
    return first + best


def _largest(form: NormalForm, top: int) -> int:
    """The largest offset of a swizzled layout, where `top` is the largest before the swizzles."""
    swizzles, _, inner = form
    bits = swizzles.period.bit_length() - 1
    if bits > SMALL_BITS and (linear := _of_linear(form.whole, max)) is not None:
        return linear
    if bits > WINDOW_BITS:
        return max(offsets_table("cosize", form.whole))
    first, last = top >> bits << bits, top & ((1 << bits) - 1)
    below = reached(inner, last + 1)
    window = int(f"{below:0{last + 1}b}"[::-1], 2)
    best = 0
    for i, mask in reversed(list(enumerate(_rows(swizzles, bits)))):
        chosen = window & _odd_parity(mask, bits)
        if chosen:
            window, best = chosen, best | 1 << i
    return first + best


def _of_linear(layout: AnyLayout, pick: Callable[[int, int], int]) -> int | None:
    """The least or largest offset (`pick` min or max) of a layout that is affine over F2; None of another."""
    try:
        best, columns = affine_f2(layout)
    except NotLinearError:
        return None
    for vector in reversed(basis(columns)):
        best = pick(best, best ^ vector)
    return best


def _rows(swizzles: Swizzles, bits: int) -> list[int]:
    """For each of the lowest `bits` bits of a swizzled offset, the bits of the offset that it XORs."""
    rows = [1 << i for i in range(bits)]
    for y, z in swizzles.bit_pairs():
        rows[z] ^= rows[y]
    return rows


def _odd_parity(mask: int, bits: int) -> int:
    """The set of x < 2^bits with an odd number of bits in common with `mask`, as the bits of an integer."""
    odd = 0
    for j in range(bits):
        block = 1 << j
        odd |= (odd ^ ((1 << block) - 1 if mask >> j & 1 else 0)) << block
    return odd
