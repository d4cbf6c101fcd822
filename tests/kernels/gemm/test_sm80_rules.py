"""Every rule a configuration can break is named, with what would do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

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
from layoutalg.kernels.gemm.programs.sm80 import build
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
    (  # the stage of the results, which lies over the ring, is as large: fewer stages take no less
        {"tile_m": 256, "tile_n": 256, "tile_k": 64, "warps_m": 16, "warps_n": 1, "stages": 4},
        {},
        ResourceError,
        "262144 asked, the limit is 232448; take a smaller tile",
    ),
    (
        {"tile_m": 512, "tile_k": 64, "stages": 4, "edges": True},
        {},
        ResourceError,
        "shared memory.*; 2 stages fit",
    ),
    (
        {"tile_m": 512, "tile_n": 512, "tile_k": 64, "edges": True},
        {},
        ResourceError,
        "shared memory.*; take a smaller tile",
    ),
    ({"tile_m": 256, "tile_n": 256, "stages": 2}, {}, ResourceError, "registers per thread.*more warps"),
    ({"min_blocks": 4}, {}, ResourceError, "registers per thread"),
    ({"warps_m": 8, "warps_n": 8, "tile_k": 64}, {}, ResourceError, "threads per block: 2048"),
    ({}, {"m": 100}, ShapeError, "m = 100 is not a multiple of the tile's 128: take edges=True"),
    ({}, {"lda": 260}, AlignmentError, "lda = 260 cuts vectors of 8 elements; vectors of 4 fit"),
    ({"edges": True}, {"k": 252}, AlignmentError, "252 cuts vectors of 8 elements; vectors of 4 fit"),
    ({"edges": True}, {"n": 250}, AlignmentError, "250 cuts vectors of 8 elements; vectors of 2 fit"),
    ({"result_vec": 8}, {"dtype": "tf32"}, UnsupportedError, "16 bytes per lane are the most"),
    ({}, {"dtype": "f32"}, UnsupportedError, "no mma.sync multiplies f32 into f32"),
    ({}, {"dtype": "s8", "a_major": "mn"}, UnsupportedError, "ldmatrix.trans turns 16-bit elements"),
    ({"mma_m": 8}, {}, UnsupportedError, "mma_m = 8 of f16: 16 is accepted"),
    ({"mma_m": 8, "mma_k": 8}, {"dtype": "f64"}, UnsupportedError, "mma_k = 8 of f64: 4 are accepted"),
    (
        {"mma_k": 16, "tile_k": 16},
        {"dtype": "f64"},
        UnsupportedError,
        "two steps of 128 bytes; take tile_k = 32",
    ),
    ({"mma_k": 4, "result_vec": 2}, {"dtype": "f64"}, ResourceError, "registers per thread"),
    ({}, {"dtype": "s4"}, ResourceError, "calls a function.*take warps of 32 x 32"),
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


@each(
    ("dtype", "mma_m", "first"),
    [
        ("s8", 8, 75), ("s8", 16, 80), ("s4", 8, 75), ("s4", 16, 80), ("b1", 16, 80),
        ("f64", 8, 80), ("f64", 16, 90),
    ],
)  # fmt: skip
def test_an_mma_is_refused_where_no_tensor_core_has_it(dtype: str, mma_m: Literal[16, 8], first: int) -> None:
    p = gemm_problem(256, 256, 1024, dtype)
    size = p.operand.nbytes
    c = Sm80Step(
        64, 64, 64 // size, 2, 2, 2, via="registers", mma_m=mma_m, mma_k=4 if dtype == "f64" else 0,
        edges=True, result_vec=2,
    )  # fmt: skip
    check_config(p, c, f"sm_{first}")
    with pytest.raises(UnsupportedError, match=f"needs sm_{first}; sm_.. does not have it"):
        check_config(p, c, {75: "sm_70", 80: "sm_75", 90: "sm_80"}[first])


@each(
    ("options", "error", "text"),
    [
        ({"dtype": "s4", "k": 33}, ShapeError,
         "k = 33 of s4: rows are whole bytes, multiples of 2"),
        ({"dtype": "u4", "k": 32, "ldb": 35}, ShapeError, "ldb = 35 of u4"),
        ({"dtype": "b1", "k": 100}, ShapeError,
         "k = 100 of b1: rows are whole bytes, multiples of 8"),
        ({"dtype": "s4", "k": 32, "a_major": "mn"}, UnsupportedError,
         "2 elements of s4 share a byte along k"),
        ({"dtype": "b1", "k": 32, "arithmetic": "or"}, UnsupportedError,
         "'or': 'and' and 'xor' are accepted"),
        ({"dtype": "s8", "k": 32, "arithmetic": "xor"}, UnsupportedError,
         "of s8: bits alone have a choice"),
    ],
    ids=lambda x: str(x)[:40],
)  # fmt: skip
def test_what_cuts_bytes_is_named(options: dict[str, Any], error: type[LayoutAlgError], text: str) -> None:
    with pytest.raises(error, match=text):
        gemm_problem(64, 64, **options)


def test_a_good_configuration_is_accepted() -> None:
    check_config(gemm_problem(256, 256, 256), GOOD)
