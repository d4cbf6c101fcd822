"""Stream-K: the decomposition against its definition, and products by it against theirs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen.expr import Var, evaluate
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import For, Let, printed
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels.gemm.launches import launches, sequence_of
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.streamk import WorkUnit, each_unit, part_count, share_of, slot_count, work_units
from layoutalg.kernels.gemm.tiles import Config, Sm80Config, Sm90Config
from tests.gemm_cases import arguments, expected
from tests.sweeps import each

COUNTS = st.integers(1, 60), st.integers(1, 20), st.integers(1, 20)


@given(*COUNTS)
@example(1, 1, 20)  # fewer steps than blocks
@example(40, 3, 20)  # nothing is left
@example(39, 7, 20)  # nearly a wave is left
def test_every_step_of_every_tile_is_computed_once(tiles: int, steps: int, blocks: int) -> None:
    units = work_units(tiles, steps, blocks)
    done = Counter((x.tile, x.first + i) for mine in units for x in mine for i in range(x.steps))
    assert done == Counter((tile, step) for tile in range(tiles) for step in range(steps))
    assert len(units) == blocks


@given(*COUNTS)
def test_shares_are_equal_and_parts_of_a_tile_lie_side_by_side(tiles: int, steps: int, blocks: int) -> None:
    units = work_units(tiles, steps, blocks)
    left = tiles - tiles % blocks
    shares = [sum(x.steps for x in mine if x.tile >= left) for mine in units]
    share = share_of(tiles, steps, blocks)
    line = tiles % blocks * steps
    assert share <= steps and shares == [max(0, min(share, line - block * share)) for block in range(blocks)]
    assert max(len(mine) for mine in units) <= tiles // blocks + 2
    parts: dict[int, list[WorkUnit]] = {}
    for mine in units:
        for x in mine:
            parts.setdefault(x.tile, []).append(x)
    slots = []
    for tile in sorted(parts):
        mine = [x.slot for x in parts[tile]]
        assert [x.first for x in parts[tile]] == sorted(x.first for x in parts[tile])
        assert mine == [None] if len(mine) == 1 else mine == list(range(mine[0], mine[0] + len(mine)))  # type: ignore[operator,arg-type]
        slots += [slot for slot in mine if slot is not None]
    assert len(set(slots)) == len(slots) == part_count(tiles, steps, blocks) and max(slots, default=-1) < slot_count(blocks)


def closed_form(tiles: int, steps: int, blocks: int, most: tuple[int, int, int]) -> list[list[Any]]:
    """What the loop of a kernel makes of numbers, by block: units, and the steps before each."""
    k = KernelBuilder("work", threads=32)
    given = [k.param(name, n) for name, n in zip(("tiles", "steps", "blocks"), most, strict=True)]
    with each_unit(k, "streamk", *given, k.block(0, given[2])) as unit:
        k.let("slot", unit.slot)
    *before, loop = k.build().body
    assert isinstance(loop, For)
    found = []
    for block in range(blocks):
        env: dict[Var, Any] = dict(zip(given, (tiles, steps, blocks), strict=True))
        env[k.block_var(0)] = block

        def run(body: Any, env: dict[Var, Any] = env) -> None:
            for s in body:
                assert isinstance(s, Let)
                env[s.var] = evaluate(s.value, env)

        run(before)
        mine = []
        for turn in range(evaluate(loop.count, env)):
            env[loop.var] = turn
            run(loop.body)
            tile, first, many, whole, done = (
                evaluate(x, env) for x in (unit.tile, unit.first, unit.steps, unit.whole, unit.before)
            )
            (slot,) = (env[v] for v in env if v.name == "slot")
            mine.append((WorkUnit(tile, first, many, None if whole else slot), done))
        found.append(mine)
    return found


@given(*COUNTS, st.sampled_from([(60, 20, 20), (99999, 16384, 1024)]))
@example(1, 1, 20, (60, 20, 20))
@example(40, 3, 20, (60, 20, 20))
def test_the_closed_form_is_the_definition(tiles: int, steps: int, blocks: int, most: Any) -> None:
    found = closed_form(tiles, steps, blocks, most)
    assert [tuple(unit for unit, _ in mine) for mine in found] == list(work_units(tiles, steps, blocks))
    for mine in found:
        assert [done for _, done in mine] == [sum(x.steps for x, _ in mine[:i]) for i in range(len(mine))]


SM80 = Sm80Config(64, 64, 32, 2, 2, 3, edges=True, schedule="streamk")
SM90 = Sm90Config(64, 64, 3, 1, schedule="streamk")
ROWS = replace(SM90, through="shared")

CASES: dict[str, tuple[GemmProblem, Config, int]] = {
    "a wave and a part": (gemm_problem(130, 136, 136), SM80, 4),
    "no whole wave": (gemm_problem(100, 72, 400, reads_c=True, bias=True, activation="relu", ldd=80), SM80, 7),
    "more blocks than steps": (gemm_problem(64, 64, 64), replace(SM80, edges=False), 5),
    "nothing left": (gemm_problem(64, 128, 104), SM80, 2),
    "one tile left of many": (gemm_problem(192, 200, 72), SM80, 3),
    "fewer rows than a tile": (gemm_problem(40, 72, 200), SM80, 3),
    "rows of one": (gemm_problem(64, 67, 64), replace(SM80, result_vec=1), 3),
    "integers": (gemm_problem(64, 128, 320, "s8"), Sm80Config(64, 64, 64, 2, 2, 2, result_vec=4, schedule="streamk"), 3),
    "through registers": (gemm_problem(72, 72, 97), Sm80Config(64, 64, 32, 2, 2, 2, via="registers", a_bytes=2, b_bytes=2, edges=True, schedule="streamk"), 3),
    "persistent": (gemm_problem(130, 136, 136, reads_c=True), replace(SM80, schedule="persistent"), 4),
    "boxes": (gemm_problem(72, 136, 200, "bf16"), SM90, 4),
    "boxes, many waves": (gemm_problem(200, 136, 136, "bf16"), SM90, 2),
    "boxes, two consumers": (gemm_problem(136, 136, 328, "f16"), Sm90Config(128, 64, 2, schedule="streamk"), 5),
    "rows, C": (gemm_problem(72, 88, 264, "bf16", reads_c=True, bias=True, ldc=96), ROWS, 3),
    "odd rows of D": (gemm_problem(67, 71, 200, "bf16", ldd=75), replace(ROWS, result_vec=1), 3),
}  # fmt: skip


def by(p: GemmProblem, c: Config, blocks: int) -> Any:
    """The launches by so many blocks, as they are printed."""
    one = launches(p, c)
    scratch = slot_count(blocks) * c.tile_m * c.tile_n * 4 if c.schedule == "streamk" else 0
    return replace(
        one, kernels=tuple(map(printed, one.kernels)), scratch_bytes=scratch,
        scalars=tuple((dict(one.scalars) | {"blocks": blocks}).items()),
    )  # fmt: skip


@each("name", CASES)
def test_what_is_simulated_is_the_definition(name: str) -> None:
    p, c, blocks = CASES[name]
    args = arguments(p)
    want = expected(p, args)
    simulate_sequence(by(p, c, blocks), args, group="warp", trace=False)
    np.testing.assert_array_equal(args["d"], want)
