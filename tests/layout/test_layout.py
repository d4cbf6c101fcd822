"""The Layout value: construction, calling, modes, printing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError
from layoutalg.layout import Layout, concat, coordinate_at, flatten_tree, layout_size, leaves, modes
from layoutalg.testing import layouts
from tests.judges.brute import table
from tests.sweeps import each


@given(layouts(negative=True), st.data())
def test_a_call_is_the_inner_product(layout: Layout, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, 2 * layout_size(layout)))
    crd = coordinate_at(index, layout.shape)
    wanted = sum(c * d for c, d in zip(flatten_tree(crd), flatten_tree(layout.stride), strict=True))
    assert layout(index) == layout(crd) == wanted
    if isinstance(crd, tuple) and len(crd) > 1:
        assert layout(*crd) == wanted


@given(layouts())
def test_numpy_agrees(layout: Layout) -> None:
    import numpy as np

    assert layout(np.arange(layout_size(layout))).tolist() == table(layout)


def test_past_the_end_the_last_mode_goes_on() -> None:
    assert Layout(4, 3)(7) == 21
    assert Layout((4, 8), (8, 1))(4 * 9 + 1) == 8 + 9
    assert Layout((4, 8), (8, 1))(2, 9) == 25


def test_modes_and_slices() -> None:
    layout = Layout(((2, 4), 8), ((1, 16), 2))
    assert [str(m) for m in modes(layout)] == ["(2,4):(1,16)", "8:2"]
    assert (layout[0], layout[-1], layout[0:1]) == (
        Layout((2, 4), (1, 16)), Layout(8, 2), Layout(((2, 4),), ((1, 16),)),
    )  # fmt: skip
    assert concat(*modes(layout)) == layout
    assert modes(Layout(8, 2)) == (Layout(8, 2),) and Layout(8, 2)[0] == Layout(8, 2)
    assert leaves(layout) == ((2, 1), (4, 16), (8, 2))


@each("mode", [2, -3, True, 1.0, "0", None])
def test_a_mode_that_is_not_there(mode: object) -> None:
    with pytest.raises((ShapeError, ArgumentTypeError), match="mode"):
        Layout((2, 4))[mode]  # type: ignore[index]


def test_other_values_are_not_equal() -> None:
    a = Layout((2, 4), (4, 1))
    assert a == Layout((2, 4), (4, 1)) and a != Layout((2, 4)) and a != "(2,4):(4,1)"


def test_strides_given_are_kept_and_defaults_are_compact() -> None:
    assert Layout((1, 4), (7, 1)).stride == (7, 1)
    assert Layout((1, 4)).stride == (0, 1)
    assert Layout((1, 4), (7, 1)) != Layout((1, 4), (0, 1))
    assert str(Layout(())) == "():()" and Layout(())(0) == 0 and layout_size(Layout(())) == 1
    assert str(Layout((4,))) == "(4):(1)"


@each(
    ("shape", "stride", "error", "words"),
    [
        (0, None, ShapeError, "extent 0"),
        ((4, -2), None, ShapeError, "extent -2"),
        ((4, 8), (1,), ShapeError, "does not have the form"),
        ((4, 8), 1, ShapeError, "does not have the form"),
        (4, (1,), ShapeError, "does not have the form"),
        (4.0, None, ArgumentTypeError, "float"),
        ((4, True), None, ArgumentTypeError, "bool"),
        ((4, 8), (1, "4"), ArgumentTypeError, "str"),
    ],
)
def test_bad_parts(shape: object, stride: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Layout(shape, stride)  # type: ignore[arg-type]


def test_layouts_of_arrays() -> None:
    import numpy as np

    x = np.arange(60).reshape(3, 4, 5)
    for view in (x, x.T, x[::2, :, ::-1], np.broadcast_to(x[0], (2, 4, 5))):
        layout = Layout.from_array(view)
        first = view.flat[0]
        assert all(view[i] == first + layout(*i) for i in np.ndindex(view.shape))
    fields = np.zeros(4, dtype=[("a", "u1"), ("b", "u4")])
    with pytest.raises(AlignmentError) as info:
        Layout.from_array(fields["b"])
    assert (info.value.offset, info.value.required_bytes) == (5, 4)
