"""Tensors: the element at a coordinate is buffer[offset + layout(coordinate)], whatever was done before."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg.atoms import Tensor, copy_tensor
from layoutalg.compose import composition
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    LayoutAlgError,
    NotInjectiveError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, make_identity_layout, product
from layoutalg.notation import parse_cute as parse
from layoutalg.testing import composed_layouts, layouts
from tests.judges.brute import table
from tests.layout.test_slicing import coordinates, fill, kept_sizes
from tests.sweeps import each


def holding(layout: AnyLayout, margin: int = 3) -> Tensor:
    """A tensor of 0, 1, 2, ... that has room for the layout and a little more at both ends."""
    offsets = table(layout)
    offset = margin - min(0, *offsets)
    return Tensor(np.arange(offset + max(offsets) + 1 + margin), layout, offset)


SYMBOL = sympy.Symbol("n", integer=True, positive=True)
LAYOUTS = st.one_of(layouts(max_size=64, negative=True), composed_layouts(max_size=64))


# --- reading -------------------------------------------------------------------------------------------


@given(LAYOUTS)
@example(Layout(()))
@example(ComposedLayout(Layout(6, 5), 2, ComposedLayout(Swizzle(2, 0, 2), 0, Layout((3, 3), (3, 1)))))
@example(ComposedLayout(Layout((3, 5), (-7, 5)), 1, Layout((2, 4), (4, 1))))
def test_elements_and_arrays(layout: AnyLayout) -> None:
    t = holding(layout)
    wanted = [t.offset + x for x in table(layout)]
    assert [t[i] for i in range(len(wanted))] == wanted
    assert [t(i) for i in range(len(wanted))] == wanted
    array = t.to_array()
    axes = tuple(map(product, t.shape)) if isinstance(t.shape, tuple) else (product(t.shape),)
    assert array.shape == axes
    assert array.ravel(order="F").tolist() == wanted
    for axis in np.ndindex(axes) if axes else ():
        assert array[axis] == t[axis if isinstance(t.shape, tuple) else axis[0]]


@given(LAYOUTS, st.data())
def test_a_slice_sees_the_same_elements(layout: AnyLayout, data: st.DataObject) -> None:
    t = holding(layout)
    crd = coordinates(data.draw, layout.shape)  # type: ignore[arg-type]
    assume(kept_sizes(crd, layout.shape))
    part = t[crd]
    assert part.buffer is t.buffer
    sizes = kept_sizes(crd, layout.shape)
    for index in np.ndindex(*sizes):
        assert (
            part[index if isinstance(part.shape, tuple) and crd is not None else crd_of(index, sizes)]
            == (t[fill(crd, layout.shape, list(index))])
        )


def crd_of(index: tuple[int, ...], sizes: list[int]) -> int:
    return sum(x * product(tuple(sizes[:i])) for i, x in enumerate(index))


def test_a_colon_keeps_a_mode() -> None:
    t = holding(Layout((4, 8), (8, 1)))
    assert t[1, :] == t[1, None] and str(t[1, :]) == "int64[38] + 11 o (8):(1)"
    assert t[:] == t and t[:, :] == t
    assert t[np.int32(1), np.uint8(2)] == t[1, 2]


def test_reading_is_exact_past_64_bits() -> None:
    """Offsets that pass through numbers no int64 holds, under an outer layout that brings them back."""
    far = ComposedLayout(Layout((2, 1 << 70), (1, 0)), 0, Layout((2, 4), (1, 1 << 66)))
    t = Tensor(np.arange(2), far)
    assert t.to_array().tolist() == [[0, 0, 0, 0], [1, 1, 1, 1]]


@given(layouts(max_size=32), layouts(max_leaves=2, max_size=16))
def test_compose(layout: Layout, tiler: Layout) -> None:
    assume(max(table(tiler)) < product(layout.shape))
    t = holding(layout)
    try:
        composed = t.compose(tiler)
    except (DivisibilityError, UndecidedError):
        return
    assert composed.layout == composition(layout, tiler)
    assert [composed[i] for i in range(product(tiler.shape))] == [t[x] for x in table(tiler)]


def test_view_and_domain_offset() -> None:
    t = Tensor(np.arange(64), Layout((4, 4), (8, 1)), 9)
    assert t.view(Layout(8)).to_array().tolist() == list(range(9, 17))
    tile = ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 2), (4, 1)))
    for tensor, rows, columns in ((t, 1, 2), (Tensor(np.arange(16), tile), 0, 2)):
        moved = tensor.domain_offset((rows, columns))
        for i, j in np.ndindex(3, 2):
            assert moved[i, j] == tensor.buffer[tensor.offset + tensor.layout(i + rows, j + columns)]
    with pytest.raises(ShapeError, match="reaches the elements 39 to 66; the buffer has 64"):
        t.domain_offset((3, 6))


@each("text", ["(8,12):(12,1)", "(8,12):(1,8)", "Sw<2,0,3> o 0 o (8,12):(16,1)"])
def test_tiles_and_shares(text: str) -> None:
    layout = parse(text)
    assert not isinstance(layout, Swizzle)
    t = holding(layout)
    for i in range(4):
        for j in range(3):
            tile = t.local_tile((2, 4), (i, j))
            assert tile.to_array().tolist() == t.to_array()[2 * i : 2 * i + 2, 4 * j : 4 * j + 4].tolist()
    row = t.local_tile((2, 4), (1, None))
    assert row.to_array()[:, :, 2].tolist() == t.to_array()[2:4, 8:12].tolist()
    assert t.local_tile((2,), (1,)).to_array().tolist() == t.to_array()[2:4].tolist()
    threads = Layout((2, 4), (4, 1))
    for thread in range(8):
        share = t.local_partition(threads, thread).to_array()
        assert share.tolist() == t.to_array()[thread // 4 :: 2, thread % 4 :: 4].tolist()


def test_a_tile_that_is_not_there() -> None:
    t, edge = holding(Layout((8, 12), (12, 1))), Tensor(np.arange(10), Layout(10))
    assert edge.local_tile((4,), (1,)).to_array().tolist() == [4, 5, 6, 7]
    refused: list[tuple[str, Callable[[], object]]] = [
        (r"coordinate 4 of the tiles \(2,4\) .* outside of 0 to 3", lambda: t.local_tile((2, 4), (4, 0))),
        ("no coordinate of", lambda: t.local_partition(Layout((2, 4), (8, 1)), 5)),
        ("reaches the elements 8 to 11; the buffer has 10", lambda: edge.local_tile((4,), (2,))),
    ]
    for part, call in refused:
        with pytest.raises(ShapeError, match=part):
            call()


# --- arrays --------------------------------------------------------------------------------------------

VIEWS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": lambda x: x.T,
    "backwards": lambda x: x[::-1, :, ::-2],
    "one": lambda x: x[2:3, 1, ::3],
    "new axis": lambda x: x[:, None, 1],
    "repeated": lambda x: np.broadcast_to(x[1], (2, *x[1].shape)),
    "a number": lambda x: x[1, 2, 3],
}


@each("name", VIEWS)
@each("dtype", ["i4", "f8", "u1", "c16"])
def test_from_array_is_the_same_memory(name: str, dtype: str) -> None:
    whole = np.arange(3 * 4 * 5, dtype=dtype).reshape(3, 4, 5)
    x = np.asarray(VIEWS[name](whole))
    t = Tensor.from_array(x)
    assert np.array_equal(t.to_array(), x) and t.to_array().dtype == x.dtype
    assert np.shares_memory(t.buffer, x)
    assert t.buffer.flags.writeable == x.flags.writeable
    if x.flags.writeable:
        t.put((0,) * x.ndim, 99, allow_alias=True)
        assert x.flat[0] == 99


def test_arrays_that_are_no_tensors() -> None:
    with pytest.raises(ShapeError, match="extent 0"):
        Tensor.from_array(np.zeros((3, 0)))
    with pytest.raises(ArgumentTypeError, match="its type is list; a NumPy array is needed"):
        Tensor.from_array([1, 2])  # type: ignore[arg-type]
    fields = np.zeros(4, dtype=[("a", "u1"), ("b", "f4")])
    with pytest.raises(LayoutAlgError, match="byte stride 5 is not a multiple of the item size 4"):
        Tensor.from_array(fields["b"])


# --- writing -------------------------------------------------------------------------------------------


@given(layouts(max_size=64, compact=True), st.data())
def test_a_write_changes_one_element(layout: Layout, data: st.DataObject) -> None:
    t = holding(layout)
    i = data.draw(st.integers(0, product(layout.shape) - 1))
    before = t.buffer.copy()
    t[i] = -1
    assert t[i] == -1
    assert np.flatnonzero(t.buffer != before).tolist() == [t.offset + layout(i)]


@given(st.one_of(layouts(max_size=64, negative=True), composed_layouts(max_size=64)), st.data())
@example(ComposedLayout(Layout((3, 2), (1, 2)), 0, ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 3)))), None)
def test_aliasing_writes_are_refused_with_two_coordinates(
    layout: AnyLayout, data: st.DataObject | None
) -> None:
    offsets = table(layout)
    t = holding(layout)
    before = t.buffer.copy()
    if len(set(offsets)) == len(offsets):
        t[None] = -1
        assert np.count_nonzero(t.buffer == -1) == len(offsets)
        return
    with pytest.raises(NotInjectiveError) as caught:
        t[0] = -1
    a, b = caught.value.a, caught.value.b
    assert a is not None and b is not None and a != b and layout(a) == layout(b)
    assert f"coordinates {a} and {b} share the element {t.offset + layout(a)} of" in str(caught.value)
    with pytest.raises(NotInjectiveError):
        copy_tensor(Tensor(np.zeros(len(offsets), int), Layout(len(offsets))), t)
    assert np.array_equal(t.buffer, before)
    source = Tensor(np.arange(-len(offsets), 0), Layout(len(offsets)))
    copy_tensor(source, t, allow_alias=True)
    last = {t.offset + x: i for i, x in enumerate(offsets)}
    assert all(t.buffer[place] == i - len(offsets) for place, i in last.items())


def test_fill_and_copy_into_a_slice() -> None:
    t = Tensor(np.zeros(32, "f4"), Layout((4, 8), (8, 1)))
    t[1, :] = 0.5
    t[:, 2] = Tensor(np.arange(4, dtype="f4"), Layout((4,)))
    wanted = np.zeros((4, 8), "f4")
    wanted[1] = 0.5
    wanted[:, 2] = range(4)
    assert np.array_equal(t.to_array(), wanted)


@each(
    ("dtype", "value", "stored"),
    [
        ("u1", 255, 255), ("u1", True, 1), ("i4", 3.0, 3), ("f4", 0.1, np.float32(0.1)), ("c8", 1j, 1j),
        ("?", 1, True),
    ],
)  # fmt: skip
def test_values_that_the_buffer_holds(dtype: str, value: Any, stored: Any) -> None:
    t = Tensor(np.zeros(1, dtype), Layout(1))
    t[0] = value
    assert t[0] == stored


@each(
    ("dtype", "value"),
    [
        ("u1", 256), ("u1", -1), ("i4", 0.5), ("i8", 1 << 63), ("f4", 1j), ("f4", "1"), ("f4", [1, 2]),
        ("?", 2), ("f4", None),
    ],
)  # fmt: skip
def test_values_that_it_does_not(dtype: str, value: Any) -> None:
    t = Tensor(np.zeros(2, dtype), Layout(2))
    with pytest.raises(ArgumentTypeError, match=f"to {t.buffer.dtype}"):
        t[0] = value
    assert not t.buffer.any()


# --- copy ----------------------------------------------------------------------------------------------


@each(
    ("src", "dst"),
    [
        ("(4,8):(8,1)", "(4,8):(1,4)"),
        ("32:1", "(4,8):(8,1)"),
        ("((2,2),8):((1,16),2)", "(4,(2,4)):(8,(4,1))"),
        ("Sw<2,0,3> o 0 o (4,8):(8,1)", "(4,8):(1,5)"),
        ("(4,8):(1,5)", "Sw<2,0,3> o 4 o (4,8):(8,1)"),
        ("(4,8):(0,1)", "(4,8):(8,1)"),
        ("1:7", "():()"),
    ],
)
def test_a_copy_keeps_coordinates(src: str, dst: str) -> None:
    source, target = (parse(text) for text in (src, dst))
    assert not isinstance(source, Swizzle) and not isinstance(target, Swizzle)
    a, b = holding(source), holding(target)
    b.buffer[:] = -1
    if dst == "():()":
        with pytest.raises(ShapeError):
            copy_tensor(a.view(Layout((1,))), b)
    copy_tensor(a, b)
    assert [b[i] for i in range(len(table(source)))] == [a[i] for i in range(len(table(source)))]
    assert np.count_nonzero(b.buffer != -1) == len(table(source))


def test_overlapping_tensors_are_read_first() -> None:
    buffer = np.arange(8)
    copy_tensor(Tensor(buffer, Layout(7)), Tensor(buffer, Layout(7), 1))
    assert buffer.tolist() == [0, 0, 1, 2, 3, 4, 5, 6]


@each(
    ("src", "dst"),
    [("(4,8):(1,4)", "(8,4):(1,8)"), ("(4,8):(1,4)", "16:1"), ("((2,2),8):((1,2),4)", "((4,1),8):((1,0),4)")],
)
def test_a_copy_between_shapes_that_differ(src: str, dst: str) -> None:
    source, target = (parse(text) for text in (src, dst))
    assert isinstance(source, Layout) and isinstance(target, Layout)
    with pytest.raises(ShapeError, match="do not have the same coordinates"):
        copy_tensor(holding(source), holding(target))


def test_a_copy_that_would_lose_values() -> None:
    with pytest.raises(
        ArgumentTypeError, match="float32 does not hold every float64; convert the source first"
    ):
        copy_tensor(Tensor(np.zeros(2), Layout(2)), Tensor(np.zeros(2, "f4"), Layout(2)))
    copy_tensor(Tensor(np.ones(2, "f4"), Layout(2)), target := Tensor(np.zeros(2), Layout(2)))
    assert target.buffer.tolist() == [1, 1]


# --- the value -----------------------------------------------------------------------------------------


@given(LAYOUTS)
def test_bounds_are_exact(layout: AnyLayout) -> None:
    offsets = table(layout)
    low, high = min(offsets), max(offsets)
    room = np.zeros(high - low + 1)
    Tensor(room, layout, -low)
    with pytest.raises(ShapeError, match="the buffer has"):
        Tensor(room[:-1], layout, -low)
    with pytest.raises(ShapeError, match="reaches the elements -1 to"):
        Tensor(room, layout, -low - 1)


@each(
    ("parts", "error", "message"),
    [
        (([1, 2], Layout(2)), ArgumentTypeError, "its type is list; a NumPy array is needed"),
        ((np.zeros(2), (2, 1)), ArgumentTypeError, "its type is tuple; a layout is needed"),
        ((np.zeros((2, 2)), Layout(2)), ShapeError, "a buffer of shape (2, 2): a buffer has one dimension"),
        ((np.zeros(2), Layout(2), (0,)), ArgumentTypeError, "offset is the tuple (0)"),
        ((np.zeros(2), Layout(2), 0.5), ArgumentTypeError, "offset has 0.5 of type float"),
        ((np.zeros(2), Layout(2), True), ArgumentTypeError, "offset has the bool True"),
        ((np.zeros(4), make_identity_layout((2, 2))), UnsupportedError, "its strides move along modes"),
        ((np.zeros(4), Layout((2, SYMBOL))), UnsupportedError, "it has symbols; integers are accepted"),
    ],
)
def test_parts_that_make_no_tensor(parts: Any, error: type[LayoutAlgError], message: str) -> None:
    with pytest.raises(error) as caught:
        Tensor(*parts)
    assert message in str(caught.value)


def test_coordinates_outside_of_the_shape() -> None:
    """The element would lie inside the buffer; it is not one of the tensor."""
    t = Tensor(np.arange(8), Layout((2, 2)))
    for use in (lambda: t[2, 0], lambda: t(4), lambda: t.put((0, 2), 1), lambda: t[2, None]):
        with pytest.raises(
            ShapeError, match=r"coordinate \d of int64\[8\] o \(2,2\):\(1,2\) is outside of 0 to"
        ):
            use()
    with pytest.raises(ArgumentTypeError, match="has no single order to iterate in"):
        list(t)


def test_a_buffer_that_is_read_only() -> None:
    fixed = np.zeros(4)
    fixed.flags.writeable = False
    t = Tensor(fixed, Layout(4))
    with pytest.raises(UnsupportedError, match="the buffer is read only"):
        t[0] = 1
    with pytest.raises(UnsupportedError, match="the buffer is read only"):
        copy_tensor(t, t)


def test_a_tensor_is_a_value() -> None:
    buffer = np.arange(8)
    t = Tensor(buffer, Layout((2, 4), (4, 1)))
    assert t == Tensor(buffer, Layout((2, 4), (4, 1))) and len({t, Tensor(buffer, t.layout)}) == 1
    assert t != Tensor(buffer.copy(), t.layout) and t != Tensor(buffer, Layout((2, 4))) and t != buffer[0]
    with pytest.raises(AttributeError, match="immutable"):
        t.offset = 1
    with pytest.raises(AttributeError, match="immutable"):
        del t.layout
    assert str(t) == "int64[8] o (2,4):(4,1)"
    assert repr(t) == "Tensor(<int64[8]>, Layout((2, 4), (4, 1)), 0)"
    for twin in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert np.array_equal(twin.to_array(), t.to_array()) and twin.buffer is not buffer
