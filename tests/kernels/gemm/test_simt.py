"""gemm-simt: barriers and waits that are missing are caught; every configuration is in test_agreement."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from layoutalg.codegen.instr import CP_WAIT
from layoutalg.codegen.program import Do, Kernel, LaunchSequence, Stmt, lower
from layoutalg.errors import SimulationError
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.programs.simt import build
from tests.gemm_cases import arguments, simulated
from tests.kernels.gemm.test_agreement import PLAIN, WAYS
from tests.mutants import planting
from tests.sweeps import each


def test_beta_zero_never_reads_c() -> None:
    assert "c" not in {q.name for q in build(gemm_problem(32, 64, 8, "f32"), PLAIN).params}


def weaker_wait(kernel: Kernel) -> Kernel:
    def later(s: Stmt) -> tuple[Stmt, ...]:
        weak = isinstance(s, Do) and s.instr is CP_WAIT
        return (Do(CP_WAIT, (s.args[0] + 1,)),) if weak else (s,)  # type: ignore[union-attr, operator]

    return planting.rewrite(kernel, later)


MUTATIONS: dict[str, tuple[str, Any]] = {
    **{f"no barrier, {way}": (way, lambda kernel: planting.without(kernel, "block_sync"))
       for way in ("cp.async", "registers", "one stage")},
    "no wait": ("cp.async", lambda kernel: planting.without(kernel, CP_WAIT.name)),
    "a wait for one tile fewer": ("cp.async", weaker_wait),
}  # fmt: skip


SPOILT = gemm_problem(32, 64, 40, "f32", b_major="mn")


@cache
def lowered(way: str) -> LaunchSequence:
    one = launches(SPOILT, replace(PLAIN, **WAYS[way]))
    return replace(one, kernels=tuple(map(lower, one.kernels)))


@each("group", ["block", "warp"])
@each("name", MUTATIONS)
def test_a_missing_barrier_or_wait_is_caught(name: str, group: Any) -> None:
    way, change = MUTATIONS[name]
    with pytest.raises(SimulationError):
        simulated(lowered(way), arguments(SPOILT), group=group, change=change)
