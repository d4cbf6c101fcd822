"""Kernels of sm_75 on the GPU that is there."""

from __future__ import annotations

import pytest

from layoutalg.codegen.gpu import gpu_status
from tests.gpu.turing import check

STATUS = gpu_status()
pytestmark = pytest.mark.skipif(not STATUS.available, reason=f"needs a GPU: {STATUS.reason}")


def test_the_ptx_of_sm_75_gives_the_definition() -> None:
    assert check() >= 12
