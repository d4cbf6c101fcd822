"""Times that are expected without a GPU: none beats the board it is of, and those of one thing agree."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.arch import Board, find_board
from layoutalg.codegen import instr
from layoutalg.codegen.costs import STATED, traffic, uncounted, unstated
from layoutalg.codegen.language import KernelBuilder
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.kernels import FAMILIES, Family
from layoutalg.kernels.checks import bench_of, checks_of
from layoutalg.kernels.registry import find_steps
from layoutalg.kernels.tuning import Job, model_place
from layoutalg.kernels.tuning.jobs import build, by_model, counters_of
from layoutalg.ops import plan_grouped_matmul, plan_matmul
from tests.command import refusal
from tests.sweeps import first

ARCH = {"": "sm_90", "H200-SXM": "sm_90", "T4": "sm_75"}

PRODUCT_TYPES = {
    "gemm-simt": ("f32", "f64"), "gemm-sm75": ("f16",), "gemm-sm80": ("f16", "bf16", "tf32", "f64", "s8"),
    "gemm-sm90": ("bf16", "f16"), "gemv": ("bf16", "f16", "f32"),
}  # fmt: skip

DRAWN = 4
"""Problems of a family."""


def drawn(family: Family, seed: int) -> Any:
    """A product of any size, or a case of the bench; the same for the same seed."""
    rng = random.Random(f"{family.name} {seed}")
    if family.name in PRODUCT_TYPES:

        def side() -> int:
            return rng.choice((rng.randint(1, 500) * 8, 1 << rng.randint(6, 14)))

        rows = rng.randint(1, 8) if family.name == "gemv" else side()
        return family.problem(m=rows, n=side(), k=side(), dtype=rng.choice(PRODUCT_TYPES[family.name]))
    return rng.choice([p for _, p in bench_of(family).cases(None, None)])


def floor_ns(family: Family, p: Any, board: Board) -> float:
    """What the board takes at least: its bytes by its bandwidth, its operations by its peak."""
    if bench_of(family).unit == "GB/s":
        return 1e9 * float(bench_of(family).work(p)) / board.dram_bytes_per_s
    tensor = board.f16_tensor_flops_per_s or board.f32_flops_per_s
    if family.name == "attention":
        return 1e9 * float(p.flops / tensor)
    nbytes = p.products * ((p.m + p.n) * p.k * p.operand.nbytes + p.m * p.n * p.result.nbytes)
    peak = board.f32_flops_per_s if family.name in ("gemm-simt", "gemv") else tensor
    peak *= 2 if p.operand.bits == 8 else 1
    return 1e9 * float(max(nbytes / board.dram_bytes_per_s, p.flops / peak))


@pytest.mark.deep(only=("0-layer_norm",))
@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda f: f.name)
@pytest.mark.parametrize("seed", first(1, range(DRAWN)))
def test_no_time_beats_its_board(family: Family, seed: int) -> None:
    board, p = find_board(ARCH[family.board]), drawn(family, seed)
    least = 1e-3 * floor_ns(family, p, board)
    for config in family.configs(p, ARCH[family.board])[:6]:
        assert family.expected(p, config, board.name).us >= least, config


def test_what_a_time_leaves_out_is_named() -> None:
    for name in ("relu", "silu", "gelu", "transpose", "softmax"):
        p = drawn(FAMILIES[name], 0)
        assert not FAMILIES[name].expected(p, FAMILIES[name].choose(p)).without
    p, plain = drawn(FAMILIES["softmax"], 0), replace(FAMILIES["softmax"], clock=None)
    assert "add_exp" in plain.expected(p, plain.choose(p)).without


@pytest.mark.parametrize("board", ["A100-SXM4-80GB", "L4", "sm_86", "sm_89", "H100-SXM5", "B200", "sm_120"])
def test_times_are_of_measured_boards_alone(board: str) -> None:
    for family in FAMILIES.values():
        p = family.problem(**checks_of(family).verified[0])
        with pytest.raises(UnsupportedError, match=f"no times of {family.name} are known on"):
            family.expected(p, None, board)


# --- tune and plan -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "n", "k", "kind"),
    [(4096, 4096, 4096, "f2"), (512, 3000, 1024, "f2"), (4, 4096, 2048, "f2"), (700, 900, 800, "f4")],
)
def test_what_tune_models_is_what_plan_expects(m: int, n: int, k: int, kind: str) -> None:
    import numpy

    plan = plan_matmul(numpy.empty((m, k), kind), numpy.empty((n, k), kind).T, arch="sm_90")
    assert plan.config is not None and not plan.copies
    job = Job(plan.family, plan.problem, plan.config, 0, "sm_90", model_place("sm_90"))
    assert by_model(job, build(job))[0][0] == pytest.approx(plan.expected_ns)
    assert f"{plan.expected_ns / 1e3:.0f} us expected on H200-SXM" in str(plan).splitlines()[0]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("softmax", "--arch", "sm_80"), "no times of softmax are known on A100-SXM4-80GB"),
        (("gemm-sm80", "--arch", "sm_80"), "no times of gemm-sm80 are known on A100-SXM4-80GB"),
        (("transpose", "--dtype", "f16", "--arch", "L4"), "no times of transpose are known on L40S"),
        (("gemm-sm80", "--dtype", "f16", "--arch", "L4"), "no times of gemm-sm80 are known on L40S"),
        (("transpose", "--arch", "sm_103"), "no document describes a board of sm_103"),
    ],
)
def test_tune_refuses_what_no_model_is_of(words: tuple[str, ...], part: str, tmp_path: Path) -> None:
    store = tmp_path / "times.jsonl"
    error, sentence = refusal("tune", *words, "--sizes", "64", "--timing", "model", "--store", str(store))
    assert error == "UnsupportedError" and part in sentence and not store.exists()


@pytest.mark.parametrize("arch", ["sm_80", "L40S", "H100", "H100-SXM5", "sm_75"])
def test_a_plan_says_no_time_of_another_board(arch: str) -> None:
    import numpy

    x = numpy.empty((512, 512), "f2")
    plan, grouped = (
        plan_matmul(x, x.T, arch=arch),
        plan_grouped_matmul(x, numpy.empty((2, 512, 512), "f2"), arch=arch),
    )
    if arch == "sm_75":  # computed from the rates of a T4
        assert "us expected on T4" in str(plan) and plan.expected_ns > 512**3 * 2 / 65e3
        return
    assert " us expected" not in f"{plan}{grouped}" and (
        "no times of" in str(plan) or "depend on" in str(plan)
    )
    with pytest.raises(UnsupportedError):
        _ = plan.expected_ns


# --- instructions of which nothing is stated -----------------------------------------------------------

OWN = instr.Instr("own_exp", (instr.updated("d", 1, "f32"),), "void own_exp(float& d) {}", lambda m, g, d: d)
POINTER, WORD = instr.read("p", "global", 4, "ld.global.b32"), instr.into("v", 1)
ATOMIC = instr.Instr("atom_add", (POINTER, WORD), "void atom_add(void* p, u32 v) {}")
TABLES = (instr.REDUX, instr.MMA_SYNC, instr.TMA_LOAD, instr.TMA_STORE, instr.LDS_REMOTE, instr.STS_REMOTE)
UNKNOWN = (
    OWN, ATOMIC, instr.GRID_SYNC, instr.TRY_WAIT, *(one for table in TABLES for one in table.values()),
    instr.add_exp(4, 1), instr.find_wgmma("SM90_64x128x16_F32F16F16_SS"),
)  # fmt: skip


def test_what_computes_or_is_asynchronous_has_no_stated_cost() -> None:
    assert not set(UNKNOWN) & set(STATED)


def test_an_instruction_with_the_name_of_a_stated_one_is_not_that_one() -> None:
    k = KernelBuilder("own", threads=32)
    v = k.reg("v", 1)
    k.do(instr.LDG[4], v, k.at(k.pointer("x", 4), k.tid))
    k.do(instr.Instr("ldg32", (instr.updated("d", 1),), "void ldg32(u32& d) {}", lambda m, g, d: d), v)
    k.do(OWN, v)
    k.do(instr.BAR)
    k.do(instr.STG[4], k.at(k.pointer("y", 4), k.tid), v)
    kernel = k.build()
    assert unstated([kernel]) == ("ldg32", "own_exp") and uncounted([kernel]) == ()
    assert set(traffic(kernel, {})) == {"ld.global.b32", "st.global.b32"}


def test_what_tma_moves_is_not_counted_as_nothing() -> None:
    family = FAMILIES["gemm-sm90"]
    p = family.problem(512)
    config = family.choose(p)
    counters = counters_of(family.call_launches(p, config, "sm_90"), family.numbers(p, config), "sm_90")
    assert counters == {"launches": 1.0}
    with pytest.raises(UnsupportedError, match="no cost is known of wgmma"):
        replace(family, clock=None, board="").expected(p, config, "sm_90")


def test_copies_to_shared_memory_are_wavefronts_not_sectors() -> None:
    """cp.async counts a wavefront per 128 bytes on the shared side, and sectors on the global one alone."""
    family = FAMILIES["permute"]
    p = family.problem(shape=(256, 256), axes=(1, 0), dtype="f32")
    config = next(c for c in family.configs(p) if c.via == "cp.async")
    counters = counters_of(family.call_launches(p, config, "sm_90"), {}, "sm_90")
    assert counters["sectors"] == 2 * 256 * 256 * 4 / 32


def test_a_law_has_no_time_of_what_is_not_offered() -> None:
    family = FAMILIES["gemm-sm90"]
    with pytest.raises(LayoutAlgError, match="it is not offered for"):
        family.expected(family.problem(512), find_steps("gemm-sm90")["2 TMA"])
