"""Products by wgmma and TMA: what is simulated is the definition, and what is wrong is refused or found."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen import compile as compile_program
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import BatchMode, GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.gemm.choice.heuristic import SM90
from layoutalg.kernels.gemm.choice.tables import SM90_TILES
from layoutalg.kernels.gemm.programs.sm90 import build
from layoutalg.kernels.gemm.programs.streamk import block_count
from layoutalg.kernels.gemm.validate import check_config, shared_bytes
from tests.kernels.gemm.test_epilogue_steps import computed
from tests.sweeps import each

SMALL = Sm90Config(64, 64, 3, 1)
ROWS = replace(SMALL, through="shared")

CASES: dict[str, tuple[GemmProblem, Sm90Config]] = {
    "TN": (gemm_problem(100, 88, 136, "bf16"), SMALL),
    "TT": (gemm_problem(72, 136, 72, "f16", b_major="mn"), SMALL),
    "NN": (gemm_problem(136, 72, 200, "bf16", a_major="mn"), SMALL),
    "NT, two": (gemm_problem(136, 72, 72, "f16", a_major="mn", b_major="mn"), Sm90Config(128, 64, 2)),
    "one row": (gemm_problem(1, 8, 8, "bf16"), SMALL),
    "two rows of boxes": (gemm_problem(300, 120, 72, "bf16"), Sm90Config(256, 48, 2)),
    "three boxes": (gemm_problem(80, 400, 136, "bf16"), Sm90Config(64, 192, 2, 1)),
    "f32 result": (gemm_problem(72, 100, 72, "f16", result="f32"), replace(SMALL, result_vec=4)),
    "C": (gemm_problem(72, 88, 136, "bf16", reads_c=True, ldc=96), ROWS),
    "bias, gelu": (gemm_problem(72, 88, 72, "f16", bias=True, activation="gelu"), ROWS),
    "relu in boxes": (gemm_problem(72, 88, 72, "f16", activation="relu"), SMALL),
    "odd rows of D": (gemm_problem(67, 71, 40, "bf16", ldd=75), replace(ROWS, result_vec=1)),
    "clusters below": (gemm_problem(304, 200, 136, "bf16"), replace(SMALL, cluster_m=2)),
    "clusters beside": (
        gemm_problem(304, 200, 136, "bf16", a_major="mn"), Sm90Config(128, 64, 2, cluster_n=2)
    ),
    "clusters of four": (gemm_problem(304, 200, 136, "bf16"), replace(SMALL, cluster_m=4)),
    "clusters along k": (gemm_problem(130, 200, 456, "bf16"), Sm90Config(128, 64, 3, cluster_k=4)),
    "along short k": (gemm_problem(70, 88, 72, "f16", bias=True), replace(ROWS, tile_n=48, cluster_k=3)),
    "ping-pong": (gemm_problem(304, 200, 136, "bf16"), Sm90Config(128, 64, 3, pingpong=True)),
    "three": (gemm_problem(300, 200, 136, "bf16"), Sm90Config(192, 96, 2, 3)),
    "parts": (gemm_problem(72, 88, 400, "bf16", bias=True), replace(ROWS, result_vec=4, splits=3)),
}  # fmt: skip


def right(p: GemmProblem, c: Sm90Config, seed: int) -> bool:
    got, value, allowed = computed(p, c, seed)
    return bool(np.all(np.abs(got - value) <= allowed))


@pytest.mark.deep(but=("TN", "TT", "NT, two", "one row", "C", "bias, gelu", "relu in boxes", "odd rows of D"))
@pytest.mark.parametrize("name", CASES)
def test_what_is_simulated_is_the_definition(name: str) -> None:
    p, c = CASES[name]
    assert right(p, c, 0) and right(p, c, 1)  # in groups of a block, of a warp


def drawn(rng: random.Random) -> tuple[GemmProblem, Any]:
    """A small product and a configuration that fits it, any tile of the family or a small one."""
    while True:
        m, n, k = rng.randint(1, 200), rng.randint(1, 200), rng.randint(1, 300)
        asked: dict[str, Any] = {
            "a_major": rng.choice(["k", "mn"]), "b_major": rng.choice(["k", "mn"]),
            "reads_c": rng.random() < 0.2, "bias": rng.choice(["none", "none", "n", "m"]),
            "activation": rng.choice(["none", "relu", "silu"]), "result": rng.choice([None, "f32"]),
        }  # fmt: skip
        a, b = (k if asked["a_major"] == "k" else m), (k if asked["b_major"] == "k" else n)
        lead = {"lda": -(-a // 8) * 8 + 8 * rng.randint(0, 2), "ldb": -(-b // 8) * 8}
        lead["ldd"] = n + rng.randint(0, 9)
        p = gemm_problem(m, n, k, rng.choice(["f16", "bf16"]), **(asked | lead))
        base = Sm90Config(
            64 * (c := rng.choice([1, 1, 2, 3])), rng.choice([16, 48, 64, 128]), rng.randint(2, 4), c
        )
        along = rng.choice(["", "", "cluster_m", "cluster_n", "cluster_k"])
        if along:
            many: Any = {along: rng.choice([2, 2, 3, 4])}
            base = replace(base, **many)
        if rng.random() < 0.25:
            base = replace(base, pingpong=True)
        found = SM90.fitted(p, replace(base, panel=rng.randint(1, 8)))
        if rng.random() < 0.2:
            found = SM90.parted(p, replace(found, splits=rng.randint(2, 3)))
        try:
            check_config(p, found)
        except LayoutAlgError:
            continue
        return p, found


@pytest.mark.deep(but=("3", "4", "5", "6", "7", "9", "10", "11"))
@pytest.mark.parametrize("seed", [*range(12), *range(900_000, 900_200)])
def test_random_products_are_the_definition(seed: int) -> None:
    p, c = drawn(random.Random(20261123 + seed))
    assert right(p, c, seed), (p, c)


@pytest.mark.deep
def test_every_tile_compiles_without_spills() -> None:
    p = gemm_problem(4096, 4096, 4096, "bf16")
    for tile in SM90_TILES:
        kernel = build(p, SM90.fitted(p, tile.config))
        assert kernel.shared_bytes == shared_bytes(p, SM90.fitted(p, tile.config))
    assert compile_program(build(p, Sm90Config(128, 256, 4))).spill_bytes == 0


F32_IN_BOXES = {
    "the usual tile": Sm90Config(256, 128, 4, result_vec=4, cluster_n=2),
    "ping-pong": Sm90Config(128, 128, 2, result_vec=4, pingpong=True),
    "one consumer": Sm90Config(128, 32, 2, 1, result_vec=4),
    "three consumers": Sm90Config(384, 96, 2, 3, result_vec=4),
}


@pytest.mark.deep
@each("name", F32_IN_BOXES)
def test_f32_results_of_several_row_blocks_are_not_serialized(name: str) -> None:
    """NVRTC refuses what the assembler has serialized."""
    config = F32_IN_BOXES[name]
    p = gemm_problem(4096, 4096, 4096, "bf16", result="f32", activation="relu")
    assert compile_program(build(p, config)).spill_bytes == 0
    small = gemm_problem(2 * config.tile_m + 8, 100, 72, "bf16", result="f32", activation="relu")
    assert right(small, config, 0)


@each("major", ["k", "mn"], sample=1)
@each(("rows", "consumers"), [(384, 3), (320, 1), (576, 3)], sample=1)
def test_a_tile_may_be_higher_than_a_box(rows: int, consumers: int, major: Any) -> None:
    p = gemm_problem(rows + 8, 40, 72, "bf16", a_major=major)
    assert right(p, Sm90Config(rows, 32, 2, consumers), 0)


def test_as_many_blocks_as_there_are_tiles_or_multiprocessors() -> None:
    p = gemm_problem(256, 512, 64)
    assert block_count(p, Sm90Config(128, 256, 4)) == 4
    assert block_count(gemm_problem(8192, 8192, 64), Sm90Config(128, 256, 4, splits=2)) == 66


REFUSED: dict[str, tuple[GemmProblem, Sm90Config]] = {
    "no multiple of 16 bytes": (gemm_problem(64, 64, 68, "bf16"), SMALL),
    "not s8 into s32": (gemm_problem(64, 64, 64, "s8"), SMALL),
    "13 stages fit": (gemm_problem(64, 64, 64, "bf16"), replace(SMALL, stages=40)),
    "which are 4 of 65552 and 8192 for results.*; 3 stages fit": (
        gemm_problem(64, 64, 64, "bf16"), Sm90Config(256, 256, 4)
    ),
    "which are 2 of 139280 and .*; take a smaller tile": (
        gemm_problem(64, 64, 64, "bf16"), Sm90Config(1024, 64, 2, 1)
    ),
    "adds no matrix": (gemm_problem(64, 64, 64, "bf16", reads_c=True), SMALL),
    "columns of wgmma": (gemm_problem(64, 64, 64, "bf16"), replace(SMALL, tile_n=40)),
    "a step of a = 4100": (gemm_problem(64, 64, 64, "bf16", batch=[BatchMode(2, 4100, 0, 0, 4096)]), SMALL),
    "tensor maps have room for 3": (
        gemm_problem(8, 8, 8, batch=[BatchMode(2, d=64 << i) for i in range(4)]), SMALL
    ),
}  # fmt: skip


@each("why", REFUSED)
def test_what_breaks_a_rule_is_refused(why: str) -> None:
    with pytest.raises(LayoutAlgError, match=why):
        build(*REFUSED[why])


NOTED: dict[str, tuple[Sm90Config, tuple[str, ...]]] = {
    "two": (
        Sm90Config(128, 64, 3), ("A block makes 128 x 64 of D, and then", "2 warpgroups make 64 rows each,")
    ),
    "one": (SMALL, ("one warpgroup makes it,",)),
    "turns": (Sm90Config(128, 64, 3, pingpong=True), ("2 warpgroups take turns at whole tiles,",)),
    "below": (replace(SMALL, cluster_m=2), ("clusters of 2 x 1 tiles, and load B for each other;",)),
    "beside": (replace(SMALL, cluster_n=2), ("clusters of 1 x 2 tiles, and load A for each other;",)),
    "along k": (
        replace(SMALL, cluster_k=2),
        ("The 2 blocks of a cluster make 64 x 64 of D, a part of k each, then 32 columns each;",),
    ),
    "stream-K": (replace(SMALL, schedule="streamk"), ("equal numbers of steps of k for all;",)),
}  # fmt: skip


@each("name", NOTED)
def test_a_text_says_how_its_blocks_work(name: str) -> None:
    config, said = NOTED[name]
    notes = "\n".join(build(gemm_problem(256, 128, 256, "bf16"), config).notes)
    assert all(part in notes for part in said)
    unsaid = {part for _, parts in NOTED.values() for part in parts if part not in said}
    assert not any(part in notes for part in unsaid - {NOTED["two"][1][0], "one warpgroup makes it,"})
