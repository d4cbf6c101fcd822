"""Stream-K: the decomposition against its definition, and products by it against theirs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.codegen import compile as compile_program
from layoutalg.codegen.expr import Var, evaluate, minus
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import For, If, Let, printed
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.config_fields import difference
from layoutalg.kernels.gemm import BatchMode, Config, GemmProblem, Sm80Config, Sm90Config, gemm_problem
from layoutalg.kernels.gemm.choice import heuristic as choices
from layoutalg.kernels.gemm.choice.heuristic import expected_ns
from layoutalg.kernels.gemm.choice.suggest import check_or_suggest, suggest_config
from layoutalg.kernels.gemm.choice.tables import SM80_TILES, SM90_TILES, Sums, Tile
from layoutalg.kernels.gemm.launches import called_launches, launches
from layoutalg.kernels.gemm.programs.streamk import each_unit
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.gemm.work.units import WorkUnit, part_count, share_of, slot_count, work_units
from tests.kernels.gemm.cases import arguments, expected, packed
from tests.mutants.planting import rewrite, with_let
from tests.sweeps import each, first

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
    slots: list[int] = []
    for tile in sorted(parts):
        assert [x.first for x in parts[tile]] == sorted(x.first for x in parts[tile])
        own = [x.slot for x in parts[tile] if x.slot is not None]
        assert len(own) == (len(parts[tile]) if len(parts[tile]) > 1 else 0)
        assert own == [own[0] + i for i in range(len(own))]
        slots += own
    assert len(set(slots)) == len(slots) == part_count(tiles, steps, blocks)
    assert max(slots, default=-1) < slot_count(blocks)


def closed_form(tiles: int, steps: int, blocks: int, most: tuple[int, int, int]) -> list[list[Any]]:
    """What the loop of a kernel makes of numbers, by block: units, and the steps before each."""
    k = KernelBuilder("work", threads=32)
    given = tuple(k.param(name, n) for name, n in zip(("tiles", "steps", "blocks"), most, strict=True))
    with each_unit(k, "streamk", given[0], given[1], given[2], k.block(0, given[2])) as unit:
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


SM80 = Sm80Config(32, 32, 32, 1, 2, 3, edges=True, schedule="streamk")
SM90 = Sm90Config(64, 32, 3, 1, schedule="streamk")
ROWS = replace(SM90, through="shared")
SIDE = replace(ROWS, result_vec=4)
PAIR = replace(SM90, consumers=2, pingpong=True, cluster_m=2)
NARROW = replace(SM80, stages=2, via="registers", a_bytes=2, b_bytes=2)

CASES: dict[str, tuple[GemmProblem, Config, int]] = {
    "a wave and a part": (gemm_problem(66, 72, 136), SM80, 4),
    "no whole wave": (gemm_problem(50, 40, 328, reads_c=True, bias=True, activation="relu", ldd=48), SM80, 7),
    "more blocks than steps": (gemm_problem(32, 32, 64), replace(SM80, edges=False), 5),
    "nothing left": (gemm_problem(32, 64, 104), SM80, 2),
    "one tile left of many": (gemm_problem(96, 104, 72), SM80, 3),
    "fewer rows than a tile": (gemm_problem(20, 40, 200), SM80, 3),
    "rows of one": (gemm_problem(32, 35, 64), replace(SM80, result_vec=1), 3),
    "integers": (gemm_problem(32, 64, 320, "s8"), replace(SM80, tile_k=64, result_vec=4), 3),
    "through registers": (gemm_problem(40, 40, 97), NARROW, 3),
    "persistent": (gemm_problem(66, 72, 136, reads_c=True), replace(SM80, schedule="persistent"), 4),
    "boxes": (gemm_problem(72, 72, 200, "bf16"), SM90, 4),
    "boxes, many waves": (gemm_problem(200, 72, 136, "bf16"), SM90, 2),
    "boxes, two consumers": (gemm_problem(136, 40, 328, "f16"), replace(SM90, tile_m=128, consumers=2), 3),
    "clusters below each other": (gemm_problem(200, 72, 264, "bf16"), replace(SM90, cluster_m=2), 6),
    "clusters beside each other": (gemm_problem(136, 100, 328, "bf16"), replace(SIDE, cluster_n=2), 4),
    "ping-pong": (gemm_problem(200, 72, 264, "bf16"), replace(SM90, consumers=2, pingpong=True), 4),
    "ping-pong in clusters": (
        gemm_problem(200, 72, 328, "bf16", reads_c=True),
        replace(ROWS, consumers=2, pingpong=True, cluster_m=2), 4,
    ),
    "rows, C": (gemm_problem(72, 40, 264, "bf16", reads_c=True, bias=True, ldc=96), ROWS, 3),
    "odd rows of D": (gemm_problem(67, 39, 200, "bf16", ldd=43), replace(ROWS, result_vec=1), 3),
}  # fmt: skip


def by(p: GemmProblem, c: Config, blocks: int) -> Any:
    """The launches by so many blocks, as they are printed."""
    one = launches(p, c)
    size = c.cluster if isinstance(c, Sm90Config) else 1
    scratch = slot_count(blocks // size) * size * c.tile_m * c.tile_n * 4 if c.schedule == "streamk" else 0
    return replace(
        one, kernels=tuple(map(printed, one.kernels)), scratch_bytes=scratch,
        scalars=tuple((dict(one.scalars) | {"blocks": blocks}).items()),
    )  # fmt: skip


@each("name", CASES, sample=1)
def test_what_is_simulated_is_the_definition(name: str) -> None:
    p, c, blocks = CASES[name]
    args = arguments(p)
    want = expected(p, args)
    simulate_sequence(by(p, c, blocks), args, group="warp", trace=False)
    np.testing.assert_array_equal(args["d"], want)


def drawn(rng: random.Random) -> tuple[GemmProblem, Any]:
    """A small product of any orders and epilogue, and a configuration by stream-K that fits it."""
    while True:
        tiles = [SM80, NARROW, replace(SM80, tile_k=64, stages=2), SM90, Sm90Config(128, 64, 2), PAIR]
        c: Any = rng.choice(tiles)
        whole = 8 if isinstance(c, Sm90Config) else 1
        most = 5 * c.tile_m, 3 * c.tile_n, 7 * c.tile_k
        m, n, k = (-(-rng.randint(1, x) // whole) * whole for x in most)
        asked: dict[str, Any] = {f"{x}_major": rng.choice(["k", "mn"]) for x in "ab"}
        asked |= {"reads_c": rng.random() < 0.3, "bias": rng.random() < 0.3}
        p = gemm_problem(m, n, k, "f16", **asked, activation=rng.choice(["none", "relu"]))
        choice: Any = choices.choice_of(c)
        c = choice.shared(choice.fitted(p, c))
        try:
            check_config(p, c)
        except LayoutAlgError:
            continue
        return p, c


@pytest.mark.parametrize("seed", first(3, range(60)))
def test_random_products_by_random_blocks(seed: int) -> None:
    """By one block, and by more than there is work for."""
    rng = random.Random(20261123 + seed)
    p, c = drawn(rng)
    args = arguments(p, seed)
    want = expected(p, args)
    size = getattr(c, "cluster", 1)
    simulate_sequence(
        by(p, c, size * rng.randint(1, 30 // size)), args, group=rng.choice(["warp", "block"]), trace=False
    )
    np.testing.assert_array_equal(args["d"], want)


@pytest.mark.deep
def test_kernels_of_larger_problems_compute_this_one() -> None:
    """As calls launch them: one kernel for all sizes, whose rows of D are cut as this problem's are."""
    odd, even = gemm_problem(67, 39, 200, "f16", ldd=43), gemm_problem(67, 40, 200, "f16", ldd=48)
    for p, c in (
        (odd, replace(SM80, result_vec=1)), (odd, replace(ROWS, result_vec=1)), (even, SM80), (even, SM90)
    ):  # fmt: skip
        one = replace(by(p, c, 5), kernels=tuple(map(printed, called_launches(p, c).kernels)))
        args = arguments(p)
        want = expected(p, args)
        simulate_sequence(one, args, trace=False)
        np.testing.assert_array_equal(args["d"], want)


