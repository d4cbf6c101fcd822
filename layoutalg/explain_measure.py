"""Derivations of size, rank, depth, coalesce, coalesce_x, filter and filter_zeros.

>>> paper = Paper()
>>> print(explain_coalesce(paper, Layout((2, (1, 6)), (1, (7, 2)))))
12:1
>>> print(*(statement for step in paper.steps for statement in step.statements), sep="\\n")
A = (2,(1,6)):(1,(7,2))
coalesce(A) = coalesce((2,1,6):(1,7,2))
coalesce((2,1,6):(1,7,2)) = coalesce((2,6):(1,2))
2 * 1 = 2
coalesce((2,6):(1,2)) = coalesce(12:1)
coalesce(12:1) = 12:1
"""

from __future__ import annotations

from itertools import pairwise

from layoutalg.derivation import Paper, attempt
from layoutalg.int_tuple import IntTuple, flatten, to_text
from layoutalg.layout import Layout, leaves, make_layout, modes
from layoutalg.measure import coalesce, coalesce_x, depth, filter, filter_zeros, merge_open, plain, rank, size
from layoutalg.swizzle import AnyLayout, ComposedLayout


def innermost(layout: AnyLayout) -> Layout:
    """The plain layout below all outer functions.

    >>> from layoutalg.swizzle import Swizzle
    >>> print(innermost(ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4))))
    4:1
    """
    while isinstance(layout, ComposedLayout):
        layout = layout.inner
    return layout


def explain_inside(paper: Paper, operation: str, layout: AnyLayout) -> Layout:
    """Say that an operation works on the layout inside a composed one, and return that one.

    >>> print(explain_inside(Paper(), "coalesce", Layout(4)))
    4:1
    """
    inner = innermost(layout)
    if inner != layout:
        name, inside = paper.name(layout, "X"), paper.name(inner, "A")
        paper.step(
            f"{operation} works on the coordinates, that is on the layout inside; outer functions stay: "
            f"{operation}({name}) is {operation}({inside}) inside the same outer functions"
        )
    return inner


def explain_outside(paper: Paper, layout: AnyLayout, result: AnyLayout | None, *, moved: int = 0) -> None:
    """Say that the outer functions of a composed layout stand around a result, the innermost offset `moved`.

    >>> from layoutalg.swizzle import Swizzle
    >>> paper, layout = Paper(), ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2)))
    >>> explain_outside(paper, layout, coalesce(layout))
    >>> paper.steps[0].statements
    ('R = 4:1', 'Sw<1,0,1> o 0 o R = Sw<1,0,1> o 0 o 4:1')
    """
    if not isinstance(layout, ComposedLayout) or result is None:
        return
    law = "the outer functions come back"
    base = layout
    while isinstance(base.inner, ComposedLayout):
        base = base.inner
    outer = str(layout).removesuffix(f"{base.offset} o {base.inner}")
    name = paper.name(innermost(result), "R")
    if moved:
        paper.step(
            f"{law}, and that offset is added before them", f"{base.offset} + {moved} = {base.offset + moved}"
        )
    else:
        paper.step(law)
    paper.write(f"{outer}{base.offset + moved} o {name} = {result}")


def explain_size(paper: Paper, layout: AnyLayout) -> int:
    """The number of coordinates is the product of the extents.

    >>> explain_size(Paper(), Layout((4, (2, 3))))
    24
    """
    name = paper.name(layout, "A")
    extents = flatten(layout.shape)
    paper.step(
        "there are as many coordinates as the product of the extents",
        f"size({name}) = {' * '.join(map(str, extents)) or 1} = {size(layout)}",
    )
    return size(layout)


def explain_rank(paper: Paper, layout: AnyLayout) -> int:
    """The number of top-level modes.

    >>> explain_rank(Paper(), Layout((4, (2, 3))))
    2
    """
    name = paper.name(layout, "A")
    law = (
        "a tuple has a mode for each of its elements"
        if isinstance(layout.shape, tuple)
        else "an integer is one mode"
    )
    paper.step(law, f"rank({name}) = {rank(layout)}")
    for i, mode in enumerate(modes(innermost(layout)) if isinstance(layout, Layout) else ()):
        paper.write(f"{name}[{i}] = {mode}")
    return rank(layout)


def explain_depth(paper: Paper, layout: AnyLayout) -> int:
    """One more than the deepest mode; 0 for an integer.

    >>> explain_depth(Paper(), Layout((4, (2, 3))))
    2
    """
    inner = innermost(layout)
    name = paper.name(layout, "A")
    if not isinstance(inner.shape, tuple):
        paper.step("an integer has depth 0", f"depth({name}) = 0")
        return 0
    paper.step("a tuple is one deeper than its deepest mode")
    parts = [depth(mode) for mode in modes(inner)]
    paper.write(*(f"depth({mode}) = {d}" for mode, d in zip(modes(inner), parts, strict=True)))
    inside = f"max({', '.join(map(str, parts))})" if len(parts) > 1 else str(max(parts, default=0))
    if parts:
        paper.write(f"depth({name}) = 1 + {inside} = {depth(layout)}")
    else:
        paper.write(f"depth({name}) = 1")
    return depth(layout)


