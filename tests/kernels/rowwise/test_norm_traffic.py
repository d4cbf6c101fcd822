"""Bytes of memory of norms, and what limits them."""

from __future__ import annotations

from layoutalg.kernels.rowwise import NormConfig, norm_problem
from layoutalg.kernels.rowwise.memory import FOUND_BYTES
from layoutalg.kernels.rowwise.memory import norm_traffic as traffic
from layoutalg.kernels.rowwise.programs.norm import plan


def test_what_is_read_twice_comes_from_memory_twice_or_from_the_cache() -> None:
    p = norm_problem("softmax", (8192, 8192), 0, "f32")
    once = 8192 * 8192 * 4
    assert traffic(plan(p, config=NormConfig(4, 8, 64, "global", 8, 3))).read == 2 * once - FOUND_BYTES
    small = norm_problem("softmax", (8192, 512), 0, "f32")
    assert traffic(plan(small, config=NormConfig(4, 8, 64, "global", 8, 3))).read == once // 16
    held = norm_problem("layer_norm", (8192, 8192), 1, "f32", weight=True)
    assert traffic(plan(held)).read == once + 4 * 8192