@pytest.mark.deep
def test_equal_calls_give_equal_bits() -> None:
    """Whatever the order of warps and blocks: numbers whose sums depend on the order of additions."""
    for c in (SM80, SM90):
        p = gemm_problem(72, 40, 328, "f16", result="f32")
        c = replace(c, result_vec=4)
        rng = np.random.default_rng(7)
        args = arguments(p) | {
            name: packed(rng.standard_normal(n), "f16") for name, n in (("a", p.a_elems), ("b", p.b_elems))
        }
        found, one = [], by(p, c, 5)
        for seed in range(2):
            mine = args | {"d": args["d"].copy()}
            simulate_sequence(one, mine, group="warp", seed=seed, trace=False)
            found.append(mine["d"].tobytes())
        assert len(set(found)) == 1


def later(name: str, by: int = 1) -> Any:
    """A mistake: a value that has a name is one more."""
    return lambda kernel: with_let(kernel, name, lambda old: old + by if by > 0 else minus(old, -by))


def always_whole(kernel: Any) -> Any:
    """A mistake: parts of tiles go to D."""

    def change(s: Any) -> tuple[Any, ...]:
        its = isinstance(s, If) and s.orelse and str(s.condition).startswith("unit_steps")
        return s.body if its else (s,)

    return rewrite(kernel, change)


