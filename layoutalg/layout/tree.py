"""The tree of a layout: append prepend replace group select flatten unflatten sort, and make_layout.

The idea.  A layout is a tree of modes, and most of what a kernel does to it before computing with it is
gardening: put a mode at the end, take two out, bind three into one.  None of these looks at an offset, so
they hold for every stride, negative and zero ones too, and for swizzled layouts act on the layout inside.

    group((2,3,5):(1,2,6), 0, 2)        = ((2,3),5):((1,2),6)
    select((2,3,5):(1,2,6), 2, 0)       = (5,2):(6,1)
    append((2,3):(1,2), 4:8)            = (2,3,4):(1,2,8)
    flatten(((2,3),5):((1,2),6))        = (2,3,5):(1,2,6)

Grouping, flattening and unflattening keep the function on flat indices; the others change it.

Comparison with CuTe.  The same names and results; append and prepend take the rank to fill up to as
CuTe's template argument.  `sort` is tensor-layouts' operation.

Source: CUTLASS, include/cute/layout.hpp.
"""

from __future__ import annotations

from typing import overload

from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError, check_type, named, shown
from layoutalg.layout.composed import AnyLayout, ComposedLayout, map_innermost, operation
from layoutalg.layout.int_tuple import (
    IntTuple,
    flatten_tree,
    normalize,
    to_text,
    tupled,
    unflatten_tree,
    whole_number,
)
from layoutalg.layout.layout import Layout, concat, integer_leaves, layout_of, leaf_lists, modes
from layoutalg.limits import Most

ONE = layout_of(1, 0)


def make_layout(*parts: IntTuple | Layout, stride: IntTuple | None = None) -> Layout:
    """A layout from a shape and a stride, or from layouts, which become its modes.

    Raises what `Layout` raises, ArgumentTypeError for a mixture.

    >>> print(make_layout((4, 8)), make_layout((4, 8), (8, 1)), make_layout(Layout(4, 2), Layout(8)))
    (4,8):(1,4) (4,8):(8,1) (4,8):(2,1)
    """
    layouts = tuple(p for p in parts if isinstance(p, Layout))
    if parts and len(layouts) == len(parts) and stride is None:
        return layouts[0] if len(layouts) == 1 else concat(*layouts)
    if not layouts and len(parts) in (1, 2) and (stride is None or len(parts) == 1):
        try:
            return Layout(parts[0], parts[1] if len(parts) == 2 else stride)  # type: ignore[arg-type]
        except LayoutAlgError as error:
            named("make_layout", error, *parts)
    raise ArgumentTypeError(
        f"make_layout of {len(parts)} parts: accepted are a shape, a shape and a stride, or layouts"
    )


def _fill(name: str, layout: Layout, mode: Layout, rank: int | None) -> tuple[tuple[Layout, ...], int]:
    """The modes of `layout`, and how many copies of `mode` bring it to `rank`."""
    check_type(name, mode, Layout, "a plain layout as the mode")
    parts = modes(layout)
    if rank is None:
        return parts, 1
    wanted = normalize(rank, f"{name}: the rank")
    if isinstance(wanted, tuple) or wanted < len(parts):
        raise ShapeError(f"{name}({layout}, {mode}, rank={rank}): it has {len(parts)} modes already")
    Most.COUNTED.guard(wanted, "modes")
    return parts, wanted - len(parts)


@operation
def append(layout: Layout, mode: Layout = ONE, *, rank: int | None = None) -> Layout:
    """`layout` with `mode` behind its modes: once, or as often as it takes to reach `rank`.

    Raises ShapeError when the layout has more than `rank` modes.

    >>> print(append(Layout((2, 3)), Layout(4, 8)), append(Layout(8), rank=3))
    (2,3,4):(1,2,8) (8,1,1):(1,0,0)
    """
    parts, count = _fill("append", layout, mode, rank)
    return concat(*parts, *(mode,) * count) if count else layout


@operation
def prepend(layout: Layout, mode: Layout = ONE, *, rank: int | None = None) -> Layout:
    """`layout` with `mode` before its modes: once, or as often as it takes to reach `rank`.

    Raises ShapeError when the layout has more than `rank` modes.

    >>> print(prepend(Layout((2, 3)), Layout(4, 8)))
    (4,2,3):(8,1,2)
    """
    parts, count = _fill("prepend", layout, mode, rank)
    return concat(*(mode,) * count, *parts) if count else layout


def _place(name: str, layout: Layout, mode: int, count: int) -> int:
    """A mode's number, counted from the end when negative; ShapeError when there is none."""
    value = normalize(mode, f"{name}: the mode")
    if isinstance(value, tuple) or not -count <= value < count:
        raise ShapeError(f"{name} of {layout}: there is no mode {mode}; it has {count} modes")
    return value % count


