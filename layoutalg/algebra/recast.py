"""upcast, downcast, recast_layout: the same memory in wider or narrower elements; the width of vectors.

The idea.  Offsets are counted in elements.  Taking N neighbouring elements for one (upcast, a vector load)
divides offsets by N; taking one for N (downcast) multiplies them, and the N parts become coordinates of
the mode that already walks with stride 1.

    upcast((8,4):(4,1), 2)    = (8,2):(2,1)        floor(offset / 2), every second column
    downcast((8,2):(2,1), 2)  = (8,4):(4,1)

An upcast by N is exact when each group of coordinates that it joins lies in one run of N offsets: strides
are multiples of N or divide it, extents are filled, and the remainders of several modes never add up to
another N.  Otherwise it is refused, with a coordinate at which floor(offset / N) is not what a layout says.

Swizzles move along: a field at bit M is at bit M - log2 N.  A swizzled bit that falls inside the wider
element would shuffle its parts; it may be dropped only if no offset of the layout has the bit it is read
from, and is refused otherwise.

>>> print(recast_layout(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))), 16, 128))
Sw<3,0,3> o 0 o (8,8):(8,1)

Symbols are taken where strides are multiples of the factor or divide it for all values; what is not decided
is named (UndecidedError): 2*n:1 in elements twice as wide is n:1, and n:1 needs that 2 divides n.

Comparison with CuTe.  CuTe drops swizzle bits without a word, and lets `downcast` grow every mode of stride
1, which repeats elements; here the first such mode grows.

Vectors.  The right inverse lists, from offset 0 upwards, the coordinates that lie next to each other in
memory. Where the right inverses of two layouts agree, a copy between them may move whole vectors.

>>> source, target = Layout((4, 8), (1, 4)), Layout((4, 8), (1, 16))
>>> max_common_vector(source, target), max_alignment(target)
(4, 4)

CuTe lets the common vector run past the end of the smaller layout, where there is
nothing to copy; here it ends with it.

Source: CUTLASS, include/cute/layout.hpp, upcast, downcast, recast_layout, max_common_layout,
max_common_vector, max_alignment.
"""

from __future__ import annotations

import math
from typing import NoReturn, overload

from layoutalg.algebra.inverse import right_inverse
from layoutalg.compose import NormalForm, downcast_symbols, find_normal_form, need_normal_form, upcast_symbols
from layoutalg.decide import find_offset_bit
from layoutalg.errors import DivisibilityError, ShapeError, UnsupportedError, names_refusals
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    check_integers,
    check_layouts,
    has_symbols,
    integer_leaves,
    layout_of,
    leaf_lists,
    merge,
    normalize,
    unflatten_tree,
)


def _factor(name: str, layout: AnyLayout, n: int) -> int:
    """The factor of an operation on a layout, both checked."""
    check_layouts(name, layout)
    value = normalize(n, f"{name}: the factor")
    if isinstance(value, tuple) or value < 1:
        raise ShapeError(f"{name}({layout}, {n}): the factor must be a positive integer")
    return value


