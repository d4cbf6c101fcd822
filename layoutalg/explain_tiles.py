"""Derivations of the divides and the products, of tile_to_shape, make_ordered_layout and make_layout_like.

>>> paper = Paper()
>>> print(explain_divide(paper, Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)))
((2,2),(2,3)):((4,1),(2,8))
>>> print(paper.steps[0].law)
logical_divide(A, T) = A o (T, complement(T, size(A))): mode 0 walks one tile, mode 1 from tile to tile
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from layoutalg.composed import Tiler
from layoutalg.derivation import Paper, attempt
from layoutalg.divide import as_tile, logical_divide, zipped_divide
from layoutalg.explain_compose import explain_by_mode, explain_composition
from layoutalg.explain_inverse import explain_complement, sorted_modes
from layoutalg.explain_measure import explain_inside, explain_outside
from layoutalg.int_tuple import IntTuple, product, to_text
from layoutalg.layout import Layout, concat, make_layout, modes
from layoutalg.measure import rank, size, span
from layoutalg.ordered import make_layout_like, make_ordered_layout
from layoutalg.products import blocked_product, logical_product, tile_to_shape, zipped_product
from layoutalg.swizzle import AnyLayout

Operation = Callable[..., Any]


class _Kind(NamedTuple):
    """Divides or products: the logical operation, the zipped one, and what explains it for one tile."""

    logical: Operation
    zipped: Operation
    one: Callable[[Paper, Layout, Layout], Layout | None]


def explain_divide(
    paper: Paper, layout: AnyLayout, tiler: Tiler, *, operation: Operation = logical_divide
) -> AnyLayout | None:
    """One of the four divides: the logical one, and how the others regroup it.

    >>> print(explain_divide(Paper(), Layout((8, 32)), (4, 8), operation=zipped_divide))
    ((4,8),(2,4)):((1,8),(4,64))
    """
    return _explain(paper, layout, tiler, operation, _DIVIDE)


def explain_product(
    paper: Paper, layout: AnyLayout, tiler: Tiler, *, operation: Operation = logical_product
) -> AnyLayout | None:
    """One of logical, zipped, tiled and flat product.

    >>> print(explain_product(Paper(), Layout((2, 2), (4, 1)), Layout(6)))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    return _explain(paper, layout, tiler, operation, _PRODUCT)


def _explain(
    paper: Paper, layout: AnyLayout, tiler: Tiler, operation: Operation, kind: _Kind
) -> AnyLayout | None:
    """The logical operation, and how the other three regroup it."""
    result: AnyLayout | None = attempt(operation, layout, tiler)[0]
    inner = explain_inside(paper, operation.__name__, layout)
    logical = _by_mode(paper, inner, tiler, kind)
    if logical is not None and result is not None and operation is not kind.logical:
        _regroup(paper, inner, tiler, logical, operation, kind)
    explain_outside(paper, layout, result)
    return result


def _by_mode(paper: Paper, layout: Layout, tiler: Tiler, kind: _Kind) -> Layout | None:
    """A logical divide or product: of the whole layout, or mode by mode for a tuple."""
    operation, name = kind.logical.__name__, paper.name(layout, "A")
    if tiler is None:
        paper.step(f"_ keeps {name} as it is", f"{operation}({name}, _) = {name}")
        return layout
    if not isinstance(tiler, tuple):
        if isinstance(tiler, int):
            paper.step(f"the extent {tiler} means {tiler}:1")
        return kind.one(paper, layout, as_tile(operation, layout, tiler))
    found = explain_by_mode(paper, operation, layout, tiler, partial(_by_mode, kind=kind), "stay")
    if found is None:
        return None
    parts = [*found, *modes(layout)[len(tiler) :]]
    result, _ = attempt(concat, *parts)
    if result is not None:
        d, names = paper.name(result, "D"), ", ".join(paper.name(part, "R") for part in parts)
        paper.step("the modes together", f"concat({names}) = {d}")
    return result


