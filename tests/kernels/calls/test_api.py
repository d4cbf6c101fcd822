"""permute, transpose, relayout, reduce and the norms of arrays on the CPU beside NumPy, and what they refuse.

On a GPU: tests/gpu/test_permute.py and reduce_cases.py.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg import errors
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.kernels.calls import (
    layer_norm,
    matmul,
    permute,
    reduce,
    relayout,
    softmax,
    transpose,
)
from layoutalg.kernels.calls.arrays import View, form_of, view
from layoutalg.layout import Layout
from layoutalg.limits import Most
from tests.draws.views import EVERY, draw
from tests.judges.view_judge import run_in_numpy, run_in_simulator
from tests.sweeps import each

FLOAT_OPS = ("sum", "prod", "max", "min", "argmax", "argmin", "mean", "var")
OPS = ("permute", "softmax", "layer_norm", *FLOAT_OPS)


@each("function", EVERY, sample=6)
@each("seed", range(40), sample=5)
def test_a_random_call_on_random_views_is_its_definition(function: str, seed: int) -> None:
    """And by the code of a GPU, some."""
    verdict = run_in_numpy(draw(seed, functions=(function,), library="numpy"))
    assert verdict.kind != "wrong", verdict.why
    if seed == 0:
        verdict = run_in_simulator(draw(seed, functions=(function,)))
        assert verdict.kind != "wrong", verdict.why


def by_numpy(x: Any, op: str, axes: Any, *, keepdims: bool) -> Any:
    """NumPy's own in float64, and softmax and layer_norm from it; an index over several axes by rows of what
    is reduced.  Raises ValueError and TypeError as NumPy does."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        if op == "permute":
            return x.transpose(axes)
        np.sum(x, axis=axes)  # refuses what no axes are
        listed = range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,)
        over = tuple(a % x.ndim for a in listed if x.ndim)
        if op == "softmax":
            e = np.exp(x.astype("f8") - x.max(axis=over, keepdims=True, initial=-np.inf))
            return e / e.sum(axis=over, keepdims=True)
        if op == "layer_norm":
            centred = x - x.mean(over, "f8", keepdims=True)
            return centred / np.sqrt(x.var(over, "f8", keepdims=True) + 1e-5)
        if op not in ("argmax", "argmin"):
            return np.asarray(getattr(np, op)(x.astype("f8"), axis=axes, keepdims=keepdims))
        kept = tuple(n for k, n in enumerate(x.shape) if k not in over)
        rows = np.moveaxis(x, sorted(over), range(-len(over), 0) if over else ())
        rows = rows.reshape(*kept, int(np.prod([x.shape[k] for k in over], dtype=int)))
        wide = tuple(1 if k in over else n for k, n in enumerate(x.shape))
        return np.asarray(getattr(np, op)(rows, axis=-1)).reshape(wide if keepdims else kept)


def called(x: Any, op: str, axes: Any, *, keepdims: bool, **options: Any) -> Any:
    """The same by this package."""
    of: dict[str, Callable[..., Any]] = {"permute": permute, "softmax": softmax, "layer_norm": layer_norm}
    return of[op](x, axes, **options) if op in of else reduce(x, op, axes, keepdims, **options)