@operation
def replace(layout: Layout, mode: int, by: Layout) -> Layout:
    """`layout` with mode number `mode` replaced by the layout `by`.

    Raises ShapeError when there is no such mode.

    >>> print(replace(Layout((2, 3, 5)), 1, Layout((4, 4))))
    (2,(4,4),5):(1,(1,4),6)
    """
    check_type("replace", by, Layout, "a plain layout")
    parts = list(modes(layout))
    parts[_place("replace", layout, mode, len(parts))] = by
    return concat(*parts) if isinstance(layout.shape, tuple) else by


@operation
def group(layout: Layout, begin: int, end: int) -> Layout:
    """Modes begin .. end - 1 bound into one mode; the same function on flat indices.

    Raises ShapeError when the range is empty or reaches past the modes.

    >>> print(group(Layout((2, 3, 5, 7)), 1, 3))
    (2,(3,5),7):(1,(2,6),30)
    """
    wanted = whole_number(end, "group: the end")
    parts = modes(layout)
    first = _place("group", layout, begin, len(parts))
    last = _place("group", layout, wanted - 1, len(parts))
    if last < first:
        raise ShapeError(f"group of {layout}: modes {begin} .. {end} are none")
    return concat(*parts[:first], concat(*parts[first : last + 1]), *parts[last + 1 :])


@operation
def select(layout: Layout, *which: int) -> Layout:
    """The layout of the modes `which`, in that order.

    Raises ShapeError when there is no such mode.

    >>> print(select(Layout((2, 3, 5)), 2, 0))
    (5,2):(6,1)
    """
    parts = modes(layout)
    return concat(*(parts[_place("select", layout, mode, len(parts))] for mode in which))


@overload
def flatten(value: Layout) -> Layout: ...
@overload
def flatten(value: ComposedLayout) -> ComposedLayout: ...
@overload
def flatten(value: IntTuple) -> tuple[int, ...]: ...
def flatten(value: AnyLayout | IntTuple) -> AnyLayout | tuple[int, ...]:
    """A layout with the leaves of `value` as its modes, or the leaves of an IntTuple as a tuple.

    A layout of one integer mode stays one.

    >>> print(flatten(Layout(((2, 3), 5))), flatten(((2, 3), 5)))
    (2,3,5):(1,2,6) (2, 3, 5)
    """
    if type(value) is tuple:
        flat = flatten_tree(value)
        try:
            if type(sum(flat)) is int:
                return flat
        except TypeError:  # of a list among others
            pass
    elif type(value) is int:
        return (value,)
    if isinstance(value, ComposedLayout):
        return map_innermost(value, flatten)
    if not isinstance(value, Layout):
        return flatten_tree(tupled(value, "flatten"))
    if not isinstance(value.shape, tuple):
        return value
    return layout_of(*leaf_lists(value))


@overload
def unflatten(value: Layout, profile: IntTuple) -> Layout: ...
@overload
def unflatten(value: ComposedLayout, profile: IntTuple) -> ComposedLayout: ...
@overload
def unflatten(value: tuple[int, ...], profile: IntTuple) -> IntTuple: ...
def unflatten(value: AnyLayout | tuple[int, ...], profile: IntTuple) -> AnyLayout | IntTuple:
    """The inverse of `flatten`: the modes of `value`, in the tree of `profile`.

    Raises ShapeError when their numbers differ.

    >>> print(unflatten(Layout((2, 3, 5)), ((0, 0), 0)), unflatten((2, 3, 5), ((0, 0), 0)))
    ((2,3),5):((1,2),6) ((2, 3), 5)
    """
    profile = normalize(profile, "unflatten: the profile")
    if isinstance(value, ComposedLayout):
        return map_innermost(value, lambda inner: unflatten(inner, profile))
    if not isinstance(value, Layout):
        value = tupled(value, "unflatten")
        if not isinstance(value, tuple):
            raise ArgumentTypeError(f"unflatten of {shown(value)}: a layout or a tuple is needed")
        try:
            return unflatten_tree(value, profile)
        except LayoutAlgError as error:
            named("unflatten", error, value, profile)
    parts = modes(value)
    if len(flatten_tree(profile)) != len(parts):
        raise ShapeError(f"unflatten({value}, {to_text(profile)}): {len(parts)} modes do not fit the profile")
    source = iter(parts)

    def build(node: IntTuple) -> Layout:
        return concat(*map(build, node)) if isinstance(node, tuple) else next(source)

    return build(profile)


@operation
def sort(layout: Layout) -> Layout:
    """The leaves of `layout` as modes in the order of their strides, equal strides by extent.

    The offsets are the same; which coordinate has which changes.

    >>> print(sort(Layout((4, (2, 8)), (16, (8, 1)))))
    (8,2,4):(1,8,16)
    """
    if not isinstance(layout.shape, tuple):
        return layout
    extents, strides = integer_leaves("sort", layout)
    pairs = sorted(zip(strides, extents, strict=True))
    return layout_of(tuple(s for _, s in pairs), tuple(d for d, _ in pairs))
