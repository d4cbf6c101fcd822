"""What hardware serves otherwise than instruction by instruction: lines, words with banks on both sides."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.codegen.costs import traffic
from layoutalg.codegen.program import Kernel
from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import GemmProblem, Sm80Config, gemm_problem, scalar_words
from layoutalg.kernels.gemm.choice import SIMT
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.ladder.counters import copied_lines, copied_words, counted
from layoutalg.kernels.ladder.step import predict_steps
from tests.frozen import kernel_adapter
from tests.frozen.kernel_cases import label
from tests.frozen.kernel_freeze import stored
from tests.sweeps import each


def launched(p: GemmProblem, c: Any) -> tuple[Kernel, dict[str, int]]:
    """The kernel of a product, and the integers of its launch."""
    one = launches(p, c)
    return one.kernels[0], {**dict(one.scalars), **scalar_words(p, "alpha", 1.0)}


@each(
    ("p", "tile_k", "lines_of_eight_lanes"),
    [
        (gemm_problem(128, 256, 128), 64, 1),
        (gemm_problem(128, 256, 128), 32, 2),
        (gemm_problem(128, 256, 128, a_major="mn", b_major="mn"), 32, 1),
        (gemm_problem(128, 256, 128, lda=160, ldb=160), 64, 1.5),  # every other row starts inside a line
        (gemm_problem(128, 256, 128, "s8"), 64, 2),
    ],
)
def test_copies_are_written_line_by_line(p: GemmProblem, tile_k: int, lines_of_eight_lanes: float) -> None:
    copies = (128 + 256) * 128 * p.operand.nbytes // 16
    c = Sm80Config(128, 256, tile_k, 2, 4, 2, result_vec=4)
    kernel, params = launched(p, c)
    assert copied_lines(kernel, params) == copies / 8 * lines_of_eight_lanes


@pytest.mark.deep
def test_words_of_a_turned_tile_meet_in_banks_on_both_sides() -> None:
    """Counted on an H200: 2395132 wavefronts of f64, of which copies past the end are 32764 at most."""
    p = gemm_problem(256, 256, 1024, "f64", b_major="mn")
    c = next(c for c in SIMT.configs(p) if c.splits == 2 and not (256 % c.tile_m or 256 % c.tile_n))
    kernel, params = launched(p, c)
    alone, found = traffic(kernel, params), counted(kernel, params)
    copies = found["cp.async.8"]
    assert copied_words(kernel, params) == {"cp.async.8": (8 * copies.instructions, 10 * copies.instructions)}
    assert copies.total / copies.instructions == 10 > alone["cp.async.8"].total / copies.instructions
    assert {**found, "cp.async.8": alone["cp.async.8"]} == alone
    total = sum(cost.total for op, cost in found.items() if "global" not in op)
    past_the_end = 2 * (p.m // c.tile_m) * (p.n // c.tile_n) * c.splits * 6 * c.threads // 32
    assert 0 <= 2395132 - total <= 8 * past_the_end
    p = gemm_problem(256, 256, 2048, "f32", b_major="mn")
    c = next(c for c in SIMT.configs(p) if c.splits == 4 and not (256 % c.tile_m or 256 % c.tile_n))
    kernel, params = launched(p, c)
    expected = 4 * traffic(kernel, params)["cp.async.4"].instructions
    assert copied_words(kernel, params) == {"cp.async.4": (expected, expected)}, "words of four rows"


WAVEFRONTS = {"v7": 121634816, "v8": 90177536}
"""memory_l1_wavefronts_shared of versions at 2048 x 2048 x 2048 on an H200."""


@pytest.mark.deep
@each("name", WAVEFRONTS)
def test_wavefronts_of_what_the_compiler_joins_are_the_hardware_s(name: str) -> None:
    (step,) = predict_steps(find_family("gemm-simt"), 2048, (name,))
    shared = (cost.total for op, cost in step.accesses.items() if "global" not in op)
    assert sum(shared) == WAVEFRONTS[name]


@pytest.mark.deep
def test_what_the_compiler_loads_at_once_counts_as_vectors() -> None:
    (step,) = predict_steps(find_family("gemm-simt"), 64, ("v2",))
    found = {op: cost.total for op, cost in step.accesses.items() if "ld.shared" in op}
    assert found.keys() == {"ld.shared.b128"} and step.fragment_loads < step.written_loads


COUNTED = {
    "gemm-sm80 m=1624 n=106 k=2904 dtype=bf16 a_major=mn lda=1632 ldb=2928 ldd=130": 910616,
    "gemm-sm80 m=2876 n=1720 k=592 dtype=f16 a_major=mn b_major=mn reads_c=True": 5476196,
    "gemm-simt m=150 n=185 k=5760 dtype=f64 a_major=mn reads_c=True": 2916000,
}
"""Sectors that an H200 counted for loads of products whose edges are copied from clamped addresses."""


@pytest.mark.deep
@each("name", COUNTED, sample=1)
def test_sectors_of_copies_at_edges_are_those_that_were_counted(name: str) -> None:
    """Lanes past an edge copy one place to many: the L1 counts the sectors where they are written."""
    (case,) = (one["case"] for one in stored()["cases"] if label(one["case"]) == name)
    first = kernel_adapter.plan(case).launches[0]
    params = {
        p.name: x
        for p, x in zip(first.kernel.params, first.arguments, strict=True)
        if isinstance(x, int)
    }  # fmt: skip
    found = counted(first.kernel, params)
    assert (
        sum(cost.total for op, cost in found.items() if "global" in op and "st." not in op) == COUNTED[name]
    )
