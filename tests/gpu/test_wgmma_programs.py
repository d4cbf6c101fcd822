"""The programs of tests/tiles/warpgroups.py on a Hopper GPU: results equal NumPy's, element by element.

python -m pytest tests/gpu/test_wgmma_programs.py -n 0 -q
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.arch import Major
from layoutalg.codegen.gpu import to_device, to_host
from tests.gpu.tools import needs_hopper
from tests.tiles import warpgroups as programs
from tests.tiles.warpgroups import RINGS, Case, expected

pytestmark = needs_hopper
EVERY = list(dict.fromkeys([*programs.cases(), *programs.all_pairs()]))


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_product_is_right(case: Case) -> None:
    a, b = programs.operands(case)
    d = to_device(programs.result(case))
    cg.launch(programs.one_block(case), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("sizes", [(256, 128, 64), (512, 384, 448), (2048, 1024, 1024)], ids=str)
def test_a_ring_of_boxes_is_right(name: str, sizes: tuple[int, int, int]) -> None:
    m, n, depth = sizes
    a, b = programs.ring_operands(m, n, depth)
    d = to_device(np.zeros((m, n), np.float32))
    given: dict[str, Any] = {"a": to_device(a.stored), "b": to_device(b.stored), "d": d}
    kernel = RINGS[name]()
    for _ in range(3):
        cg.launch(kernel, {**given, "m": m, "n": n, "k": depth})
        assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("columns", [64, 128])
def test_an_epilogue_by_stmatrix_and_tma_is_right(columns: int) -> None:
    a, b = programs.operands(Case("f16", "f16", "f32", n=columns))
    d = to_device(np.zeros((64, columns), np.float16))
    cg.launch(programs.epilogue(columns), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("major", ["K", "MN"])
def test_several_instructions_along_every_mode_are_right(major: Major) -> None:
    a, b = (programs.numbers("f16", (128, 128), n, turned=n == 1 and major == "MN") for n in (1, 2))
    d = to_device(np.zeros((128, 128), np.float32))
    cg.launch(programs.wide(major), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()
