"""Plans by hand: vector widths, who shares an output, when there are two passes; and what is refused."""

from __future__ import annotations

import math

import pytest

from layoutalg.errors import NotInjectiveError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels.rowwise import ReduceConfig, axes_problem, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.problems import normalise
from layoutalg.kernels.rowwise.reduce_model import Rates
from layoutalg.kernels.rowwise.reduce_plan import Pass, configs, refusals
from tests.sweeps import each


def first(shape: tuple[int, ...], axes: int | tuple[int, ...], dtype: str = "f32") -> Pass:
    return plans(reduce_problem(shape, axes, "sum", dtype))[0].passes[0]


@each(
    ("shape", "axes", "dtype", "vec"),
    [
        ((8192, 8192), 1, "f32", 4),
        ((8192, 8192), 0, "bf16", 8),
        ((8191, 8193), 1, "f16", 8),
        ((8191, 8193), 0, "f16", 8),
        ((8191, 13), 0, "f16", 1),
        ((8192, 8196), 0, "f16", 4),
        ((1000, 3), 1, "f32", 1),
        ((1000, 33), 1, "f32", 1),
        ((1000, 20), 1, "f32", 4),
    ],
)
def test_the_width_of_loads(shape: tuple[int, int], axes: int, dtype: str, vec: int) -> None:
    """Of those from global memory: runs that are copied have another."""
    found = (plan.passes[0].config for plan in plans(reduce_problem(shape, axes, "sum", dtype)))
    assert next(c for c in found if not c.packed).vec == vec


def test_long_sums_of_few_outputs_take_two_passes() -> None:
    for shape, axes in (((1 << 26,), 0), ((65536, 1024), 0), ((4, 1 << 22), 1)):
        plan = plans(reduce_problem(shape, axes, "sum", "f32"))[0]
        outputs = math.prod(shape) // math.prod(shape[k] for k in (axes,))
        assert len(plan.passes) == 2
        assert plan.workspace_elems == plan.passes[0].config.splits * outputs
        assert plan.passes[1].form.count == plan.passes[0].config.splits
    for shape, axes in (((8192, 8192), 1), ((256, 256), 1), ((65536, 1024), 1)):
        assert len(plans(reduce_problem(shape, axes, "sum", "f32"))[0].passes) == 1


def test_the_second_pass_carries_operation_factor_and_type() -> None:
    p = reduce_problem((4, 1 << 12), 1, "mean", "f16")
    one, two = plan_with(p, ReduceConfig(8, 32, 1, 1, 2, splits=3)).passes
    assert (one.op, one.result.name, one.factor) == ("sum", "f32", 1.0)
    assert (two.op, two.element.name, two.result.name, two.factor) == ("mean", "f32", "f16", 2.0**-12)


def test_what_broadcasts_is_a_factor() -> None:
    def factor(op: str) -> float:
        p = reduce_problem((8, 5, 16), (0, 2), op, "f32", src=(0, 16, 1))
        assert str(plans(p)[0].passes[0].form) == "R 16:1, K 5:16->1"
        return plans(p)[0].passes[0].factor

    assert (factor("sum"), factor("mean"), factor("max")) == (8.0, 1 / 16, 1.0)


def test_sums_round_rarely() -> None:
    """The bound of an output of n elements is far from n u."""
    for shape, axes in (
        ((8192, 8192), 1),
        ((8192, 8192), 0),
        ((1 << 26,), 0),
        ((64, 256, 56, 56), (0, 2, 3)),
    ):
        assert plans(reduce_problem(shape, axes, "sum", "f32"))[0].additions <= 300
    assert plans(reduce_problem((8192, 8192), 1, "max", "f32"))[0].additions == 0


def test_blocks_fit_the_hardware() -> None:
    for shape in ((7, 3), (1000, 3), (3, 1000), (1, 1), (64, 33, 5), (100_000, 2), (2, 100_000)):
        for axes in (0, 1):
            for element in ("f32", "f16"):
                p = reduce_problem(shape, axes, "sum", element)
                for c in configs(normalise(p.axes), p.axes.dtype, Rates()):
                    assert c.threads % 32 == 0 and 32 <= c.threads <= 1024
                    assert all(n & (n - 1) == 0 for n in (c.lanes_per_row, c.groups_per_row))
                    assert c.lanes_per_row <= 32


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


def test_what_cannot_be_reduced_is_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="reduction"):
        reduce_problem((2, 3), 0, "product", "f32")
    with pytest.raises(UnsupportedError, match="u8"):
        reduce_problem((2, 3), 0, "mean", "u8")
    with pytest.raises(UnsupportedError, match="bf16"):
        reduce_problem((2, 3), 0, "sum", "f16", result="bf16")
    with pytest.raises(ShapeError, match="axis 2"):
        reduce_problem((2, 3), 2, "sum", "f32")
    with pytest.raises(NotInjectiveError):
        reduce_problem((2, 3), 1, "sum", "f32", dst=(0, 0))


def test_sums_of_nothing() -> None:
    assert reduce_problem((4, 0), 1, "sum", "f16").of_nothing == 0.0
    assert math.isnan(reduce_problem((4, 0), 1, "mean", "f16").of_nothing or 0.0)
    assert reduce_problem((4, 3), 1, "mean", "f16").of_nothing is None
    assert reduce_problem((0, 3), 1, "max", "f16").empty
    with pytest.raises(ShapeError, match="no elements"):
        reduce_problem((4, 0), 1, "max", "f16")
    with pytest.raises(ShapeError, match="nothing to launch"):
        plans(reduce_problem((4, 0), 1, "sum", "f16"))
    assert axes_problem((4, 0), 1, "f16").source_elems == 1
