"""Every rule a configuration can break is named, with what would do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.errors import (
    AlignmentError,
    DivisibilityError,
    LayoutAlgError,
    ResourceError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.sm80 import build
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.ladder.steps import Sm80Step
from tests.sweeps import each

GOOD = Sm80Step(128, 128, 32, 2, 2, 3)
BROKEN: list[tuple[dict[str, Any], dict[str, Any], type[LayoutAlgError], str]] = [
    ({"tile_m": 120}, {}, DivisibilityError, "tile_m = 120 is not a multiple of 32.*nearest is 128"),
    ({"tile_k": 8}, {}, DivisibilityError, "tile_k = 8 is not a multiple of 16.*nearest is 16"),
    ({"tile_n": 96}, {}, DivisibilityError, "tile_n = 96 is not a power of two.*nearest is 64"),
    ({"mma_k": 32}, {}, UnsupportedError, "mma_k = 32 of f16: 8 and 16"),
    ({"fragments": 3}, {}, UnsupportedError, "fragments = 3: 1 and 2 and 4 and 8"),
    ({"fragments": 8}, {}, DivisibilityError, "a step of 32 bytes for each set of fragments"),
    ({"stages": 1}, {}, UnsupportedError, "take stages = 2"),
    ({"via": "registers"}, {}, ResourceError, "stages through registers: 3"),
    ({"via": "registers", "stages": 2, "ahead": False}, {}, UnsupportedError, "stages=1 or ahead=True"),
    ({"a_bytes": 2}, {}, UnsupportedError, "a_bytes = 2 by cp.async: 4, 8, 16"),
    ({"b_bytes": 12}, {}, UnsupportedError, "b_bytes = 12"),
    ({"result_vec": 3}, {}, DivisibilityError, "result_vec = 3"),
    ({"epilogue": "direct"}, {}, UnsupportedError, "accumulators come in pairs"),
    ({"stages": 16}, {}, ResourceError, "shared memory.*14 stages fit"),
    ({"tile_m": 256, "tile_n": 256, "stages": 2}, {}, ResourceError, "registers per thread.*more warps"),
    ({"min_blocks": 4}, {}, ResourceError, "registers per thread"),
    ({"warps_m": 8, "warps_n": 8, "tile_k": 64}, {}, ResourceError, "threads per block: 2048"),
    ({}, {"m": 100}, ShapeError, "m = 100 is not a multiple of the tile's 128: take edges=True"),
    ({}, {"lda": 260}, AlignmentError, "lda = 260 cuts vectors of 8 elements; vectors of 4 fit"),
    ({"edges": True}, {"k": 252}, AlignmentError, "252 cuts vectors of 8 elements; vectors of 4 fit"),
    ({"edges": True}, {"n": 250}, AlignmentError, "250 cuts vectors of 8 elements; vectors of 2 fit"),
    ({"result_vec": 8}, {"dtype": "tf32"}, UnsupportedError, "16 bytes per lane are the most"),
    ({}, {"dtype": "f64"}, UnsupportedError, "no mma.sync multiplies f64 into f64"),
    ({}, {"dtype": "s8", "a_major": "mn"}, UnsupportedError, "ldmatrix.trans turns 16-bit elements"),
]


@each(("config", "problem", "error", "text"), BROKEN, ids=lambda x: str(x)[:40])
def test_a_broken_rule_is_named(
    config: dict[str, Any], problem: dict[str, Any], error: type[LayoutAlgError], text: str
) -> None:
    p = gemm_problem(**{"m": 256, "n": 256, "k": 256, **problem})
    with pytest.raises(error, match=text):
        build(p, replace(GOOD, **config))


def test_an_architecture_without_the_instructions_is_refused() -> None:
    p = gemm_problem(256, 256, 256)
    with pytest.raises(UnsupportedError, match="sm_80"):
        check_config(p, GOOD, "sm_75")
    turing = replace(GOOD, via="registers", stages=2, mma_k=8, fragments=1)
    check_config(p, turing, "sm_75")
    with pytest.raises(UnsupportedError, match="sm_75"):
        check_config(p, turing, "sm_70")


def test_a_good_configuration_is_accepted() -> None:
    check_config(gemm_problem(256, 256, 256), GOOD)
