"""Every rule that a problem or a configuration can break is named, with what would do."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Literal

import pytest

from layoutalg import errors
from layoutalg.codegen import gpu
from layoutalg.codegen.program.checks import check
from layoutalg.errors import AlignmentError, DivisibilityError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.gemm import (
    BatchMode,
    GemvConfig,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    gemm_problem,
    grouped,
)
from layoutalg.kernels.gemm.choice import SIMT, SM75, SM80, SM90
from layoutalg.kernels.gemm.groups import MOST_TOGETHER
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import fragment_k
from layoutalg.kernels.gemm.validate import check_config, registers, shared_bytes
from tests.sweeps import each

TENSOR, PLAIN, TMA = (
    Sm80Config(128, 128, 32, 2, 2, 3),
    SimtConfig(128, 256, 8, 16, 8, 4),
    Sm90Config(64, 64, 3, 1),
)
FEW, ALONG_N = GemvConfig(1, 1, 32, 8, 2), GemvConfig(1, 1, 8, 8, 2)
BATCH = {"batch": (BatchMode(2, a=1 << 16, b=1 << 16, d=1 << 16),)}
CUT = {"batch": (BatchMode(2, a=1 << 16, b=65537, d=1 << 16),)}

Rule = tuple[dict[str, Any], dict[str, Any], str]
"""The fields of a configuration, the options of a problem, and what the refusal says."""
OF_SM80: dict[type[errors.LayoutAlgError], list[Rule]] = {
    DivisibilityError: [
        ({"tile_m": 120}, {}, "multiple of 32.*nearest is 128"), ({"tile_k": 8}, {}, "multiple of 16.*is 16"),
        ({"tile_n": 96}, {}, "power of two.*is 64"), ({"result_vec": 3}, {}, "result_vec = 3"),
    ],
    UnsupportedError: [
        ({"mma_k": 32}, {}, "8 and 16"), ({"stages": 1}, {}, "take stages = 2"),
        ({"a_bytes": 2}, {}, "by cp.async: 4, 8, 16"),
        ({"b_bytes": 12}, {}, "b_bytes = 12"), ({"result_vec": 8}, {"dtype": "tf32"}, "16 bytes per lane"),
        ({}, {"dtype": "f32"}, "no mma.sync"),
        ({}, {"dtype": "s8", "a_major": "mn"}, "ldmatrix.trans turns"), ({"mma_m": 8}, {}, "16 is accepted"),
        ({"mma_m": 8, "mma_k": 8}, {"dtype": "f64"}, "4 are accepted"),
        ({"mma_k": 16, "tile_k": 16}, {"dtype": "f64"}, "take tile_k = 32"),
        ({"splits": 2}, {"accumulator": "f16"}, "f16 sums"), ({"splits": 2}, BATCH, "parts of k of a batch"),
        ({"tile_k": 16}, {}, "take tile_k = 32"),
    ],
    ResourceError: [
        ({"via": "registers"}, {}, "stages through registers: 3"), ({"stages": 16}, {}, "14 stages fit"),
        # the stage of the results, which lies over the ring, is as large: fewer stages take no less
        ({"tile_m": 256, "tile_n": 256, "tile_k": 64, "warps_m": 16, "warps_n": 1, "stages": 4}, {},
         "262144 asked, the limit is 232448; take a smaller tile"),
        ({"tile_m": 512, "tile_k": 64, "stages": 4, "edges": True}, {}, "shared memory.*; 2 stages fit"),
        ({"tile_m": 512, "tile_n": 512, "tile_k": 64, "edges": True}, {}, "shared memory.*smaller tile"),
        ({"tile_m": 256, "tile_n": 256, "stages": 2}, {}, "registers per thread.*more warps"),
        ({"min_blocks": 4}, {}, "registers per thread"),
        ({"warps_m": 8, "warps_n": 8, "tile_k": 64}, {}, "threads per block: 2048"),
        ({"mma_k": 4, "result_vec": 2}, {"dtype": "f64"}, "registers per thread"),
        ({}, {"dtype": "s4"}, "calls a function.*take warps of 32 x 32"),
    ],
    ShapeError: [
        ({}, {"m": 100}, "take edges=True"), ({"splits": 0}, {}, "splits = 0"),
        ({"splits": 65}, {}, "1 to 64"),
    ],
    AlignmentError: [
        ({}, {"lda": 260}, "lda = 260 cuts vectors of 8 elements; vectors of 4 fit"),
        ({"edges": True}, {"k": 252}, "vectors of 4 fit"), ({"edges": True}, {"n": 250}, "vectors of 2 fit"),
        ({}, CUT, "a step of b = 65537 cuts"),
        ({}, {"align_bytes": (16, 4, 16)}, "start of b.* multiple of 4"),
    ],
}  # fmt: skip
OF_SIMT: dict[type[errors.LayoutAlgError], list[Rule]] = {
    DivisibilityError: [
        ({"tile_m": 100}, {}, "multiple of 64, 4 lanes of 16; the nearest is 128"),
        ({"thread_m": 6}, {}, "multiple of 4, run_m; the nearest is 8"),
        ({"lanes_m": 5}, {}, "divide a warp"),
        ({"tile_k": 7}, {}, "tile_k = 7 is not a multiple of 2"), ({"thread_n": 6}, {}, "16 bytes"),
        ({"result_vec": 8}, {}, "a run of n = 4"),
    ],
    UnsupportedError: [
        ({"b_vector": 3}, {}, "b_vector = 3 of f32"),
        ({"stages": 1}, {}, "take stages = 2"),
        ({}, {"dtype": "f16"}, "f32 and f64"),
    ],
    ResourceError: [
        ({"stages": 24}, {}, "18 stages fit"), ({"min_blocks": 2}, {}, "registers per thread"),
        ({"thread_m": 32, "thread_n": 8, "tile_k": 8}, {}, "registers per thread"),
        ({"thread_m": 4, "thread_n": 4}, {}, "threads per block"),
    ],
    AlignmentError: [({"edges": True}, {"n": 1022, "ldb": 1024, "ldd": 1024},
    "n = 1022 .* vectors of 2 fit")],
}  # fmt: skip
OF_SM90: dict[type[errors.LayoutAlgError], list[Rule]] = {
    AlignmentError: [
        ({}, {"k": 68}, "no multiple of 16 bytes"), ({}, {"reads_c": True, "ldc": 68}, "ldc = 68"),
        ({}, {"batch": [BatchMode(2, 4100, 0, 0, 4096)]}, "4100"),
    ],
    ResourceError: [
        ({"stages": 40}, {}, "13 stages fit"),
        ({"tile_m": 256, "tile_n": 256, "stages": 4, "consumers": 2}, {},
         "which are 4 of 65552 and 8192 for results.*; 3 stages fit"),
        ({"tile_m": 1024, "stages": 2}, {}, "which are 2 of 139280 and .*; take a smaller tile"),
    ],
    UnsupportedError: [
        ({}, {"dtype": "s4"}, "not s4.* into s32"),
        ({"tile_k": 128, "result_vec": 4}, {"dtype": "s8", "bias": True}, "adds no vector to integers"),
        ({}, {"reads_c": True, "batch": [BatchMode(2, d=4096)]}, "adds no matrix"),
        ({}, {"batch": [BatchMode(2, d=4096 << i) for i in range(4)]}, "have room for 3"),
        ({}, {"dtype": "e4m3"}, "tile_k = 64 of e4m3: rows of 128 bytes are 128"),
        ({"tile_k": 128}, {"dtype": "e4m3", "b_major": "mn"}, "must both be stored along k"),
        ({"tile_k": 128}, {"dtype": "e5m2", "arithmetic": "blocks", "batch": [BatchMode(2, d=4096 << 2)]},
         "of several products"),
    ],
    DivisibilityError: [
        ({"tile_n": 40}, {}, "columns of wgmma"),
        ({"tile_n": 96, "tile_k": 128}, {"dtype": "e4m3", "arithmetic": "blocks"}, "divide the 128 columns"),
    ],
}  # fmt: skip
OF_GEMV: dict[type[errors.LayoutAlgError], list[Rule]] = {
    ResourceError: [
        ({"rows": 8}, {"m": 9}, "rows of gemv"), ({"rows": 16, "vec": 8, "mma": True}, {"m": 17}, "is 16"),
    ],
    UnsupportedError: [
        ({}, {"dtype": "s8"}, "take gemm-sm80"), ({"vec": 2}, {"dtype": "f64"}, "take gemm-simt"),
        ({"rows": 2}, {"m": 2, "a_major": "mn"}, "store it along k"),
        ({"lanes": 8}, {}, "32, 64, 128 and 256"),
        ({"lanes": 64}, {"b_major": "mn"}, "4, 8, 16 and 32"), ({"threads": 64}, {}, "256, 512 and 1024"),
        ({"lanes": 8, "columns": 2}, {"b_major": "mn"}, "take 1"),
    ],
    DivisibilityError: [({}, {"m": 2}, "take 2"), ({}, {"k": 9}, "multiples of 1 elements")],
}  # fmt: skip
BASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "sm80": (TENSOR, {"m": 256, "n": 256, "k": 256}, OF_SM80),
    "simt": (PLAIN, {"m": 1024, "n": 1024, "k": 1024, "dtype": "f32", "b_major": "mn"}, OF_SIMT),
    "sm90": (TMA, {"m": 64, "n": 64, "k": 64, "dtype": "bf16"}, OF_SM90), "gemv": (FEW, {"m": 1, "n": 8,
    "k": 8}, OF_GEMV),
}  # fmt: skip


@each(
    ("base", "error", "config", "problem", "text"),
    [(base, error, *row) for base in BASES for error, rows in BASES[base][2].items() for row in rows],
    ids=lambda x: str(x)[:40],
    sample=28,
)
def test_a_broken_rule_is_named(base: str, error: Any, config: Any, problem: Any, text: str) -> None:
    """By what checks configurations, and by what builds kernels."""
    c, usual, _ = BASES[base]
    p, c = gemm_problem(**{**usual, **problem}), replace(c, **config)
    for refuses in (check_config, launches):
        with pytest.raises(error, match=text):
            refuses(p, c)


@each(
    ("options", "error", "text"),
    [
        ({"m": 0}, ShapeError, "m = 0"), ({"k": True}, ShapeError, "k = True"),
        ({"n": 2.0}, ShapeError, r"2\.0"),
        ({"lda": 4}, ShapeError, "lda = 4 is less than the row length 8"),
        ({"ldb": 7}, ShapeError, "ldb = 7"),
        ({"ldd": 3}, ShapeError, "ldd = 3"), ({"lda": 0}, ShapeError, "lda = 0: a positive integer"),
        ({"dtype": "u8"}, UnsupportedError, "GEMM of u8"), ({"dtype": "f12"}, errors.UnknownNameError, "f12"),
        ({"accumulator": "f64"}, UnsupportedError, "f32 or f16, not f64"),
        ({"dtype": "bf16", "accumulator": "bf16"}, UnsupportedError, "not bf16"),
        ({"result": "f64"}, UnsupportedError, "f16 and f32 are accepted"),
        ({"a_major": "m"}, UnsupportedError, "'k' and 'mn'"),
        ({"activation": "swish"}, UnsupportedError, "swish"),
        ({"dtype": "s8", "activation": "gelu"}, UnsupportedError, "gelu of s32"),
        ({"dtype": "s4", "k": 33}, ShapeError, "k = 33 of s4.* multiples of 2"),
        ({"dtype": "u4", "k": 32, "ldb": 35}, ShapeError, "ldb = 35 of u4"),
        ({"dtype": "b1", "k": 100}, ShapeError, "k = 100 of b1.* multiples of 8"),
        ({"dtype": "s4", "k": 32, "a_major": "mn"}, UnsupportedError, "share a byte"),
        ({"dtype": "b1", "k": 32, "arithmetic": "or"}, UnsupportedError, "'and' and 'xor'"),
        ({"dtype": "e4m3", "b_dtype": "f16"}, UnsupportedError, "e4m3 and e5m2 alone may be mixed"),
        ({"b_dtype": "bf16"}, UnsupportedError, "a product of f16 and bf16"),
        ({"dtype": "e4m3", "arithmetic": "xor"}, UnsupportedError, "'fast' and 'blocks' are accepted"),
        ({"dtype": "e5m2", "result": "f64"}, UnsupportedError, "bf16 and f16 and f32 are accepted"),
        ({"scale_a": "n"}, UnsupportedError, "scale_a = 'n': 'none', 'one' and 'm'"),
        ({"dtype": "s8", "scale_b": "n"}, UnsupportedError, "factors of f32 of s32 sums"),
        ({"dtype": "e4m3", "arithmetic": "blocks", "scale_b": "n"}, UnsupportedError, "take one of them"),
        ({"dtype": "e4m3", "scale_strides": (1, 8, 1, 1)}, ShapeError, "four of factors of blocks"),
        ({"dtype": "s8", "arithmetic": "xor"}, UnsupportedError, "8-bit floats alone have a choice"),
        ({"batch": [BatchMode(2, d=32)]}, errors.NotInjectiveError, "one place"),
        ({"batch": [BatchMode(2)]}, errors.NotInjectiveError, "one place"),
        ({"batch": [BatchMode(2, a=-8, d=64)]}, ShapeError, "steps of 0 or more"),
        ({"batch": [BatchMode(0, d=64)]}, ShapeError, "extent of the batch = 0"),
    ],
)  # fmt: skip
def test_what_makes_no_product_is_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        gemm_problem(**{"m": 8, "n": 8, "k": 8, **options})


ONE = gemm_problem(256, 256, 64)
SOME, MANY = (grouped(ONE, count, 256 * 64) for count in (4, MOST_TOGETHER + 1))


@each(
    ("error", "text", "call"),
    [
        (UnsupportedError, "in 4 groups: .*gemm-sm90", lambda: check_config(SOME, TENSOR)),
        (UnsupportedError, "in 4 groups: .*gemm-sm90", lambda: check_config(SOME, FEW)),
        (ResourceError, "65 asked, the limit is 64", lambda: check_config(MANY, SM90.fitted(MANY, TMA))),
        (ShapeError, "groups = 0", lambda: grouped(ONE, 0, 64)),
        (ShapeError, "step = 64: a B has 16384", lambda: grouped(ONE, 2, 64)),
        (ShapeError, "those of a batch", lambda: grouped(SOME, 2, 1 << 20)),
        (UnsupportedError, "no mma.sync multiplies f32", lambda: SM80.configs(gemm_problem(64, 64, 64,
        "f32"))),
        (UnsupportedError, "f32 and f64", lambda: SIMT.configs(ONE)),
        (UnsupportedError, "needs sm_75; sm_70 .*mma.m8n8k4", lambda: SM75.configs(
            gemm_problem(256, 256, 64, accumulator="f16"), "sm_70")),
        (UnsupportedError, "take gemm-sm75", lambda: SM80.configs(ONE, "sm_75")),
        (UnsupportedError, "tcgen05.mma, which is .*gemm-simt", lambda: SM80.configs(ONE, "sm_100a")),
        (UnsupportedError, "tcgen05.mma, which is .*gemm-simt", lambda: SM90.configs(ONE, "sm_103a")),
    ],
    ids=lambda x: str(x)[:40],
)  # fmt: skip
def test_what_no_family_takes_is_refused(error: Any, text: str, call: Any) -> None:
    with pytest.raises(error, match=text):
        call()


TURING = replace(TENSOR, tile_m=64, via="registers", stages=2, mma_k=8)


@each(
    ("dtype", "c", "first"),
    [
        ("f16", TENSOR, 80), ("f16", TURING, 75), ("f16", Sm75Config(256, 256, 32, 4, 2), 75),
        ("bf16", Sm75Config(256, 256, 32, 4, 2), 80), ("f32", PLAIN, 80),
        ("s8", 8, 75), ("s8", 16, 80), ("s4", 8, 75), ("s4", 16, 80), ("b1", 16, 80), ("f64", 8, 80),
        ("f64", 16, 90),
    ],
)  # fmt: skip
def test_an_architecture_without_the_instruction_is_refused(dtype: str, c: Any, first: int) -> None:
    """Where a number of rows stands for the configuration, by an mma of so many."""
    p = gemm_problem(1024, 1024, 1024, dtype, **({"b_major": "mn"} if c is PLAIN else {}))  # type: ignore[arg-type]
    if isinstance(c, int):
        rows: Literal[16, 8] = 16 if c == 16 else 8
        c = Sm80Config(
            64, 64, 64 // p.operand.nbytes, 2, 2, 2, via="registers", mma_m=rows,
            mma_k=4 if dtype == "f64" else 0, edges=True, result_vec=2,
        )  # fmt: skip
    if (dtype, type(c)) not in (("bf16", Sm75Config), ("f16", Sm75Config)):
        check_config(p, c, f"sm_{first}")
    with pytest.raises(UnsupportedError, match=f"needs sm_{first}"):
        check_config(p, c, {75: "sm_70", 80: "sm_75", 90: "sm_80"}[first])


@each("tile", SIMT.tiles[::2], ids=str)
def test_the_shared_memory_of_a_tile_is_what_is_declared(tile: SimtConfig) -> None:
    p = gemm_problem(3840, 3072, 1024, "f32", b_major="mn")
    (kernel,) = launches(p, tile).kernels
    check(kernel)
    assert kernel.shared_bytes == shared_bytes(p, tile)
    assert sum(prod(reg.shape) for reg in kernel.regs if reg.name != "other") <= registers(p, tile)


@each("tile", [Sm90Config(128, 160, 5), Sm90Config(64, 48, 3, pingpong=True)], ids=str)
def test_a_matrix_that_is_added_has_a_barrier_for_each_box(tile: Sm90Config) -> None:
    p = gemm_problem(128, 160, 64, "bf16", reads_c=True)
    (kernel,) = launches(p, tile).kernels
    assert kernel.shared_bytes == shared_bytes(p, tile)


KINDS = [
    (dtype, mma_k, via)
    for dtype, ks in (("f64", (4, 8, 16)), ("f16", (8, 16)), ("tf32", (4, 8)), ("s8", (16, 32)))
    for mma_k in ks
    for via in ("registers", "cp.async")
]


@each(("dtype", "mma_k", "via"), KINDS, sample=4)
def test_a_tile_has_a_step_of_k_for_each_set_of_fragments(dtype: Any, mma_k: int, via: Any) -> None:
    """The least tile is accepted, and none whose fragments lie behind it."""
    p = gemm_problem(32, 32, 512, dtype)
    c = Sm80Config(32, 32, 0, 2, 2, 2, via=via, mma_k=mma_k, a_bytes=8, b_bytes=8, result_vec=2)
    least = fragment_k(p, c) * c.fragments
    check_config(p, replace(c, tile_k=least))
    for tile_k in (least // 2, least):
        try:
            (kernel,) = launches(p, replace(c, tile_k=tile_k)).kernels
        except (DivisibilityError, UnsupportedError):
            continue
        check(kernel)


@pytest.mark.deep
@each("order", [{"a_major": "mn"}, {"b_major": "mn"}, {"a_major": "mn", "reads_c": True}])
def test_no_tile_through_registers_is_serialized(order: dict[str, Any]) -> None:
    """Every kind of tile that is offered for tf32 is compiled: NVRTC's log would refuse it."""
    p = gemm_problem(2048, 2048, 2048, "tf32", **order)
    kinds = {
        (c.tile_m, c.tile_n, c.consumers, c.pingpong, c.splits > 1, c.cluster_k, c.cluster > 1): c
        for c in SM90.configs(p)
    }
    assert len(kinds) > 40
    for c in kinds.values():
        for kernel in launches(p, c).kernels:
            gpu.compile_cubin(gpu.to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a")