def without_last_barrier(s: Any) -> tuple[Any, ...]:
    """A mistake: the next tile is copied while this one's sums go through shared memory."""
    return (replace(s, body=s.body[:-1]) if isinstance(s, For) and s.var.name == "turn" else s,)


MISTAKES: dict[str, tuple[int, Any]] = {
    "a wrong first step": (0, later("first")), "a dropped step": (0, later("end", -1)),
    "shares of another length": (0, later("share")),
    "a tile of the line too far": (0, later("at_line")), "another tile": (0, later("tile")),
    "parts into D": (0, always_whole), "a dropped part": (1, later("count", -1)),
    "the first part is dropped": (1, later("opens")),
    "parts of another length": (1, later("share")),
    "the last tile is dropped": (1, later("left", -1)),
    "another place in D": (1, later("first_column")),
}  # fmt: skip


@cache
def spoilt(family: str) -> tuple[GemmProblem, Any, Any]:
    """A product in which mistakes are planted: its kernels as they are written, and its launches."""
    p, c = (gemm_problem(66, 72, 136), SM80) if family == "sm80" else (gemm_problem(130, 72, 296), SM90)
    return p, launches(p, c).kernels, by(p, c, 7)


# the kernel that adds up is the same for both
@each(
    ("mistake", "family"),
    [*((x, "sm80") for x in MISTAKES), *((x, "sm90") for x, (i, _) in MISTAKES.items() if not i)],
    sample=1,
)
def test_mistakes_are_found(mistake: str, family: str) -> None:
    (p, kernels, one), (number, change) = spoilt(family), MISTAKES[mistake]
    wrong = change(kernels[number])
    assert wrong != kernels[number] and differs(p, one, number, wrong)


def test_a_missing_barrier_between_tiles_is_found() -> None:
    p, kernels, one = spoilt("sm80")
    one = replace(one, scalars=tuple((dict(one.scalars) | {"blocks": 3}).items()))
    assert not differs(p, one, 0, kernels[0])
    assert differs(p, one, 0, rewrite(kernels[0], without_last_barrier))


def differs(p: GemmProblem, one: Any, number: int, other: Any) -> bool:
    """Whether with another kernel the simulator refuses launches, or they leave something else in D."""
    args = arguments(p)
    want = expected(p, args)
    try:
        kernels = (*one.kernels[:number], printed(other), *one.kernels[number + 1 :])
        simulate_sequence(replace(one, kernels=kernels), args, group="warp", trace=False)
    except LayoutAlgError:
        return True
    return bool(args["d"].tobytes() != want.tobytes())


