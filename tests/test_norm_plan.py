"""The plan of a norm: what is held where, and that every configuration can be launched."""

from __future__ import annotations

import random

import pytest

from layoutalg.codegen.check import check
from layoutalg.kernels.norm_family import plan
from layoutalg.kernels.norm_modes import norm_problem, shortest
from layoutalg.kernels.norm_plan import HELD_WORDS, SHARED_BYTES, configs
from layoutalg.kernels.norm_vectors import words
from layoutalg.kernels.norm_walk import Walk
from tests.norms import random_problem


@pytest.mark.parametrize("seed", range(40))
def test_every_configuration_fits(seed: int) -> None:
    x = shortest(random_problem(random.Random(seed), 10**7))
    found = configs(x)
    assert found and len(set(found)) == len(found)
    for c in found:
        w = Walk(x, c)
        assert c.threads % 32 == 0 and c.threads <= 1024
        assert c.sharing & (c.sharing - 1) == 0 and c.kept & (c.kept - 1) == 0
        held = w.rounds * words(c.vec, x.element_bytes)
        assert c.hold == "global" or held - w.staged * words(c.vec, x.element_bytes) <= HELD_WORDS
        assert w.staged * c.threads * c.vec * x.element_bytes <= SHARED_BYTES
        assert c.splits == 1 or c.hold == "global"
    for kernel in plan(x.problem).kernels:
        check(kernel)


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "hold"),
    [
        ((65536, 1024), 1, "f32", "registers"),
        ((8192, 8192), 1, "bf16", "registers"),
        ((64, 256, 56, 56), 1, "f32", "registers"),
        ((32, 1024, 1024), 1, "f32", "shared"),
        ((4096, 50257), 1, "f16", "shared"),
        ((8192, 8192), 0, "f32", "global"),
        ((1, 1 << 24), 1, "f32", "global"),
    ],
)
def test_what_fits_stays(shape: tuple[int, ...], axis: int, dtype: str, hold: str) -> None:
    assert configs(shortest(norm_problem("softmax", shape, axis, dtype)))[0].hold == hold


def test_few_long_rows_are_split() -> None:
    x = shortest(norm_problem("softmax", (1, 1 << 24), 1, "f32"))
    w = Walk(x, configs(x)[0])
    assert w.config.splits > 132 and w.rounds * w.config.threads * w.config.vec < x.count // 132


def test_turing_copies_nothing_asynchronously() -> None:
    x = shortest(norm_problem("softmax", (4, 60000), 1, "f32"))
    assert all(c.hold != "shared" for c in configs(x, "sm_75"))