def explain_coalesce(paper: Paper, layout: AnyLayout, profile: IntTuple | None = None) -> AnyLayout | None:
    """Leaves in a row, extents of 1 dropped, neighbours merged where the stride goes on.

    >>> print(explain_coalesce(Paper(), Layout((2, 4))))
    8:1
    """
    result, _ = attempt(coalesce, layout, profile)
    inner = explain_inside(paper, "coalesce", layout)
    if isinstance(profile, tuple):
        paper.step(
            f"each leaf of the profile {to_text(profile)} keeps one mode, which is coalesced for itself; "
            f"modes past it stay"
        )
        if result is None:
            paper.write(f"weakly_congruent({to_text(profile)}, {to_text(inner.shape)}) = False")
        for i, (part, leaf) in enumerate(zip(modes(inner), profile, strict=False) if result else ()):
            paper.mode(inner, i, part)
            explain_coalesce(paper, part, leaf)
        if result is not None:
            r = paper.name(innermost(result), "R")
            paper.step("the modes together", f"coalesce({paper.name(inner, 'A')}, {to_text(profile)}) = {r}")
    elif result is not None:
        _merge_leaves(paper, inner)
    explain_outside(paper, layout, result)
    return result


def _merge_leaves(paper: Paper, layout: Layout) -> None:
    pairs = list(leaves(layout))
    before = paper.name(layout, "A")
    if isinstance(layout.shape, tuple):
        flat = _line(pairs)
        if flat != str(layout):
            paper.step(
                "a flat index runs through the leaves from left to right, however they are nested",
                f"coalesce({before}) = coalesce({flat})",
            )
            before = flat
    kept = [(s, d) for s, d in pairs if s != 1]
    if kept != pairs:
        paper.step(
            "a mode of extent 1 has no coordinate but 0 and adds nothing: it goes",
            f"coalesce({before}) = coalesce({plain([s for s, _ in kept], [d for _, d in kept])})",
        )
    i = 0
    while i + 1 < len(kept):
        (s, d), (t, e) = kept[i : i + 2]
        if s * d != e:
            i += 1
            continue
        old = _line(kept)
        kept[i : i + 2] = [(s * t, d)]
        new = _line(kept)
        paper.step(
            f"{s}:{d} ends where {t}:{e} begins: s0:d0 and s1:d1 with s0 * d0 = d1 are one mode s0*s1:d0",
            f"{s} * {d} = {e}",
            f"coalesce({old}) = coalesce({new})",
        )
    result = coalesce(layout)
    gaps = [f"{s} * {d} != {e}" for (s, d), (_, e) in pairwise(kept)]
    paper.step(
        "no mode goes on where the one before it ends: this is the shortest form"
        if gaps
        else "one mode is left",
        *gaps,
        f"coalesce({_line(kept)}) = {result}",
    )


def _line(pairs: list[tuple[int, int]]) -> str:
    """A flat layout, a tuple of modes unless there is one."""
    return str(plain([s for s, _ in pairs], [d for _, d in pairs]))


def explain_coalesce_x(paper: Paper, layout: AnyLayout) -> AnyLayout:
    """As coalesce, but the last mode has no end, so that its extent 1 counts.

    >>> print(explain_coalesce_x(Paper(), Layout((4, 1), (1, 7))))
    (4,1):(1,7)
    """
    inner = explain_inside(paper, "coalesce_x", layout)
    result = coalesce_x(inner)
    a, r = paper.name(inner, "A"), paper.name(result, "R")
    extents, strides = merge_open(inner)
    paper.step(
        "past its size a layout extends its last mode, so the last mode stays even when its extent is 1; "
        "all others are coalesced",
        *(f"{s} * {d} != {e}" for s, (d, e) in zip(extents, pairwise(strides), strict=True)),
        f"{a}(i) = {r}(i) for every i < {4 * size(inner)}",
    )
    explain_outside(paper, layout, coalesce_x(layout))
    return coalesce_x(layout)


def explain_filter_zeros(paper: Paper, layout: AnyLayout) -> AnyLayout:
    """Leaves of stride 0 get the extent 1.

    >>> print(explain_filter_zeros(Paper(), Layout((4, 2), (1, 0))))
    (4,1):(1,0)
    """
    inner = explain_inside(paper, "filter_zeros", layout)
    name = paper.name(inner, "A")
    still = [(s, d) for s, d in leaves(inner) if d == 0]
    law = "a mode of stride 0 repeats one offset: one coordinate of it is enough"
    paper.step(law if still else "no mode has stride 0: nothing repeats")
    paper.write(
        *(f"filter_zeros({s}:{d}) = 1:0" for s, d in still), f"filter_zeros({name}) = {filter_zeros(inner)}"
    )
    explain_outside(paper, layout, filter_zeros(layout))
    return filter_zeros(layout)


def explain_filter(paper: Paper, layout: AnyLayout) -> AnyLayout:
    """filter_zeros, then coalesce.

    >>> print(explain_filter(Paper(), Layout((4, (2, 8)), (1, (0, 4)))))
    32:1
    """
    inner = explain_inside(paper, "filter", layout)
    rest = filter_zeros(inner)
    explain_filter_zeros(paper, inner)
    name = paper.name(inner, "A")
    moving = make_layout(tuple(s for s, d in leaves(rest) if d), tuple(d for _, d in leaves(rest) if d))
    paper.step("what has extent 1 goes, and the rest is coalesced", f"filter({name}) = coalesce({moving})")
    _merge_leaves(paper, moving)
    explain_outside(paper, layout, filter(layout))
    return filter(layout)
