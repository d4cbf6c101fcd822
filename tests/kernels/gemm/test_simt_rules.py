"""What the SIMT GEMM refuses before compiling, and what it offers instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen.program.checks import check
from layoutalg.errors import (
    AlignmentError,
    DivisibilityError,
    LayoutAlgError,
    ResourceError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.programs.simt import build
from layoutalg.kernels.gemm.validate import check_config, registers, shared_bytes
from layoutalg.kernels.ladder.steps import SIMT_LADDER as LADDER
from layoutalg.kernels.ladder.steps import SimtStep
from tests.sweeps import each

GOOD = SimtStep(128, 256, 8, 16, 8, 4)
ROW_MAJOR = gemm_problem(1024, 1024, 1024, "f32", b_major="mn")

REFUSED: tuple[tuple[dict[str, Any], type[LayoutAlgError], str], ...] = (
    (
        {"tile_m": 100},
        DivisibilityError,
        "tile_m = 100 is not a multiple of 64, 4 lanes of 16; the nearest is 128",
    ),
    ({"thread_m": 6}, DivisibilityError, "thread_m = 6 is not a multiple of 4, run_m; the nearest is 8"),
    ({"lanes_m": 5}, DivisibilityError, "lanes_m = 5 does not divide a warp"),
    ({"tile_k": 7}, DivisibilityError, "tile_k = 7 is not a multiple of 2"),
    ({"result_vec": 8}, DivisibilityError, "run_n = 4 is not a multiple of 8"),
    ({"b_vector": 3}, UnsupportedError, "b_vector = 3 of f32"),
    ({"fragments": 3}, UnsupportedError, "fragments = 3: 1 and 2 and 4 and 8"),
    ({"stages": 1}, UnsupportedError, "take stages = 2"),
    ({"via": "registers", "turn": "global"}, UnsupportedError, "turn = 'global'"),
    ({"stages": 24}, ResourceError, "18 stages fit"),
    ({"thread_m": 32, "thread_n": 8, "tile_k": 8}, ResourceError, "registers per thread"),
    ({"min_blocks": 2}, ResourceError, "registers per thread"),
    ({"thread_m": 4, "thread_n": 4}, ResourceError, "threads per block"),
)


@each(("change", "error", "message"), REFUSED)
def test_what_cannot_work_is_refused_with_what_would(
    change: dict[str, Any], error: type[LayoutAlgError], message: str
) -> None:
    with pytest.raises(error, match=message):
        check_config(ROW_MAJOR, replace(GOOD, **change))


def test_leading_dimensions_and_extents_must_not_cut_vectors() -> None:
    with pytest.raises(AlignmentError, match="ldb = 1026 cuts vectors of 4 elements; vectors of 2 fit"):
        check_config(gemm_problem(1024, 1024, 1024, "f32", b_major="mn", ldb=1026), GOOD)
    with pytest.raises(AlignmentError, match="n = 1022 cuts vectors of 4 elements; vectors of 2 fit"):
        p = gemm_problem(1024, 1022, 1024, "f32", b_major="mn", ldb=1024, ldd=1024)
        check_config(p, replace(GOOD, edges=True))
    with pytest.raises(ShapeError, match="m = 1000 is not a multiple of the tile's 128: take edges=True"):
        check_config(gemm_problem(1000, 1024, 1024, "f32", b_major="mn"), GOOD)


def test_types_and_architectures() -> None:
    with pytest.raises(UnsupportedError, match="f32 and f64"):
        check_config(gemm_problem(128, 256, 64, "f16"), GOOD)
    with pytest.raises(UnsupportedError, match=r"cp\.async needs sm_80"):
        check_config(ROW_MAJOR, GOOD, "sm_75")


@each("name", LADDER)
def test_the_ladder_passes_and_its_shared_memory_is_what_is_declared(name: str) -> None:
    c = LADDER[name]
    check_config(ROW_MAJOR, c)
    kernel = build(ROW_MAJOR, c)
    check(kernel)
    assert kernel.shared_bytes == (0 if c.via == "global" else shared_bytes(ROW_MAJOR, c))
    held = sum(_words(reg.shape) for reg in kernel.regs if reg.name != "other")
    assert held <= registers(ROW_MAJOR, c)


def _words(shape: tuple[int, ...]) -> int:
    total = 1
    for n in shape:
        total *= n
    return total


def test_build_refuses_what_the_rules_refuse() -> None:
    with pytest.raises(DivisibilityError, match="lanes_m = 5"):
        build(ROW_MAJOR, replace(GOOD, lanes_m=5))
