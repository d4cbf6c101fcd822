"""The documented programs for Hopper, rings, right programs of clusters, products by wgmma: launched.

python3 -m pytest tests/gpu/test_async.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.arch import Major
from layoutalg.codegen.gpu import to_device, to_host
from tests.codegen.language.test_hopper_show import SIZES, documented, given_for
from tests.gpu.tools import needs_hopper
from tests.tiles import one_block, warpgroups
from tests.tiles.clusters import RIGHT
from tests.tiles.warpgroups import RINGS, Case, expected

pytestmark = needs_hopper

TIMES = 20
"""Launches of one program: what depends on timing shows in one of many."""


def launched(kernel: Any, args: Mapping[str, Any]) -> Any:
    """The last array after one launch."""
    on_gpu = {name: to_device(x) if isinstance(x, np.ndarray) else x for name, x in args.items()}
    cg.launch(kernel, on_gpu)
    return to_host(on_gpu[list(args)[-1]])


@pytest.fixture(scope="module")
def programs() -> dict[str, tuple[Any, str]]:
    return documented()


@pytest.mark.parametrize("name", SIZES)
def test_documented(programs: dict[str, tuple[Any, str]], name: str) -> None:
    for _ in range(TIMES):
        args, wanted = given_for(name)
        assert np.array_equal(launched(programs[name][0], args), wanted)


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("tiles", [1, 2, 7, 64])
def test_ring_of_any_length(stages: int, tiles: int) -> None:
    program = one_block.ring(stages=stages, tiles=tiles)
    assert np.array_equal(
        launched(program.kernel, {**program.given, "y": np.zeros((16, 32), "f4")}), program.y
    )


@pytest.mark.parametrize(("m", "n"), [(1, 8), (64, 64), (65, 8), (1000, 1000), (4096, 4096)])
def test_copy_of_any_size(programs: dict[str, tuple[Any, str]], m: int, n: int) -> None:
    src = np.random.default_rng(5).standard_normal((m, n)).astype("f2")
    args = {"m": m, "n": n, "src": src, "dst": np.full_like(src, np.nan)}
    assert np.array_equal(launched(programs["tma_copy"][0], args), src)


@pytest.mark.parametrize("name", list(RIGHT))
def test_a_right_program_is_right_on_the_gpu(name: str) -> None:
    program = RIGHT[name]()
    for _ in range(10):
        out = {program.out: np.full(program.y.shape, np.nan, "f4")}
        others = {key: x for key, x in program.given.items() if key != program.out}
        assert np.array_equal(launched(program.kernel, others | out), program.y)


# --- products ----------------------------------------------------------------------------------------------

EVERY = list(dict.fromkeys([*warpgroups.cases(), *warpgroups.all_pairs()]))


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_a_product_is_right(case: Case) -> None:
    a, b = warpgroups.operands(case)
    d = to_device(warpgroups.result(case))
    cg.launch(warpgroups.one_block(case), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("sizes", [(256, 128, 64), (512, 384, 448), (2048, 1024, 1024)], ids=str)
def test_a_ring_of_boxes_is_right(name: str, sizes: tuple[int, int, int]) -> None:
    m, n, depth = sizes
    a, b = warpgroups.ring_operands(m, n, depth)
    d = to_device(np.zeros((m, n), np.float32))
    given: dict[str, Any] = {"a": to_device(a.stored), "b": to_device(b.stored), "d": d}
    kernel = RINGS[name]()
    for _ in range(3):
        cg.launch(kernel, {**given, "m": m, "n": n, "k": depth})
        assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("columns", [64, 128])
def test_an_epilogue_by_stmatrix_and_tma_is_right(columns: int) -> None:
    a, b = warpgroups.operands(Case("f16", "f16", "f32", n=columns))
    d = to_device(np.zeros((64, columns), np.float16))
    cg.launch(warpgroups.epilogue(columns), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()


@pytest.mark.parametrize("major", ["K", "MN"])
def test_several_instructions_along_every_mode_are_right(major: Major) -> None:
    a, b = (warpgroups.numbers("f16", (128, 128), n, turned=n == 1 and major == "MN") for n in (1, 2))
    d = to_device(np.zeros((128, 128), np.float32))
    cg.launch(warpgroups.wide(major), {"a": to_device(a.stored), "b": to_device(b.stored), "d": d})
    assert (to_host(d) == expected(a, b)).all()
