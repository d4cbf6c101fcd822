"""Cross entropies: every reduction of losses, on arrays as they come, against the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.rowwise import cross_entropy_problem
from layoutalg.ops import cross_entropy, prepare
from tests.sweeps import each

IGNORED = -100


def defined(x: np.ndarray, at: np.ndarray, axis: int, ignored: int, reduction: str) -> Any:
    """Row by row, in float64."""
    rows = np.moveaxis(x.astype("f8"), axis, -1)
    losses, count = np.zeros(rows.shape[:-1]), 0
    for place in np.ndindex(losses.shape):
        if at[place] == ignored:
            continue
        count += 1
        row, inside = rows[place], 0 <= at[place] < rows.shape[-1]
        with np.errstate(all="ignore"):
            base = row.max() if np.isfinite(row.max()) else 0.0
            total = base + np.log(np.exp(row - base).sum())
            losses[place] = total - row[at[place]] if inside else np.nan
    if reduction == "none":
        return losses
    return losses.sum() / (1 if reduction == "sum" else count or np.nan)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], axis: int, dtype: str) -> tuple[Any, Any]:
    """Logits and targets, some of them ignored."""
    x = (4 * rng.standard_normal(shape)).astype(dtype)
    kept = tuple(n for k, n in enumerate(shape) if k != axis % len(shape))
    at = rng.integers(0, shape[axis], kept)
    return x, np.where(rng.random(kept) < 0.2, IGNORED, at).astype(rng.choice(["i8", "i4"]))


@each("simulate", [False, True])
@each("dtype", ["f4", "f2"])
@each("reduction", ["none", "sum", "mean"])
@each(
    ("shape", "axis"),
    [((7, 33), -1), ((33, 7), 0), ((3, 5, 4), 1), ((2, 1), 1), ((9,), 0), ((2, 5000), 1)],
    sample=2,
)
def test_losses_are_those_of_the_definition(
    shape: tuple[int, ...], axis: int, reduction: str, dtype: str, simulate: bool
) -> None:
    rng = np.random.default_rng([len(shape), shape[axis]])
    x, at = drawn(rng, shape, axis, dtype)
    found = cross_entropy(x, at, axis, IGNORED, reduction, simulate=simulate)
    wanted = defined(x, at, axis, IGNORED, reduction)
    assert found.dtype == x.dtype and found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype == "f2" else 2e-5, atol=2e-5)


@each("simulate", [False, True])
def test_arrays_as_they_come(simulate: bool) -> None:
    """Reversed, every other column, one row for all, and starts that are no multiples of 16 bytes."""
    rng = np.random.default_rng(3)
    x, at = drawn(rng, (6, 40), 1, "f4")
    targets, out = np.append(at[:1], at), np.zeros(7, "f4")
    shifted = np.append(x[0, :1], x)[1:].reshape(6, 40)
    for view in (x[:, ::-1], x[::-1], x[:, ::2], np.broadcast_to(x[:1], (6, 40)), shifted):
        name = np.where(targets[1:] >= view.shape[1], 1, targets[1:]).astype(at.dtype)
        targets[1:], out[:] = name, 7
        found = cross_entropy(view, targets[1:], out=out[1:], reduction="none", simulate=simulate)
        assert found.base is out and out[0] == 7
        np.testing.assert_allclose(found, defined(view, name, 1, IGNORED, "none"), rtol=2e-5, atol=2e-5)
    one = np.broadcast_to(x[:, :1], (6, 40))  # a row is one element, repeated
    np.testing.assert_allclose(
        cross_entropy(one, targets[1:], reduction="none", simulate=simulate),
        np.where(targets[1:] == IGNORED, 0, np.log(40)), rtol=2e-5,
    )  # fmt: skip


@each("simulate", [False, True])
def test_what_is_no_number_and_what_names_no_class(simulate: bool) -> None:
    """Nor has nothing a mean."""
    x = np.zeros((6, 4), "f4")
    x[1, 2], x[2, 3], x[3], x[4, 1] = np.nan, np.inf, -np.inf, -np.inf
    at = np.array([7, 0, 3, 0, 1, -1])
    found = cross_entropy(x, at, ignore_index=-1, reduction="none", simulate=simulate)
    assert np.isnan(found[:4]).all() and found[4] == np.inf and found[5] == 0
    x[:, 0] = np.nan
    nothing = np.full(6, -1)
    assert cross_entropy(x, nothing, ignore_index=-1, reduction="sum", simulate=simulate) == 0
    assert np.isnan(cross_entropy(x, nothing, ignore_index=-1, simulate=simulate))
    empty = np.zeros((0, 4), "f4"), np.zeros(0, "i8")
    assert (
        cross_entropy(*empty, reduction="none").shape == (0,) and cross_entropy(*empty, reduction="sum") == 0
    )
    with pytest.warns(RuntimeWarning, match="of nothing"):
        assert np.isnan(cross_entropy(*empty))


def test_results_may_be_floats_and_calls_prepared() -> None:
    x, at, out = np.zeros((4, 8), "f2"), np.array([1, 2, 3, IGNORED], "i4"), np.zeros((), "f4")
    mean = prepare("cross_entropy", x, out, target=at)
    x[:3, 0] = 9
    assert mean() is out
    np.testing.assert_allclose(out, defined(x, at, 1, IGNORED, "mean"), rtol=1e-6)


X, AT = np.zeros((4, 8), "f4"), np.zeros(4, "i8")


@each(
    ("change", "error", "part"),
    [
        ({"reduction": "max"}, UnknownNameError, "none, sum, mean"),
        ({"x": X.astype("f8")}, UnsupportedError, "float32, float16, bfloat16"),
        ({"target": AT.astype("u8")}, UnsupportedError, "int64 and int32"),
        ({"target": AT[:3]}, ShapeError, r"without its axis"),
        ({"target": np.zeros(8, "i8")[::2]}, ShapeError, "target has strides"),
        ({"axis": (0, 1)}, ShapeError, "classes lie along one"), ({"axis": 2}, ShapeError, "axis 2"),
        ({"out": np.zeros(4, "f4")}, ShapeError, "out has shape"),
        ({"out": np.zeros((), "f8")}, ArgumentTypeError, "out may hold float32"),
        ({"out": X[0, :4], "reduction": "none"}, ArgumentTypeError, "overlap"),
        ({"ignore_index": 1.5}, ArgumentTypeError, "int"),
        ({"ignore_index": 1 << 70}, ArgumentTypeError, "64 bits"), ({"x": [1.0]}, ArgumentTypeError, "array"),
        ({"x": np.zeros((4, 1 << 15), "f4"), "simulate": True}, ResourceError, "simulated"),
        ({"x": np.zeros((4, 0), "f4")}, ShapeError, "no classes"),
    ],
)  # fmt: skip
def test_what_is_refused(change: Any, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        cross_entropy(**{"x": X, "target": AT, **change})


@each(
    ("asked", "error", "part"),
    [
        (lambda: cross_entropy_problem((4, 8), target="u8"), UnsupportedError, "targets of u8"),
        (lambda: cross_entropy_problem((4, 8), dtype="bf16", result="f16"), UnsupportedError, "as f16"),
        (lambda: cross_entropy_problem((1, 1 << 31)), ResourceError, "classes"),
        (lambda: FAMILIES["cross_entropy"].problem((4, 8), (0, 1)), ShapeError, "along one"),
    ],
)
def test_what_is_no_problem_is_refused(asked: Any, error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        asked()


@pytest.mark.deep
@each(
    ("shape", "axis", "strides"),
    [
        ((600, 10), 1, None), ((5, 130, 6), 2, None), ((40, 2, 7, 2), 0, (7, 560, 1, 280)),
        ((10, 700), 0, (1, 10)), ((900, 3, 6), 1, None), ((2, 9000), 1, None),
    ],
)  # fmt: skip
def test_short_rows_read_the_labels_of_their_own_tile(
    shape: tuple[int, ...], axis: int, strides: tuple[int, ...] | None
) -> None:
    """Several tiles, kept modes beyond them, and threads with several rows each, of columns too; and long
    rows, which blocks share.  Whole rows are those of the registry's tests."""
    family = FAMILIES["cross_entropy"]
    p = cross_entropy_problem(shape, axis, "f32", "s32", strides, reduction="none")
    packed = [c for c in family.configs(p, "sm_90") if c.packed]
    if shape == (2, 9000):
        least = min(family.configs(p), key=lambda c: c.threads_per_row * c.depth)
        verify(family, p, replace(least, splits=3)).require()
    else:
        assert packed
    for c in packed:
        results = [check for check in verify(family, p, c).checks if "at a time" in check.name]
        assert len(results) == 2 and all(check.passed for check in results), results
