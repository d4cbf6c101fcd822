"""The model of a launch: measured times, and what makes a configuration slow."""

from __future__ import annotations

import pytest

from layoutalg.kernels.rowwise import ReduceConfig, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.reduce_model import Rates, pass_us, resident
from layoutalg.kernels.rowwise.reduce_plan import Pass
from tests.sweeps import each

RATES = Rates()


def us(shape: tuple[int, ...], axis: int, dtype: str, config: ReduceConfig) -> float:
    return plan_with(reduce_problem(shape, axis, "sum", dtype), config).predicted_us


def test_large_sums_take_as_long_as_their_bytes() -> None:
    best = plans(reduce_problem((8192, 8192), 1, "sum", "f32"))[0]
    assert best.predicted_us == pytest.approx(8192 * 8192 * 4 / RATES.memory, rel=0.1)


def test_a_block_alone_waits() -> None:
    p = reduce_problem((1 << 22,), 0, "sum", "f32")
    alone: Pass = plan_with(p, ReduceConfig(4, 32, 1, 32, 8)).passes[0]
    assert pass_us(alone, RATES) > 32 * RATES.latency_us > 3 * (1 << 24) / RATES.memory


def test_a_warp_a_row_issues_too_much_where_rows_are_short() -> None:
    wide, narrow = (ReduceConfig(1, fast, 256 // fast, 1, 33 // fast + 1, 2) for fast in (32, 4))
    assert us((1 << 21, 33), 1, "f32", narrow) < us((1 << 21, 33), 1, "f32", wide)


def test_a_thread_a_row_looks_up_too_many_lines_where_rows_are_long() -> None:
    wide, narrow = ReduceConfig(8, 16, 16, 1, 1, 4), ReduceConfig(8, 1, 256, 1, 4)
    assert us((1 << 20, 128), 1, "f16", wide) < us((1 << 20, 128), 1, "f16", narrow)


def test_blocks_of_an_sm() -> None:
    assert resident(ReduceConfig(4, 32, 1, 32, 8), RATES) == 2
    assert resident(ReduceConfig(4, 32, 1, 1, 8), RATES) == 32


# microseconds of the first pass on an H200
MEASURED: tuple[tuple[tuple[int, ...], int, str, ReduceConfig, float], ...] = (
    ((8192, 8192), 1, "f32", ReduceConfig(4, 32, 1, 8, 4), 64.0),
    ((8192, 8192), 0, "f32", ReduceConfig(4, 1, 8, 128, 8), 65.6),
    ((8192, 8192), 0, "f32", ReduceConfig(4, 1, 32, 8, 8), 138.5),
    ((8192, 8192), 0, "f16", ReduceConfig(8, 1, 8, 64, 8), 36.9),
    ((65536, 1024), 1, "f16", ReduceConfig(8, 32, 8, 1, 4, 2), 34.2),
    ((1024, 65536), 0, "f16", ReduceConfig(8, 1, 64, 4, 8), 45.7),
    ((8191, 8193), 1, "f32", ReduceConfig(4, 32, 1, 8, 4), 63.5),
    ((8191, 8193), 0, "f16", ReduceConfig(1, 1, 64, 16, 16), 40.0),
)


@each(("shape", "axis", "dtype", "config", "measured"), MEASURED)
def test_the_model_knows_measured_times(
    shape: tuple[int, ...], axis: int, dtype: str, config: ReduceConfig, measured: float
) -> None:
    plan = plan_with(reduce_problem(shape, axis, "sum", dtype), config)
    assert plan.predicted_us == pytest.approx(measured, rel=0.12)
