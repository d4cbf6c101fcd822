"""Every rule that a configuration of gemm-sm80 and gemm-simt can break is named, with what would do."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Literal

import pytest

from layoutalg import errors
from layoutalg.codegen.program.checks import check
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.validate import check_config, registers, shared_bytes
from layoutalg.kernels.ladder.steps import SIMT_LADDER as LADDER
from layoutalg.kernels.ladder.steps import SimtStep, Sm80Step
from tests.sweeps import each

TENSOR, PLAIN = Sm80Step(128, 128, 32, 2, 2, 3), SimtStep(128, 256, 8, 16, 8, 4)
ROW_MAJOR = gemm_problem(1024, 1024, 1024, "f32", b_major="mn")

BROKEN: dict[type[errors.LayoutAlgError], list[tuple[dict[str, Any], dict[str, Any], str]]] = {
    errors.DivisibilityError: [
        ({"tile_m": 120}, {}, "tile_m = 120 is not a multiple of 32.*nearest is 128"),
        ({"tile_k": 8}, {}, "tile_k = 8 is not a multiple of 16.*nearest is 16"),
        ({"tile_n": 96}, {}, "tile_n = 96 is not a power of two.*nearest is 64"),
        ({"fragments": 8}, {}, "a step of 32 bytes for each set of fragments"),
        ({"result_vec": 3}, {}, "result_vec = 3"),
    ],
    errors.UnsupportedError: [
        ({"mma_k": 32}, {}, "mma_k = 32 of f16: 8 and 16"),
        ({"fragments": 3}, {}, "fragments = 3: 1 and 2 and 4 and 8"), ({"stages": 1}, {}, "take stages = 2"),
        ({"via": "registers", "stages": 2, "ahead": False}, {}, "stages=1 or ahead=True"),
        ({"a_bytes": 2}, {}, "a_bytes = 2 by cp.async: 4, 8, 16"), ({"b_bytes": 12}, {}, "b_bytes = 12"),
        ({"epilogue": "direct"}, {}, "accumulators come in pairs"),
        ({"result_vec": 8}, {"dtype": "tf32"}, "16 bytes per lane are the most"),
        ({}, {"dtype": "f32"}, "no mma.sync multiplies f32 into f32"),
        ({}, {"dtype": "s8", "a_major": "mn"}, "ldmatrix.trans turns 16-bit elements"),
        ({"mma_m": 8}, {}, "mma_m = 8 of f16: 16 is accepted"),
        ({"mma_m": 8, "mma_k": 8}, {"dtype": "f64"}, "mma_k = 8 of f64: 4 are accepted"),
        ({"mma_k": 16, "tile_k": 16}, {"dtype": "f64"}, "two steps of 128 bytes; take tile_k = 32"),
    ],
    errors.ResourceError: [
        ({"via": "registers"}, {}, "stages through registers: 3"), ({"stages": 16}, {}, "14 stages fit"),
        # the stage of the results, which lies over the ring, is as large: fewer stages take no less
        ({"tile_m": 256, "tile_n": 256, "tile_k": 64, "warps_m": 16, "warps_n": 1, "stages": 4}, {},
         "262144 asked, the limit is 232448; take a smaller tile"),
        ({"tile_m": 512, "tile_k": 64, "stages": 4, "edges": True}, {}, "shared memory.*; 2 stages fit"),
        ({"tile_m": 512, "tile_n": 512, "tile_k": 64, "edges": True}, {},
         "shared memory.*; take a smaller tile"),
        ({"tile_m": 256, "tile_n": 256, "stages": 2}, {}, "registers per thread.*more warps"),
        ({"min_blocks": 4}, {}, "registers per thread"),
        ({"warps_m": 8, "warps_n": 8, "tile_k": 64}, {}, "threads per block: 2048"),
        ({"mma_k": 4, "result_vec": 2}, {"dtype": "f64"}, "registers per thread"),
        ({}, {"dtype": "s4"}, "calls a function.*take warps of 32 x 32"),
    ],
    errors.ShapeError: [({}, {"m": 100}, "m = 100 is not a multiple of the tile's 128: take edges=True")],
    errors.AlignmentError: [
        ({}, {"lda": 260}, "lda = 260 cuts vectors of 8 elements; vectors of 4 fit"),
        ({"edges": True}, {"k": 252}, "252 cuts vectors of 8 elements; vectors of 4 fit"),
        ({"edges": True}, {"n": 250}, "250 cuts vectors of 8 elements; vectors of 2 fit"),
    ],
}  # fmt: skip
OF_SIMT: dict[type[errors.LayoutAlgError], list[tuple[dict[str, Any], dict[str, Any], str]]] = {
    errors.DivisibilityError: [
        ({"tile_m": 100}, {}, "tile_m = 100 is not a multiple of 64, 4 lanes of 16; the nearest is 128"),
        ({"thread_m": 6}, {}, "thread_m = 6 is not a multiple of 4, run_m; the nearest is 8"),
        ({"lanes_m": 5}, {}, "lanes_m = 5 does not divide a warp"),
        ({"tile_k": 7}, {}, "tile_k = 7 is not a multiple of 2"),
        ({"result_vec": 8}, {}, "run_n = 4 is not a multiple of 8"),
    ],
    errors.UnsupportedError: [
        ({"b_vector": 3}, {}, "b_vector = 3 of f32"), ({"stages": 1}, {}, "take stages = 2"),
        ({"fragments": 3}, {}, "fragments = 3: 1 and 2 and 4 and 8"),
        ({"via": "registers", "turn": "global"}, {}, "turn = 'global'"),
        ({}, {"dtype": "f16"}, "f32 and f64"),
    ],
    errors.ResourceError: [
        ({"stages": 24}, {}, "18 stages fit"), ({"min_blocks": 2}, {}, "registers per thread"),
        ({"thread_m": 32, "thread_n": 8, "tile_k": 8}, {}, "registers per thread"),
        ({"thread_m": 4, "thread_n": 4}, {}, "threads per block"),
    ],
    errors.ShapeError: [({}, {"m": 1000}, "m = 1000 is not a multiple of the tile's 128: take edges=True")],
    errors.AlignmentError: [
        ({}, {"ldb": 1026}, "ldb = 1026 cuts vectors of 4 elements; vectors of 2 fit"),
        ({"edges": True}, {"n": 1022, "ldb": 1024, "ldd": 1024},
         "n = 1022 cuts vectors of 4 elements; vectors of 2 fit"),
    ],
}  # fmt: skip


@each(
    ("base", "error", "config", "problem", "text"),
    [(base, error, *row) for base, rules in ((TENSOR, BROKEN), (PLAIN, OF_SIMT))
     for error, rows in rules.items() for row in rows],
    ids=lambda x: str(x)[:40],
)  # fmt: skip
def test_a_broken_rule_is_named(base: Any, error: Any, config: Any, problem: Any, text: str) -> None:
    """By what checks configurations, and by what builds kernels."""
    n = 256 if base is TENSOR else 1024
    usual: dict[str, Any] = {} if base is TENSOR else {"dtype": "f32", "b_major": "mn"}
    p, c = gemm_problem(**{"m": n, "n": n, "k": n, **usual, **problem}), replace(base, **config)
    for refuses in (check_config, launches):
        with pytest.raises(error, match=text):
            refuses(p, c)


def test_an_architecture_without_the_instructions_is_refused() -> None:
    p = gemm_problem(256, 256, 256)
    turing = replace(TENSOR, via="registers", stages=2, mma_k=8, fragments=1)
    for q, c, arch, named in (
        (p, TENSOR, "sm_75", "sm_80"), (p, turing, "sm_70", "sm_75"),
        (ROW_MAJOR, PLAIN, "sm_75", "needs sm_80"),
    ):  # fmt: skip
        with pytest.raises(errors.UnsupportedError, match=named):
            check_config(q, c, arch)
    check_config(p, turing, "sm_75")
    check_config(p, TENSOR)


@each(
    ("dtype", "mma_m", "first"),
    [
        ("s8", 8, 75), ("s8", 16, 80), ("s4", 8, 75), ("s4", 16, 80), ("b1", 16, 80),
        ("f64", 8, 80), ("f64", 16, 90),
    ],
)  # fmt: skip
def test_an_mma_is_refused_where_no_tensor_core_has_it(dtype: str, mma_m: Literal[16, 8], first: int) -> None:
    p = gemm_problem(256, 256, 1024, dtype)
    c = Sm80Step(
        64, 64, 64 // p.operand.nbytes, 2, 2, 2, via="registers", mma_m=mma_m,
        mma_k=4 if dtype == "f64" else 0, edges=True, result_vec=2,
    )  # fmt: skip
    check_config(p, c, f"sm_{first}")
    with pytest.raises(errors.UnsupportedError, match=f"needs sm_{first}; sm_.. does not have it"):
        check_config(p, c, {75: "sm_70", 80: "sm_75", 90: "sm_80"}[first])


@each("name", LADDER)
def test_the_ladder_passes_and_its_shared_memory_is_what_is_declared(name: str) -> None:
    c = LADDER[name]
    (kernel,) = launches(ROW_MAJOR, c).kernels
    check(kernel)
    assert kernel.shared_bytes == (0 if c.via == "global" else shared_bytes(ROW_MAJOR, c))
    held = sum(prod(reg.shape) for reg in kernel.regs if reg.name != "other")
    assert held <= registers(ROW_MAJOR, c)
