"""Right programs of copies, barriers, roles and clusters: none is refused, in any schedule; all compile."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.program import printed
from tests.async_clusters import RIGHT
from tests.sweeps import first

SCHEDULES = [("block", 0), ("warp", 0), ("warp", 1), ("warp", 2)]


@pytest.mark.parametrize("name", list(RIGHT))
def test_a_right_program_is_right_in_every_schedule(name: str) -> None:
    program = RIGHT[name]()
    kernel = printed(program.kernel)
    out = "w" if "w" in {p.name for p in kernel.params} else "y"
    for group, seed in SCHEDULES:
        arrays = {key: value.copy() for key, value in program.given.items()}
        arrays[out] = np.full(program.y.shape, np.nan, "f4")
        cg.simulate(kernel, arrays, group=group, seed=seed)
        assert np.array_equal(arrays[out], program.y), (group, seed)


@pytest.mark.parametrize("name", first(8, list(RIGHT)[::4] + list(RIGHT)))
def test_a_right_program_compiles(name: str) -> None:
    assert cg.compile(RIGHT[name]().kernel).spill_bytes == 0
