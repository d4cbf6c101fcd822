"""gemm_simt: the reference and the simulator agree for every configuration; what is broken is caught."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.instr import BAR, CP_WAIT
from layoutalg.codegen.program import Do, For, If, Kernel, Stmt
from layoutalg.errors import SimulationError
from layoutalg.kernels.gemm.problem import Major, gemm_problem, scalar_words
from layoutalg.kernels.gemm.programs.simt import build
from layoutalg.kernels.ladder.steps import SIMT_LADDER as LADDER
from layoutalg.kernels.ladder.steps import SimtStep
from tests.hostshim import run_cuda_text
from tests.simt import inputs, run, strided
from tests.sweeps import each

SMALL = SimtStep(32, 64, 8, 4, 8, 4, edges=True, panel=2)
WAYS: dict[str, dict[str, Any]] = {
    "cp.async": {},
    "cp.async, registers where turned": {"turn": "registers", "stages": 2},
    "registers": {"via": "registers", "turn": "registers", "stages": 2},
    "one stage": {"via": "registers", "turn": "registers", "stages": 1},
    "one stage ahead": {"via": "registers", "turn": "registers", "stages": 1, "ahead": True},
    "fragments of one step": {"fragments": 1, "stages": 4},
    "fragments of four steps": {"fragments": 4, "stages": 3},
    "straight": {"via": "global"},
}
DOUBLE = SimtStep(
    16, 32, 8, 2, 8, 8, run_m=2, run_n=2, a_vector=2, b_vector=2, fragment=2, pad=2, result_vec=2, edges=True
)  # fmt: skip
SCALAR = replace(SMALL, a_vector=1, b_vector=1, result_vec=1)


@each("way", WAYS, sample=1)
@each(("a", "b"), [*product(("k", "mn"), repeat=2)], sample=3)
def test_every_way_and_storage_order_multiplies(way: str, a: Major, b: Major) -> None:
    p = gemm_problem(40, 72, 28, "f32", a_major=a, b_major=b, ldd=76)
    done = run(p, replace(SMALL, **WAYS[way]))
    np.testing.assert_array_equal(done.got, done.expected)
    assert np.isnan(done.around).all()


@each("name", LADDER, sample=4)
def test_every_step_of_the_ladder_multiplies(name: str) -> None:
    c = LADDER[name]
    p = gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k, "f32", b_major="mn")
    done = run(p, c)
    np.testing.assert_array_equal(done.got, done.expected)


@each("way", ["cp.async", "registers", "one stage ahead"])
@each("size", [(1, 1, 1), (37, 53, 29), (31, 67, 8), (33, 1, 17), (1, 65, 3)], sample=1)
def test_odd_sizes_and_the_whole_epilogue(way: str, size: tuple[int, int, int]) -> None:
    m, n, k = size
    p = gemm_problem(
        m, n, k, "f32", b_major="mn", reads_c=True, bias=True, activation="relu", lda=k + 2, ldb=n + 1,
        ldc=n + 3, ldd=n + 5,
    )  # fmt: skip
    done = run(p, replace(SCALAR, **WAYS[way]), group="warp", seed=m)
    np.testing.assert_array_equal(done.got, done.expected)
    assert np.isnan(done.around).all()


@each("way", ["cp.async", "registers", "one stage"], sample=1)
@each(("a", "b"), [("k", "mn"), ("mn", "k")])
def test_doubles(way: str, a: Major, b: Major) -> None:
    p = gemm_problem(18, 34, 12, "f64", a_major=a, b_major=b, reads_c=True, bias=True, activation="relu")
    done = run(p, replace(DOUBLE, **WAYS[way]))
    np.testing.assert_array_equal(done.got, done.expected)


@pytest.mark.deep
@each("dtype", ["f32", "f64"])
@each("way", ["cp.async", "registers", "straight"])
def test_the_text_computes_what_the_simulator_does(way: str, dtype: str) -> None:
    c = replace(SMALL if dtype == "f32" else DOUBLE, **WAYS[way])
    p = gemm_problem(34, 68, 12, dtype, b_major="mn", reads_c=True, bias=True, activation="relu")
    done, x, kernel = run(p, c), inputs(p), build(p, c)
    given = {name: getattr(p, name) for name in ("m", "n", "k", "lda", "ldb", "ldc", "ldd")}
    given |= scalar_words(p, "alpha", 2.0) | scalar_words(p, "beta", 3.0) | x
    grid = launch_grid(kernel, {name: value for name, value in given.items() if isinstance(value, int)})
    args = [given[q.name] for q in kernel.params]
    run_cuda_text(to_cuda(kernel), kernel.name, grid, (kernel.threads,), args)
    np.testing.assert_array_equal(strided(x["d"], p, p.ldd), done.got)


def test_beta_zero_never_reads_c() -> None:
    p = gemm_problem(32, 64, 8, "f32")
    assert "c" not in {q.name for q in build(p, SMALL).params}


@pytest.mark.parametrize("way", ["cp.async", "registers", "one stage"])
def test_nan_and_infinity_go_where_the_definition_sends_them(way: str) -> None:
    p = gemm_problem(34, 68, 13, "f32", b_major="mn", reads_c=True, activation="relu")
    x = inputs(p)
    x["a"][3 * p.lda + 5], x["a"][33 * p.lda + 12] = np.nan, np.inf
    x["b"][2 * p.ldb + 7], x["c"][-1] = -np.inf, np.nan
    done = run(p, replace(SMALL, **WAYS[way], a_vector=1, b_vector=1) if way != "cp.async" else SMALL, data=x)
    np.testing.assert_array_equal(done.got, done.expected)
    assert np.isnan(done.got).any()
    assert np.isinf(done.got).any()


def _edit(body: tuple[Stmt, ...], change: Any) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        match s:
            case For(body=inner):
                out.append(replace(s, body=_edit(inner, change)))
            case If(body=inner, orelse=orelse):
                out.append(replace(s, body=_edit(inner, change), orelse=_edit(orelse, change)))
            case _:
                out += change(s)
    return tuple(out)


def _without(which: Any) -> Any:
    def drop(s: Stmt) -> list[Stmt]:
        return [] if isinstance(s, Do) and s.instr is which else [s]

    return lambda kernel: replace(kernel, body=_edit(kernel.body, drop))


def _weaker_wait(kernel: Kernel) -> Kernel:
    def later(s: Stmt) -> list[Stmt]:
        weak = isinstance(s, Do) and s.instr is CP_WAIT
        return [Do(CP_WAIT, (s.args[0] + 1,))] if weak else [s]  # type: ignore[union-attr, operator]

    return replace(kernel, body=_edit(kernel.body, later))


MUTATIONS = {
    "no barrier": ("cp.async", _without(BAR)),
    "no wait": ("cp.async", _without(CP_WAIT)),
    "a wait for one tile fewer": ("cp.async", _weaker_wait),
    "no barrier, registers": ("registers", _without(BAR)),
    "no barrier, one stage": ("one stage", _without(BAR)),
}


@each("group", ["block", "warp"])
@each("name", MUTATIONS)
def test_a_missing_barrier_or_wait_is_caught(name: str, group: Any) -> None:
    way, change = MUTATIONS[name]
    p = gemm_problem(32, 64, 40, "f32", b_major="mn")
    with pytest.raises(SimulationError):
        run(p, replace(SMALL, **WAYS[way]), group=group, change=change)
