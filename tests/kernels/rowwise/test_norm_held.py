"""Norms over columns that one block holds: all slabs that fit, simulated, and how they are ranked."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from layoutalg.arch import find_arch
from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.columns import HeldColumns, held_columns, held_us
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import Hold
from tests.norms import check, data, launch_all
from tests.sweeps import each

VEC = {"f32": 4, "f16": 8, "bf16": 8}
H200 = find_arch("sm_90a")


def run(p: NormProblem, c: NormConfig, seed: int) -> None:
    """Simulate what is printed of a configuration and compare it with the definition."""
    d = data(p, seed)

    def launch(kernel: Kernel, args: dict[str, Any]) -> None:
        simulate(printed(kernel), args)

    check(p, d, launch_all(plan(p, "sm_90a", c), d, launch, lambda x: x))


@pytest.mark.deep
@each("op", ["softmax", "layer_norm", "rms_norm"])
def test_slabs_of_each_kind(op: str) -> None:
    rng = random.Random(op)
    kinds = set()
    for n in range(8):
        dtype, rows = rng.choice(list(VEC)), rng.randint(2, 90)
        vec = VEC[dtype]
        ways = [s for s in held_columns(rows, 64, vec, 16) if s.threads <= 128]
        if n % 2:
            ways = [s for s in ways if s.by_one] or ways
        s = rng.choice(ways)
        columns = rng.choice([s.side, s.side + 3]) * vec
        hold: Hold = "shared" if s.shared else "registers"
        c = NormConfig(vec, s.side, s.share, hold, 2, resident=2 if s.by_one else 0)
        run(norm_problem(op, (rows, columns), 0, dtype), replace(c, resident=3 * c.resident), n)
        kinds.add((s.shared, s.by_one))
    assert len(kinds) >= 3


def test_what_fits_has_room() -> None:
    for rows in (2, 19, 174, 900):
        for s in held_columns(rows, 1 << 20, 8, 16):
            assert s.rounds * s.share >= rows and s.threads in (64, 128, 256, 512)
            c = configs(norm_problem("softmax", (rows, 1 << 18), 0, "bf16"))
            assert s.shared or s.rounds * s.words <= 64
            assert c[0].hold != "global"


def us_of(s: HeldColumns, columns: int, op: str = "softmax", *, apart: bool = False) -> float:
    """Microseconds of slabs of so many columns of 100 rows."""
    return held_us(s, -(-columns // s.side // s.vec), 200 * columns, H200, op, apart=apart)


def test_the_model_is_of_work() -> None:
    for s in held_columns(100, 1 << 20, 8, 16):
        assert us_of(s, 1 << 20) <= us_of(s, 1 << 21)
        assert us_of(s, 1 << 20, op="rms_norm") <= us_of(s, 1 << 20)
        assert us_of(s, 1 << 20) <= us_of(s, 1 << 20, apart=True)


def test_few_threads_with_many_rows_hold_short_columns() -> None:
    for rows, columns in ((174, 302848), (274, 592608), (18, 3169936)):
        c = configs(norm_problem("softmax", (rows, columns), 0, "bf16"))[0]
        assert c.cluster == 1 and c.width == 0 and rows / c.threads_per_row >= 8
        assert c.rows_per_block * c.vec * 2 >= 128
