"""The tensor-core GEMM: definition == simulator == host-run text, exactly; and planted mistakes are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from layoutalg.codegen.expr import Const, Expr, Select, Var, children, substitute, variables
from layoutalg.codegen.expr.trees import rebuild
from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.program import Do, For, Kernel, Let, Stmt, check_argument, lower, printed
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.lowering import map_arg
from layoutalg.errors import ShapeError, SimulationError, UnsupportedError
from layoutalg.kernels.gemm.choice.heuristic import SM75, SM80
from layoutalg.kernels.gemm.choice.tables import SM75_TILES
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.programs.sm80 import build
from layoutalg.kernels.gemm.tiles import Sm75Config, Sm80Config
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.ladder.steps import SM75_LADDER, Sm80Step
from layoutalg.kernels.ladder.steps import SM80_LADDER as LADDER
from tests.gemm_cases import expected as reference
from tests.hostshim import KernelFault
from tests.mutants import planting
from tests.sweeps import each
from tests.tensor_gemm import host_run, inputs, simulated

SMALL = Sm80Step(64, 64, 32, 2, 2, 3, panel=2)
EDGES = replace(SMALL, edges=True)
REGISTERS = replace(SMALL, via="registers")
SINGLE = replace(REGISTERS, stages=2, edges=True, a_bytes=2, b_bytes=2, result_vec=1)
DOUBLE = replace(SMALL, tile_k=16, mma_k=4, result_vec=2)
NARROW = replace(SMALL, tile_k=64, result_vec=4)


def edged(**options: Any) -> GemmProblem:
    return gemm_problem(100, 120, 88, **options)


def whole(*args: Any, **options: Any) -> GemmProblem:
    return gemm_problem(128, 64, 96, *args, **options)


CASES: dict[str, tuple[GemmProblem, Sm80Config]] = {
    "TN, edges": (edged(), EDGES),
    "TT, edges": (edged(b_major="mn"), EDGES),
    "NN, edges": (edged(a_major="mn"), replace(EDGES, a_bytes=8)),
    "NT, edges": (edged(a_major="mn", b_major="mn"), replace(EDGES, a_bytes=8)),
    "one row": (gemm_problem(1, 8, 8), EDGES),
    "few rows of A, turned": (gemm_problem(24, 72, 40, a_major="mn", b_major="mn"), EDGES),
    "few rows of B": (gemm_problem(72, 24, 40, reads_c=True), EDGES),
    "one element": (gemm_problem(1, 1, 1), SINGLE),
    "primes": (gemm_problem(67, 131, 37, reads_c=True, bias=True), SINGLE),
    "primes, turned, few rows": (gemm_problem(31, 67, 97, a_major="mn", b_major="mn"), SINGLE),
    "primes, not ahead": (gemm_problem(67, 71, 73), replace(SINGLE, stages=1, ahead=False, fragments=1)),
    "leading dimensions": (gemm_problem(70, 72, 40, lda=48, ldb=64, ldd=88, ldc=80, reads_c=True), EDGES),
    "narrow copies": (gemm_problem(65, 66, 34), replace(EDGES, a_bytes=4, b_bytes=4, result_vec=2)),
    "C, relu": (edged(reads_c=True, activation="relu"), EDGES),
    "bias, relu": (edged(bias=True, activation="relu"), EDGES),
    "bf16, C": (whole("bf16", reads_c=True), SMALL),
    "f32 result": (whole(result="f32"), replace(SMALL, result_vec=4)),
    "f16 sums": (whole(accumulator="f16"), SMALL),
    "tf32": (whole("tf32"), replace(SMALL, tile_k=16, result_vec=4)),
    "s8": (gemm_problem(128, 64, 192, "s8"), replace(SMALL, tile_k=64, result_vec=4)),
    "s8 by 8 rows": (
        gemm_problem(64, 64, 192, "s8"),
        replace(REGISTERS, tile_k=64, stages=2, result_vec=4, mma_m=8),
    ),
    "tf32 along the rows, edges": (
        edged(dtype="tf32", a_major="mn", b_major="mn", reads_c=True),
        replace(EDGES, tile_k=16, result_vec=4),
    ),
    "tf32 NN": (whole("tf32", a_major="mn"), replace(SMALL, tile_k=16, result_vec=4)),
    "f64": (whole("f64"), replace(SMALL, tile_k=16, mma_k=4, result_vec=2)),
    "f64, C, bias, edges": (edged(dtype="f64", reads_c=True, bias=True), replace(DOUBLE, edges=True)),
    "f64 along the rows, edges": (
        edged(dtype="f64", a_major="mn", b_major="mn"),
        replace(DOUBLE, edges=True, result_vec=1),
    ),
    "f64 by k8": (whole("f64"), replace(DOUBLE, mma_k=8)),
    "f64 by k16": (whole("f64"), replace(DOUBLE, tile_k=32, mma_k=16)),
    "f64 by 8 rows, edges": (
        edged(dtype="f64", b_major="mn", activation="relu"),
        replace(DOUBLE, edges=True, mma_m=8),
    ),
    "f64 through registers": (
        gemm_problem(67, 71, 21, "f64"),
        replace(DOUBLE, via="registers", stages=2, edges=True, a_bytes=8, b_bytes=8, result_vec=1),
    ),
    "f64, direct": (edged(dtype="f64"), replace(DOUBLE, edges=True, epilogue="direct")),
    "s4": (gemm_problem(128, 64, 384, "s4"), NARROW),
    "s4 by k32": (gemm_problem(64, 64, 128, "s4"), replace(NARROW, mma_k=32)),
    "s4 by 8 rows, edges": (
        gemm_problem(67, 72, 184, "s4"),
        replace(NARROW, edges=True, mma_m=8, a_bytes=4, b_bytes=4),
    ),
    "u4, one byte at a time": (
        gemm_problem(67, 71, 146, "u4", bias=True),
        replace(NARROW, via="registers", stages=2, edges=True, a_bytes=1, b_bytes=1, result_vec=1),
    ),
    "b1, and": (gemm_problem(64, 64, 1536, "b1", reads_c=True), NARROW),
    "b1, and, by k128": (gemm_problem(64, 64, 512, "b1"), replace(NARROW, mma_k=128)),
    "b1, xor, edges": (
        gemm_problem(67, 72, 1184, "b1", arithmetic="xor"),
        replace(NARROW, edges=True, a_bytes=4, b_bytes=4),
    ),
    "b1, xor, by 8 rows": (gemm_problem(64, 64, 512, "b1", arithmetic="xor"), replace(NARROW, mma_m=8)),
    "one step a tile, one fragment, 2 stages": (whole(), replace(SMALL, tile_k=16, fragments=1, stages=2)),
    "mma of half the depth": (whole(), replace(SMALL, mma_k=8)),
    "2 stages": (whole(), replace(SMALL, stages=2)),
    "4 stages": (whole(), replace(SMALL, stages=4)),
    "5 stages": (whole(), replace(SMALL, stages=5)),
    "one fragment": (whole(), replace(SMALL, fragments=1)),
    "four fragments": (gemm_problem(64, 64, 256), replace(SMALL, tile_k=64, fragments=4)),
    "four fragments, edges": (edged(reads_c=True), replace(EDGES, tile_k=64, fragments=4, stages=4)),
    "four fragments, 1 buffer": (
        gemm_problem(64, 64, 128),
        replace(REGISTERS, tile_k=64, stages=1, fragments=4),
    ),
    "eight fragments": (gemm_problem(64, 64, 384), replace(SMALL, tile_k=128, stages=2, fragments=8)),
    "one fragment, more tiles than stages": (gemm_problem(64, 64, 192), replace(SMALL, fragments=1)),
    "one step a tile, more tiles than stages": (
        gemm_problem(64, 64, 96),
        replace(SMALL, tile_k=16, fragments=1),
    ),
    "fewer tiles than stages": (gemm_problem(64, 64, 32), replace(SMALL, stages=5)),
    "unswizzled": (whole(a_major="mn"), replace(SMALL, swizzled=False)),
    "fixed leading dimensions": (whole(b_major="mn"), replace(SMALL, static_ld=True)),
    "registers, 1 stage": (whole(), replace(REGISTERS, stages=1, fragments=1)),
    "registers, 1 stage, not ahead": (whole(), replace(REGISTERS, stages=1, ahead=False)),
    "registers, 2 stages": (whole(), replace(REGISTERS, stages=2)),
    "registers, edges": (edged(), replace(REGISTERS, stages=2, edges=True, fragments=1)),
    "direct": (edged(), replace(EDGES, epilogue="direct", result_vec=2)),
}
ON_HOST = (
    "NT, edges", "TT, edges", "C, relu", "bf16, C", "f16 sums", "tf32", "registers, edges", "direct",
    "s8 by 8 rows", "tf32 NN", "f64, C, bias, edges", "f64 by k16", "f64 by 8 rows, edges",
    "s4 by 8 rows, edges", "b1, and", "b1, xor, edges",
)  # fmt: skip


@pytest.mark.deep(
    but=(
        "TN, edges", "few rows of A, turned", "C, relu", "tf32", "s4", "mma of half the depth",
        "four fragments", "fixed leading dimensions",
    )
)  # fmt: skip
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_gives_the_definition(name: str) -> None:
    p, c = CASES[name]
    kernel = build(p, c)
    check(kernel)
    x = inputs(p)
    expected, lowered = reference(p, x), lower(kernel)
    np.testing.assert_array_equal(simulated(lowered, p, x), expected)
    np.testing.assert_array_equal(simulated(lowered, p, x, group="warp", seed=1), expected)


@pytest.mark.parametrize("name", ["TN, edges", "NT, edges", "registers, 2 stages"])
def test_lowering_changes_nothing(name: str) -> None:
    p, c = CASES[name]
    x = inputs(p, seed=1)
    np.testing.assert_array_equal(simulated(build(p, c), p, x), reference(p, x))


@pytest.mark.deep
@each("name", ON_HOST)
def test_the_text_gives_the_definition(name: str) -> None:
    p, c = CASES[name]
    x = inputs(p)
    np.testing.assert_array_equal(host_run(lower(build(p, c)), p, x), reference(p, x))


@each("step", LADDER, sample=3)
def test_every_step_of_the_ladder_multiplies(step: str) -> None:
    c = LADDER[step]
    p = gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k)
    x = inputs(p)
    np.testing.assert_array_equal(simulated(lower(build(p, c)), p, x), reference(p, x))


TURING: dict[str, tuple[GemmProblem, Sm80Config]] = {
    "whole": (gemm_problem(256, 256, 64, accumulator="f16", b_major="mn"), Sm75Config(256, 256, 32, 4, 2)),
    "f32 sums, C": (gemm_problem(64, 64, 96, reads_c=True), Sm75Config(64, 64, 32, 2, 2)),
    "edges, C": (
        edged(accumulator="f16", b_major="mn", reads_c=True, bias=True),
        Sm75Config(64, 64, 32, 2, 2, edges=True),
    ),
    "single elements, parts of k": (
        gemm_problem(67, 71, 97, a_major="mn"),
        Sm75Config(64, 64, 32, 2, 2, a_bytes=2, b_bytes=2, result_vec=1, edges=True),
    ),
}


@pytest.mark.deep(but=("f32 sums, C",))
@pytest.mark.parametrize("name", TURING)
def test_without_cp_async_the_simulator_and_the_text_give_the_definition(name: str) -> None:
    """What sm_75 runs: packing, conversions and mma of k = 8 in the forms that it has."""
    p, c = TURING[name]
    kernel = build(p, c)
    check(kernel, "sm_75")
    x = inputs(p)
    expected, lowered = reference(p, x), lower(kernel)
    np.testing.assert_array_equal(simulated(lowered, p, x), expected)
    np.testing.assert_array_equal(host_run(lowered, p, x), expected)


@each("step", SM75_LADDER, sample=2)
def test_every_step_of_the_turing_ladder_multiplies(step: str) -> None:
    """As it is printed: the first four as they are written, the others lowered."""
    c = SM75_LADDER[step]
    p = gemm_problem(c.tile_m, c.tile_n, 2 * c.tile_k, accumulator="f16", b_major="mn", reads_c=True)
    x, kernel = inputs(p), build(p, c)
    shown = printed(kernel, "sm_75")
    assert (shown == kernel) == (not c.lowered) == (int(step[0]) < 5)
    np.testing.assert_array_equal(simulated(shown, p, x), reference(p, x))


def test_the_turing_ladder_is_refused_on_volta_by_name() -> None:
    p = gemm_problem(256, 256, 64, accumulator="f16")
    with pytest.raises(UnsupportedError, match=r"needs sm_75; sm_70 does not have it"):
        check_config(p, Sm75Config(256, 256, 32, 4, 2), "sm_70")
    with pytest.raises(UnsupportedError, match=r"needs sm_75; sm_70 does not have it: its mma.m8n8k4"):
        SM75.configs(p, "sm_70")
    with pytest.raises(UnsupportedError, match=r"mma.sync of bf16 needs sm_80; sm_75 does not have it"):
        check_config(gemm_problem(256, 256, 64, "bf16"), Sm75Config(256, 256, 32, 4, 2), "sm_75")
    with pytest.raises(UnsupportedError, match=r"needs sm_80; sm_75 does not have it: take gemm-sm75"):
        SM80.configs(p, "sm_75")


@pytest.mark.parametrize("sums", ["f16", "f32"])
def test_every_tile_of_turing_fits_it_and_is_offered(sums: str) -> None:
    """256 x 256 holds f16 sums alone; the others hold both."""
    p = gemm_problem(4096, 4096, 4096, accumulator=sums)
    found, refused = SM75.tried(p, "sm_75")
    tiles = {(c.tile_m, c.tile_n) for c in found}
    assert len(tiles) == len(SM75_TILES) - (sums == "f32") and len(refused) == (sums == "f32")
    assert all(c.via == "registers" and c.mma_k == 8 for c in found)


def test_a_kernel_serves_smaller_problems() -> None:
    """Down to one tile; with fewer rows than a tile's, one for up to so many."""
    for kernel, sizes in (
        (build(gemm_problem(512, 512, 512), EDGES), ((64, 64, 8), (127, 64, 40), (65, 72, 8))),
        (build(gemm_problem(63, 512, 512), EDGES), ((1, 64, 8), (63, 72, 40))),
        (build(gemm_problem(63, 56, 512), EDGES), ((1, 8, 8), (62, 56, 72))),
    ):
        lowered = lower(kernel)
        for m, n, k in sizes:
            p = gemm_problem(m, n, k)
            x = inputs(p)
            np.testing.assert_array_equal(simulated(lowered, p, x), reference(p, x))


