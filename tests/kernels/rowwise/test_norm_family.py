"""Norms agree: definition == simulator == host-run text, within the stated bounds, in every configuration."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, to_cuda
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.program import Do, Kernel, Stmt, is_dynamic
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ShapeError, SimulationError, UnsupportedError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import walk_of
from layoutalg.kernels.rowwise.unaligned import SkewedColumns
from tests.hostshim import run_cuda_text
from tests.mutants import planting
from tests.norms import check, data, launch_all, random_problem
from tests.sweeps import each

RANDOM, A_BATCH = 100, 20


def agree(p: NormProblem, c: NormConfig, seed: int, group: Literal["block", "warp"] = "block") -> None:
    """The result of one configuration in the simulator."""
    d = data(p, seed)

    def run(kernel: Kernel, args: dict[str, Any]) -> None:
        simulate(kernel, args, group=group, seed=seed, trace=False)

    check(p, d, launch_all(plan(p, config=c), d, run, lambda a: a))


@pytest.mark.deep(only=("1", "2", "3", "4"))
@pytest.mark.parametrize("batch", range(RANDOM // A_BATCH))
def test_random_problems_agree(batch: int) -> None:
    for seed in range(batch * A_BATCH, (batch + 1) * A_BATCH):
        rng = random.Random(seed)
        p = random_problem(rng, 1500)
        agree(p, rng.choice(configs(p)), seed, "warp" if seed % A_BATCH == 7 else "block")


CASES = (
    norm_problem("softmax", (3, 1000), 1, "f32"),
    norm_problem("softmax", (3, 1001), 1, "f16", src_offset=3, dst_offset=3),
    norm_problem("softmax", (100, 64), 0, "bf16"),
    norm_problem("softmax", (2, 50, 33), 1, "f32", in_place=True),
    norm_problem("softmax", (4, 3, 10, 10), (0, 2, 3), "f16"),
    norm_problem("layer_norm", (3, 1001), 1, "bf16", weight=True, bias=True),
    norm_problem("layer_norm", (5, 256), 1, "f16", weight=True, bias=True),
    norm_problem("layer_norm", (2, 30, 48), (0, 1), "f32", weight=True, bias=True, in_place=True),
    norm_problem("layer_norm", (4, 20, 30), (1, 2), "f32", (600, 1, 20), bias=True),
    norm_problem("softmax", (90, 33), 0, "f32"),
    norm_problem("layer_norm", (3, 70, 51), 1, "f16", weight=True, bias=True),
    norm_problem("softmax", (70, 100), 0, "bf16", (101, 1), (109, 1), 3, 3),
    norm_problem("layer_norm", (60, 20, 3), (0, 2), "f16", weight=True),
)
"""Rows and columns, ragged or skewed or neither, in place or not, of one mode or several."""


@pytest.mark.deep
@each("p", CASES, ids=str)
def test_every_way_agrees(p: NormProblem) -> None:
    """What the plan may choose, what is read twice, and what is split."""
    found = configs(p)
    best = found[0]
    twice = NormConfig(best.vec, best.rows_per_block, best.threads_per_row, "global", 2)
    some = [
        twice,
        replace(twice, splits=2),
        replace(twice, splits=3, depth=1),
    ]
    if best.vec * p.dtype.nbytes >= 4:
        some += [replace(twice, hold="shared"), replace(twice, hold="shared", staged=1)]
        some += [replace(twice, staged=4), replace(twice, staged=6, splits=2)]
    for c in (*found, *some):
        agree(p, c, 1)


@each("seed", range(12), sample=1)
def test_random_skewed_columns_agree(seed: int) -> None:
    """Odd pitches, offsets that both sides share, kept modes around, whatever the plan may choose."""
    rng = random.Random(seed)
    outer, rows, width = rng.choice([1, 1, 3]), rng.randint(2, 90), rng.randint(9, 80)
    pitch = width // 2 * 2 + 1 + rng.choice([0, 0, 2, 8])
    offset = rng.choice([0, 0, rng.randint(1, 9)])
    op = rng.choice(["softmax", "layer_norm"])
    p = norm_problem(
        op, (outer, rows, width), 1, rng.choice(["f32", "f16", "bf16"]), (rows * pitch, pitch, 1),
        (rows * pitch, pitch, 1), offset, offset, weight=op == "layer_norm" and rng.random() < 0.5,
    )  # fmt: skip

    def skewed(c: NormConfig) -> bool:
        return isinstance(walk_of(form_of(p), p.dtype, c), SkewedColumns)

    wide = NormConfig(16 // p.dtype.nbytes, 8, 64, "global", 4)
    c = rng.choice([*filter(skewed, configs(p)), wide])
    assert skewed(c)
    if rng.random() < 0.4:
        c = replace(c, hold="global", splits=rng.choice([1, 2, 3]), staged=rng.choice([0, 2 * c.depth]))
    agree(p, c, seed, "warp" if seed % 6 == 5 else "block")


RING = NormConfig(8, 4, 16, "global", 2, splits=2, staged=4)
MIXED = NormConfig(8, 1, 32, "shared", 2, staged=2)


@pytest.mark.deep
@each(
    ("p", "c"),
    [
        *((p, None) for p in CASES),
        (norm_problem("softmax", (300, 64), 0, "f16"), RING),
        (norm_problem("layer_norm", (2, 1001), 1, "f16", weight=True), MIXED),
    ],
    ids=str,
)
def test_the_printed_text_agrees_on_the_host(p: NormProblem, c: NormConfig | None) -> None:
    d = data(p, 2)

    def run(kernel: Kernel, args: dict[str, Any]) -> None:
        dynamic = kernel.shared_bytes if is_dynamic(kernel) else 0
        grid, block = launch_grid(kernel, {}), (kernel.threads, 1, 1)
        given = [args[q.name] for q in kernel.params]
        run_cuda_text(to_cuda(kernel), kernel.name, grid, block, given, dynamic)

    check(p, d, launch_all(plan(p, config=c), d, run, lambda a: a))


@pytest.mark.deep
def test_equal_launches_give_equal_bits() -> None:
    p = norm_problem("softmax", (2, 5000), 1, "f32")
    d, c = data(p, 4), replace(configs(p)[-1], hold="global", splits=4)
    ways: list[dict[str, Any]] = [{"group": "block"}, *({"group": "warp", "seed": n} for n in (1, 2))]
    launches, results = plan(p, config=c), set()
    for way in ways:

        def run(kernel: Kernel, args: dict[str, Any], way: dict[str, Any] = way) -> None:
            simulate(kernel, args, trace=False, **way)

        results.add(launch_all(launches, d, run, lambda a: a).tobytes())
    assert len(results) == 1


@each(
    "row",
    [
        [-np.inf] * 40, [np.inf, *[0.0] * 39], [np.nan, *[1.0] * 39], [*[-np.inf] * 39, 2.0],
        [3e38, -3e38, *[0.0] * 38], [1e-40] * 40,
    ],
)  # fmt: skip
@each("hold", ["registers", "global"])
def test_rows_of_special_values(row: list[float], hold: Literal["registers", "global"]) -> None:
    p = norm_problem("softmax", (2, 40), 1, "f32")
    d = data(p, 5, special=False)
    d.src[:40] = np.array(row, np.float32).view(np.uint32)
    d.x[0] = np.array(row, np.float32)
    launches = plan(p, config=NormConfig(4, 1, 32, hold, 2, splits=1))
    got = launch_all(launches, d, lambda k, a: simulate(k, a, trace=False), lambda a: a)
    check(p, d, got)
    no_number = max(row) in (-np.inf, np.inf) or np.isnan(row).any()
    assert np.isnan(got[:40].view(np.float32)).all() == np.isnan(got[:40].view(np.float32)).any() == no_number


def test_a_variance_far_from_zero_is_stable() -> None:
    """Squares of numbers near 4096 have no bits left for a variance of 1; differences do."""
    p = norm_problem("layer_norm", (1, 4000), 1, "f32")
    d = data(p, 6)
    values = (np.random.default_rng(0).standard_normal(4000) + 4096).astype(np.float32)
    d.src[:4000], d.x[0] = values.view(np.uint32), values
    for c in (NormConfig(4, 1, 128, "registers"), NormConfig(4, 1, 64, "global", 4, splits=2)):
        check(p, d, launch_all(plan(p, config=c), d, lambda k, a: simulate(k, a, trace=False), lambda a: a))


def test_nothing_needs_no_launch() -> None:
    with pytest.raises(ShapeError, match="nothing to compute"):
        plan(norm_problem("softmax", (0, 4), 1, "f32"))


HELD, STREAMED = NormConfig(4, 1, 64, "shared"), NormConfig(4, 1, 64, "global", 1, staged=2)


@pytest.mark.parametrize(
    ("name", "c"), [("block_sync", HELD), ("cp_async_wait", HELD), ("cp_async_wait", STREAMED)]
)
def test_a_missing_wait_is_found(name: str, c: NormConfig) -> None:
    p = norm_problem("softmax", (2, 1024), 1, "f32")
    d, (kernel,) = data(p, 7), plan(p, config=c).kernels
    broken = planting.without(kernel, name)
    with pytest.raises(SimulationError):
        simulate(broken, {"src": d.src, "dst": d.old.copy()}, group="warp", seed=1)


def test_a_ring_without_a_slot_to_spare_is_found() -> None:
    """Waiting for all but two groups of two reads the slot that is on its way."""
    p = norm_problem("softmax", (2, 1024), 1, "f32")
    d, (kernel,) = data(p, 8), plan(p, config=STREAMED).kernels

    def later(s: Stmt) -> tuple[Stmt, ...]:
        return (Do(s.instr, (2,)),) if isinstance(s, Do) and s.instr.name == "cp_async_wait" else (s,)

    with pytest.raises(SimulationError):
        simulate(planting.rewrite(kernel, later), {"src": d.src, "dst": d.old.copy()})


def test_parts_are_not_held() -> None:
    with pytest.raises(UnsupportedError, match="read twice"):
        plan(norm_problem("softmax", (2, 1024), 1, "f32"), config=replace(HELD, splits=2))


@pytest.mark.deep(but=("softmax (65536,1024) over (1) f32, src (1024,1) -> dst (1024,1)",))
@pytest.mark.parametrize(
    "p",
    [
        norm_problem("softmax", (65536, 1024), 1, "f32"),
        norm_problem("softmax", (8192, 8192), 0, "bf16"),
        norm_problem("layer_norm", (8191, 8193), 1, "f16", weight=True),
    ],
    ids=str,
)
def test_the_code_has_wide_accesses_and_no_spills(p: NormProblem) -> None:
    (kernel,) = plan(p).kernels
    cubin = compile_cubin(to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a")
    assert cubin.spill_bytes == 0
    (code,) = parse_sass(disassemble(cubin.image))
    opcodes = [i.opcode for i in code.instructions]
    assert any(o.startswith("LDG") and "128" in o for o in opcodes) and "STG.E.128" in opcodes
    assert any(o.startswith("MUFU.EX2") for o in opcodes) or p.op == "layer_norm"


@each("seed", range(24), sample=13)
def test_random_rms_norms_agree(seed: int) -> None:
    """Rows and columns, ragged, skewed and in place, held, read twice and split, weighted or not."""
    rng = random.Random(seed)
    q = random_problem(rng, 1200)
    a = q.axes
    p = norm_problem(
        "rms_norm", a.shape, a.axes, a.dtype, a.src, a.dst, a.src_offset, a.dst_offset,
        eps=rng.choice([1e-5, 0.1]), weight=rng.random() < 0.5, in_place=q.in_place,
    )  # fmt: skip
    c = rng.choice(configs(p))
    if seed % 3 == 0:
        c = replace(c, hold="global", splits=rng.choice([1, 2, 3]), staged=0)
    agree(p, c, seed, "warp" if seed % 8 == 7 else "block")


def test_an_rms_norm_has_no_bias() -> None:
    with pytest.raises(UnsupportedError, match="rms_norm has no bias"):
        norm_problem("rms_norm", (4, 8), 1, "f32", bias=True)


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        ((65536, 1024), 1, "f32"), ((8192, 8192), 1, "bf16"), ((8192, 8192), 0, "f32"),
        ((8191, 8193), 1, "f32"), ((8191, 8193), 0, "f32"), ((1, 1 << 24), 1, "f32"),
    ],
)  # fmt: skip
def test_rms_norms_do_not_spill(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    for kernel in plan(norm_problem("rms_norm", shape, axis, dtype, weight=True)).kernels:
        assert compile_cubin(to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a").spill_bytes == 0
