"""reduce, softmax and layer_norm of arrays on the CPU; on a GPU see tests/gpu/reduce_cases.py."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import Simulation, simulate
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    LayoutAlgError,
    NotInjectiveError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.kernels.calls.arrays import MOST_SIMULATED
from layoutalg.kernels.calls.reduce_api import layer_norm, reduce, softmax
from tests.sweeps import each

NUMPY: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "mean": np.mean}
LARGE = (513, 33)


def normal(shape: tuple[int, ...], dtype: str = "f4", seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def close(got: Any, wanted: Any, dtype: str) -> bool:
    """Within a few last places of the largest number: the families' own tests are sharper."""
    most = float(np.abs(wanted).max(initial=1.0))
    return bool((np.abs(got.astype("f8") - wanted) <= (2e-6 if dtype == "f4" else 2e-3) * most).all())


@each("op", NUMPY)
@each("dtype", ["f4", "f2"])
@each("keepdims", [False, True])
@each("simulate", [False, True])
@each(
    ("shape", "axes"),
    [((40,), None), ((8, 33), 1), ((8, 33), -2), ((5, 6, 7), (0, 2)), ((3, 4), ()), (LARGE, 0)],
    sample=2,
)
def test_reduce_is_numpys(
    op: str, dtype: str, keepdims: bool, shape: tuple[int, ...], axes: Any, simulate: bool
) -> None:  # fmt: skip
    x = normal(shape, dtype)
    y = reduce(x, op, axes, keepdims, simulate=simulate)
    wanted = NUMPY[op](x.astype("f8"), axis=axes, keepdims=keepdims)
    assert y.dtype == x.dtype and y.shape == wanted.shape and close(y, wanted, dtype)


@each("axes", [0, -1, (0, 2), None], sample=1)
@each("dtype", ["f4", "f2"])
@each("simulate", [False, True])
@each("shape", [(6, 5, 9), (31, 33, 17)], sample=1)
def test_softmax_is_its_definition(shape: tuple[int, ...], dtype: str, axes: Any, simulate: bool) -> None:
    x = 20 * normal(shape, dtype)
    e = np.exp(x.astype("f8") - x.max(axis=axes, keepdims=True))
    assert close(softmax(x, axes, simulate=simulate), e / e.sum(axis=axes, keepdims=True), dtype)


@each("axes", [0, -1, (1, 2), (2, 1)], sample=1)
@each("parameters", [(), ("weight",), ("weight", "bias"), ("bias",)], sample=1)
@each("simulate", [False, True])
@each("shape", [(6, 5, 9), (31, 33, 17)])
def test_layer_norm_is_its_definition(
    shape: tuple[int, ...], parameters: tuple[str, ...], axes: Any, simulate: bool
) -> None:
    x = normal(shape) + 3
    over = tuple(sorted(a % 3 for a in np.atleast_1d(axes)))
    extents = tuple(shape[a] for a in over)
    wide = tuple(n if k in over else 1 for k, n in enumerate(shape))
    given = {name: normal(extents, seed=len(name)) for name in parameters}
    wanted = (x - x.mean(over, "f8", keepdims=True)) / np.sqrt(x.var(over, "f8", keepdims=True) + 1e-3)
    wanted = wanted * given.get("weight", np.ones(extents)).reshape(wide)
    wanted = wanted + given.get("bias", np.zeros(extents)).reshape(wide)
    assert close(layer_norm(x, axes, eps=1e-3, simulate=simulate, **given), wanted, "f4")