@each("seed", range(600), sample=85)
def test_axes_types_and_shapes_are_numpys(seed: int) -> None:
    """Axes of every kind, keepdims, empty tensors and those of no modes, in NumPy and in the simulator; what
    NumPy refuses is refused by an error of the same kind."""
    rng = random.Random(f"20261129 {seed}")
    op, empty = rng.choice(OPS), rng.random() < 0.3
    shape = tuple(rng.choice((0, 1, 3, 33) if empty else (1, 3, 5, 8, 33)) for _ in range(rng.randrange(5)))
    rank = len(shape)
    some = tuple(rng.sample(range(-rank, 0), rank if op == "permute" else rng.randrange(rank + 1)))
    wrong = rng.choice(((0, 0), (0, -rank), rank, -rank - 1, 1.0, "0"))
    axes = rng.choice((some, some, rng.randrange(-rank, rank) if rank else (), None, wrong))
    x = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 3, rng.choice(("f4", "f2")))
    if op == "prod":
        x = np.where(x < 0, -x / x, x / x)
    if op == "permute" and not isinstance(axes, tuple):
        axes = some
    keepdims, simulated = rng.random() < 0.3, x.size < 2000 and rng.random() < 0.3
    if op in ("softmax", "layer_norm") and (x.size == 0 or rank == 0 or axes is None or axes == ()):
        return
    try:
        wanted = by_numpy(x, op, axes, keepdims=keepdims)
    except (ValueError, TypeError) as error:
        with pytest.raises((errors.ShapeError, errors.ArgumentTypeError)) as ours:
            called(x, op, axes, keepdims=keepdims)
        assert isinstance(ours.value, ValueError) == isinstance(error, ValueError)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        got = called(x, op, axes, keepdims=keepdims, simulate=simulated)
    assert isinstance(got, np.ndarray) and got.shape == wanted.shape, (shape, op, axes)
    assert got.dtype == (x.dtype if not op.startswith("arg") else "i8"), (op, got.dtype)
    near = (2e-6 if x.dtype == "f4" else 2e-3) * max(1.0, float(np.abs(wanted).max(initial=0)))
    assert np.allclose(got.astype("f8"), wanted, rtol=0, atol=near, equal_nan=True), (shape, op, axes)


def test_arrays_go_through_the_simulator_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def counted(kernel: Kernel, *args: Any, **options: Any) -> Any:
        ran.append(kernel.name)
        return simulate(kernel, *args, **options)

    monkeypatch.setattr("layoutalg.codegen.sim.simulator.simulate", counted)
    x, half = np.zeros((8, 16), "f4"), np.zeros((8, 16), "f2")
    calls: list[Callable[..., Any]] = [
        lambda **how: permute(x, (1, 0), **how), lambda **how: reduce(x, "max", 0, **how),
        lambda **how: softmax(half, **how), lambda **how: layer_norm(x, **how),
        lambda **how: relayout(np.arange(6), Layout((2, 3), (3, 1)), Layout((2, 3)), **how),
    ]  # fmt: skip
    for call in calls:
        before = len(ran)
        call()
        assert len(ran) == before
        call(simulate=True)
    assert ran == ["permute_b32", "reduce_max_f32_f32", "softmax_f16", "layer_norm_f32", "permute_b64"]


def test_a_result_of_no_modes_is_an_array_and_results_may_be_wider() -> None:
    x = np.full((2, 3000), 0.25, "f2")
    for got in (reduce(x, "sum"), matmul(x[0], x[0])):
        assert isinstance(got, np.ndarray) and got.shape == ()
    for dtype in ("float32", np.float32, "f4", "f32"):
        got = reduce(x, "sum", 1, dtype=dtype)
        assert got.dtype == np.float32 and got.tolist() == [750.0] * 2
    assert reduce(x, "sum", 1, dtype="f2").dtype == np.float16
    out = np.zeros(2, "f4")
    assert reduce(x, "sum", 1, out=out) is out and out.tolist() == [750.0] * 2
    assert reduce(x[:0], "sum", 0, dtype="f4").dtype == np.float32
    assert permute(x, np.array([1, 0])).shape == permute(x, (np.int64(-1), np.int8(0))).shape == (3000, 2)
    with pytest.warns(RuntimeWarning, match="mean of nothing"):
        assert np.isnan(reduce(x[:0], "mean"))


@pytest.mark.parametrize("simulated", [False, True])
def test_sums_of_float16_are_rounded_once_and_may_overflow(simulated: bool) -> None:
    x = np.full(5000, 0.5, "f2")
    x[0] = 2048
    assert reduce(x, "sum", simulate=simulated).tolist() == float(np.float16(x.astype("f8").sum()))
    with np.errstate(over="ignore"):
        assert np.isinf(reduce(np.full(500, 1000, "f2"), "sum", simulate=simulated))


