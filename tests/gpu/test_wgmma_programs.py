"""The programs of tests/tiles/warpgroups.py on a Hopper GPU: results equal NumPy's, element by element.

python -m pytest tests/gpu/test_wgmma_programs.py -n 0 -q
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.arch import Major
from layoutalg.codegen.gpu import gpu_status, to_device, to_host
from tests.tiles.warpgroups import (
    RINGS,
    Case,
    all_pairs,
    cases,
    epilogue,
    expected,
    numbers,
    one_block,
    operands,
    result,
    ring_operands,
    wide,
)

STATUS = gpu_status()
pytestmark = pytest.mark.skipif(
    not STATUS.arch.startswith("sm_90"), reason=f"needs a Hopper GPU: {STATUS.reason or STATUS.name}"
)
EVERY = list(dict.fromkeys([*cases(), *all_pairs()]))


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_product_is_right(case: Case) -> None:
    a, b = operands(case)
    d = to_device(result(case))
    cg.launch(one_block(case), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("sizes", [(256, 128, 64), (512, 384, 448), (2048, 1024, 1024)], ids=str)
def test_a_ring_of_boxes_is_right(name: str, sizes: tuple[int, int, int]) -> None:
    m, n, depth = sizes
    a, b = ring_operands(m, n, depth)
    d = to_device(np.zeros((m, n), np.float32))
    given: dict[str, Any] = {"a": to_device(a.stored), "b": to_device(b.stored), "d": d}
    kernel = RINGS[name]()
    for _ in range(3):
        cg.launch(kernel, {**given, "m": m, "n": n, "k": depth})
        assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("columns", [64, 128])
def test_an_epilogue_by_stmatrix_and_tma_is_right(columns: int) -> None:
    a, b = operands(Case("f16", "f16", "f32", n=columns))
    d = to_device(np.zeros((64, columns), np.float16))
    cg.launch(epilogue(columns), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("major", ["K", "MN"])
def test_several_instructions_along_every_mode_are_right(major: Major) -> None:
    a, b = numbers("f16", (128, 128), 1, turned=major == "MN"), numbers("f16", (128, 128), 2)
    d = to_device(np.zeros((128, 128), np.float32))
    cg.launch(wide(major), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()