REFUSED: dict[str, tuple[GemmProblem, Config, dict[str, Any]]] = {
    "either cuts k": (gemm_problem(128, 128, 512), replace(SM80, splits=2), {"schedule": "data_parallel"}),
    "either cuts k; take splits = 1 or 'persistent'": (
        gemm_problem(128, 128, 512), replace(ROWS, splits=2, result_vec=4), {"schedule": "persistent"}
    ),
    "of a batch": (
        gemm_problem(128, 128, 64, batch=[BatchMode(2, 8192, 8192, 0, 16384)]), SM80,
        {"schedule": "data_parallel"},
    ),
    "take cluster_k = 1": (
        gemm_problem(256, 256, 512, "bf16"), replace(ROWS, cluster_k=2), {"cluster_k": 1}
    ),
    "f16 sums": (gemm_problem(128, 128, 64, accumulator="f16"), SM80, {"schedule": "data_parallel"}),
    "'data_parallel' and 'persistent'": (
        gemm_problem(128, 128, 64), replace(SM80, schedule="split"),  # type: ignore[arg-type]
        {"schedule": "data_parallel"},
    ),
}  # fmt: skip


@each("why", REFUSED)
def test_what_a_schedule_rules_out_is_refused_with_the_nearest_that_works(why: str) -> None:
    p, c, works = REFUSED[why]
    with pytest.raises(LayoutAlgError, match=why):
        check_or_suggest(p, c)
    found = suggest_config(p, c)
    assert found is not None and difference(c, found) == works


TRIED: dict[str, Any] = {"gemm-sm80": ("f16", choices.SM80, 2304), "gemm-sm90": ("bf16", choices.SM90, 6720)}


@each("family", TRIED)
def test_stream_k_is_chosen_where_waves_are_bad(family: str) -> None:
    element, choice, n = TRIED[family]
    found = choice.timed(gemm_problem(n, n, n, element))[0]
    usual = next(ns for ns, c in found if c.schedule != "streamk")
    shared = [(ns, c) for ns, c in found if c.schedule == "streamk"]
    assert found[0] == shared[0] and all(ns * 1.03 <= usual for ns, _ in shared)
    assert len({c for _, c in shared}) == len(shared)


@each("family", TRIED)
def test_stream_k_is_not_offered_where_waves_are_good(family: str) -> None:
    element, choice, _ = TRIED[family]
    assert all(c.schedule != "streamk" for c in choice.configs(gemm_problem(4096, 4096, 4096, element)))


def test_tiles_of_wgmma_of_other_heights_fill_the_waves_that_stream_k_would() -> None:
    for n in (2304, 3000, 4104):
        assert all(c.schedule != "streamk" for c in choices.SM90.configs(gemm_problem(n, n, n, "bf16")))


def test_what_is_expected_of_stream_k_is_counted_in_whole_waves_and_shares() -> None:
    c = Sm80Config(128, 128, 64, 2, 2, 3, schedule="streamk")
    p, tile, sums = gemm_problem(128 * 5, 128, 1024), Tile(c, (100.0,), (1000.0,)), Sums(2000.0, 0.001)
    # 5 tiles of 16 steps by 2 blocks: two waves, then 8 steps each, in two parts of one tile
    assert (
        expected_ns(p, c, tile, sums, 2)
        == 2 * (16 * 100 + 1000) + 8 * 100 + 1000 + 2000 + 2 * 128 * 128 * 4 * 0.001
    )
    # 5 tiles by 3 blocks: a wave, then shares of 11 of 32 steps: of two tiles each at most; 4 parts
    assert (
        expected_ns(p, c, tile, sums, 3) == 1600 + 1000 + 11 * 100 + 2000 + 2000 + 4 * 128 * 128 * 4 * 0.001
    )


@pytest.mark.deep
def test_the_largest_tiles_compile_without_spills() -> None:
    for p, c in (
        (gemm_problem(4104, 4104, 4104), SM80_TILES[0].config),
        (gemm_problem(4104, 4104, 4104, "bf16"), SM90_TILES[0].config),
    ):
        choice: Any = choices.choice_of(c)
        for kernel in launches(p, replace(choice.fitted(p, c), schedule="streamk")).kernels:
            assert compile_program(kernel).spill_bytes == 0
