"""The bench's bookkeeping; its timings need a GPU."""

from __future__ import annotations

import pytest

from layoutalg.codegen.gpu import gpu_status
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.bench import BenchRow, benchmark, set_count


def test_small_problems_rotate_past_the_cache() -> None:
    family = FAMILIES["transpose"]
    for edge in (256, 1024, 4096, 16384):
        p = family.problem(edge, edge, "u8")
        sets = set_count(p, "sm_90")
        assert sets * p.moved_bytes >= 4 * 60e6 or sets == 64
    assert set_count(family.problem(16384, 16384, "f32"), "sm_90") == 1


def test_the_share_is_of_the_copy() -> None:
    assert BenchRow("x", ours=3000.0, copy=4000.0, torch=None, cupy=500.0).share == 0.75


@pytest.mark.skipif(gpu_status().available, reason="this is about a machine without a GPU")
def test_without_a_gpu_the_bench_says_so() -> None:
    family = FAMILIES["transpose"]
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        list(benchmark(family, iter([family.problem(64, 64, "f32")])))
