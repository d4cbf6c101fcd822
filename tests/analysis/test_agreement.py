"""The agreement test: reference == simulator == host-run text, and prediction == simulated trace.

What a GPU adds is in tests/gpu; everything here runs without one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Kernel, dynamic_bytes, lower
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError
from layoutalg.kernels import FAMILIES, Family, verify
from layoutalg.kernels.matrix import MatrixProblem, reference
from layoutalg.layout import ComposedLayout, Swizzle
from tests.draws.matrices import arguments, buffers
from tests.draws.sequences import MATRIX_OPS
from tests.hostshim import KernelFault, run_cuda_text
from tests.mutants import planting
from tests.sweeps import each, first

DTYPES = ("u8", "f16", "f32", "f64", "c128")
# m, n, extra source columns, extra destination columns: full tiles, edges, vectors narrowed by odd strides
SIZES = ((256, 256, 0, 0), (70, 300, 20, 58), (131, 67, 0, 0), (1, 1, 0, 0), (5, 260, 4, 3))


def make(family: Family, dtype: str, size: tuple[int, int, int, int]) -> MatrixProblem:
    m, n, more_src, more_dst = size
    columns = m if family.name == "transpose" else n
    made: MatrixProblem = family.problem(m, n, dtype, n + more_src, columns + more_dst)
    return made


def host_run(kernel: Kernel, text: str, p: MatrixProblem, src: Any, dst: Any) -> None:
    grid = launch_grid(kernel, {"m": p.m, "n": p.n, "lds": p.lds, "ldd": p.ldd})
    args = [p.m, p.n, p.lds, p.ldd, src, dst]
    dynamic = dynamic_bytes(kernel)
    run_cuda_text(text, kernel.name, grid, (kernel.threads, 1, 1), args, dynamic)


@pytest.mark.deep(
    but=(
        "tiled_copy-u8-(256, 256, 0, 0)",
        "tiled_copy-f16-(131, 67, 0, 0)",
        "tiled_copy-f64-(70, 300, 20, 58)",
        "transpose-f64-(1, 1, 0, 0)",
    )
)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRIX_OPS)
def test_reference_is_simulator_and_prediction_is_trace(
    name: str, dtype: str, size: tuple[int, int, int, int]
) -> None:
    family = FAMILIES[name]
    p = make(family, dtype, size)
    for config in family.configs(p, "sm_90"):
        verify(family, p, config).require()


@pytest.mark.deep
@pytest.mark.parametrize("sizes", first(1, [list(SIZES[:1]), list(SIZES[1:3])]), ids=len)
@each("dtype", DTYPES)
@each("name", MATRIX_OPS)
def test_reference_is_the_printed_text_on_the_host(
    name: str, dtype: str, sizes: list[tuple[int, int, int, int]]
) -> None:
    family = FAMILIES[name]
    problems = [make(family, dtype, size) for size in sizes]
    for p, config in ((q, config) for q in problems for config in family.configs(q, "sm_90")):
        kernel = family.build(p, config)
        src, old = buffers(p, 1)
        expected, dst = reference(p, src, old), old.copy()
        host_run(kernel, to_cuda(kernel), p, src, dst)
        np.testing.assert_array_equal(expected.view("u1"), dst.view("u1"))


@pytest.mark.parametrize("name", MATRIX_OPS)
def test_lowering_changes_nothing(name: str) -> None:
    family = FAMILIES[name]
    p = make(family, "f16", SIZES[1])
    for config in family.configs(p, "sm_90"):
        kernel = family.build(p, config)
        src, old = buffers(p, 2)
        runs = []
        for k in (kernel, lower(kernel)):
            dst = old.copy()
            run = simulate(k, arguments(p, src, dst))
            costs = {s.op: run.trace.total(s.op) for s in run.trace.sites}
            runs.append((dst.tobytes(), {op: cost for op, cost in costs.items() if cost[0]}))
        assert runs[0] == runs[1]


def mutants() -> dict[str, Kernel]:
    """One wrong program for each mistake, of a transpose with full and edge tiles."""
    family = FAMILIES["transpose"]
    config = family.configs(MUTATED, "sm_90")[0]
    kernel = family.build(MUTATED, config)
    swizzle = config.layout.outer
    other = Swizzle(swizzle.bits, swizzle.base, swizzle.shift + 1)
    shifted = family.build(MUTATED, replace(config, layout=ComposedLayout(other, 0, config.layout.inner)))
    return {
        "swizzle constant off by one": planting.with_calls_of(kernel, shifted, "lds"),
        "barrier removed": planting.without(kernel, "block_sync"),
        "edge predicate dropped": planting.unguarded(kernel),
        "strides swapped": planting.swapped(kernel, "lds", "ldd"),
    }


MUTATED = FAMILIES["transpose"].problem(130, 200, "f32", 208, 132)
MISTAKES = ("swizzle constant off by one", "barrier removed", "edge predicate dropped", "strides swapped")


@pytest.mark.parametrize("how", ["block", "warp", "text"])
@each("mistake", MISTAKES)
def test_the_mistake_is_found(mistake: str, how: Any) -> None:
    """By the simulator, and by the text on the host, where threads without a barrier run in turn."""
    src, old = buffers(MUTATED, 3)
    dst, kernel = old.copy(), mutants()[mistake]
    try:
        if how == "text":
            host_run(kernel, print_kernel(lower(kernel)), MUTATED, src, dst)
        else:
            simulate(kernel, arguments(MUTATED, src, dst), group=how)
    except (SimulationError, KernelFault):
        return
    assert reference(MUTATED, src, old).tobytes() != dst.tobytes()


def test_a_missing_wait_for_the_copy_is_found() -> None:
    family = FAMILIES["tiled_copy"]
    p = family.problem(64, 256, "f32")
    config = next(c for c in family.configs(p, "sm_90") if c.via == "cp.async")
    src, old = buffers(p, 4)
    with pytest.raises(SimulationError, match="tile"):
        simulate(planting.without(family.build(p, config), "cp_async_wait"), arguments(p, src, old))
