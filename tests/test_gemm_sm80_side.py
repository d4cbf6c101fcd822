"""One operand of the tensor-core GEMM: what a kernel writes for it."""

from __future__ import annotations

import pytest

from layoutalg.codegen.tile import Do, For, MemRef, walk
from layoutalg.kernels.gemm import Major, gemm_problem
from layoutalg.kernels.gemm_sm80 import build
from layoutalg.kernels.gemm_sm80_plan import Sm80Config


def calls(a_major: Major, b_major: Major, config: Sm80Config, *, edges: bool = False) -> list[Do]:
    p = gemm_problem(128, 128, 128, a_major=a_major, b_major=b_major)
    kernel = build(p, config)
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For))
    return [s for s in walk(loop.body) if isinstance(s, Do)]


@pytest.mark.parametrize(("a_major", "b_major"), [("k", "k"), ("k", "mn"), ("mn", "k"), ("mn", "mn")])
def test_operands_along_their_rows_are_turned_by_ldmatrix(a_major: Major, b_major: Major) -> None:
    config = Sm80Config(64, 64, 32, 2, 2, 3)
    loads = {
        s.args[1].buffer.name: s.instr.name
        for s in calls(a_major, b_major, config)
        if s.instr.name.startswith("ldmatrix") and isinstance(s.args[1], MemRef)
    }
    names = {"k": "ldmatrix_x4", "mn": "ldmatrix_x4_trans"}
    assert loads == {"tile_a": names[a_major], "tile_b": names[b_major]}


def test_only_edges_are_guarded() -> None:
    whole = {s.instr.name for s in calls("k", "k", Sm80Config(64, 64, 32, 2, 2, 3))}
    edged = {s.instr.name for s in calls("k", "k", Sm80Config(64, 64, 32, 2, 2, 3, edges=True))}
    assert "cp_async_16" in whole and "cp_async_16_zfill" not in whole
    assert "cp_async_16_zfill" in edged and "cp_async_16" not in edged


def test_tiles_through_registers_are_loaded_and_stored() -> None:
    names = {s.instr.name for s in calls("k", "k", Sm80Config(64, 64, 32, 2, 2, 2, via="registers"))}
    assert {"ldg128", "sts128"} <= names and not any(name.startswith("cp_async") for name in names)
