"""Executed instructions of rewrites of the published tensor-core kernels, compiled for sm_75.

Those of the published sources themselves stand in docs/figures.json.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from layoutalg.codegen.gpu import count_classes, disassemble, main_loop, parse_sass
from layoutalg.kernels import find_family
from layoutalg.kernels.ladder import PUBLISHED, predict_steps
from tests.docs.figures import data, executed
from tests.stand_ins.nvcc import NVCC, needs_nvcc

SOURCES = Path(__file__).parents[1] / "data" / "sources"
N = 4096
PASSES = N * N * N // (256 * 128 * 64) * 8
"""Of all warps through the main loop: tiles of 256 x 128 x 64 and of 256 x 256 x 32 alike."""


@cache
def loop(kernel: int, folder: Path) -> dict[str, int]:
    """Instructions of the main loop of the rewrite of a published kernel, by class."""
    cubin = folder / f"k{kernel}.cubin"
    source = SOURCES / f"hgemm_k{kernel}.cu"
    command = [str(NVCC), "-std=c++17", "-arch=sm_75", "-cubin", "-o", str(cubin), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (function,) = parse_sass(disassemble(cubin.read_bytes()))
    return dict(count_classes(main_loop(function)))


@pytest.mark.deep
@needs_nvcc
def test_lean_index_code_takes_away_more_than_half_of_what_is_executed(tmp_path: Path) -> None:
    """216 million instructions were counted of kernel 4, about 90 of kernel 5, 94 of cuBLAS; 67 are HMMA."""
    fourth, fifth = loop(4, tmp_path), loop(5, tmp_path)
    assert fourth["tensor"] * PASSES == fifth["tensor"] * PASSES == N**3 // (16 * 8 * 8)
    executed = [sum(one.values()) * PASSES / 1e6 for one in (fourth, fifth)]
    assert executed[0] == pytest.approx(216.2, rel=0.15) and executed[1] == pytest.approx(90, rel=0.05)
    assert fourth["ldsm"] == 96 and fourth["integer"] > 5 * 96 and fifth["integer"] < 2 * fifth["ldsm"]


@pytest.mark.deep
def test_steps_execute_what_the_published_sources_do_but_for_the_index_code_of_swizzles() -> None:
    """Kernels 3 and 4 swizzle addresses of which the compiler knows no bit, by four instructions each."""
    theirs = {row["kernel"]: executed(row) for row in data()["published_hgemm"]["rows"]}
    steps = list(predict_steps(find_family("gemm-sm75"), N, tuple(PUBLISHED), "sm_75"))
    ours = {number: step.executed / 1e6 for number, step in enumerate(steps, 1)}
    assert {n: ours[n] for n in (1, 2, 5, 6)} == pytest.approx({n: theirs[n] for n in (1, 2, 5, 6)}, rel=0.04)
    assert all(0.65 < ours[n] / theirs[n] < 0.75 for n in (3, 4))
    assert [step.loop["ldsm"] for step in steps] == [96] * 4 + [24] * 2
    assert all(step.loop["tensor"] * step.passes * 8 == step.multiplies for step in steps)
