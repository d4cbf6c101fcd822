"""What threads of a norm exchange, and that each exchange can be missed."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError
from layoutalg.kernels.rowwise import NormConfig, norm_problem
from layoutalg.kernels.rowwise.norm_plan import form_of
from layoutalg.kernels.rowwise.programs.block import RowBlock
from layoutalg.kernels.rowwise.programs.block_reduce import all_reduce, get, powers, put
from layoutalg.kernels.rowwise.schedule import walk_of
from layoutalg.kernels.rowwise.walk import Walk
from tests.mutants import planting
from tests.sweeps import each

CONFIGS = [
    ((4, 512), 1, NormConfig(4, 1, 128, "registers")),
    ((8, 64), 1, NormConfig(4, 4, 16, "registers")),
    ((2, 64), 1, NormConfig(4, 2, 64, "registers")),
    ((64, 32), 0, NormConfig(4, 4, 16, "registers")),
    ((64, 512), 0, NormConfig(4, 64, 4, "registers")),
    ((64, 128), 0, NormConfig(4, 32, 4, "registers")),
    ((64, 128), 0, NormConfig(1, 16, 8, "registers")),
]


def sums(shape: tuple[int, ...], axis: int, c: NormConfig) -> tuple[Walk, Kernel]:
    """dst[thread] = the sum of the numbers of all threads that share its statistics, a word a statistic."""
    p = norm_problem("softmax", shape, axis, "f32")
    body = RowBlock("sums", p, walk_of(form_of(p), p.dtype, c), c, [], writes=True)
    k, n = body.k, body.statistics
    d = body.reg("d", n)
    numbers = k.pointer("numbers", 4)
    get(body, LDG, numbers, k.tid * n, d)
    all_reduce(body, "sum", d)
    put(body, STG, body.dst, k.tid * n, d)
    return body.walk, k.build()


@each(("shape", "axis", "c"), CONFIGS)
@each("group", ["block", "warp"])
def test_all_threads_that_share_get_the_sum(
    shape: tuple[int, ...], axis: int, c: NormConfig, group: str
) -> None:
    walk, kernel = sums(shape, axis, c)
    n = walk.values
    numbers = np.random.default_rng(1).integers(-99, 99, (c.threads, n)).astype(np.float32)
    dst = np.zeros_like(numbers)
    args = {"src": np.zeros(4, np.float32), "numbers": numbers.ravel(), "dst": dst.reshape(-1)}
    simulate(kernel, args, group=group, blocks=[(0, 0, 0)], seed=3)  # type: ignore[arg-type]
    side = np.array([walk.thread(t)[0] for t in range(c.threads)])
    for x in range(c.rows_per_block):
        wanted = numbers[side == x].sum(axis=0)
        np.testing.assert_array_equal(dst[side == x], np.broadcast_to(wanted, dst[side == x].shape))


def test_an_exchange_without_its_barrier_is_a_race() -> None:
    _, kernel = sums(*CONFIGS[0])
    numbers = np.zeros(128, np.float32)
    with pytest.raises(SimulationError):
        simulate(
            planting.without(kernel, "block_sync"),
            {"src": np.zeros(4, np.float32), "numbers": numbers, "dst": numbers.copy()},
            group="warp", seed=1,
        )  # fmt: skip


def test_powers() -> None:
    assert powers(1, 33) == [1, 2, 4, 8, 16, 32] and powers(8, 8) == [] == powers(64, 32)
