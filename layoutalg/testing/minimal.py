"""The smallest case of a failure: the smallest layout, part or set of lanes that still shows it.

The idea.  A property fails for a large layout; most of the layout has nothing to do with it.  Dropping a
mode or cutting an extent gives a simpler layout; as long as the property still fails there, go on:

    (8,4,16):(4,1,16)  ->  (8,16):(4,16)  ->  (8,2):(4,16)  ->  (5,2):(4,16)      not injective: 4 * 4 = 16

Which steps are allowed is the caller's business: `fails` decides what "the same failure" means.

Source: the greedy search of QuickCheck (Claessen and Hughes, ICFP 2000), on the modes of a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    coordinate_at,
    flatten_tree,
    leaves,
    plain,
)


def shrink(layout: AnyLayout, fails: Callable[[AnyLayout], bool]) -> AnyLayout:
    """The smallest layout reached from `layout` on which `fails` still holds.

    Modes are dropped and extents cut, a swizzle loses bits or goes, an offset becomes 0: whatever is left
    is needed for the failure.  Shapes come out flat.  A layout that does not fail comes back as it is.

    >>> from layoutalg.layout import product
    >>> def takes_51(part): return any(part(i) == 51 for i in range(product(part.shape)))
    >>> print(shrink(Layout(((4, 4), 64), ((1, 4), 17)), takes_51))
    4:17
    """
    smaller: AnyLayout | None = layout if fails(layout) else None
    while smaller is not None:
        layout = smaller
        smaller = next(filter(fails, _smaller(layout)), None)
    return layout


def _smaller(layout: AnyLayout) -> Iterator[AnyLayout]:
    """Simpler layouts, the boldest steps first; each is smaller in a measure that cannot go on falling."""
    if isinstance(layout, ComposedLayout):
        yield layout.inner
        chain = layout.swizzles
        for i, f in enumerate(chain):
            if len(chain) > 1:
                yield ComposedLayout(Swizzles(*chain[:i], *chain[i + 1 :]), layout.offset, layout.inner)
            if f.bits:
                fewer = Swizzle(f.bits - 1, f.base, f.shift)
                changed = Swizzles(*chain[:i], fewer, *chain[i + 1 :])
                yield ComposedLayout(changed, layout.offset, layout.inner)
        if layout.offset:
            yield ComposedLayout(layout.outer, 0, layout.inner)
        for inner in _smaller(layout.inner):
            yield ComposedLayout(layout.outer, layout.offset, inner)
        return
    modes = [(s, d) for s, d in leaves(layout) if s > 1]
    if _flat(modes) != layout:
        yield _flat(modes)
    outermost_first = sorted(range(len(modes)), key=lambda i: -abs(modes[i][1]))
    for i in outermost_first:
        yield _flat([*modes[:i], *modes[i + 1 :]])
    for i in outermost_first:
        s, d = modes[i]
        step = s // 2
        while step and s - step > 1:
            yield _flat([*modes[:i], (s - step, d), *modes[i + 1 :]])
            step //= 2


def _flat(modes: list[tuple[int, int]]) -> Layout:
    return plain([s for s, _ in modes], [d for _, d in modes])


def part_up_to(layout: AnyLayout, index: int) -> AnyLayout:
    """The smallest part of `layout` that reaches the coordinate of `index`, which is its last.

    >>> print(part_up_to(Layout((8, 4, 16), (4, 1, 32)), 8 * 4 * 3 + 1))
    (2,4):(4,32)
    """
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, part_up_to(layout.inner, index))
    digits = flatten_tree(coordinate_at(index, layout.shape))
    return _flat([(x + 1, d) for x, (_, d) in zip(digits, leaves(layout), strict=True) if x])


def shrink_lanes(
    offsets: Sequence[int | None], fails: Callable[[Sequence[int | None]], bool]
) -> list[int | None]:
    """Make as many lanes as possible inactive (None) such that `fails` still holds, the last ones first.

    >>> shrink_lanes([0, 4, 128, 132], lambda lanes: 0 in lanes and 128 in lanes)
    [0, None, 128, None]
    """
    left = list(offsets)
    for lane in reversed(range(len(left))):
        fewer = [*left[:lane], None, *left[lane + 1 :]]
        if left[lane] is not None and fails(fewer):
            left = fewer
    return left