def _divide(paper: Paper, layout: Layout, tile: Layout) -> Layout | None:
    a, t = paper.name(layout, "A"), paper.name(tile, "T")
    paper.step(
        f"logical_divide({a}, {t}) = {a} o ({t}, complement({t}, size({a}))): mode 0 walks one tile, "
        f"mode 1 from tile to tile",
        f"size({a}) = {size(layout)}",
    )
    rest = explain_complement(paper, tile, size(layout))
    if rest is None:
        return None
    both = make_layout((tile.shape, rest.shape), (tile.stride, rest.stride))
    paper.name(both, "B")
    found = explain_composition(paper, layout, both)
    return found if isinstance(found, Layout) else None


def _multiply(paper: Paper, layout: Layout, copies: Layout) -> Layout | None:
    a, b = paper.name(layout, "A"), paper.name(copies, "B")
    reach = span(copies)[1] + 1
    target = size(layout) * reach
    paper.step(
        f"logical_product({a}, {b}) = ({a}, complement({a}, size({a}) * cosize({b})) o {b}): mode 0 is the "
        f"tile and mode 1 walks its copies through the room that it leaves",
        f"{size(layout)} * {reach} = {target}",
    )
    room = explain_complement(paper, layout, target)
    if room is None:
        return None
    shifts = explain_composition(paper, room, copies)
    if not isinstance(shifts, Layout):
        return None
    result, _ = attempt(concat, layout, shifts)
    if result is not None:
        paper.step("the tile and its copies", f"concat({a}, {paper.name(shifts, 'C')}) = {result}")
    return result


_DIVIDE = _Kind(logical_divide, zipped_divide, _divide)
_PRODUCT = _Kind(logical_product, zipped_product, _multiply)


def _halves(term: str, layout: Layout, tiler: Tiler, *, rest_first: bool) -> tuple[str, str]:
    """(tiles, rests) of a logical divide or product as terms; modes past a tuple join the second half of a
    divide and, `rest_first`, the first of a product."""
    if tiler is None:
        return ("1:0", term) if not rest_first else (term, "1:0")
    if not isinstance(tiler, tuple):
        return f"{term}[0]", f"{term}[1]"
    pairs = [
        _halves(f"{term}[{i}]", part, t, rest_first=rest_first)
        for i, (part, t) in enumerate(zip(modes(layout), tiler, strict=False))
    ]
    past = [f"{term}[{i}]" for i in range(len(tiler), rank(layout))]
    first, second = [p for p, _ in pairs], [q for _, q in pairs]
    (first if rest_first else second).extend(past)
    return f"concat({', '.join(first)})", f"concat({', '.join(second)})"


def _regroup(
    paper: Paper, layout: Layout, tiler: Tiler, logical: Layout, operation: Operation, kind: _Kind
) -> None:
    """The result of zipped, tiled or flat from the logical one."""
    product_like = kind is _PRODUCT
    d = paper.name(logical, "D")
    tiles, rests = _halves(d, layout, tiler, rest_first=product_like)
    whole = kind.zipped(layout, tiler)
    z = paper.name(whole, "Z")
    second = "copies" if product_like else "rests"
    paper.step(f"all tiles become mode 0 and all {second} mode 1", f"{z}[0] = {tiles}", f"{z}[1] = {rests}")
    if operation is kind.zipped:
        return
    result = operation(layout, tiler)
    flat = operation.__name__.startswith("flat")
    r = paper.name(result, "R")
    paper.step(f"the {'tiles and the ' if flat else ''}{second} become modes of their own")
    tile_terms = [f"{z}[0][{i}]" for i in range(rank(whole[0]))] if flat else [f"{z}[0]"]
    terms = [*tile_terms, *(f"{z}[1][{i}]" for i in range(rank(whole[1])))]
    paper.write(*(f"{r}[{i}] = {term}" for i, term in enumerate(terms)))