@overload
def upcast(layout: Layout, n: int) -> Layout: ...
@overload
def upcast(layout: ComposedLayout, n: int) -> AnyLayout: ...
def upcast(layout: AnyLayout, n: int) -> AnyLayout:
    """The layout in elements `n` times as wide: floor(layout(c) / n), n neighbours joined into one.

    Raises DivisibilityError, with a coordinate as `witness`, when no layout with the extents divided is
    that function, or when a swizzle would move parts of a wider element, and UnsupportedError for what is
    not swizzles over one layout, and below swizzles for a factor that is not a power of two.

    >>> print(upcast(Layout((8, 4), (4, 1)), 2))
    (8,2):(2,1)
    """
    n = _factor("upcast", layout, n)
    if isinstance(layout, ComposedLayout):
        return _upcast_swizzled(layout, n)
    if has_symbols(layout):
        return upcast_symbols(layout, n)
    extents, strides = integer_leaves("upcast", layout)
    joined: list[int] = []
    steps: list[int] = []
    left_over = corner = 0
    base = 1
    for s, d in zip(extents, strides, strict=True):
        width = abs(d)
        if s == 1 or d == 0 or width % n == 0:
            joined.append(s)
            steps.append(d // n if s > 1 else 0)
        else:
            run = n // width if n % width == 0 and d > 0 else 0
            if run == 0 or (s > run and s % run):
                _refuse_upcast(layout, n, base * (run or 1))
            run = min(run, s)
            left_over += (run - 1) * d
            corner += (run - 1) * base
            joined.append(s // run)
            steps.append(1 if s > run else 0)
        base *= s
    if left_over >= n:
        _refuse_upcast(layout, n, corner)
    return layout_of(unflatten_tree(tuple(joined), layout.shape), unflatten_tree(tuple(steps), layout.shape))


def _refuse_upcast(layout: AnyLayout, n: int, witness: int) -> NoReturn:
    raise DivisibilityError(
        f"upcast({layout}, {n}): offset {layout(witness)} at coordinate {witness} is not in a run of {n} "
        f"that whole modes fill; strides must divide {n} or be multiples of it, and extents be filled",
        lhs=layout,
        rhs=n,
        witness=witness,
    )


def _upcast_swizzled(layout: ComposedLayout, n: int) -> AnyLayout:
    swizzles, offset, inner = _swizzles_over_layout("upcast", layout, n)
    shift = n.bit_length() - 1
    if offset % n:
        _refuse_upcast(layout, n, 0)
    outer: list[Swizzle] = []
    for i, swizzle in enumerate(swizzles):
        inside = max(0, shift - swizzle.base)
        for read, _ in sorted(swizzle.bit_pairs())[:inside]:
            c = find_offset_bit(ComposedLayout(swizzles[i + 1 :], offset, inner), read)
            if c is not None:
                raise DivisibilityError(
                    f"upcast({layout}, {n}): {swizzle} moves parts of an element of {n} at coordinate {c}, "
                    f"whose offset has bit {read}; a swizzle from bit {shift} up is accepted",
                    lhs=layout,
                    rhs=n,
                    witness=c,
                )
        outer.append(Swizzle(max(0, swizzle.bits - inside), max(0, swizzle.base - shift), swizzle.shift))
    return ComposedLayout(Swizzles(*outer), offset // n, upcast(inner, n))


def _swizzles_over_layout(name: str, layout: ComposedLayout, n: int) -> NormalForm:
    form = find_normal_form(layout)
    if form is None or (n & (n - 1) and form.swizzles):
        raise UnsupportedError(
            f"{name}({layout}, {n}): accepted are swizzles over one layout, and powers of two"
        )
    return form


@overload
def downcast(layout: Layout, n: int) -> Layout: ...
@overload
def downcast(layout: ComposedLayout, n: int) -> AnyLayout: ...
def downcast(layout: AnyLayout, n: int) -> AnyLayout:
    """The layout in elements `n` times as narrow: the mode of stride 1 grows by `n`, other strides by n.

    Raises DivisibilityError when no mode has stride 1, so that the parts have no mode to run in, and
    UnsupportedError as `upcast` does.

    >>> print(downcast(Layout((8, 2), (2, 1)), 2))
    (8,4):(4,1)
    """
    n = _factor("downcast", layout, n)
    if isinstance(layout, ComposedLayout):
        swizzles, offset, inner = _swizzles_over_layout("downcast", layout, n)
        shift = n.bit_length() - 1
        wide = Swizzles(*(Swizzle(s.bits, s.base + shift, s.shift) for s in swizzles))
        return ComposedLayout(wide, offset * n, downcast(inner, n))
    if has_symbols(layout):
        return downcast_symbols(layout, n)
    extents, strides = map(list, integer_leaves("downcast", layout))
    ones = [i for i, d in enumerate(strides) if d == 1]
    moving = [i for i in ones if extents[i] > 1]
    still = [i for i, s in enumerate(extents) if s == 1]
    grown = next(iter(moving or ones or still), None)
    if grown is None and n > 1:
        raise DivisibilityError(
            f"downcast({layout}, {n}): no mode has stride 1, in which the {n} parts of an element could run",
            lhs=layout,
            rhs=n,
        )
    for i, s in enumerate(extents):
        strides[i] *= n if s > 1 else 0
        if i == grown and n > 1:
            extents[i], strides[i] = s * n, 1
    shape, stride = (unflatten_tree(tuple(flat), layout.shape) for flat in (extents, strides))
    return layout_of(shape, stride)


@names_refusals
def recast_layout(layout: AnyLayout, old_bits: int, new_bits: int) -> AnyLayout:
    """The layout of elements of `old_bits` bits, counted in elements of `new_bits` bits.

    Raises what `upcast` and `downcast` raise, and ShapeError when neither width divides the other.

    >>> print(recast_layout(Layout((8, 64), (64, 1)), 16, 128))
    (8,8):(8,1)
    """
    _factor("recast_layout", layout, old_bits)
    _factor("recast_layout", layout, new_bits)
    if new_bits % old_bits == 0:
        return upcast(layout, new_bits // old_bits)
    if old_bits % new_bits == 0:
        return downcast(layout, old_bits // new_bits)
    raise ShapeError(f"recast_layout({layout}, {old_bits}, {new_bits}): one width must divide the other")


def _first(layout: Layout) -> tuple[int, int]:
    """(extent, stride) of the first coalesced mode."""
    extents, strides = merge(*leaf_lists(layout))
    return (extents[0], strides[0]) if extents else (1, 0)


@names_refusals
def max_common_layout(a: AnyLayout, b: AnyLayout) -> Layout:
    """The longest single mode V of coordinates with a(V(i)) = b(V(i)) = i for every i < size(V).

    Raises what `right_inverse` raises, and UnsupportedError where a swizzle moves what it returns.

    >>> print(max_common_layout(Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1))))
    8:4
    """
    check_layouts("max_common_layout", a, b)
    for layout in (a, b):
        if isinstance(layout, Layout):
            integer_leaves("max_common_layout", layout)
    left, right = right_inverse(a), right_inverse(b)
    if not isinstance(left, Layout) or not isinstance(right, Layout):
        raise UnsupportedError(
            f"max_common_layout({a}, {b}): the neighbours in memory are swizzled coordinates"
        )
    (s, d), (t, e) = _first(left), _first(right)
    length = min(s, t) if d == e else 1
    return layout_of(length, d if length > 1 else 0)


@names_refusals
def max_common_vector(a: AnyLayout, b: AnyLayout) -> int:
    """The number of elements, from offset 0, that lie next to each other in both layouts.

    Raises as `max_common_layout`.

    >>> max_common_vector(Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1)))
    8
    """
    check_integers("max_common_vector", a)
    check_integers("max_common_vector", b)
    extent = max_common_layout(a, b).shape
    return extent if isinstance(extent, int) else 1


def max_alignment(layout: AnyLayout) -> int:
    """The widest n such that offsets come in runs of n neighbours, each starting at a multiple of n.

    For a swizzled layout, the widest that no bit of the swizzles falls into, whether an offset has it or not.
    Raises UnsupportedError when the outer function is a layout that cannot be moved inwards.

    >>> from layoutalg.layout import Swizzle
    >>> max_alignment(Layout((8, 4), (1, 12))), max_alignment(ComposedLayout(Swizzle(2, 1, 3), 4, Layout(64)))
    (4, 2)
    """
    swizzles, first, inner = need_normal_form("max_alignment", layout)
    run = 1
    rest: list[int] = [1 << s.base for s in swizzles]
    leaves = zip(*integer_leaves("max_alignment", inner), strict=True)
    for d, s, negative in sorted((abs(d), s, d < 0) for s, d in leaves if s > 1):
        first -= (s - 1) * d if negative else 0
        if d <= run:  # the runs touch or overlap
            run += (s - 1) * d
        else:
            rest.append(d)
    return math.gcd(run, first, *rest)
