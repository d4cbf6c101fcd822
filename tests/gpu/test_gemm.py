"""Matrix products on a GPU.  Run by hand on one: python3 -m pytest tests/gpu"""

from __future__ import annotations

import pytest

from tests.gpu.gemm_launch import CONFIGS, launch_all, small_ways, steps
from tests.gpu.tools import STATUS, needs_gpu, sanitize
from tests.gpu.turing import check

pytestmark = needs_gpu


@pytest.mark.parametrize("name", CONFIGS)
def test_small_integers_are_exact(name: str) -> None:
    ways = list(small_ways(name, STATUS.arch))
    assert any(config.splits > 1 for _, config in ways)
    launch_all(ways)


def test_every_step_of_the_ladder_is_exact() -> None:
    launch_all(list(steps()))


def test_the_ptx_of_sm_75_gives_the_definition() -> None:
    assert check() >= 12


SANITIZED = (
    "gemm_sm80 f16 256 512 256", "gemm_sm80 f16 131 136 72", "gemm_simt f32 256 256 64",
    "gemm_simt f32 131 67 29", "gemm_sm80 f16 131 136 1032 4", "gemm_simt f32 131 67 1029 3",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["memcheck", "racecheck", "synccheck"])
def test_the_sanitizer_finds_nothing(kind: str) -> None:
    sanitize(kind, "tests.gpu.gemm_launch", *" / ".join(SANITIZED).split())
