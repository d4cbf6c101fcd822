"""The right programs of asynchronous copies, barriers, roles and clusters, launched on a Hopper GPU.

python3 -m pytest tests/gpu/test_async_right.py
"""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.codegen.gpu import load, to_device, to_host
from tests.gpu.tools import needs_hopper
from tests.tiles.clusters import RIGHT

pytestmark = needs_hopper


@pytest.mark.parametrize("name", list(RIGHT))
def test_a_right_program_is_right_on_the_gpu(name: str) -> None:
    """Ten launches each: what is wrong once in a while would show as other numbers."""
    program = RIGHT[name]()
    kernel = load(program.kernel)
    arrays = {key: to_device(x) if isinstance(x, np.ndarray) else x for key, x in program.given.items()}
    for _ in range(10):
        arrays[program.out] = to_device(np.full(program.y.shape, np.nan, "f4"))
        kernel(**arrays)
        assert np.array_equal(to_host(arrays[program.out]), program.y)
