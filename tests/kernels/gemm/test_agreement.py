"""Products by gemm-simt, gemm-sm80 and gemm-sm75: definition == simulator == text run on the host, exactly;
what is predicted of every access is what the simulator traces."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.costs import Cost, sequence_traffic
from layoutalg.codegen.program import printed
from layoutalg.kernels.gemm.launches import covering, launches, sequence_of
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, mma_of
from layoutalg.kernels.gemm.tiles import Config, SimtConfig, Sm75Config, Sm80Config
from layoutalg.kernels.ladder.gemm import multiplies
from layoutalg.kernels.ladder.steps import SIMT_LADDER, SM75_LADDER, SM80_LADDER, SimtStep, Sm80Step
from tests.kernels.gemm.cases import arguments, expected, host_run, simulated
from tests.sweeps import each

SMALL = Sm80Step(64, 64, 32, 2, 2, 3, panel=2)
EDGES = replace(SMALL, edges=True)
REGISTERS = replace(SMALL, via="registers")
SINGLE = replace(REGISTERS, stages=2, edges=True, a_bytes=2, b_bytes=2, result_vec=1)
DOUBLE = replace(SMALL, tile_k=16, mma_k=4, result_vec=2)
NARROW = replace(SMALL, tile_k=64, result_vec=4)


def edged(**options: Any) -> GemmProblem:
    return gemm_problem(100, 120, 88, **options)


def whole(*args: Any, **options: Any) -> GemmProblem:
    return gemm_problem(128, 64, 96, *args, **options)


TENSOR: dict[str, tuple[GemmProblem, Sm80Config]] = {
    "TN, edges": (edged(), EDGES),
    "TT, edges": (edged(b_major="mn"), EDGES),
    "NN, edges": (edged(a_major="mn"), replace(EDGES, a_bytes=8)),
    "NT, edges": (edged(a_major="mn", b_major="mn"), replace(EDGES, a_bytes=8)),
    "one row": (gemm_problem(1, 8, 8), EDGES),
    "few rows of A, turned": (gemm_problem(24, 72, 40, a_major="mn", b_major="mn"), EDGES),
    "few rows of B": (gemm_problem(72, 24, 40, reads_c=True), EDGES),
    "one element": (gemm_problem(1, 1, 1), SINGLE),
    "primes": (gemm_problem(67, 131, 37, reads_c=True, bias=True), SINGLE),
    "primes, turned, few rows": (gemm_problem(31, 67, 97, a_major="mn", b_major="mn"), SINGLE),
    "primes, not ahead": (gemm_problem(67, 71, 73), replace(SINGLE, stages=1, ahead=False, fragments=1)),
    "leading dimensions": (gemm_problem(70, 72, 40, lda=48, ldb=64, ldd=88, ldc=80, reads_c=True), EDGES),
    "narrow copies": (gemm_problem(65, 66, 34), replace(EDGES, a_bytes=4, b_bytes=4, result_vec=2)),
    "C, relu": (edged(reads_c=True, activation="relu"), EDGES),
    "bias, relu": (edged(bias=True, activation="relu"), EDGES),
    "bf16, C": (whole("bf16", reads_c=True), SMALL),
    "f32 result": (whole(result="f32"), replace(SMALL, result_vec=4)),
    "f16 sums": (whole(accumulator="f16"), SMALL),
    "tf32": (whole("tf32"), replace(SMALL, tile_k=16, result_vec=4)),
    "s8": (gemm_problem(128, 64, 192, "s8"), replace(SMALL, tile_k=64, result_vec=4)),
    "s8 by 8 rows": (
        gemm_problem(64, 64, 192, "s8"),
        replace(REGISTERS, tile_k=64, stages=2, result_vec=4, mma_m=8),
    ),
    "tf32 along the rows, edges": (
        edged(dtype="tf32", a_major="mn", b_major="mn", reads_c=True),
        replace(EDGES, tile_k=16, result_vec=4),
    ),
    "tf32 NN": (whole("tf32", a_major="mn"), replace(SMALL, tile_k=16, result_vec=4)),
    "f64": (whole("f64"), DOUBLE),
    "f64, C, bias, edges": (edged(dtype="f64", reads_c=True, bias=True), replace(DOUBLE, edges=True)),
    "f64 along the rows, edges": (
        edged(dtype="f64", a_major="mn", b_major="mn"),
        replace(DOUBLE, edges=True, result_vec=1),
    ),
    "f64 by k8": (whole("f64"), replace(DOUBLE, mma_k=8)),
    "f64 by k16": (whole("f64"), replace(DOUBLE, tile_k=32, mma_k=16)),
    "f64 by 8 rows, edges": (
        edged(dtype="f64", b_major="mn", activation="relu"),
        replace(DOUBLE, edges=True, mma_m=8),
    ),
    "f64 through registers": (
        gemm_problem(67, 71, 21, "f64"),
        replace(DOUBLE, via="registers", stages=2, edges=True, a_bytes=8, b_bytes=8, result_vec=1),
    ),
    "f64, direct": (edged(dtype="f64"), replace(DOUBLE, edges=True, epilogue="direct")),
    "s4": (gemm_problem(128, 64, 384, "s4"), NARROW),
    "s4 by k32": (gemm_problem(64, 64, 128, "s4"), replace(NARROW, mma_k=32)),
    "s4 by 8 rows, edges": (
        gemm_problem(67, 72, 184, "s4"),
        replace(NARROW, edges=True, mma_m=8, a_bytes=4, b_bytes=4),
    ),
    "u4, one byte at a time": (
        gemm_problem(67, 71, 146, "u4", bias=True),
        replace(NARROW, via="registers", stages=2, edges=True, a_bytes=1, b_bytes=1, result_vec=1),
    ),
    "b1, and": (gemm_problem(64, 64, 1536, "b1", reads_c=True), NARROW),
    "b1, and, by k128": (gemm_problem(64, 64, 512, "b1"), replace(NARROW, mma_k=128)),
    "b1, xor, edges": (
        gemm_problem(67, 72, 1184, "b1", arithmetic="xor"),
        replace(NARROW, edges=True, a_bytes=4, b_bytes=4),
    ),
    "b1, xor, by 8 rows": (gemm_problem(64, 64, 512, "b1", arithmetic="xor"), replace(NARROW, mma_m=8)),
    "one step a tile, one fragment, 2 stages": (whole(), replace(SMALL, tile_k=16, fragments=1, stages=2)),
    "mma of half the depth": (whole(), replace(SMALL, mma_k=8)),
    "2 stages": (whole(), replace(SMALL, stages=2)),
    "4 stages": (whole(), replace(SMALL, stages=4)),
    "5 stages": (whole(), replace(SMALL, stages=5)),
    "one fragment": (whole(), replace(SMALL, fragments=1)),
    "four fragments": (gemm_problem(64, 64, 256), replace(SMALL, tile_k=64, fragments=4)),
    "four fragments, edges": (edged(reads_c=True), replace(EDGES, tile_k=64, fragments=4, stages=4)),
    "four fragments, 1 buffer": (
        gemm_problem(64, 64, 128),
        replace(REGISTERS, tile_k=64, stages=1, fragments=4),
    ),
    "eight fragments": (gemm_problem(64, 64, 384), replace(SMALL, tile_k=128, stages=2, fragments=8)),
    "one fragment, more tiles than stages": (gemm_problem(64, 64, 192), replace(SMALL, fragments=1)),
    "one step a tile, more tiles than stages": (
        gemm_problem(64, 64, 96),
        replace(SMALL, tile_k=16, fragments=1),
    ),
    "fewer tiles than stages": (gemm_problem(64, 64, 32), replace(SMALL, stages=5)),
    "unswizzled": (whole(a_major="mn"), replace(SMALL, swizzled=False)),
    "fixed leading dimensions": (whole(b_major="mn"), replace(SMALL, static_ld=True)),
    "registers, 1 stage": (whole(), replace(REGISTERS, stages=1, fragments=1)),
    "registers, 1 stage, not ahead": (whole(), replace(REGISTERS, stages=1, ahead=False)),
    "registers, 2 stages": (whole(), replace(REGISTERS, stages=2)),
    "registers, edges": (edged(), replace(REGISTERS, stages=2, edges=True, fragments=1)),
    "direct": (edged(), replace(EDGES, epilogue="direct", result_vec=2)),
}

TURING: dict[str, tuple[GemmProblem, Config]] = {
    "whole": (gemm_problem(256, 256, 64, accumulator="f16", b_major="mn"), Sm75Config(256, 256, 32, 4, 2)),
    "f32 sums, C": (gemm_problem(64, 64, 96, reads_c=True), Sm75Config(64, 64, 32, 2, 2)),
    "edges, C": (
        edged(accumulator="f16", b_major="mn", reads_c=True, bias=True),
        Sm75Config(64, 64, 32, 2, 2, edges=True),
    ),
    "single elements": (
        gemm_problem(67, 71, 97, a_major="mn"),
        Sm75Config(64, 64, 32, 2, 2, a_bytes=2, b_bytes=2, result_vec=1, edges=True),
    ),
}

ENDS = {
    "plain": gemm_problem(64, 64, 32), "C": gemm_problem(64, 64, 32, reads_c=True, ldc=66, ldd=70),
    "bias and relu": gemm_problem(64, 64, 32, bias=True, activation="relu"),
    "all, ragged": gemm_problem(37, 58, 40, reads_c=True, bias=True, activation="relu"),
    "bf16": gemm_problem(64, 64, 32, "bf16", reads_c=True),
    "f16 sums": gemm_problem(64, 64, 32, accumulator="f16", reads_c=True),
    "f32 result": gemm_problem(64, 64, 32, result="f32", reads_c=True),
    "integers": gemm_problem(64, 64, 64, "s8", reads_c=True, activation="relu"),
}  # fmt: skip
END = replace(SMALL, stages=2, panel=8, edges=True, result_vec=2)

PLAIN = SimtStep(32, 64, 8, 4, 8, 4, edges=True, panel=2)
WORDS = replace(PLAIN, a_vector=1, b_vector=1, result_vec=1)
PAIRS: dict[str, Any] = {
    "run_m": 2, "run_n": 2, "a_vector": 2, "b_vector": 2, "fragment": 2, "pad": 2,
    "result_vec": 2,
}  # fmt: skip
DOUBLES = SimtStep(16, 32, 8, 2, 8, 8, edges=True, **PAIRS)
WAYS: dict[str, dict[str, Any]] = {
    "cp.async": {}, "cp.async, registers where turned": {"turn": "registers", "stages": 2},
    "registers": {"via": "registers", "turn": "registers", "stages": 2},
    "one stage": {"via": "registers", "turn": "registers", "stages": 1},
    "one stage ahead": {"via": "registers", "turn": "registers", "stages": 1, "ahead": True},
    "fragments of one step": {"fragments": 1, "stages": 4},
    "fragments of four steps": {"fragments": 4, "stages": 3}, "straight": {"via": "global"},
}  # fmt: skip
ALL: dict[str, Any] = {"reads_c": True, "bias": True, "activation": "relu"}


def by_simt() -> dict[str, tuple[GemmProblem, Config]]:
    """Every way with every storage order; odd sizes with the whole epilogue; doubles."""
    found: dict[str, tuple[GemmProblem, Config]] = {}
    for way, a, b in product(WAYS, ("k", "mn"), ("k", "mn")):
        orders: dict[str, Any] = {"a_major": a, "b_major": b}
        found[f"{way}, {a} {b}"] = (
            gemm_problem(40, 72, 28, "f32", **orders, ldd=76),
            replace(PLAIN, **WAYS[way]),
        )
        if a != b and way in ("cp.async", "registers", "one stage", "straight"):
            p = gemm_problem(18, 34, 12, "f64", **orders, **ALL)
            found[f"f64, {way}, {a} {b}"] = p, replace(DOUBLES, **WAYS[way])
    sizes = (1, 1, 1), (37, 53, 29), (31, 67, 8), (33, 1, 17), (1, 65, 3)
    for way, (m, n, k) in product(("cp.async", "registers", "one stage ahead"), sizes):
        p = gemm_problem(m, n, k, "f32", b_major="mn", lda=k + 2, ldb=n + 1, ldc=n + 3, ldd=n + 5, **ALL)
        found[f"{way}, {m} x {n} x {k}"] = p, replace(WORDS, **WAYS[way])
    return found


THREE, FOURS = Sm80Step(64, 64, 32, 2, 2, 3), SimtStep(64, 64, 16, 8, 4, 4, edges=True)
CUT = gemm_problem(60, 68, 100, "f32")
PARTS: dict[str, tuple[GemmProblem, Config]] = {
    "whole tiles": (gemm_problem(64, 64, 256), replace(THREE, splits=4)),
    "parts of unequal length": (gemm_problem(64, 64, 256), replace(THREE, splits=3)),
    "edges, C, bias, relu": (
        gemm_problem(56, 72, 200, ldd=80, ldc=76, **ALL), replace(THREE, edges=True, splits=3)
    ),
    "more parts than tiles": (gemm_problem(64, 64, 64), replace(THREE, stages=2, edges=True, splits=5)),
    "integers": (
        gemm_problem(64, 64, 256, "s8", bias=True), Sm80Step(64, 64, 64, 2, 2, 2, splits=2, result_vec=4)
    ),
    "rows of one": (
        gemm_problem(64, 65, 64, "bf16", ldd=67, ldc=80, **ALL),
        replace(THREE, edges=True, splits=2, result_vec=1),
    ),
    "one stage through registers": (
        gemm_problem(64, 64, 128), Sm80Step(64, 64, 32, 2, 2, 1, 1, "registers", splits=3)
    ),
    "f32": (gemm_problem(64, 64, 96, "f32", b_major="mn"), replace(FOURS, splits=3)),
    "f32, whole": (gemm_problem(64, 64, 96, "f32", b_major="mn"), SimtStep(64, 64, 16, 8, 4, 4, splits=4)),
    "f32, edges, C, bias, relu": (
        gemm_problem(60, 68, 101, "f32", b_major="mn", ldd=80, **ALL), replace(FOURS, a_vector=1, splits=3)
    ),
    "f32, more parts than tiles": (
        gemm_problem(60, 68, 30, "f32"), replace(FOURS, a_vector=2, b_vector=2, splits=5)
    ),
    **{
        f"f32, {way}": (CUT, replace(FOURS, splits=splits, **WAYS[way]))
        for way, splits in (("registers", 4), ("one stage", 2), ("one stage ahead", 5))
    },
    "f64": (
        gemm_problem(60, 36, 101, "f64", a_major="mn", b_major="mn", reads_c=True, bias=True, ldc=38),
        SimtStep(64, 32, 16, 8, 2, 4, edges=True, splits=4, **PAIRS),
    ),
    "f64, whole": (
        gemm_problem(64, 32, 64, "f64", b_major="mn", reads_c=True),
        SimtStep(64, 32, 16, 8, 2, 4, splits=2, **PAIRS),
    ),
}  # fmt: skip


def of_ladders() -> dict[str, tuple[GemmProblem, Config]]:
    """Every step of every ladder, by two tiles of k."""
    asked: dict[str, tuple[Any, dict[str, Any]]] = {
        "simt": (SIMT_LADDER, {"dtype": "f32", "b_major": "mn"}), "sm80": (SM80_LADDER, {}),
        "sm75": (SM75_LADDER, {"accumulator": "f16", "b_major": "mn", "reads_c": True}),
    }  # fmt: skip
    return {
        f"{family} {name}": (gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k, **options), c)
        for family, (ladder, options) in asked.items()
        for name, c in ladder.items()
    }


CASES: dict[str, tuple[GemmProblem, Config]] = {
    **TENSOR, **by_simt(), **of_ladders(), **{f"sm_75, {name}": case for name, case in TURING.items()},
    **{f"{n} parts, {name}": (p, c) for name, (p, c) in PARTS.items() for n in [c.splits]},
    **{f"end of {name}, {way}": (p, replace(END, tile_k=64 // p.operand.nbytes, epilogue=way))
       for name, p in ENDS.items() for way in ("shared", "direct")},
    **{f"{n} results at once": (gemm_problem(72, 56, 32, reads_c=True), replace(END, result_vec=n))
       for n in (1, 2, 4, 8)},
}  # fmt: skip
FIRST = (
    "TN, edges", "few rows of A, turned", "C, relu", "tf32", "s4", "mma of half the depth", "four fragments",
    "fixed leading dimensions", "sm_75, f32 sums, C", "cp.async, k k", "cp.async, k mn", "cp.async, mn k",
    "cp.async, 1 x 1 x 1", "f64, cp.async, k mn", "f64, cp.async, mn k", "simt v1", "simt v5", "simt v8",
    "simt warp tiles", "simt cp.async", "end of plain, shared", "end of all, ragged, direct",
    "1 results at once", "8 results at once", "4 parts, whole tiles", "3 parts, f32", "straight, mn k",
    "registers, 31 x 67 x 8", "one stage ahead, mn mn",
)  # fmt: skip
"""What the first tier runs."""

ON_HOST = (
    "NT, edges", "TT, edges", "C, relu", "bf16, C", "f16 sums", "tf32", "registers, edges", "direct",
    "s8 by 8 rows", "tf32 NN", "f64, C, bias, edges", "f64 by k16", "f64 by 8 rows, edges",
    "s4 by 8 rows, edges", "b1, and", "b1, xor, edges", *(f"sm_75, {name}" for name in TURING),
    *(f"{of}{way}, k mn" for of in ("", "f64, ") for way in ("cp.async", "registers", "straight")),
)  # fmt: skip


def arch_of(c: Config) -> str:
    return "sm_75" if isinstance(c, Sm75Config) else "sm_90"


@pytest.mark.deep(but=FIRST)
@pytest.mark.parametrize("name", CASES)
def test_results_and_accesses_are_those_of_the_definition(name: str) -> None:
    """Of a kernel for this problem, and of one in groups of a warp for its neighbours too."""
    (p, c), arch = CASES[name], arch_of(CASES[name][1])
    args, one = arguments(p), launches(p, c, arch)
    want = expected(p, args)
    got, runs = simulated(one, args, trace=True, change=lambda kernel: printed(kernel, arch))
    np.testing.assert_array_equal(got, want)
    for run, predicted in zip(runs, sequence_traffic(one, args), strict=True):
        ops = {site.op: Cost(*run.trace.total(site.op)) for site in run.trace.sites}
        assert predicted == {op: cost for op, cost in ops.items() if cost.instructions}
    wide = sequence_of(p, c, launches(covering(p, c) if c.splits > 1 else p, c, arch).kernels)
    np.testing.assert_array_equal(simulated(wide, args, group="warp", seed=1)[0], want)
    if not c.edges:
        if isinstance(c, SimtConfig):
            fma = sum(n for op, counts in runs[0].executed.items() if op.startswith("fma") for n in counts)
            assert c.thread_m * c.thread_n * fma == multiplies(p, c)
        elif isinstance(c, Sm80Config):
            assert sum(runs[0].executed[mma_of(p, c).name]) == multiplies(p, c)


@pytest.mark.deep
@each("name", ON_HOST)
def test_the_text_gives_the_definition(name: str) -> None:
    p, c = CASES[name]
    (kernel,) = launches(p, c, arch_of(c)).kernels
    args = arguments(p)
    np.testing.assert_array_equal(host_run(printed(kernel, arch_of(c)), args), expected(p, args))


@each("name", ["TN, edges", "NT, edges", "registers, 2 stages"])
def test_lowering_changes_nothing(name: str) -> None:
    p, c = CASES[name]
    args = arguments(p, seed=1)
    got, _ = simulated(launches(p, c), args, change=lambda kernel: kernel)
    np.testing.assert_array_equal(got, expected(p, args))


@pytest.mark.parametrize("way", ["cp.async, k mn", "registers, 31 x 67 x 8", "TN, edges"])
def test_nan_and_infinity_go_where_the_definition_sends_them(way: str) -> None:
    p, c = CASES[way]
    p = replace(p, epilogue=gemm_problem(1, 1, 1, p.operand.name, reads_c=True, activation="relu").epilogue)
    args, real = arguments(p), np.dtype(f"f{p.operand.nbytes}")
    a, b, c_in = (args[x].view(real) for x in "abc")
    a[3 * p.lda + 5], a[(p.m - 1) * p.lda], b[2 * p.ldb + 7], c_in[-1] = np.nan, np.inf, -np.inf, np.nan
    got, _ = simulated(launches(p, c), args)
    with np.errstate(all="ignore"):
        want = expected(p, args)
    got, want = got.view(real), want.view(real)
    np.testing.assert_array_equal(got, want)
    found = np.lib.stride_tricks.as_strided(got, (p.m, p.n), (p.ldd * real.itemsize, real.itemsize))
    assert np.isnan(found).any() and np.isinf(found).any() and np.isfinite(found).any()
