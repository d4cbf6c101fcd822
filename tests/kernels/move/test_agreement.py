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
from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, prepare, to_cuda
from layoutalg.codegen.program import If, Stmt
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
    relayout_problem,
)
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.layout import ComposedLayout, Layout, size
from layoutalg.notation import parse
from tests.draws.moves import plans, random_case, random_matrix, random_move, verdict
from tests.draws.permutations import WIDTHS, random_buffers, random_conversion, random_problem
from tests.draws.sequences import verified
from tests.judges.agreement import agree
from tests.mutants import planting
from tests.sweeps import each

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
CONVERTED = [
    permute_problem((7, 22, 33), (2, 0, 1), source, result=result)
    for source, result in (
        ("f64", "bf16"), ("s64", "f16"), ("f32", "s64"), ("f64", "u8"), ("bf16", "s16"), ("u8", "f64"),
    )
]  # fmt: skip


@pytest.mark.deep(only=("0", "1", "3", "4", "5", "6"))
@pytest.mark.parametrize("n", range(len(CASES)))
def test_every_configuration_agrees(n: int) -> None:
    for c in configs_of(CASES[n]):
        agree(CASES[n], c)


@pytest.mark.deep
@pytest.mark.parametrize(
    "changed",
    [
        {"walk": "rows"}, {"walk": "source"}, {"walk": "tile"}, {"threads": 64, "loading": 55, "storing": 60},
        {"threads": 64, "loading": 51}, {"threads": 64, "storing": 48},
    ],
)  # fmt: skip
def test_blocks_walk_and_threads_share_the_work_in_other_ways(changed: dict[str, Any]) -> None:
    for p in CASES:
        agree(p, replace(configs_of(p)[0], **changed), 6)


@each("p", [*CASES, *CONVERTED], ids=str, sample=1)
def test_the_printed_text_agrees_on_the_host(p: PermuteProblem) -> None:
    agree(p, configs_of(p)[0], 2, "text")


FORMATS = (
    ("NHWC to NCHW", "(2,6,7,24):(1008,168,24,1)", "(2,6,7,24):(1008,7,1,42)", "f16"),
    ("NHWC to NC/32HW32", "(2,6,7,(32,2)):(2688,448,64,(1,32))", "(2,6,7,(32,2)):(2688,224,32,(1,1344))",
     "s8"),
    ("NC/32HW32 to NCHW", "(2,6,7,(32,2)):(2688,224,32,(1,1344))", "(2,6,7,64):(2688,7,1,42)", "s8"),
    ("tokens to pages of 16", "((16,5),4,32):((128,2048),32,1)", "((16,5),4,32):((32,2048),512,1)", "f16"),
    ("scales 128x4 to 32x4x4 tiles", "((32,4,2),(4,3)):((12,384,1536),(1,4))",
     "((32,4,2),(4,3)):((16,4,1536),(1,512))", "u8"),
    ("core matrices, no swizzle", "(64,64):(64,1)", "((8,8),(8,8)):((8,512),(1,64))", "f16"),
    ("128-byte atoms", "(64,128):(128,1)", "Sw<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))", "f16"),
    ("and back", "Sw<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))", "(64,128):(128,1)", "f16"),
    ("32-byte atoms, transposed", "(64,32):(1,64)", "Sw<1,4,3> o 0 o ((8,8),32):((32,256),1)", "u8"),
    ("fragments of mma", "(16,16):(16,1)", "((8,2),(2,4,2)):((8,2),(1,64,4))", "f16"),
)  # fmt: skip
"""Layouts that people use, as pairs that a relayout moves between."""


@pytest.mark.deep
@each(("src", "dst", "dtype"), [f[1:] for f in FORMATS], ids=[f[0] for f in FORMATS])
def test_formats_move_as_defined_and_as_predicted(src: str, dst: str, dtype: str) -> None:
    a, b = parse(src), parse(dst)
    assert isinstance(a, (Layout, ComposedLayout)) and isinstance(b, (Layout, ComposedLayout))
    p = relayout_problem(a, b, dtype)
    of, old = random_buffers(p, 1)
    by_definition = old.copy()
    for i in range(int(size(a))):
        by_definition[b(i)] = of[a(i)]
    assert reference(p, of, old).tobytes() == by_definition.tobytes()
    for c in configs_of(p):
        agree(p, c)


@pytest.mark.deep
@each("types", [("f32", "f16"), ("f16", "s8"), ("u8", "bf16"), ("f32", "f32")])
def test_the_best_agrees_in_every_way(types: tuple[str, str]) -> None:
    p = permute_problem((13, 22, 35), (2, 0, 1), types[0], result=types[1])
    verified(p).require()
    agree(p, None, 3, "text")


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


def test_on_turing_chunks_go_through_registers() -> None:
    p = permute_problem((66, 96), (1, 0), "f16")
    c = configs(normalise(p), "sm_75")[0]
    assert "cp_async" not in to_cuda(build(normalise(p), c), "sm_75")
    agree(p, c, arch="sm_75")


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
        ({"chunk": 1}, UnsupportedError, r"chunk = 1, 2 bytes of .* cp.async: 4, 8, 16 are"),
        ({"vec": 3}, UnsupportedError, r"vec = 3, 6 bytes of .*, stored: 1, 2, 4, 8, 16 are"),
        ({"via": "tma"}, UnsupportedError, "via = 'tma': 'cp.async' and 'registers' are"),
        ({"way": "turned"}, UnsupportedError, "way = 'turned': 'direct' and 'staged' are"),
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


@pytest.mark.deep(but=("0",))
@pytest.mark.parametrize("n", range(4))
def test_the_compiler_leaves_vector_stores_whole(n: int) -> None:
    """A split store costs four times the sectors; only the ends of runs are stored by words."""
    p = (
        permute_problem((16, 64, 64, 3), (0, 3, 1, 2), "f16"),
        permute_problem((1001, 999), (1, 0), "u8"),
        permute_problem((1001, 999), (1, 0), "f16"),
        permute_problem((64, 3, 5, 511), (3, 1, 0, 2), "u8"),
    )[n]
    x, config = normalise(p), configs_of(p)[0]
    kernel = build(x, config)
    (code,) = parse_sass(disassemble(compile_cubin(to_cuda(kernel, "sm_90a"), kernel.name, "sm_90a").image))
    stores = Counter(i.opcode for i in code.instructions if i.opcode.startswith("STG"))
    whole = f"STG.E.{8 * config.vec * p.element_bytes}"
    assert set(stores) <= {whole, "STG.E", f"STG.E.U{8 * p.element_bytes}"}
    ends = len(parts(Stage(x, config))) if Stage(x, config).lead else 0
    assert stores[whole] and stores["STG.E"] <= ends * stores[whole]
