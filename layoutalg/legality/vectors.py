"""The vectors of a tile: which elements a lane moves together, and whether a layout keeps them together.

The idea.  A tile is cut along its contiguous mode into vectors of V elements.  A layout suits them when

    contiguous   layout(start + i) = layout(start) + i for i < V
    aligned      layout(start) is a multiple of V

at every start.  Under swizzles that neither read nor write the low log2 V bits, that is so exactly if it is
so without them, and without them exactly if the other strides (and the offset) are multiples of V, whatever
the extents.  Every other layout is looked at vector by vector, up to Most.POINTS elements.

>>> find_torn(Layout((8, 16), (24, 1)), vectors_of(Layout((8, 16), (24, 1)), 8, 8))
>>> find_torn(Layout((8, 16), (20, 1)), vectors_of(Layout((8, 16), (20, 1)), 8, 8))
Torn(at=1, contiguous=True)

Notes.  A lane's address is a multiple of its bytes exactly if its first element's offset is a multiple of V
and the layout starts at such a multiple.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from layoutalg.compose import NormalForm, find_normal_form
from layoutalg.errors import ShapeError
from layoutalg.layout import (
    AnyLayout,
    Layout,
    Swizzle,
    Swizzles,
    coalesce,
    flatten_tree,
    leaves,
    modes,
    size,
    unflatten_tree,
)
from layoutalg.limits import Most


class Vectors(NamedTuple):
    """A cut of a tile: `starts` and `step`, both in flat indices of the tile, and `elems` per vector.

    Element i of the vector that starts at flat index x has the flat index x + i step.  `whole` says that the
    starts are those of `vectors_of`, which go along the digits of the flat index.
    """

    starts: Layout
    step: int
    elems: int
    whole: bool = False


class Torn(NamedTuple):
    """A vector that a layout does not keep: its first flat index, and whether it is contiguous at least."""

    at: int
    contiguous: bool


def contiguous_leaf(layout: AnyLayout) -> tuple[int, int] | None:
    """(extent, place in the flat index) of the leaf of stride 1, swizzles aside; None where there is none.

    >>> contiguous_leaf(Layout((4, (2, 8)), (16, (64, 1))))
    (8, 8)
    """
    return next(((extent, position) for extent, stride, position in _places(layout) if stride == 1), None)


def _places(layout: AnyLayout) -> list[tuple[int, int, int]]:
    """(extent, stride, place in the flat index) of the leaves of every mode, each mode merged."""
    form = find_normal_form(layout)
    if form is None:
        return []
    out, position = [], 1
    for mode in modes(form.layout):
        for extent, stride in leaves(coalesce(mode)):
            if extent > 1:
                out.append((extent, stride, position))
            position *= extent
    return out


def vectors_of(layout: AnyLayout, elems: int, along: int) -> Vectors:
    """The tile cut into vectors of `elems` along the leaf whose place in the flat index is `along`.

    Raises ShapeError where that leaf is not whole vectors.

    >>> vectors_of(Layout((4, 16), (16, 1)), 8, 4)
    Vectors(starts=Layout((4, 2), (1, 32)), step=4, elems=8, whole=True)
    """
    shape: list[int] = []
    stride: list[int] = []
    for extent, _, position in _places(layout):
        if position == along and extent % elems:
            raise ShapeError(f"a mode of {extent} elements of {layout} is not whole vectors of {elems}")
        shape.append(extent // elems if position == along else extent)
        stride.append(position * elems if position == along else position)
    starts = Layout(tuple(shape), tuple(stride)) if shape else Layout(1, 0)
    return Vectors(starts, along, elems, whole=True)


def find_torn(layout: AnyLayout, vectors: Vectors) -> Torn | None:
    """A vector that is not contiguous or does not start at a multiple of its length, or None.

    Raises UndecidedError for layouts of more than Most.POINTS elements that have no closed form.

    >>> from layoutalg.layout import ComposedLayout
    >>> tile = ComposedLayout(Swizzle(3, 2, 3), 0, Layout((8, 64), (64, 1)))
    >>> find_torn(tile, vectors_of(tile, 8, 8))
    Torn(at=256, contiguous=False)
    """
    form = find_normal_form(layout)
    if form is None or not vectors.whole or not _keeps_low_bits(form, vectors.elems):
        return torn_by_counting(layout, vectors)
    if form.offset % vectors.elems or any(form.layout(i * vectors.step) != i for i in range(vectors.elems)):
        return torn_by_counting(layout, vectors._replace(starts=Layout(1, 0)))  # the first vector is torn
    starts = (position for extent, position in leaves(vectors.starts) if extent > 1)
    at = next((position for position in starts if form.layout(position) % vectors.elems), None)
    if at is None:
        return None
    row = [layout(at + i * vectors.step) - layout(at) for i in range(vectors.elems)]
    return Torn(at, row == list(range(vectors.elems)))


def _keeps_low_bits(form: NormalForm, elems: int) -> bool:
    """Whether no swizzle touches the place within a vector; alignment below a power of two is not closed."""
    low = elems.bit_length() - 1
    return elems == 1 << low and all(swizzle.base >= low for swizzle in form.swizzles)


def torn_by_counting(layout: AnyLayout, vectors: Vectors) -> Torn | None:
    """`find_torn` by looking at every vector: the definition.

    >>> tile = Layout((8, 16), (20, 1))
    >>> torn_by_counting(tile, vectors_of(tile, 8, 8)) == find_torn(tile, vectors_of(tile, 8, 8))
    True
    """
    import numpy as np

    count = size(vectors.starts)
    Most.POINTS.decide(count * vectors.elems, f"elements of {layout} are looked at one by one")
    starts = np.asarray(vectors.starts(np.arange(count)))
    first = np.asarray(layout(starts))
    intact = np.ones(count, dtype=bool)
    for i in range(1, vectors.elems):
        intact &= np.asarray(layout(starts + i * vectors.step)) == first + i
    bad = ~intact | (first % vectors.elems != 0)
    if not bad.any():
        return None
    at = int(np.argmax(bad))
    return Torn(int(starts[at]), bool(intact[at]))


def with_vectors(layout: AnyLayout, elems: int, rows: int = 1) -> AnyLayout | None:
    """The nearest layout whose contiguous leaf is whole vectors, its other strides multiples of `elems`.

    Each mode is merged, the other leaves are made a multiple of `rows` together, and swizzles begin above
    the vector.  None for layouts with an offset, without a contiguous leaf, or whose leaves do not lie one
    around the other.

    >>> print(with_vectors(Layout((64, 36), (36, 1)), 8), with_vectors(Layout((60, 64), (64, 1)), 8, 8))
    (64,40):(40,1) (64,64):(64,1)
    """
    form = find_normal_form(layout)
    if form is None or form.offset:
        return None
    parts = [coalesce(mode) for mode in modes(form.layout)]
    tree = tuple(part.shape for part in parts)
    shape = list(flatten_tree(tree))
    stride = [step for part in parts for step in flatten_tree(part.stride)]
    first, *others = sorted((i for i in range(len(shape)) if shape[i] > 1), key=lambda i: stride[i]) or [0]
    around = zip([first, *others], others, strict=False)
    if stride[first] != 1 or any(stride[i] < stride[j] * shape[j] for j, i in around):
        return None
    shape[first] = -(-shape[first] // elems) * elems
    if prod(shape[i] for i in others) % rows:
        if not others:
            return None
        longest = max(others, key=lambda i: shape[i])
        shape[longest] = -(-shape[longest] // rows) * rows
    end = shape[first]
    for i in others:
        stride[i] = -(-max(stride[i], end) // elems) * elems
        end = stride[i] * shape[i]
    low = elems.bit_length() - 1
    raised = (Swizzle(s.bits, max(s.base, low), s.shift) for s in form.swizzles)
    inner = Layout(unflatten_tree(tuple(shape), tree), unflatten_tree(tuple(stride), tree))
    return NormalForm(Swizzles(*raised), 0, inner).whole
