"""Arrays as memory on the CPU; those on a GPU are in tests/gpu/array_cases.py."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.calls import arrays
from tests.sweeps import each


@each("dtype", ["u1", "f2", "f4", "i8", "c16", "?", "M8[s]", ">f4"])
def test_a_view_is_where_the_array_is(dtype: str) -> None:
    whole = np.zeros((6, 8), dtype)
    part = whole[::-2, 1:7:3]
    seen = arrays.view(part)
    assert (seen.address, seen.shape, seen.strides) == (part.ctypes.data, part.shape, part.strides)
    assert (seen.form.itemsize, seen.form.device, seen.form.library) == (whole.itemsize, None, "numpy")
    low, end = seen.span
    assert low == whole[1:2, 1:].ctypes.data and end == whole[5:, 4:].ctypes.data + whole.itemsize


@each(
    ("error", "text", "out"),
    [
        (ArgumentTypeError, "out is read-only", np.broadcast_to(np.zeros((1, 3), "f4"), (2, 3))),
        (ShapeError, r"out has shape \(3, 2\); the result has \(2, 3\)", np.zeros((3, 2), "f4")),
        (ArgumentTypeError, "out holds float64, x float32", np.zeros((2, 3))),
    ],
)
def test_what_cannot_be_written_is_no_destination(error: Any, text: str, out: Any) -> None:
    """What is read-only will do as a source."""
    x = arrays.view(np.zeros((2, 3), "f4"))
    assert arrays.view(out).shape == out.shape
    with pytest.raises(error, match=text):
        arrays.check_result(x, arrays.view(out), (2, 3), ("float32",))
    arrays.check_result(x, arrays.view(np.zeros((2, 3), "i4")), (2, 3), ("int32",))


def test_equal_forms_are_one_object() -> None:
    x = np.zeros((6, 8), "f4")
    assert (
        arrays.view(x[1:]).form
        is arrays.view(np.ones((5, 8), "f4")).form
        is arrays.new_array(arrays.view(x), (5, 8)).form
    )
    others = (x[:5, ::-1], x.view("i4")[1:], x.view(">f4")[1:], x[1:].T)
    assert all(arrays.view(other).form is not arrays.view(x[1:]).form for other in others)


def test_a_form_reaches_from_its_lowest_byte_past_its_highest() -> None:
    f = arrays.view(np.zeros((6, 8), "f4")[::-2, 1:7:3]).form
    assert (f.elems, f.low, f.end, f.unit) == (6, -2 * 64, 12 + 4, 4)
    assert arrays.view(np.zeros((6, 8), "f4")[:, :1]).form.unit == 32


def test_a_masked_array_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="masked array"):
        arrays.view(np.ma.masked_array(np.zeros(3), mask=[True, False, False]))


def test_fellows_share_a_device() -> None:
    x = arrays.view(np.zeros(3))
    there = arrays.View(x.array, x.address, arrays.form_of("cupy", 1, "float64", 8, (3,), (8,)))
    arrays.check_fellows(x, x)
    with pytest.raises(
        ArgumentTypeError, match="out is an array of cupy on GPU 1, x an array of numpy on the"
    ):
        arrays.check_fellows(x, there)


def test_more_than_memory_is_refused_before_anything_is_allocated() -> None:
    huge = np.broadcast_to(np.zeros(1, "u1"), (1 << 50,))
    with pytest.raises(ResourceError, match="bytes of memory: 1125899906842624 asked"):
        arrays.new_array(arrays.view(huge), huge.shape)


def test_new_arrays_are_zeros_on_demand_and_results_on_the_cpu_stay_what_they_are() -> None:
    made = arrays.new_array(arrays.view(np.ones(3, "f2")), (50, 70), zeros=True)
    assert not made.host.any() and made.array.dtype == np.float16
    assert arrays.of_library(np.zeros(3), made) is made.array
    with arrays.launching(made):
        assert made.form.device is None


def boxes(rank: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    """(start, stop, step) of some modes of extent 9."""
    one = st.tuples(st.integers(0, 8), st.integers(1, 9), st.sampled_from([-3, -2, -1, 1, 2, 3]))
    return st.lists(one, min_size=rank, max_size=rank)


@given(boxes(2), boxes(2), st.sampled_from(["u1", "f4"]))
def test_overlap_is_a_shared_byte(a: list[Any], b: list[Any], dtype: str) -> None:
    whole = np.arange(81, dtype=dtype).reshape(9, 9)

    def part(box: list[tuple[int, int, int]]) -> Any:
        return whole[tuple(slice(low, high, 1) for low, high, _ in box)][
            tuple(slice(None, None, step) for _, _, step in box)
        ]

    x, y = part(a), part(b)
    assert arrays.overlapping(arrays.view(x), arrays.view(y)) == bool(
        set(x.ravel().tolist()) & set(y.ravel().tolist())
    )


def test_parts_of_one_element_overlap() -> None:
    raw = np.zeros(64, "u1")
    assert arrays.overlapping(arrays.view(raw[0:32].view("f4")), arrays.view(raw[1:33].view("f4")))
    assert not arrays.overlapping(arrays.view(raw[0:4].view("f4")), arrays.view(raw[4:8].view("f4")))


def torch_like(monkeypatch: pytest.MonkeyPatch, **traits: Any) -> Any:
    """An object that is a tensor of a library named torch, as far as `arrays.view` asks."""

    class Tensor:
        dtype, layout, is_quantized, requires_grad = "torch.float32", "strided", False, False
        shape, stride = (2,), staticmethod(lambda: (1,))
        is_conj = is_neg = staticmethod(lambda: False)
        device = type("device", (), {"type": "cpu", "index": None})

    library = ModuleType("torch")
    library.__dict__.update(Tensor=Tensor, strided="strided", is_grad_enabled=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", library)
    for name, value in traits.items():
        setattr(Tensor, name, value)
    return Tensor()


@pytest.mark.parametrize(
    ("traits", "reason"),
    [
        ({"layout": "sparse"}, "sparse"),
        ({"is_quantized": True}, "quantised"),
        ({"is_conj": staticmethod(lambda: True)}, "a conjugate or negative not yet computed"),
        ({"is_neg": staticmethod(lambda: True)}, "a conjugate or negative not yet computed"),
        ({"requires_grad": True}, r"records gradients, which kernels do not: detach\(\) it"),
        ({"device": type("device", (), {"type": "xpu"})}, "on a device of type xpu"),
    ],
)
def test_tensors_whose_values_are_elsewhere_are_refused(
    monkeypatch: pytest.MonkeyPatch, traits: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        arrays.view(torch_like(monkeypatch, **traits))
