"""The documented programs for Hopper, rings of any length and the right programs of clusters, launched.

python3 -m pytest tests/gpu/test_async.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.gpu import to_device, to_host
from tests.codegen.language.test_hopper_show import SIZES, documented, given_for
from tests.gpu.tools import needs_hopper
from tests.tiles import one_block
from tests.tiles.clusters import RIGHT

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