def test_nan_and_infinity_are_as_by_definition() -> None:
    x = np.array([[1, np.nan], [-np.inf, 2], [np.inf, 1], [-np.inf, -np.inf]], "f4")
    assert np.array_equal(reduce(x, "max", 1), [np.nan, 2, np.inf, -np.inf], equal_nan=True)
    with np.errstate(all="ignore"):
        assert np.isnan(softmax(x)).tolist() == [[True] * 2, [False] * 2, [True] * 2, [True] * 2]
        assert softmax(x)[1].tolist() == [0, 1]


def test_bfloat16_of_another_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bfloat16 array, as PyTorch's on the CPU: words of 16 bits with another name."""

    def as_bfloat16(x: Any) -> View:
        v = view(x)
        return v._replace(form=form_of("numpy", None, "bfloat16", v.form.itemsize, v.shape, v.strides))

    for place in ("operation", "arrays"):
        monkeypatch.setattr(f"layoutalg.kernels.calls.{place}.view", as_bfloat16)
    x = (np.arange(32, dtype="f4").reshape(2, 16).view("u4") >> 16).astype("u2")
    assert (reduce(x, "sum", 1).astype("u4") << 16).view("f4").tolist() == [120.0, 376.0]


class Elsewhere:
    """An array of another library, on a device of a kind of its own or on the CPU."""

    def __init__(self, array: Any = None) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return (10, 0) if self.array is None else self.array.__dlpack_device__()


def test_an_array_of_dlpack_alone_and_neighbours_in_one_buffer_are_served() -> None:
    x = np.arange(64, dtype="f4").reshape(8, 8)
    assert np.array_equal(permute(Elsewhere(x), (1, 0)), x.T) and np.array_equal(transpose(x, (1, 0)), x.T)
    left, out = x[:, :4].copy(), np.zeros((4, 4), "i4")
    permute(x[:4, :4], (1, 0), x[:4, 4:])
    assert np.array_equal(x[:4, 4:], left[:4].T)
    assert np.array_equal(permute(x[:4, :4].view("i4"), (1, 0), out).view("f4"), x[:4, :4].T)