def explain_side_by_side(
    paper: Paper, layout: AnyLayout, tiler: Layout, *, operation: Operation = blocked_product
) -> AnyLayout | None:
    """blocked_product and raked_product: the logical product, its modes paired.

    >>> print(explain_side_by_side(Paper(), Layout((2, 5), (5, 1)), Layout((3, 4))))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    result: AnyLayout | None = attempt(operation, layout, tiler)[0]
    inner = explain_inside(paper, operation.__name__, layout)
    count = max(rank(inner), rank(tiler))
    one = make_layout(1, 0)
    tile = concat(*modes(inner), *(one,) * (count - rank(inner)))
    copies = concat(*modes(tiler), *(one,) * (count - rank(tiler)))
    a, b = paper.name(tile, "A"), paper.name(copies, "B")
    paper.step(f"both have {count} modes, filled up with 1:0; then the whole tile {a} is repeated along {b}")
    multiplied = _multiply(paper, tile, copies)
    if multiplied is None or result is None:
        return None
    p, r = paper.name(multiplied, "P"), paper.name(operation(inner, tiler), "R")
    blocked = operation is blocked_product
    paper.step(
        "mode i of the tile comes first, so that copies lie side by side"
        if blocked
        else "mode i of the copies comes first, so that copies are interleaved"
    )
    order = (0, 1) if blocked else (1, 0)
    paper.write(*(f"{r}[{i}] = concat({p}[{order[0]}][{i}], {p}[{order[1]}][{i}])" for i in range(count)))
    explain_outside(paper, layout, result)
    return result


def explain_tile_to_shape(
    paper: Paper, layout: AnyLayout, shape: IntTuple, order: IntTuple | None = None
) -> AnyLayout | None:
    """How many copies cover the shape, in which order, and their blocked product.

    >>> print(explain_tile_to_shape(Paper(), Layout((4, 3)), (8, 9), (1, 0)))
    ((4,2),(3,3)):((1,36),(4,12))
    """
    result, _ = attempt(tile_to_shape, layout, shape, order)
    inner = explain_inside(paper, "tile_to_shape", layout)
    target = tuple(map(product, shape)) if isinstance(shape, tuple) else (shape,)
    name = paper.name(inner, "A")
    if rank(inner) > len(target):
        paper.step("the layout has more modes than the shape", f"rank({name}) > {len(target)}")
        return None
    tile = concat(*modes(inner), *(make_layout(1, 0),) * (len(target) - rank(inner)))
    sizes = [size(mode) for mode in modes(tile)]
    counts = tuple(-(-t // n) for t, n in zip(target, sizes, strict=True))
    paper.step(
        "as many copies along each mode as cover the shape",
        *(f"ceil_div({t}, {n}) = {c}" for t, n, c in zip(target, sizes, counts, strict=True)),
    )
    ranks = tuple(range(len(counts))) if order is None else order
    copies = explain_make_ordered_layout(paper, counts, ranks)
    if copies is not None:
        paper.step("the tile and its copies side by side: a blocked product")
        explain_side_by_side(paper, tile, copies)
    explain_outside(paper, layout, result)
    return result


def explain_make_ordered_layout(paper: Paper, shape: IntTuple, order: IntTuple) -> Layout | None:
    """Strides are the products of the extents that come before in the order.

    >>> print(explain_make_ordered_layout(Paper(), (4, 8), (1, 0)))
    (4,8):(8,1)
    """
    result, _ = attempt(make_ordered_layout, shape, order)
    if result is not None:
        law = "modes get their strides in the given order, equal orders left to right"
        _explain_compact(paper, result, law, f"make_ordered_layout({to_text(shape)}, {to_text(order)})")
    return result


def explain_make_layout_like(paper: Paper, layout: Layout) -> Layout:
    """Strides in the order of the old ones, without gaps.

    >>> print(explain_make_layout_like(Paper(), Layout((4, 2, 8), (16, 0, 1))))
    (4,2,8):(8,0,1)
    """
    a = paper.name(layout, "A")
    result = make_layout_like(layout)
    law = f"modes get their strides in the order of the strides of {a}; stride 0 stays"
    _explain_compact(paper, result, law, f"make_layout_like({a})")
    return result


def _explain_compact(paper: Paper, result: Layout, law: str, call: str) -> None:
    name = paper.name(result, "R")
    paper.step(f"{law}: the next stride is the product of the extents before")
    current = 1
    for d, s, w in sorted_modes(result):
        if d:
            paper.write(f"{name}({w}) = {current}", f"{current} * {s} = {current * s}")
            current *= s
    paper.write(f"{call} = {name}")
