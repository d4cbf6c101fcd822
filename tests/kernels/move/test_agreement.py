"""Moves agree: definition, simulator, host-run text and predicted costs, of bits and of numbers converted."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.expr import variables
from layoutalg.codegen.gpu import prepare, to_cuda
from layoutalg.codegen.program import If, Stmt
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ShapeError, SimulationError, UnsupportedError
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import PermuteProblem, normalise, permute_problem, reference
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from tests.draws.moves import plans, random_case, random_matrix, random_move, verdict
from tests.draws.permutations import WIDTHS, random_buffers, random_conversion, random_problem
from tests.judges.agreement import agree
from tests.mutants import planting
from tests.sweeps import each
from tests.tiers import first_tier

BATCH = 20


def configs_of(p: PermuteProblem) -> tuple[PermuteConfig, ...]:
    return configs(normalise(p))


@pytest.mark.deep
@pytest.mark.parametrize("draw", [random_problem, random_conversion])
@pytest.mark.parametrize("batch", range(15))
def test_random_moves_agree(batch: int, draw: Any) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        rng = random.Random(seed)
        p = draw(rng, 1500)
        agree(p, rng.choice(configs_of(p)), seed, "block" if seed % 10 else "warp")


CASES = [random_problem(random.Random(f"case {n}"), 3000) for n in range(8)]
CASES += [random_conversion(random.Random(f"case {n}"), 3000) for n in range(6)]
CASES += [permute_problem((300, 40), (1, 0), "u8", dst=(303, 1), dst_offset=5, src_offset=3)]
"""Drawn moves and conversions, and one between rows that start anywhere."""


@pytest.mark.deep(only=tuple(f"{n}" for n in range(2, len(CASES))))
@pytest.mark.parametrize("n", range(len(CASES)))
def test_every_configuration_agrees(n: int) -> None:
    """On Turing chunks go through registers."""
    for arch in ("sm_90", "sm_75"):
        for c in configs(normalise(CASES[n]), arch)[: 2 if first_tier() else None]:
            assert arch != "sm_75" or "cp_async" not in to_cuda(build(normalise(CASES[n]), c), arch)
            agree(CASES[n], c, arch=arch)


@pytest.mark.deep
@each(
    "changed",
    [
        {"walk": "rows"}, {"walk": "source"}, {"walk": "tile"}, {"threads": 64, "loading": 55, "storing": 60},
        {"threads": 64, "loading": 51}, {"threads": 64, "storing": 48},
    ],
)  # fmt: skip
def test_blocks_walk_and_threads_share_the_work_in_other_ways(changed: dict[str, Any]) -> None:
    for p in CASES:
        if (c := configs_of(p)[0]).way == "staged":
            agree(p, replace(c, **changed), 6)


@each("p", CASES[::-1], ids=str, sample=1)
def test_the_printed_text_agrees_on_the_host(p: PermuteProblem) -> None:
    agree(p, configs_of(p)[0], 2, "text")


@pytest.mark.deep
@each("shape", [(), (1,), (1, 1), (3,), (4, 1), (1, 4), (2, 3, 1)], sample=1)
@each("dtype", ["u8", "u16", "f32", "f64"], sample=1)
def test_few_elements_that_start_anywhere_are_moved(dtype: str, shape: tuple[int, ...]) -> None:
    """A lead moves positions past the end of a run, of one element too."""
    axes = tuple(reversed(range(len(shape))))
    for n in range(32 // permute_problem((1,), (0,), dtype).element_bytes):
        agree(permute_problem(shape, axes, dtype, src_offset=n, dst_offset=n), None, n)


@pytest.mark.deep
@pytest.mark.parametrize("batch", range(5))
def test_every_plan_of_a_move_between_views_is_proven_and_right(batch: int) -> None:
    for seed in range(10 * batch, 10 * batch + 10):
        draw = random_matrix if seed % 5 == 0 else random_case
        case = draw(random.Random(f"plan {seed}"), 800)
        for c in plans(case):
            assert verdict(case, c, seed) == "", (case, c)


@pytest.mark.deep(only=("sm_80-2", "sm_90-3"))
@pytest.mark.parametrize(("arch", "seed"), [("sm_75", 1), ("sm_80", 2), ("sm_90", 3)])
def test_every_plan_of_a_move_between_views_compiles(arch: str, seed: int) -> None:
    for n in range(2):
        case = random_move(random.Random(f"compiled {seed} {n}"), 800)
        for c in plans(case, arch):
            assert prepare(build(normalise(case.problem), c), arch).cubin.spill_bytes == 0


def _with_a_lead(rng: random.Random) -> tuple[Any, Stage] | None:
    """A problem of narrow elements, and a tile that turns words of runs that start between units."""
    dtype, rank = rng.choice(("u8", "f16")), rng.choice((2, 3, 4))
    size = WIDTHS[dtype]
    shape = tuple(rng.choice((1, 2, 3, 5, 7, 8, 9, 12, 16, 24, 33)) for _ in range(rank))
    axes = tuple(rng.sample(range(rank), rank))
    dst, step = [0] * rank, 1
    for k in reversed(range(rank)):
        dst[k], step = step, step * shape[axes[k]]
        step += rng.choice((0, 0, -step % 4, -step % 16, 3))
    starts: dict[str, Any] = {"src_offset": rng.choice((0, 4)), "dst_offset": rng.choice((0, 1, 3, 8))}
    x = normalise(p := permute_problem(shape, axes, dtype, dst=tuple(dst), **starts))
    if x.element_bytes != size or np.prod(shape) > 4000:
        return None
    for _ in range(20):
        tile = tuple(rng.choice((m.extent, min(m.extent, 4 * rng.randint(1, 4)))) for m in x.modes)
        vec, align = rng.choice((4, 8, 16)) // size, rng.choice((0, 16, 32)) // size
        c = PermuteConfig("staged", tile, 64, 16 // size, max(1, vec), align=align if align > vec else 0)
        stage = Stage(x, c)
        if stage.dst_run and stage.lead and stage.can_turn:
            pad, lanes = rng.choice((0, 16)), rng.choice((0, 4))
            return p, Stage(x, replace(c, turned=True, pad_bytes=pad, lanes=lanes))
    return None


@pytest.mark.deep
@pytest.mark.parametrize("batch", range(3))
def test_words_are_turned_where_runs_of_a_group_start_alike(batch: int) -> None:
    seen = 0
    for seed in range(batch * 250, (batch + 1) * 250):
        if found := _with_a_lead(random.Random(seed)):
            p, stage = found
            assert stage.modes[stage.src_run[0]].dst % stage.unit == 0
            agree(p, stage.config, seed)
            seen += 1
    assert seen > 4


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
            agree(p, c, 0)
        except UnsupportedError as error:
            assert str(error).startswith(("chunk = ", "vec = ", "turned words "))
            outcomes[str(error).split()[0]] += 1
        else:
            outcomes["built"] += 1
    assert {"built", "chunk", "vec", "turned"} <= set(outcomes)


@each(
    ("change", "error", "text"),
    [
        ({"chunk": 1}, UnsupportedError, r"chunk = 1, 2 bytes .*: 4, 8, 16 are"),
        ({"vec": 3}, UnsupportedError, r"vec = 3, 6 bytes .*: 1, 2, 4, 8, 16 are"),
        ({"via": "tma"}, UnsupportedError, "via = 'tma'"),
        ({"way": "turned"}, UnsupportedError, "way = 'turned'"),
        ({"tile": (32,)}, ShapeError, "2 extents from 1 on"),
        ({"tile": (32, 0)}, ShapeError, "2 extents from 1 on"),
    ],
)
def test_what_no_kernel_has_is_named(change: dict[str, Any], error: type[Exception], text: str) -> None:
    x, c = normalise(permute_problem((64, 96), (1, 0), "f16")), PermuteConfig("staged", (32, 32), 64, 2, 2)
    assert build(x, c).name == "permute_b16"
    with pytest.raises(error, match=text):
        build(x, replace(c, **change))


# --- mistakes, and the machine's code ------------------------------------------------------------------


def _unasked(s: Stmt) -> tuple[Stmt, ...]:
    return s.body if isinstance(s, If) and any(v.name in "ij" for v in variables(s.condition)) else (s,)


@pytest.mark.parametrize("mistake", ["block_sync", "cp_async_wait", "edge predicate"])
def test_what_is_missing_is_found(mistake: str) -> None:
    edge = mistake == "edge predicate"
    p = permute_problem((70, 131) if edge else (128, 128), (1, 0), "f32")
    kernel = build(normalise(p), configs_of(p)[0])
    broken = planting.rewrite(kernel, _unasked) if edge else planting.without(kernel, mistake)
    src, old = random_buffers(p, 4)
    dst = old.copy()
    try:
        simulate(broken, {"src": src.view("u1"), "dst": dst.view("u1")}, group="warp", seed=1)
    except SimulationError:
        return
    assert edge and not np.array_equal(dst, reference(p, src, old))