def test_a_kernel_says_how_many_rows_it_needs() -> None:
    m, n = [v for v in build(gemm_problem(512, 56, 512), EDGES).params if isinstance(v, Var)][:2]
    check_argument(m, 64)
    check_argument(n, 8)
    with pytest.raises(ShapeError, match="m = 63: this kernel was built for 64 <= m <= 512"):
        check_argument(m, 63)


def test_one_step_leaves_nothing_to_load_ahead() -> None:
    with pytest.raises(UnsupportedError, match="take tile_k = 32"):
        build(whole(), replace(SMALL, tile_k=16))


def test_beta_zero_never_reads_c() -> None:
    assert "c" not in [q.name for q in build(edged(), EDGES).params]


def test_a_configuration_compiles_without_spills() -> None:
    kernel = build(gemm_problem(4096, 4096, 4096, reads_c=True), Sm80Step(128, 128, 32, 2, 2, 4, edges=True))
    assert compile_cubin(to_cuda(kernel, "sm_80"), kernel.name, "sm_80").spill_bytes == 0


# --- planted mistakes ----------------------------------------------------------------------------------

PLANTED, PLANTED_BY = gemm_problem(20, 56, 152), Sm80Step(32, 32, 32, 2, 1, 3, panel=1, edges=True)


def every_tile_in_the_next_place(kernel: Kernel) -> Kernel:
    """ldmatrix in the loop reads the place of the ring after the one it should."""

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Do) or not s.instr.name.startswith("ldmatrix"):
            return (s,)

        def later(e: Expr) -> Expr:
            return substitute(e, {v: v + 1 for v in variables(e) if v.name == "kt"})

        return (Do(s.instr, tuple(map_arg(a, later) for a in s.args)),)

    return planting.rewrite(kernel, change)


