"""The launches that compute a product: what they take, what they cost, and which problems share a kernel."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.codegen.gpu import gpu_status
from layoutalg.codegen.program import Global, Kernel, check_argument, lower
from layoutalg.codegen.sim import simulate
from layoutalg.codegen.traffic import Cost
from layoutalg.errors import ResourceError, UnsupportedError
from layoutalg.kernels.gemm import (
    launches as gemm_launches,
)
from layoutalg.kernels.gemm.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.launches import (
    Config,
    compile_launches,
    covering,
    launcher,
    launches,
    load_all,
    predictions,
)
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.tiles import SimtConfig, Sm80Config
from tests.gemm_cases import arguments

SPLIT: tuple[tuple[GemmProblem, Config], ...] = (
    (gemm_problem(64, 128, 256), Sm80Config(64, 64, 32, 2, 2, 3, splits=3)),
    (gemm_problem(64, 64, 256, "s8", bias=True), Sm80Config(64, 64, 64, 2, 2, 2, splits=2, result_vec=4)),
    (gemm_problem(64, 64, 96, "f32", b_major="mn"), SimtConfig(64, 64, 16, 8, 4, 4, splits=4)),
    (
        gemm_problem(64, 32, 64, "f64", b_major="mn", reads_c=True),
        SimtConfig(
            64, 32, 16, 8, 2, 4, a_vector=2, b_vector=2, fragment=2, run_m=2, run_n=2, result_vec=2, pad=2,
            splits=2,
        ),
    ),
)  # fmt: skip


@pytest.mark.parametrize(("p", "c"), SPLIT, ids=[str(p) for p, _ in SPLIT])
def test_predictions_are_what_the_simulator_counts(p: GemmProblem, c: Config) -> None:
    one = launches(p, c)
    args = arguments(p)
    sums = np.zeros(one.workspace_elems, one.workspace_dtype)
    found = predictions(p, c)
    assert len(found) == len(one.kernels) == 2
    for kernel, mine, predicted in zip(one.kernels, one.arguments(args, sums), found, strict=True):
        trace = simulate(lower(kernel), mine).trace
        assert {op: Cost(*trace.total(op)) for op in predicted} == predicted
        assert {site.op for site in trace.sites if trace.total(site.op)[0]} == set(predicted)


def test_a_whole_product_is_one_kernel_without_a_workspace() -> None:
    p, c = SPLIT[0][0], replace(SPLIT[0][1], splits=1)
    one = launches(p, c)
    assert len(one.kernels) == 1 and one.workspace_elems == 0 and len(predictions(p, c)) == 1


EXTENT = st.integers(1, 5000)


@settings(max_examples=8)
@given(EXTENT, EXTENT, EXTENT, st.integers(0, 9), st.booleans(), st.booleans())
def test_a_covering_kernel_takes_the_problem(
    m: int, n: int, k: int, more: int, simt: bool, reads_c: bool
) -> None:
    """Every argument of the problem is in the range that the wider kernel declares; its pointers align."""
    dtype = "f32" if simt else "f16"
    p = gemm_problem(m, n, k, dtype, b_major="mn", lda=k + more, ldb=n + more, ldd=n + more, reads_c=reads_c)
    choices: Any = SIMT.configs(p) if simt else SM80.configs(p)
    for c in {x.splits > 1: x for x in choices}.values():
        exact, wide = launches(p, c), launches(covering(p, c), c)
        given_args = {x: x for x in ("a", "b", "c", "d")} | scalar_words(p, "alpha", 1)
        given_args |= scalar_words(p, "beta", 1)
        for one, other, args in zip(exact.kernels, wide.kernels, exact.arguments(given_args), strict=True):
            assert [x.name for x in one.params] == [x.name for x in other.params]
            for mine, widened in zip(one.params, other.params, strict=True):
                if isinstance(mine, Global) and isinstance(widened, Global):
                    assert mine.align_bytes == widened.align_bytes
                elif not isinstance(widened, Global):
                    check_argument(widened, args[widened.name])


def test_neighbours_share_kernels() -> None:
    c = SimtConfig(128, 256, 8, 16, 8, 4, edges=True)
    sizes = range(4224, 8193, 128)
    assert len({covering(gemm_problem(n, n, n, "f32"), c) for n in sizes}) == 1


def test_a_compiled_kernel_keeps_what_a_launch_needs() -> None:
    p, c = SPLIT[0]
    done = compile_launches(p, c, "sm_90a")
    assert [x.declaration.name for x in done] == ["gemm_sm80_f16", "gemm_combine_f16"]
    for x, kernel in zip(done, launches(p, c).kernels, strict=True):
        assert x.declaration.params == kernel.params and x.declaration.grid == kernel.grid
        assert x.cubin.spill_bytes == 0 and kernel.name in x.source


class _Recorder:
    """A loaded kernel that keeps what it is given only by address, as a GPU does."""

    def __init__(self, kernel: Kernel, calls: list[str]) -> None:
        self.kernel, self.calls = kernel, calls

    def launcher(self, **args: Any) -> Callable[[], None]:
        assert set(args) == {p.name for p in self.kernel.params}
        return lambda: self.calls.append(self.kernel.name)


def test_a_launcher_keeps_its_workspace_alive_and_launches_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    class Workspace:
        pass

    asked: list[tuple[tuple[int, ...], str]] = []

    def device_array(shape: tuple[int, ...], dtype: str) -> Workspace:
        asked.append((shape, dtype))
        space = Workspace()
        alive.append(weakref.ref(space))
        return space

    alive: list[weakref.ref[Workspace]] = []
    monkeypatch.setattr(gemm_launches, "device_array", device_array)
    p, c = SPLIT[0]
    calls: list[str] = []
    fakes: Any = [_Recorder(kernel, calls) for kernel in launches(p, c).kernels]
    run = launcher(p, c, {"a": 0, "b": 0, "d": 0, **scalar_words(p, "alpha", 1)}, fakes)
    gc.collect()
    run()
    run()
    assert asked == [((3 * 64 * 128,), "uint32")] and alive[0]() is not None
    assert calls == ["gemm_sm80_f16", "gemm_combine_f16"] * 2


def test_a_way_that_cannot_work_is_refused_before_anything_is_compiled() -> None:
    (p, c), (q, d) = SPLIT[0], SPLIT[2]
    with pytest.raises(ResourceError, match="shared memory"):
        load_all([(p, c), (p, replace(c, stages=40))])
    with pytest.raises(ResourceError, match="threads a block"):
        load_all([(q, replace(d, tile_m=64 * 64, tile_n=64))])


@pytest.mark.skipif(gpu_status().available, reason="a GPU is here")
def test_without_a_gpu_a_launcher_says_so() -> None:
    p, c = SPLIT[0]
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        launcher(p, c, {})
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        load_all([(p, c)])


@pytest.mark.parametrize("c", [SimtConfig(64, 64, 8, 4, 4, 4), Sm80Config(64, 64, 32, 2, 2, 3)], ids=str)
def test_leading_dimensions_that_are_constants_are_not_widened(c: Config) -> None:
    p = gemm_problem(100, 72, 40, "f32" if isinstance(c, SimtConfig) else "f16", lda=56, ldd=80)
    constant, free = covering(p, replace(c, edges=True, static_ld=True)), covering(p, replace(c, edges=True))
    assert (constant.lda, constant.ldb, constant.ldd) == (p.lda, p.ldb, p.ldd)
    assert free.lda > p.lda and free.ldd > p.ldd
