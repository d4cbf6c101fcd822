"""The plan of a norm: what is held where, and that every configuration can be launched."""

from __future__ import annotations

import random

import pytest

from layoutalg.codegen.costs import traffic
from layoutalg.codegen.program.checks import check
from layoutalg.kernels.rowwise import NormConfig, norm_problem
from layoutalg.kernels.rowwise.columns import MOST_WORDS
from layoutalg.kernels.rowwise.norm_plan import HELD_WORDS, SHARED_BYTES, configs, form_of
from layoutalg.kernels.rowwise.packed import PackedWalk
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import Schedule, walk_of
from layoutalg.kernels.rowwise.walk import touched_share
from tests.norms import random_problem
from tests.sweeps import each


@each("seed", range(40), sample=18)
def test_every_configuration_fits(seed: int) -> None:
    p = random_problem(random.Random(seed), 10**7)
    found = configs(p)
    assert found and len(set(found)) == len(found)
    for c in found:
        walk = walk_of(form_of(p), p.dtype, c)
        schedule, tiling = Schedule(walk, c), walk.tiling
        assert c.threads % 32 == 0 and c.threads <= 1024
        assert all(n & (n - 1) == 0 for n in (c.threads_per_row, c.rows_per_block))
        most = HELD_WORDS if walk.rows else MOST_WORDS
        assert c.hold == "global" or (schedule.rounds - schedule.staged) * tiling.words <= most
        assert schedule.staged * c.threads * tiling.nbytes <= SHARED_BYTES
        assert c.splits == 1 or c.hold == "global"
    for kernel in plan(p).kernels:
        check(kernel)


@each(
    ("shape", "axis", "dtype", "hold"),
    [
        ((65536, 1024), 1, "f32", "registers"),
        ((8192, 8192), 1, "bf16", "registers"),
        ((64, 256, 56, 56), 1, "f32", "shared"),
        ((32, 1024, 1024), 1, "f32", "shared"),
        ((4096, 50257), 1, "f16", "shared"),
        ((8192, 8192), 0, "f32", "shared"),
        ((65536, 1024), 0, "f32", "global"),
        ((1, 1 << 24), 1, "f32", "global"),
    ],
)
def test_what_fits_stays(shape: tuple[int, ...], axis: int, dtype: str, hold: str) -> None:
    assert configs(norm_problem("softmax", shape, axis, dtype))[0].hold == hold


@pytest.mark.parametrize(("rows", "length"), [(1, 1 << 24), (1, 1 << 20), (2, 3_000_001), (7, 1 << 21)])
def test_few_long_rows_are_split(rows: int, length: int) -> None:
    """Whatever their length, among blocks that have no less than 16 kB each."""
    p = norm_problem("softmax", (rows, length), 1, "f32")
    c = next(c for c in configs(p) if c.splits > 1 and not c.together)
    w = walk_of(form_of(p), p.dtype, c)
    splits = min(264 // rows, length * 4 >> 14)
    assert abs(c.splits - splits) <= 1 and w.blocks == rows * c.splits


@pytest.mark.parametrize(
    ("rows", "width", "dtype"),
    [
        (1 << 20, 2, "f16"),
        (1 << 16, 16, "f32"),
        (100_000, 7, "f16"),
        (100_000, 7, "f32"),
        (1 << 20, 33, "bf16"),
    ],
)
def test_few_columns_are_split(rows: int, width: int, dtype: str) -> None:
    """A tensor of a megabyte or more keeps half of the multiprocessors busy, or has parts of 16 kB."""
    p = norm_problem("softmax", (rows, width), 0, dtype)
    c = configs(p)[0]
    w = walk_of(form_of(p), p.dtype, c)
    assert w.blocks >= min(66, rows * width * p.dtype.nbytes >> 14)
    assert c.threads >= 128


def test_turing_copies_nothing_asynchronously() -> None:
    p = norm_problem("softmax", (4, 60000), 1, "f32")
    assert all(c.hold != "shared" for c in configs(p, "sm_75"))


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "packed"),
    [
        ((171, 10, 2, 454, 19, 3), (2, 4), "f32", True),  # pieces of 12 bytes, runs 2 past a unit
        ((60, 100, 3, 333, 7, 5), (2, 4), "bf16", True),  # pieces of 10 bytes, runs 3 past a unit
        ((20, 2, 99, 9001, 3), (1, 3), "f32", False),  # slabs of 108 KB: no tile holds them
        ((2, 2, 54, 19, 3), (1, 3), "f32", False),  # as fast as a launch
    ],
)
def test_runs_that_start_at_different_places_of_a_unit_come_first_where_they_gain_a_quarter(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, packed: bool
) -> None:
    p = norm_problem("layer_norm", shape, axes, dtype)
    first = configs(p)[0]
    assert (first.turns > 0) == packed
    if packed:
        walk = walk_of(form_of(p), p.dtype, first)
        assert isinstance(walk, PackedWalk)
        assert walk.shifted
        assert walk.unit * p.dtype.nbytes == 16


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "config"),
    [
        ((20, 2, 454, 19, 3), (1, 3), "f32", NormConfig(1, 256, 1, "registers")),
        ((20, 2, 454, 19, 3), (1, 3), "bf16", NormConfig(1, 128, 2, "registers")),
        ((900, 1000), (1,), "f32", NormConfig(4, 2, 32, "registers")),
        ((64, 4099), (0,), "f16", NormConfig(1, 64, 4, "registers")),
    ],
)
def test_touched_sectors_are_those_of_the_program(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, config: NormConfig
) -> None:
    """Of a few warps against all of them: within a twentieth."""
    p = norm_problem("layer_norm", shape, axes, dtype)
    (kernel,) = plan(p, config=config).kernels
    sectors = sum(cost.total for name, cost in traffic(kernel, {}).items() if name.startswith("ld.global"))
    whole = sectors * 32 / (p.axes.read_elems * p.dtype.nbytes)
    assert touched_share(walk_of(form_of(p), p.dtype, config)) == pytest.approx(whole, rel=0.05)