def test_arrays_go_through_the_simulator_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def counted(kernel: Kernel, *args: Any, **options: Any) -> Simulation:
        ran.append(kernel.name)
        return simulate(kernel, *args, **options)

    monkeypatch.setattr("layoutalg.codegen.sim.sequence.simulate", counted)
    reduce(normal((8, 16)), "max", 0, simulate=True)
    softmax(normal((8, 16), "f2"), simulate=True)
    layer_norm(normal((8, 16)), simulate=True)
    softmax(normal((8, 16)))
    with pytest.raises(ResourceError, match=f"the limit is {MOST_SIMULATED}"):
        softmax(normal((MOST_SIMULATED // 8 + 1, 8)), simulate=True)
    assert ran == ["reduce_max_f32_f32", "softmax_f16", "layer_norm_f32"]


def test_views_are_read_and_written_where_they_are() -> None:
    x, whole = normal((20, 30))[::-2, 3:17:3], np.zeros((10, 10), "f4")
    out = whole[::-1, ::2]
    assert softmax(x, 0, out) is out
    e = np.exp(x - x.max(0))
    assert close(out, e / e.sum(0), "f4") and not whole[:, 1::2].any()
    totals = np.zeros(20, "f4")
    assert close(reduce(x, "sum", 1, out=totals[::-2]), x.sum(1, dtype="f8"), "f4")
    assert not totals[::2].any()
    kept = np.zeros((10, 1), "f4")
    assert np.array_equal(reduce(x, "max", 1, keepdims=True, out=kept), x.max(1, keepdims=True))


def test_results_may_be_wider_than_elements() -> None:
    x, out = np.full((2, 3000), 0.25, "f2"), np.zeros(2, "f4")
    assert reduce(x, "sum", 1, out=out).tolist() == [750.0, 750.0]
    x, out = np.full((2, 500), 1000, "f2"), np.zeros(2, "f4")
    assert reduce(x, "sum", 1, out=out).tolist() == [500_000.0, 500_000.0]
    with np.errstate(over="ignore"):
        assert np.isinf(reduce(x, "sum", 1)).all()


@pytest.mark.parametrize("call", [softmax, layer_norm])
@pytest.mark.parametrize("shape", [(9, 20), LARGE])
def test_a_norm_can_be_made_in_place(call: Callable[..., Any], shape: tuple[int, ...]) -> None:
    x = normal(shape)
    wanted = call(x.copy())
    assert call(x, out=x) is x and np.array_equal(x, wanted)


def test_nan_and_infinity_are_as_by_definition() -> None:
    x = np.array([[1, np.nan], [-np.inf, 2], [np.inf, 1], [-np.inf, -np.inf]], "f4")
    assert np.array_equal(reduce(x, "max", 1), [np.nan, 2, np.inf, -np.inf], equal_nan=True)
    nothing = float("nan")
    wanted = [[nothing] * 2, [0.0, 1.0], [nothing] * 2, [nothing] * 2]
    with np.errstate(all="ignore"):
        assert np.array_equal(np.isnan(softmax(x)), np.isnan(wanted))
        assert softmax(x)[1].tolist() == [0, 1]


def test_nothing_is_reduced_to_what_it_is() -> None:
    empty = np.zeros((3, 0, 2), "f4")
    assert reduce(empty, "sum", 1).tolist() == [[0, 0]] * 3
    with pytest.warns(RuntimeWarning, match="mean of nothing"):
        nothing = reduce(empty, "mean", 1)
    assert np.isnan(nothing).all() and nothing.shape == (3, 2)
    assert reduce(empty, "max", 0).shape == (0, 2)
    with pytest.raises(ShapeError, match="maximum over"):
        reduce(empty, "max", 1)
    assert softmax(empty).shape == layer_norm(empty, 2).shape == (3, 0, 2)
    nowhere = np.zeros((2, 0), "f4").T
    assert layer_norm(empty, (1, 2), nowhere, nowhere).shape == (3, 0, 2)


def test_bfloat16_of_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bfloat16 array, as PyTorch's on the CPU: words of 16 bits with another name."""
    from layoutalg.kernels.calls import reduce_api
    from layoutalg.kernels.calls.arrays import View, form_of, view

    def as_bfloat16(x: Any) -> View:
        v = view(x)
        form = form_of("numpy", None, "bfloat16", v.form.itemsize, v.shape, v.strides)
        return v._replace(form=form)

    monkeypatch.setattr(reduce_api, "view", as_bfloat16)
    monkeypatch.setattr("layoutalg.kernels.calls.arrays.view", as_bfloat16)
    x = (np.arange(32, dtype="f4").reshape(2, 16).view("u4") >> 16).astype("u2")
    got = reduce(x, "sum", 1)
    assert (got.astype("u4") << 16).view("f4").tolist() == [120.0, 376.0]


BAD: list[tuple[type[LayoutAlgError], str, Callable[[Any], Any]]] = [
    (UnknownNameError, "unknown reduction 'product'", lambda x: reduce(x, "product")),
    (UnknownNameError, "unknown reduction 'softmax'", lambda x: reduce(x, "softmax")),
    (ShapeError, "axis 2 of a tensor with 2 modes", lambda x: reduce(x, "sum", 2)),
    (ShapeError, "name one mode twice", lambda x: softmax(x, (0, -2))),
    (ArgumentTypeError, "an int, several, or None", lambda x: softmax(x, "0")),  # type: ignore[arg-type]
    (ArgumentTypeError, "an int, several, or None", lambda x: softmax(x, 1.0)),  # type: ignore[arg-type]
    (UnsupportedError, "sum of float64 elements: float32,", lambda x: reduce(x.astype("f8"), "sum")),
    (UnsupportedError, "softmax of int32 elements", lambda x: softmax(x.view("i4"))),
    (UnsupportedError, "max of >f4 elements", lambda x: reduce(x.astype(">f4"), "max")),
    (ShapeError, r"out has shape \(4,\); the result has \(6,\)", lambda x: reduce(x, "sum", 0, out=x[:, 0])),
    (ArgumentTypeError, "out holds float16, x float32: out may", lambda x: softmax(x, out=x.astype("f2"))),
    (ArgumentTypeError, "overlap", lambda x: reduce(x, "sum", 0, out=x[1])),
    (ArgumentTypeError, "overlap", lambda x: softmax(x[:3], out=x[1:])),
    (ArgumentTypeError, "overlap", lambda x: layer_norm(x[1:], 1, weight=x[0], out=x[:3])),
    (ShapeError, r"weight has shape \(4,\); the axes", lambda x: layer_norm(x, 1, x[:, 0].copy())),
    (ShapeError, "must be contiguous", lambda x: layer_norm(x, 0, x[:, 0])),
    (ArgumentTypeError, "bias holds float16, x float32", lambda x: layer_norm(x, bias=x[0].astype("f2"))),
    (ShapeError, "eps of layer_norm is -1", lambda x: layer_norm(x, eps=-1.0)),
    (ArgumentTypeError, r"eps of layer_norm is \[1\]", lambda x: layer_norm(x, eps=[1])),  # type: ignore[arg-type]
    (ArgumentTypeError, "eps of layer_norm is True", lambda x: layer_norm(layer_norm(x, eps=1), eps=True)),
    (ShapeError, "eps of layer_norm is nan", lambda x: layer_norm(x[:0], eps=float("nan"))),
    (ArgumentTypeError, "eps of layer_norm is '1'", lambda x: layer_norm(x, eps="1")),  # type: ignore[arg-type]
    (ArgumentTypeError, "list is no array", lambda x: softmax(x.tolist())),
    (NotInjectiveError, "one place for two", lambda x: softmax(x, out=np.lib.stride_tricks.as_strided(
        np.zeros(9, "f4"), x.shape, (4, 4)))),
    (AlignmentError, "must start at multiples of 4", lambda x: softmax(np.zeros(29, "u1")[1:].view("f4"))),
    (ResourceError, "bytes of memory", lambda x: softmax(np.broadcast_to(x[0, 0], (1 << 25, 1 << 25)))),
]  # fmt: skip


@each(("kind", "message", "call"), BAD, ids=[m[:30] for _, m, _ in BAD])
def test_what_cannot_be_computed_is_refused(
    kind: type[LayoutAlgError], message: str, call: Callable[[Any], Any]
) -> None:
    x = normal((4, 6))
    before = x.copy()
    with pytest.raises(kind, match=message):
        call(x)
    assert np.array_equal(x, before)


@given(st.lists(st.integers(0, 5), max_size=4), st.data())
def test_axes_are_numpys(shape: list[int], data: st.DataObject) -> None:
    rank = len(shape)
    axes = tuple(data.draw(st.lists(st.integers(-rank, rank - 1), max_size=3))) if rank else ()
    x = np.ones(shape, "f4")
    try:
        wanted = x.sum(axis=axes)
    except ValueError:
        with pytest.raises(ShapeError):
            reduce(x, "sum", axes)
        return
    got = reduce(x, "sum", axes)
    assert got.shape == wanted.shape and np.array_equal(got, wanted) and prod(got.shape) == got.size


def by_numpy(x: Any, op: str, axes: Any, *, keepdims: bool) -> Any:
    """NumPy's own; an index over several axes by rows of what is reduced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if op not in ("argmax", "argmin"):
            return np.asarray(getattr(np, op)(x, axis=axes, keepdims=keepdims))
        over = tuple(range(x.ndim)) if axes is None else axes if isinstance(axes, tuple) else (axes,)
        over = tuple(sorted(a % x.ndim for a in over))
        kept = tuple(n for k, n in enumerate(x.shape) if k not in over)
        count = int(np.prod([x.shape[k] for k in over], dtype=int))
        rows = np.moveaxis(x, over, range(-len(over), 0) if over else ()).reshape(*kept, count)
        wide = tuple(1 if k in over else n for k, n in enumerate(x.shape))
        return np.asarray(getattr(np, op)(rows, axis=-1)).reshape(wide if keepdims else kept)


def test_tensors_without_elements_are_reduced_as_numpy_does() -> None:
    """A seeded law: drawn shapes with zeros, every operation, any axes; ShapeError where NumPy refuses."""
    rng, refused = random.Random(20261129), 0
    for _ in range(150):
        shape = tuple(rng.choice((0, 0, 1, 3, 33)) for _ in range(rng.randrange(1, 5)))
        some = rng.sample(range(-len(shape), 0), rng.randrange(len(shape) + 1))
        axes = rng.choice((None, rng.randrange(len(shape)), tuple(some)))
        x, keepdims = np.ones(shape, rng.choice(("f4", "i4"))), rng.random() < 0.3
        ops = ("sum", "prod", "max", "min", "argmax", "argmin", "mean", "var")
        for op in ops if x.dtype == "f4" else ops[:6]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                try:
                    wanted = by_numpy(x, op, axes, keepdims=keepdims)
                except ValueError:
                    refused += 1
                    with pytest.raises(ShapeError, match="that of no elements"):
                        reduce(x, op, axes, keepdims)
                    continue
                found = reduce(x, op, axes, keepdims)
            assert found.shape == wanted.shape, (shape, op, axes)
            assert np.array_equal(found.astype("f8"), wanted.astype("f8"), equal_nan=True), (shape, op, axes)
    assert refused > 100


def test_an_extreme_over_no_elements_is_refused_where_there_is_no_result_either() -> None:
    for op, axes in (("max", (0, 1)), ("argmax", (0, 1)), ("min", 0), ("argmin", None)):
        with pytest.raises(ShapeError, match="that of no elements: it has none"):
            reduce(np.zeros((0, 33, 0), "f4"), op, axes)
    assert reduce(np.zeros((0, 33, 0), "f4"), "max", 1).shape == (0, 0)