def without_predicates(kernel: Kernel) -> Kernel:
    """Copies read whatever lies past the edge."""

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Do):
            return (s,)
        pairs = zip(s.instr.operands, s.args, strict=True)
        return (Do(s.instr, tuple(Const(1) if o.role == "guard" else a for o, a in pairs)),)

    return planting.rewrite(kernel, change)


def not_inward(kernel: Kernel) -> Kernel:
    """Tiles at the edge stay where D has them."""

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if isinstance(s, Let) and s.var.name == "b_row" and isinstance(s.value, Select):
            return (Let(s.var, s.value.a),)
        return (s,)

    return planting.rewrite(kernel, change)


def rows_past_the_end(kernel: Kernel) -> Kernel:
    """Rows that a small matrix does not have are read all the same."""

    def asked(e: Expr) -> Expr:
        if isinstance(e, Select):
            return asked(e.a)
        return rebuild(e, tuple(map(asked, children(e))))

    def change(s: Stmt) -> tuple[Stmt, ...]:
        return (Do(s.instr, tuple(map_arg(a, asked) for a in s.args)),) if isinstance(s, Do) else (s,)

    return planting.rewrite(kernel, change)


def in_plain_order(kernel: Kernel) -> Kernel:
    """The ragged tile of k comes last, where nothing guards it."""

    def change(s: Stmt) -> tuple[Stmt, ...]:
        plain = {"opening": 0, "second": 1}
        return (Let(s.var, Const(plain[s.var.name])),) if isinstance(s, Let) and s.var.name in plain else (s,)

    return planting.rewrite(kernel, change)


