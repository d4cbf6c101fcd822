"""Kernels of sm_75 on the GPU that is there."""

from __future__ import annotations

from tests.gpu.tools import needs_gpu
from tests.gpu.turing import check

pytestmark = needs_gpu


def test_the_ptx_of_sm_75_gives_the_definition() -> None:
    assert check() >= 12
