"""Plans of reductions: vectors, who shares an output, when there are two passes; and the model of times."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest

from layoutalg.kernels.rowwise import ReduceConfig, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.problems import normalise
from layoutalg.kernels.rowwise.reduce_model import Rates, pass_us, resident
from layoutalg.kernels.rowwise.reduce_plan import configs, refusals
from tests.sweeps import each

RATES = Rates()


@each(
    ("shape", "axes", "dtype", "vec"),
    [
        ((8192, 8192), 1, "f32", 4), ((8192, 8192), 0, "bf16", 8), ((8191, 8193), 1, "f16", 8),
        ((8191, 8193), 0, "f16", 8), ((8191, 13), 0, "f16", 1), ((8192, 8196), 0, "f16", 4),
        ((1000, 3), 1, "f32", 1), ((1000, 33), 1, "f32", 1), ((1000, 20), 1, "f32", 4),
    ],
)  # fmt: skip
def test_the_width_of_loads(shape: tuple[int, int], axes: int, dtype: str, vec: int) -> None:
    """Of those from global memory: runs that are copied have another."""
    found = (plan.passes[0].config for plan in plans(reduce_problem(shape, axes, "sum", dtype)))
    assert next(c for c in found if not c.packed).vec == vec


@each(
    ("shape", "axis", "passes"),
    [
        ((1 << 26,), 0, 2), ((65536, 1024), 0, 2), ((4, 1 << 22), 1, 2), ((8192, 8192), 1, 1),
        ((256, 256), 1, 1), ((65536, 1024), 1, 1),
    ],
)  # fmt: skip
def test_long_sums_of_few_outputs_take_two_passes(shape: tuple[int, ...], axis: int, passes: int) -> None:
    plan = plans(reduce_problem(shape, axis, "sum", "f32"))[0]
    assert len(plan.passes) == passes
    if passes == 2:
        splits = plan.passes[0].config.splits
        assert plan.workspace_elems == splits * prod(shape) // shape[axis]
        assert plan.passes[1].form.count == splits


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


def us(shape: tuple[int, ...], axis: int, dtype: str, config: ReduceConfig | None = None) -> float:
    """Microseconds that a plan, the best one unless one is given, is expected to take."""
    p = reduce_problem(shape, axis, "sum", dtype)
    return (plan_with(p, config) if config else plans(p)[0]).predicted_us


def test_what_takes_longer() -> None:
    """Bytes, a block that waits alone, warps of short rows, and threads of long ones."""
    assert us((8192, 8192), 1, "f32") == pytest.approx(8192 * 8192 * 4 / RATES.memory, rel=0.1)
    alone = plan_with(reduce_problem((1 << 22,), 0, "sum", "f32"), ReduceConfig(4, 32, 1, 32, 8)).passes[0]
    assert pass_us(alone, RATES) > 32 * RATES.latency_us > 3 * (1 << 24) / RATES.memory
    wide, narrow = (ReduceConfig(1, fast, 256 // fast, 1, 33 // fast + 1, 2) for fast in (32, 4))
    assert us((1 << 21, 33), 1, "f32", narrow) < us((1 << 21, 33), 1, "f32", wide)
    wide, narrow = ReduceConfig(8, 16, 16, 1, 1, 4), ReduceConfig(8, 1, 256, 1, 4)
    assert us((1 << 20, 128), 1, "f16", wide) < us((1 << 20, 128), 1, "f16", narrow)
    assert [resident(ReduceConfig(4, 32, 1, n, 8), RATES) for n in (32, 1)] == [2, 32]


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
    assert us(shape, axis, dtype, config) == pytest.approx(measured, rel=0.12)