def without_loop_barrier(kernel: Kernel) -> Kernel:
    """The barrier of the main loop is gone, those before and after it stay."""

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, For):
            return (s,)
        kept = tuple(x for x in s.body if not (isinstance(x, Do) and x.instr.name == "block_sync"))
        return (replace(s, body=kept),)

    return planting.rewrite(kernel, change)


MUTANTS: dict[str, Callable[[Kernel], Kernel]] = {
    "no wait for copies": lambda k: planting.without(k, "cp_async_wait"),
    "no barrier": lambda k: planting.without(k, "block_sync"),
    "no barrier in the loop": without_loop_barrier,
    "no warp barrier in the epilogue": lambda k: planting.without(k, "warp_sync"),
    "no predicate on copies": without_predicates,
    "no predicate on D": planting.unguarded,
    "tiles past the edge": not_inward,
    "rows past the end": rows_past_the_end,
    "the ragged tile last": in_plain_order,
    "the wrong place of the ring": every_tile_in_the_next_place,
}


def wrong_or_refused(run: Callable[[], Any]) -> bool:
    try:
        return bool((run() != reference(PLANTED, inputs(PLANTED))).any())
    except (SimulationError, KernelFault):
        return True


@pytest.fixture(scope="module")
def planted() -> Kernel:
    return lower(build(PLANTED, PLANTED_BY))


