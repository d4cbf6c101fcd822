"""permute, transpose and relayout of arrays on the CPU; on a GPU see tests/gpu/test_permute.py."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutalg
from layoutalg.codegen.gpu import gpu_status
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import Simulation, simulate
from layoutalg.errors import ArgumentTypeError, NotInjectiveError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.calls.api import permute, problem_of, relayout, transpose
from layoutalg.kernels.calls.arrays import MOST_SIMULATED
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.problem import reference
from layoutalg.layout import Layout
from tests.sweeps import each


class Wrapped:
    """An array of another library: DLPack and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Elsewhere:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, 0)


@each("dtype", ["u1", "f2", "f4", "i8", "c16", "?", "M8[s]"], sample=1)
@each("simulate", [False, True])
@each("shape", [(), (5,), (3, 4), (3, 20, 9, 2), (2, 300, 40)])
def test_permute_is_numpys(shape: tuple[int, ...], dtype: str, simulate: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, shape).astype(dtype)
    axes = tuple(rng.permutation(len(shape)).tolist())
    y = permute(x, axes, simulate=simulate)
    assert y.dtype == x.dtype and y.flags.c_contiguous and np.array_equal(y, x.transpose(axes))


def test_arrays_go_through_the_simulator_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def counted(kernel: Kernel, *args: Any, **options: Any) -> Simulation:
        ran.append(kernel.name)
        return simulate(kernel, *args, **options)

    monkeypatch.setattr("layoutalg.kernels.calls.api.simulate", counted)
    permute(np.zeros((8, 16)), (1, 0))
    assert not ran
    permute(np.zeros((8, 16)), (1, 0), simulate=True)
    relayout(np.arange(6), Layout((2, 3), (3, 1)), Layout((2, 3)), simulate=True)
    assert ran == ["permute_b64"] * 2
    large = np.zeros((MOST_SIMULATED // 4 + 1, 4), "u1")
    with pytest.raises(ResourceError, match=f"{large.size} asked, the limit is {MOST_SIMULATED}"):
        permute(large, (1, 0), simulate=True)
    with pytest.raises(ArgumentTypeError, match="simulate is 1: True or False is needed"):
        transpose(large, simulate=1)  # type: ignore[arg-type]


def test_axes_views_and_out_are_numpys() -> None:
    x, view = (
        np.arange(24, dtype="u1").reshape(2, 3, 4),
        np.arange(600, dtype="f4").reshape(20, 30)[::-2, 3:17:3],
    )
    assert np.array_equal(permute(x, (-1, 0, 1)), x.transpose(2, 0, 1)) and np.array_equal(transpose(x), x.T)
    assert np.array_equal(transpose(x, (1, 0, 2)), x.transpose(1, 0, 2))
    assert np.array_equal(permute(view, (1, 0)), view.T)
    y, out = np.arange(12, dtype="f4").reshape(3, 4), np.zeros((4, 6), "f4")[:, ::2]
    assert permute(y, (1, 0), out) is out and np.array_equal(out, y.T)
    assert np.array_equal(permute(Wrapped(y), (1, 0)), y.T)  # as of another library


def test_an_empty_array_is_a_no_op() -> None:
    assert permute(np.zeros((3, 0, 2)), (2, 1, 0)).shape == (2, 0, 3)
    assert transpose(np.zeros((0,))).shape == (0,)


def test_relayout_moves_between_formats() -> None:
    nhwc = Layout((2, 6, 7, 64), (2688, 448, 64, 1))
    blocked = Layout((2, 6, 7, (32, 2)), (2688, 224, 32, (1, 1344)))
    x = np.arange(5376, dtype="u2")
    expected = x.reshape(2, 6, 7, 2, 32).transpose(0, 3, 1, 2, 4).ravel()
    y = layoutalg.relayout(x.reshape(2, 6, 7, 64), nhwc, blocked)
    assert np.array_equal(y, expected) and np.array_equal(relayout(y, blocked, nhwc), x)


X = np.zeros((3, 4), "f4")


@each(
    ("error", "said", "call"),
    [
        (ShapeError, r"axes \(0, 0\) are not a permutation", lambda: permute(X, (0, 0))),
        (ShapeError, r"out has shape \(3, 4\)", lambda: permute(X, (1, 0), np.zeros((3, 4), "f4"))),
        (ShapeError, "takes a contiguous buffer", lambda: relayout(X.T, Layout(12), Layout(12))),
        (ShapeError, "needs 24 elements; its buffer has 12", lambda: relayout(X, Layout(24), Layout(24))),
        (ArgumentTypeError, "out holds float64, x float32", lambda: permute(X, (1, 0), X.T.astype("f8"))),
        (ArgumentTypeError, "list is no array", lambda: permute([1, 2], (0,))),
        (UnsupportedError, "device of DLPack kind 10", lambda: permute(Elsewhere(), (0,))),
        (UnsupportedError, "elements of type", lambda: permute(np.zeros((2, 2), "S3"), (1, 0))),
        (UnsupportedError, "elements of type object", lambda: permute(np.zeros((2, 2), object), (1, 0))),
    ],
    ids=lambda x: str(x)[:40],
)  # fmt: skip
def test_what_does_not_fit_is_refused(error: Any, said: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=said):
        call()


@each("wrong", [[12], "12:1", 12, None])
def test_a_layout_is_needed(wrong: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"src is .*: a layout is needed"):
        relayout(X, wrong, Layout(12))


def test_out_of_another_type_is_refused_and_a_view_of_it_is_not() -> None:
    x, out = np.arange(6, dtype="f4").reshape(2, 3), np.zeros((3, 2), "i4")
    with pytest.raises(ArgumentTypeError, match="out holds int32, x float32: out may hold float32"):
        permute(x, (1, 0), out)
    assert np.array_equal(permute(x.view("i4"), (1, 0), out).view("f4"), x.T)


def test_axes_are_ints() -> None:
    x = np.zeros((3, 4))
    assert permute(x, np.array([1, 0])).shape == permute(x, (np.int64(-1), np.int8(0))).shape == (4, 3)
    for wrong in ((1.0, 0), "10", 1, None, (False, True)):
        with pytest.raises(ArgumentTypeError, match="a sequence of ints is needed"):
            permute(x, wrong)  # type: ignore[arg-type]


def test_an_out_that_aliases_is_refused() -> None:
    cell = np.zeros(1, "f4")
    out = np.lib.stride_tricks.as_strided(cell, (4, 3), (0, 0))
    with pytest.raises(NotInjectiveError, match="has one place for two coordinates"):
        permute(np.ones((3, 4), "f4"), (1, 0), out)
    assert cell[0] == 0


def test_more_elements_than_memory_are_refused() -> None:
    huge = np.broadcast_to(np.zeros(1, "u1"), (1 << 40, 1 << 10))
    with pytest.raises(ResourceError, match="bytes of memory"):
        permute(huge, (1, 0))


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(-40, 40)), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.tuples(st.integers(0, 15), st.integers(0, 15)),
)
def test_problems_in_bytes_move_the_bytes(modes: Any, itemsize: int, starts: tuple[int, int]) -> None:
    """`problem_of` against its definition: every byte of every element goes to its place."""
    shape = tuple(n for n, _ in modes)
    src = tuple(d for _, d in modes)
    dst = tuple(itemsize * prod(shape[:k]) for k in range(len(shape)))
    low = sum(min(0, (n - 1) * d) for n, d in modes)
    p = problem_of(shape, itemsize, src, dst, starts[0] - low, starts[1])
    rng = np.random.default_rng(0)
    source = rng.integers(0, 256, 1024, dtype="u1")
    old = np.zeros(4096, "u1")
    expected = old.copy()
    for crd in np.ndindex(shape):
        a = starts[0] - low + sum(i * d for i, d in zip(crd, src, strict=True))
        b = starts[1] + sum(i * d for i, d in zip(crd, dst, strict=True))
        expected[b : b + itemsize] = source[a : a + itemsize]
    carrier = CARRIER[p.element_bytes]
    got = reference(p, source.view(carrier), old.view(carrier))
    assert np.array_equal(got.view("u1"), expected)


def test_overlap_is_refused_and_neighbours_are_not() -> None:
    x = np.arange(64, dtype="f4").reshape(8, 8)
    with pytest.raises(ArgumentTypeError, match="overlap"):
        permute(x, (1, 0), x)
    with pytest.raises(ArgumentTypeError, match="overlap"):
        permute(x[:4, :4], (1, 0), x[2:6, 3:7])
    left = x[:, :4].copy()
    permute(x[:4, :4], (1, 0), x[:4, 4:])
    assert np.array_equal(x[:4, 4:], left[:4].T)


@pytest.mark.skipif(not gpu_status().available, reason="needs a GPU")
def test_arrays_on_a_gpu_stay_there() -> None:
    import cupy

    x = cupy.arange(60, dtype="f4").reshape(3, 4, 5)
    assert bool((permute(x, (2, 0, 1)) == x.transpose(2, 0, 1)).all())
