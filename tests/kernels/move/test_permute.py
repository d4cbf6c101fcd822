"""Permutes agree: reference == simulator == host-run text, and prediction == simulated trace."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.costs import Cost, traffic
from layoutalg.codegen.expr import variables
from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, to_cuda
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.program import If, Kernel, Stmt, is_dynamic
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ShapeError, SimulationError, UnsupportedError
from layoutalg.kernels.move.misaligned import parts
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import (
    PermuteProblem,
    move_problem,
    normalise,
    permute_problem,
    reference,
)
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from tests.hostshim import run_cuda_text
from tests.mutants import planting
from tests.permutations import random_buffers, random_problem
from tests.sweeps import each, first

RANDOM, A_BATCH = 300, 20


def raw(array: Any) -> Any:
    return array.view("u1").copy()


def agree(p: PermuteProblem, c: PermuteConfig, seed: int, group: Literal["block", "warp"]) -> None:
    """Result and accesses of one configuration in the simulator."""
    kernel = build(normalise(p), c)
    src, old = random_buffers(p, seed)
    dst = raw(old)
    run = simulate(kernel, {"src": raw(src), "dst": dst}, group=group, seed=seed)
    assert dst.tobytes() == reference(p, src, old).tobytes(), (p, c)
    totals = {op: Cost(*run.trace.total(op)) for op in {site.op for site in run.trace.sites}}
    assert {op: cost for op, cost in totals.items() if cost.instructions} == dict(traffic(kernel, {})), (p, c)


@pytest.mark.deep
@pytest.mark.parametrize("batch", first(3, range(RANDOM // A_BATCH)))
def test_random_problems_agree(batch: int) -> None:
    for seed in range(batch * A_BATCH, (batch + 1) * A_BATCH):
        rng = random.Random(seed)
        p = random_problem(rng, 1500)
        c = rng.choice(configs(normalise(p)))
        agree(p, c, seed, "warp" if seed % 10 == 0 else "block")


CASES = (
    permute_problem((70, 130), (1, 0), "f16"),
    permute_problem((67, 131), (1, 0), "u8"),
    permute_problem((2, 20, 20, 3), (0, 3, 1, 2), "f32"),
    permute_problem((5, 6, 37, 55), (3, 1, 0, 2), "u8"),
    permute_problem((3, 40, 8, 32), (0, 2, 1, 3), "f16"),
    permute_problem((300, 40), (1, 0), "u8", dst=(303, 1), dst_offset=5, src_offset=3),
    move_problem((4, 50, 60), "f16", (0, 1, 50), (3000, 60, 1)),
    move_problem((30, 40), "f32", (-40, -1), (1, 30), src_offset=1199),
)


@pytest.mark.deep(
    only=(
        "permute (130,70) f16, src (1,130) -> dst (70,1)",
        "permute (131,67) u8, src (1,131) -> dst (67,1)",
        "permute (55,6,5,37) u8, src (1,2035,12210,55) -> dst (1110,185,37,1)",
        "permute (3,8,40,32) f16, src (10240,32,256,1) -> dst (10240,1280,32,1)",
        "permute (40,300) u8, src (1,40) -> dst (303,1) at 3 -> 5",
        "permute (4,50,60) f16, src (0,1,50) -> dst (3000,60,1)",
    )
)
@pytest.mark.parametrize("p", CASES, ids=str)
def test_every_configuration_agrees(p: PermuteProblem) -> None:
    for c in configs(normalise(p)):
        agree(p, c, 1, "block")


@pytest.mark.deep
@pytest.mark.parametrize("walk", first(2, ["rows", "source", "tile"]))
def test_blocks_may_walk_another_way(walk: Literal["rows", "source", "tile"]) -> None:
    for p in CASES:
        agree(p, replace(configs(normalise(p))[0], walk=walk), 6, "block")


@pytest.mark.deep
@pytest.mark.parametrize(("loading", "storing"), first(1, [(55, 60), (51, 0), (0, 48)]))
def test_some_of_the_threads_may_load_and_store(loading: int, storing: int) -> None:
    for p in CASES:
        agree(p, replace(configs(normalise(p))[0], threads=64, loading=loading, storing=storing), 7, "block")


@each("p", CASES, ids=str, sample=1)
def test_reference_is_the_printed_text_on_the_host(p: PermuteProblem) -> None:
    x = normalise(p)
    kernel = build(x, configs(x)[0])
    src, old = random_buffers(p, 2)
    dst = raw(old)
    host_run(kernel, raw(src), dst)
    assert dst.tobytes() == reference(p, src, old).tobytes()


def host_run(kernel: Kernel, src: Any, dst: Any) -> None:
    dynamic = kernel.shared_bytes if is_dynamic(kernel) else 0
    grid = launch_grid(kernel, {})
    run_cuda_text(to_cuda(kernel), kernel.name, grid, (kernel.threads, 1, 1), [src, dst], dynamic)


def test_on_turing_chunks_go_through_registers() -> None:
    p = permute_problem((66, 96), (1, 0), "f16")
    x = normalise(p)
    c = configs(x, "sm_75")[0]
    assert "cp_async" not in to_cuda(build(x, c), "sm_75")
    agree(p, c, 3, "block")


@pytest.mark.parametrize("name", ["block_sync", "cp_async_wait"])
def test_a_missing_wait_is_found(name: str) -> None:
    p = permute_problem((128, 128), (1, 0), "f32")
    x = normalise(p)
    src, old = random_buffers(p, 4)
    kernel = planting.without(build(x, configs(x)[0]), name)
    with pytest.raises(SimulationError):
        simulate(kernel, {"src": raw(src), "dst": raw(old)}, group="warp", seed=1)


def test_a_missing_edge_predicate_is_found() -> None:
    p = permute_problem((70, 131), (1, 0), "f32")
    x = normalise(p)
    src, old = random_buffers(p, 5)
    dst = raw(old)

    def unasked(s: Stmt) -> tuple[Stmt, ...]:
        return s.body if isinstance(s, If) and any(v.name in "ij" for v in variables(s.condition)) else (s,)

    try:
        simulate(planting.rewrite(build(x, configs(x)[0]), unasked), {"src": raw(src), "dst": dst})
    except SimulationError:
        return
    assert not np.array_equal(dst, raw(reference(p, src, old)))


@pytest.mark.deep(but=("permute (16,3,64,64) f16, src (12288,1,192,3) -> dst (12288,4096,64,1)",))
@pytest.mark.parametrize(
    "p",
    [
        permute_problem((16, 64, 64, 3), (0, 3, 1, 2), "f16"),
        permute_problem((1001, 999), (1, 0), "u8"),
        permute_problem((1001, 999), (1, 0), "f16"),
        permute_problem((64, 3, 5, 511), (3, 1, 0, 2), "u8"),
    ],
    ids=str,
)
def test_the_compiler_leaves_vector_stores_whole(p: PermuteProblem) -> None:
    """A split store costs four times the sectors; only the ends of runs are stored by words."""
    x = normalise(p)
    config = configs(x)[0]
    kernel = build(x, config)
    (code,) = parse_sass(disassemble(compile_cubin(to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a").image))
    stores = Counter(i.opcode for i in code.instructions if i.opcode.startswith("STG"))
    whole = f"STG.E.{8 * config.vec * p.element_bytes}"
    assert set(stores) <= {whole, "STG.E", f"STG.E.U{8 * p.element_bytes}"}
    ends = len(parts(Stage(x, config))) if Stage(x, config).lead else 0
    assert stores[whole] and stores["STG.E"] <= ends * stores[whole]


@pytest.mark.deep
@each("dtype", ["u8", "f16", "f32", "u64"])
@each(("shape", "tile"), [((33, 49), (16, 16)), ((32, 64), (32, 32))])
def test_a_configuration_by_hand_is_refused_by_name_or_moves_what_it_should(
    dtype: str, shape: tuple[int, int], tile: tuple[int, int]
) -> None:
    """Whatever the widths: of each one that is built, the result is the definition's."""
    p, outcomes = permute_problem(shape, (1, 0), dtype), Counter[str]()
    widths = (1, 2, 3, 4, 8, 16, 32)
    every = list(product(widths, widths, (False, True), ("cp.async", "registers")))
    for chunk, vec, turned, via in random.Random(shape[0]).sample(every, 64):
        c = PermuteConfig("staged", tile, 64, chunk, vec, turned=turned, via=via, align=32)  # type: ignore[arg-type]
        try:
            agree(p, c, 0, "block")
        except UnsupportedError as error:
            assert str(error).startswith(("chunk = ", "vec = ", "turned words "))
            outcomes[str(error).split()[0]] += 1
        else:
            outcomes["built"] += 1
    assert {"built", "chunk", "vec", "turned"} <= set(outcomes)


@each(
    ("change", "error", "text"),
    [
        (
            {"chunk": 1},
            UnsupportedError,
            r"chunk = 1, 2 bytes of .*, copied by cp.async: 4, 8, 16 are accepted",
        ),
        ({"vec": 3}, UnsupportedError, r"vec = 3, 6 bytes of .*, stored: 1, 2, 4, 8, 16 are accepted"),
        ({"via": "tma"}, UnsupportedError, "via = 'tma': 'cp.async' and 'registers' are accepted"),
        ({"way": "turned"}, UnsupportedError, "way = 'turned': 'direct' and 'staged' are accepted"),
        ({"tile": (32,)}, ShapeError, "2 extents from 1 on are needed, one per mode"),
        ({"tile": (32, 0)}, ShapeError, "2 extents from 1 on are needed, one per mode"),
    ],
)
def test_what_no_kernel_has_is_named(change: dict[str, Any], error: type[Exception], text: str) -> None:
    x, c = normalise(permute_problem((64, 96), (1, 0), "f16")), PermuteConfig("staged", (32, 32), 64, 2, 2)
    assert build(x, c).name == "permute_b16"
    with pytest.raises(error, match=text):
        build(x, replace(c, **change))