@pytest.mark.deep
def test_the_program_that_is_spoilt_is_right(planted: Kernel) -> None:
    x = inputs(PLANTED)
    assert not wrong_or_refused(lambda: simulated(planted, PLANTED, x))
    assert not wrong_or_refused(lambda: simulated(planted, PLANTED, x, group="warp"))
    assert not wrong_or_refused(lambda: host_run(planted, PLANTED, x))
    assert not wrong_or_refused(lambda: host_run(planted, PLANTED, x, order="reverse"))


@pytest.mark.parametrize("group", ["block", "warp"])
@pytest.mark.parametrize("mistake", MUTANTS)
def test_the_simulator_finds_it(mistake: str, group: Literal["block", "warp"], planted: Kernel) -> None:
    spoilt = MUTANTS[mistake](planted)
    assert spoilt != planted
    assert wrong_or_refused(lambda: simulated(spoilt, PLANTED, inputs(PLANTED), group=group))


@pytest.mark.deep(but=("no warp barrier in the epilogue",))
@pytest.mark.parametrize("mistake", [m for m in MUTANTS if not m.startswith("no barrier")])
def test_the_text_on_the_host_shows_it(mistake: str, planted: Kernel) -> None:
    """Block barriers aside: on the host every ldmatrix and mma lets all threads catch up."""
    spoilt, x = MUTANTS[mistake](planted), inputs(PLANTED)
    assert wrong_or_refused(lambda: host_run(spoilt, PLANTED, x)) or wrong_or_refused(
        lambda: host_run(spoilt, PLANTED, x, order="reverse")
    )
