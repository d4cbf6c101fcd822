"""Plans of reductions: vectors, who shares an output, when there are two passes; and the model of times."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest

from layoutalg.kernels.rowwise import ReduceConfig, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.problems import normalise
from layoutalg.kernels.rowwise.reduce_model import Rates
from layoutalg.kernels.rowwise.reduce_plan import configs, refusals
from tests.sweeps import each

RATES = Rates()


@each(
    ("shape", "axes", "dtype", "vec", "passes"),
    [
        ((8192, 8192), 1, "f32", 4, 1), ((8192, 8192), 0, "bf16", 8, 1), ((8191, 8193), 1, "f16", 8, 1),
        ((8191, 8193), 0, "f16", 8, 1), ((8191, 13), 0, "f16", 1, 1), ((8192, 8196), 0, "f16", 4, 1),
        ((1000, 3), 1, "f32", 1, 1), ((1000, 33), 1, "f32", 1, 1), ((1000, 20), 1, "f32", 4, 1),
        ((1 << 26,), 0, "f32", 4, 2), ((65536, 1024), 0, "f32", 4, 2), ((4, 1 << 22), 1, "f32", 4, 2),
    ],
)  # fmt: skip
def test_the_width_of_loads_and_the_passes(
    shape: tuple[int, ...], axes: int, dtype: str, vec: int, passes: int
) -> None:
    """Of loads from global memory: runs that are copied have another width."""
    found = plans(reduce_problem(shape, axes, "sum", dtype))
    assert next(c for plan in found if not (c := plan.passes[0].config).packed).vec == vec
    if passes == 2:
        splits = found[0].passes[0].config.splits
        assert len(found[0].passes) == 2 and found[0].passes[1].form.count == splits
        assert found[0].workspace_elems == splits * prod(shape) // shape[axes]


def test_the_second_pass_carries_operation_factor_and_type() -> None:
    p = reduce_problem((4, 1 << 12), 1, "mean", "f16")
    one, two = plan_with(p, ReduceConfig(8, 32, 1, 1, 2, splits=3)).passes
    assert (one.op, one.result.name, one.factor) == ("sum", "f32", 1.0)
    assert (two.op, two.element.name, two.result.name, two.factor) == ("mean", "f32", "f16", 2.0**-12)


@each(("op", "factor"), [("sum", 8.0), ("mean", 1 / 16), ("max", 1.0)])
def test_what_broadcasts_is_a_factor(op: str, factor: float) -> None:
    one = plans(reduce_problem((8, 5, 16), (0, 2), op, "f32", src=(0, 16, 1)))[0].passes[0]
    assert (str(one.form), one.factor) == ("R 16:1, K 5:16->1", factor)


def test_sums_round_rarely() -> None:
    """The bound of an output of n elements is far from n u; maxima do not round."""
    shapes: list[tuple[Any, Any]] = [
        ((8192, 8192), 1), ((8192, 8192), 0), ((1 << 26,), 0), ((64, 256, 56, 56), (0, 2, 3))
    ]  # fmt: skip
    for shape, axes in shapes:
        assert plans(reduce_problem(shape, axes, "sum", "f32"))[0].additions <= 300
    assert plans(reduce_problem((8192, 8192), 1, "max", "f32"))[0].additions == 0


def test_blocks_fit_the_hardware() -> None:
    shapes = ((7, 3), (1000, 3), (3, 1000), (1, 1), (64, 33, 5), (100_000, 2), (2, 100_000))
    for shape, axes, element in product(shapes, (0, 1), ("f32", "f16")):
        p = reduce_problem(shape, axes, "sum", element)
        for c in configs(normalise(p.axes), p.axes.dtype, RATES):
            assert c.threads % 32 == 0 and 32 <= c.threads <= 1024 and c.lanes_per_row <= 32
            assert all(n & (n - 1) == 0 for n in (c.lanes_per_row, c.groups_per_row))


@each(
    ("shape", "axes", "dtype", "text"),
    [
        ((8192, 8192), 1, "f32", "256 threads, split: 8192 blocks are enough for 132 multiprocessors"),
        ((64, 1024), 1, "f32", "split: each thread has one round of loads"),
        ((4, 100), 0, "f16", "split: not every thread has a round of loads"),
        ((3000, 63), 0, "f32", "threads per block, columns by 32 threads: 2016 asked, the limit is 1024"),
        ((4096, 31), 1, "f16", "loads of 8 elements: rows of 31 elements are short"),
        ((40, 4, 6, 63), (0, 2), "f16", "loads of 8 elements: not all rows of columns start at such loads"),
    ],
)
def test_a_candidate_that_is_dropped_says_why(
    shape: tuple[int, ...], axes: int, dtype: str, text: str
) -> None:
    p = reduce_problem(shape, axes, "sum", dtype)
    found = refusals(p)
    assert any(text in str(why) for why in found.values()), list(map(str, found.values()))
    assert not set(found) & {plan.passes[0].config for plan in plans(p)}


# --- the model of a launch -----------------------------------------------------------------------------


@each(
    ("shape", "axis", "dtype", "config", "measured"),
    [
        ((8192, 8192), 1, "f32", ReduceConfig(4, 32, 1, 8, 4), 64.0),
        ((8192, 8192), 0, "f32", ReduceConfig(4, 1, 8, 128, 8), 65.6),
        ((8192, 8192), 0, "f32", ReduceConfig(4, 1, 32, 8, 8), 138.5),
        ((8192, 8192), 0, "f16", ReduceConfig(8, 1, 8, 64, 8), 36.9),
        ((65536, 1024), 1, "f16", ReduceConfig(8, 32, 8, 1, 4, 2), 34.2),
        ((1024, 65536), 0, "f16", ReduceConfig(8, 1, 64, 4, 8), 45.7),
        ((8191, 8193), 1, "f32", ReduceConfig(4, 32, 1, 8, 4), 63.5),
        ((8191, 8193), 0, "f16", ReduceConfig(1, 1, 64, 16, 16), 40.0),
    ],
)
def test_the_model_knows_measured_times(
    shape: tuple[int, ...], axis: int, dtype: str, config: ReduceConfig, measured: float
) -> None:
    """Microseconds of the first pass on an H200."""
    plan = plan_with(reduce_problem(shape, axis, "sum", dtype), config)
    assert plan.predicted_us == pytest.approx(measured, rel=0.12)