ONTO_ITSELF = np.lib.stride_tricks.as_strided(np.zeros(9, "f4"), (4, 6), (4, 4))
HUGE = np.broadcast_to(np.zeros(1, "f4"), (1 << 25, 1 << 25))
FLAT = Layout(24)
BAD: list[tuple[Any, str, Callable[[Any], Any]]] = [
    (errors.UnknownNameError, "reduction 'product'", lambda x: reduce(x, "product")),
    (errors.UnknownNameError, "reduction 'softmax'", lambda x: reduce(x, "softmax")),
    (errors.ShapeError, "name one mode twice", lambda x: softmax(x, (0, -2))),
    (errors.ShapeError, r"\(0, 0\) are not a permutation", lambda x: permute(x, (0, 0))),
    *((errors.ArgumentTypeError, "a sequence of ints", lambda x, axes=axes: permute(x, axes))
      for axes in ((1.0, 0), "10", 1, None, (False, True))),
    *((errors.ArgumentTypeError, "src is .*: a layout is needed", lambda x, src=src: relayout(x, src, FLAT))
      for src in ([24], "24:1", 24, None)),
    *((errors.ArgumentTypeError, "an int, several, or None", lambda x, axes=axes: reduce(x, "sum", axes))
      for axes in (True, 1.0, "0")),
    (errors.ArgumentTypeError, "simulate is 1", lambda x: transpose(x, simulate=1)),  # type: ignore[arg-type]
    *((errors.UnsupportedError, "elements: float32, float16, bfloat16", lambda x,
    kind=kind: reduce(x.astype(kind),
    "sum"))
      for kind in ("u4", "f8", "c8", "?")),
    (errors.UnsupportedError, "softmax of int32", lambda x: softmax(x.view("i4"))),
    (errors.UnsupportedError, "max of >f4", lambda x: reduce(x.astype(">f4"), "max")),
    (errors.UnsupportedError, "elements of type", lambda x: permute(x.astype("S3"), (1, 0))),
    (errors.UnsupportedError, "type object", lambda x: permute(x.astype(object), (1, 0))),
    (errors.UnsupportedError, "float32 is accepted", lambda x: reduce(x, "sum", 1, dtype="f8")),
    (errors.UnsupportedError, "DLPack kind 10", lambda x: permute(Elsewhere(), (0,))),
    (errors.ArgumentTypeError, "list is no array", lambda x: softmax(x.tolist())),
    (errors.ShapeError, r"out has shape \(4,\); the result has \(6,\)", lambda x: reduce(x, "sum", 0,
    out=x[:, 0])),
    (errors.ShapeError, r"out has shape \(4, 6\)", lambda x: permute(x, (1, 0), x.copy())),
    (errors.ShapeError, "a contiguous buffer", lambda x: relayout(x.T, FLAT, FLAT)),
    (errors.ShapeError, "needs 48 elements", lambda x: relayout(x, Layout(48), Layout(48))),
    (errors.ArgumentTypeError, "out holds float64, x float32", lambda x: permute(x, (1, 0),
    x.T.astype("f8"))),
    (errors.ArgumentTypeError, "out may hold float32", lambda x: permute(x, (1, 0), np.zeros((6, 4), "i4"))),
    (errors.ArgumentTypeError, "out holds float64, x float32: out may", lambda x: softmax(x,
    out=x.astype("f8"))),
    (errors.ArgumentTypeError, "out may hold float32",
     lambda x: reduce(x.astype("f2"), "sum", 1, out=np.zeros(4, "f2"), dtype="f4")),
    *((errors.ArgumentTypeError, "overlap", call) for call in (
        lambda x: reduce(x, "sum", 0, out=x[1]), lambda x: softmax(x[:3], out=x[1:]),
        lambda x: layer_norm(x[1:], 1, weight=x[0], out=x[:3]), lambda x: permute(x[:3, :3], (1, 0), x[1:,
        2:5]),
    )),
    (errors.ShapeError, r"weight has shape \(4,\)", lambda x: layer_norm(x, 1, x[:, 0].copy())),
    (errors.ShapeError, "must be contiguous", lambda x: layer_norm(x, 0, x[:, 0])),
    (errors.ArgumentTypeError, "bias holds float16", lambda x: layer_norm(x, bias=x[0].astype("f2"))),
    *((errors.ShapeError, f"eps of layer_norm is {eps}", lambda x, eps=eps: layer_norm(x,
    eps=eps)) for eps in (-1.0, np.nan)),
    *((errors.ArgumentTypeError, "eps of layer_norm is", lambda x, eps=eps: layer_norm(x,
    eps=eps)) for eps in ([1], True, "1")),
    (errors.NotInjectiveError, "one place for two", lambda x: softmax(x, out=ONTO_ITSELF)),
    (errors.AlignmentError, "multiples of 4", lambda x: softmax(np.zeros(29, "u1")[1:].view("f4"))),
    (errors.ResourceError, "bytes of memory", lambda x: softmax(HUGE)),
    (errors.ResourceError, "bytes of memory", lambda x: permute(HUGE, (1, 0))),
    (errors.ResourceError, f"the limit is {Most.ONE_BY_ONE.number}",
     lambda x: softmax(HUGE[: Most.ONE_BY_ONE.number + 1, 0], simulate=True)),
    *((errors.ShapeError, "that of no elements", lambda x, op=op, axes=axes: reduce(np.zeros((0, 33, 0),
    "f4"), op,
    axes))
      for op, axes in (("max", (0, 1)), ("argmax", (0, 1)), ("min", 0), ("argmin", None))),
]  # fmt: skip


@each(("kind", "text", "call"), BAD, ids=[text[:30] for _, text, _ in BAD])
def test_what_cannot_be_computed_is_refused_and_writes_nothing(
    kind: Any, text: str, call: Callable[[Any], Any]
) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("f4")
    before, cells = x.copy(), ONTO_ITSELF.copy()
    with pytest.raises(kind, match=text):
        call(x)
    assert np.array_equal(x, before) and np.array_equal(cells, ONTO_ITSELF)
