"""Which configurations are tried, in which order and for which times, and that each of them works.

tests/data/gemm_choice_*.json holds the times of every choice, and of cuBLAS, as tests/gpu/tune_gemm.py
measured them on an H200: on problems to which the model's numbers were fitted, and on fresh ones; those of
wgmma are in test_fit.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import find_arch
from layoutalg.codegen.program.checks import check
from layoutalg.errors import ResourceError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm import BatchMode, Sm80Config, Sm90Config, expected_family, gemm_problem, grouped
from layoutalg.kernels.gemm.choice import (
    LEAST_K,
    MOST_ROUNDS,
    OFFERED,
    SIMT,
    SM75,
    SM80,
    SM90,
    Choice,
    offered_splits,
)
from layoutalg.kernels.gemm.groups import most_row_tiles
from layoutalg.kernels.gemm.launches import launches, way
from layoutalg.kernels.gemm.parts import block_count
from layoutalg.kernels.gemm.tiles import tile_count
from layoutalg.kernels.gemm.times import SM75_TILES, TileLaw, tile_work
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.model import machine_of
from tests.sweeps import each

CONFIG = Sm80Config(128, 128, 64, 2, 2, 3, min_blocks=2)
LAW = TileLaw(multiply=2048, copy=0, launch=2000, byte=0.001, start=0, reached=1, block=1000, step=100)
STEP = (128 * 128 * 64 * 2 / 2048 + 4 * 8 * 4 / 4) / 1.9  # of a block: products, and its loads of fragments
PART = 128 * 128 * 4 * 0.001  # adding up a part of a tile


@each(
    ("m", "n", "c", "sms", "ns"),
    [
        (128, 256, CONFIG, 2, 16 * (STEP + 100) + 1000),  # one block on each of two multiprocessors
        (128, 257, CONFIG, 2, 16 * (2 * STEP + 100) + 1000),  # two on the busiest
        (128, 128 * 5, CONFIG, 2, 1.5 * (16 * (2 * STEP + 100) + 1000)),  # three, of which two run together
        (128, 128, replace(CONFIG, splits=2), 2, 8 * (STEP + 100) + 1000 + 2000 + 2 * PART),
    ],
)  # fmt: skip
def test_times_are_counted_in_rounds_and_parts(m: int, n: int, c: Any, sms: int, ns: float) -> None:
    """Blocks that run together share what issues, and wait at the same time."""
    board = replace(machine_of("sm_90"), sms=sms)
    w = tile_work(gemm_problem(m, n, 1024), c, c.splits, LAW, board, find_arch("sm_90"))
    assert 1e3 * (w.blocks * w.block_us + w.beside_us) == pytest.approx(ns)


def test_single_elements_and_epilogues_take_longer() -> None:
    """A copy of 2 bytes is issued as one of 16; GELU's 17 operations are issued as 9."""
    p, board, chip = gemm_problem(128, 128, 1024), machine_of("sm_90"), find_arch("sm_90")
    wide, narrow = (
        tile_work(
            p, replace(CONFIG, a_bytes=x, via="registers"), 1, replace(LAW, copy=10), board, chip
        ).block_us
        for x in (16, 2)
    )
    assert 1e3 * (narrow - wide) == pytest.approx(16 * 4 * (64 - 8) * 10 / 4 / 1.9)
    gelu = gemm_problem(128, 128, 1024, activation="gelu")
    assert gelu.epilogue.instructions == 9
    later = [tile_work(x, CONFIG, 1, LAW, board, chip).block_us for x in (p, gelu)]
    assert 1e3 * (later[1] - later[0]) == pytest.approx(128 * 128 * 9 / 32 / 4 / 1.9)
    ns = [
        SM90.clock(gemm_problem(8192, 8192, 128, "bf16", activation=f), find_arch("sm_90"))
        for f in ("none", "relu", "gelu")
    ]
    for turns in (False, True):  # in turns one consumer's epilogue runs while the other multiplies
        c = Sm90Config(128, 128, 6, pingpong=turns)
        times = [clock(c, 1) for clock in ns]
        assert times == sorted(times) and (times[2] > 1.05 * times[0]) is not turns


EXTENT = st.integers(1, 20000)


@given(EXTENT, EXTENT, EXTENT)
def test_offered_parts_are_long_enough_and_not_too_many(m: int, n: int, k: int) -> None:
    p = gemm_problem(m, n, k)
    one, *parts = offered_splits(p, CONFIG, 132)
    assert one == 1 and set(parts) <= set(OFFERED)
    for s in parts:
        assert s * LEAST_K <= k and s * tile_count(p, CONFIG) <= MOST_ROUNDS * 132
    assert offered_splits(gemm_problem(m, n, k, accumulator="f16"), CONFIG, 132) == (1,)


@given(st.randoms(use_true_random=False))
def test_every_problem_has_configurations_that_fit_and_the_fastest_is_the_first(rng: random.Random) -> None:
    """They print differently and are legal: rules of a problem, and tiles asked in the order of their times,
    change nothing."""
    dtype, arch = rng.choice(("f16", "bf16", "f32", "f64")), rng.choice(("sm_80", "sm_90"))
    m, n, k = (rng.choice((1, 8)) * rng.randint(1, 2500) for _ in range(3))
    majors: Any = [rng.choice(("k", "mn")) for _ in "ab"]
    more, (a, b) = rng.choice((0, 0, 1, 5)), majors
    p = gemm_problem(
        m, n, k, dtype, a_major=a, b_major=b, reads_c=rng.random() < 0.5, ldd=n + more,
        lda=(k if a == "k" else m) + more, ldb=(k if b == "k" else n) + more,
    )  # fmt: skip
    for choice in (SIMT,) if dtype in ("f32", "f64") else (SM80, SM90):
        timed = [(ns, c) for ns, c, why in choice.timed(p, arch) if why is None]
        assert timed or choice is SM90
        assert len({str(c) for _, c in timed}) == len(timed) or choice is SIMT
        for _, c in timed[:: 1 + len(timed) // 8]:
            check_config(p, c, arch)


@each(("family", "dtype", "arch"), [
    *product(("gemm-simt",), ("f32", "f64"), ("sm_75", "sm_80", "sm_90")), ("gemm-sm75", "f16", "sm_75"),
    *product(("gemm-sm80",), ("s4", "u4", "b1", "f64", "s8", "tf32"), ("sm_80", "sm_86", "sm_89", "sm_90")),
], sample=1)  # fmt: skip
def test_what_is_offered_for_an_architecture_is_built_for_it(family: str, dtype: str, arch: str) -> None:
    """Warps of 64 x 64 multiply s4 where tensor cores do: past the limit of sums of a function, elsewhere."""
    of, major = FAMILIES[family], "mn" if family == "gemm-simt" else "k"
    p = of.problem(4096, 4000, 4096, dtype, b_major=major, reads_c=True, bias=True, activation="relu")
    for c in of.configs(p, arch)[:12]:
        for kernel in launches(p, c, arch).kernels:
            check(kernel, arch)
    c = of.choose(p, arch)
    assert of.called is not None and of.called(p, c, arch).kernels


def test_what_fits_no_tile_is_refused_as_the_last_tile_refuses_it() -> None:
    choice = Choice("gemm-sm80", (CONFIG,) * 2, SM80.clock, lambda p, c, chip: replace(c, stages=16), ())
    with pytest.raises(ResourceError, match="16 stages: 524288 asked"):
        choice.configs(gemm_problem(128, 128, 64))


def test_large_problems_take_large_tiles_and_small_ones_many() -> None:
    for choice, dtype, extents in ((SIMT, "f32", (128, 512, 1024, 4096)), (SM80, "f16", (512, 8192))):
        first = (choice.configs(gemm_problem(n, n, n, dtype, b_major="mn"))[0] for n in extents)
        sizes = [c.tile_m * c.tile_n for c in first]
        assert sizes == sorted(sizes) and sizes[0] <= 64 * 128 and sizes[-1] == 128 * 256
    edges = [SM80.configs(gemm_problem(m, 8192, 8192))[0].edges for m in (8192, 8191)]
    assert edges == [False, True]


@each(
    ("n", "k", "options", "a_bytes", "result_vec", "tile_k"),
    [
        (256, 100, {}, 8, 8, 64), (256, 64, {"lda": 66}, 4, 8, 64), (256, 99, {}, 2, 8, 64),
        (250, 64, {}, 16, 2, 64), (256, 64, {"dtype": "tf32"}, 16, 4, 32),
    ],
)  # fmt: skip
def test_vectors_follow_the_leading_dimensions(
    n: int, k: int, options: dict[str, Any], a_bytes: int, result_vec: int, tile_k: int
) -> None:
    c = SM80.fitted(gemm_problem(256, n, k, **options), SM80.tiles[0])
    assert (c.a_bytes, c.result_vec, c.tile_k) == (a_bytes, result_vec, tile_k)


@each(
    ("dtype", "arch", "rows", "k"),
    [
        ("f64", "sm_90", 16, 8), ("f64", "sm_80", 8, 4), ("s8", "sm_80", 16, 0), ("s4", "sm_80", 16, 0),
        ("b1", "sm_90", 16, 0), ("s4", "sm_90", 16, 0),
    ],
)  # fmt: skip
def test_other_types_are_offered_tiles(dtype: str, arch: str, rows: int, k: int) -> None:
    """Of s4 on sm_90 a mma is a call, and warps are small."""
    some = SM80.configs(gemm_problem(4096, 4096, 4096, dtype), arch)
    assert {(c.mma_m, c.mma_k) for c in some} == {(rows, k)}
    if (dtype, arch) == ("s4", "sm_90"):
        assert {(c.warp_m, c.warp_n) for c in some} == {(32, 32)}
    else:
        assert some[0].tile_m * some[0].tile_n > 64 * 64


@pytest.mark.parametrize("sums", ["f16", "f32"])
def test_every_tile_of_turing_fits_it_and_is_offered(sums: str) -> None:
    """256 x 256 holds f16 sums alone; the others hold both."""
    timed = list(SM75.timed(gemm_problem(4096, 4096, 4096, accumulator=sums), "sm_75"))
    some, refused = ([c for _, c, why in timed if (why is not None) is out] for out in (False, True))
    assert len({(c.tile_m, c.tile_n) for c in some}) == len(SM75_TILES) - (sums == "f32")
    assert len(refused) == (sums == "f32") and all(c.via == "registers" and c.mma_k == 8 for c in some)


def test_tiles_are_crossed_where_a_problem_leaves_the_choice() -> None:
    few, factors = gemm_problem(144, 3304, 3840, "bf16"), {"dtype": "e4m3", "arithmetic": "blocks"}
    assert {c.crossed for c in SM90.configs(few)} == {True, False} and SM90.configs(few)[0].crossed
    assert not any(c.crossed for c in SM90.configs(gemm_problem(144, 3328, 3840, **factors)))  # type: ignore[arg-type]
    crossed = [c for c in SM90.configs(replace(few, result=few.accumulator)) if c.crossed]
    assert crossed and {c.through for c in crossed} == {"shared"}
    assert not any(c.crossed for c in SM90.configs(gemm_problem(144, 3303, 3840, "bf16", ldd=3303)))


def test_parts_of_k_are_not_offered_to_a_batch() -> None:
    p = gemm_problem(64, 64, 4096)
    several = replace(p, batch=(BatchMode(2, a=1 << 18, b=1 << 18, d=4096),))
    assert SM80.configs(p)[0].splits > 1 and all(c.splits == 1 for c in SM80.configs(several))


def test_few_rows_are_computed_at_the_speed_of_memory() -> None:
    """The model expects, of a B that no cache holds, 0.7 of the board's bandwidth or more, 0.6 where it lies
    along n."""
    for dtype, major, m in product(("bf16", "f16", "f32"), ("k", "mn"), (1, 4)):
        p = gemm_problem(m, 8192, 8192, dtype, b_major=major)  # type: ignore[arg-type]
        ns, family, _ = expected_family(p)
        assert (family == "gemv" or major == "mn") and ns * (0.6 if major == "mn" else 0.7) < (
            8192 * 8192 * p.operand.nbytes / 4.8
        )
    assert expected_family(gemm_problem(64, 8192, 8192))[1] == "gemm-sm90"


def test_a_configuration_of_groups_is_that_of_groups_of_one_size() -> None:
    p = grouped(gemm_problem(8 * 1024, 4096, 4096, "bf16"), 8, 4096 * 4096)
    batch = [BatchMode(8, a=1024 * 4096, b=4096 * 4096, d=1024 * 4096)]
    ns, family, found = expected_family(p)
    one = SM90.timed(gemm_problem(1024, 4096, 4096, "bf16", batch=batch))
    assert (ns, found) == next((ns, c) for ns, c, _ in one if not c.crossed)
    assert family == "gemm-sm90" and isinstance(found, Sm90Config) and found.through == "tma"
    assert p.flops == 2 * 8192 * 4096 * 4096 and p.rows == 1024


@each(
    ("p", "c", "blocks"),
    [
        (gemm_problem(256, 512, 64), Sm90Config(128, 256, 4), 4),
        (gemm_problem(8192, 8192, 64), Sm90Config(128, 256, 4, splits=2), 66),
        (gemm_problem(256, 256, 64, batch=[BatchMode(5, a=16384, b=16384, d=65536)]), Sm90Config(128, 256,
        4), 10),
        (grouped(gemm_problem(16, 64, 64), 16, 64 * 64), Sm90Config(64, 64, 2, 1), most_row_tiles(16, 16,
        64)),
    ],
)  # fmt: skip
def test_as_many_blocks_as_there_are_tiles_or_multiprocessors(p: Any, c: Any, blocks: int) -> None:
    """Tiles of all products of a batch, and enough for every group."""
    assert block_count(p, c) == blocks


@pytest.mark.parametrize(("family", "choice", "options"), [
    ("simt", SIMT, {"dtype": "f32", "b_major": "mn"}), ("sm80", SM80, {}),
])  # fmt: skip
@pytest.mark.parametrize(("part", "count", "most"), [("fitted", 20, 0.04), ("fresh", 10, 0.07)])
def test_the_first_choice_is_near_exhaustive_choice(
    family: str, choice: Any, options: Any, part: str, count: int, most: float
) -> None:
    path = Path(__file__).parents[2] / "data" / f"gemm_choice_{family}.json"
    losses = []
    for row in json.loads(path.read_text(encoding="utf-8"))[part]:
        times, p = row["choices"], gemm_problem(row["m"], row["n"], row["k"], **options)
        choices = [way(c) for c in choice.configs(p)]
        assert set(choices) == set(times), "every choice was measured"
        losses.append(times[choices[0]] / min(times.values()) - 1)
    assert len(losses) >= count and max(losses) <= most and fmean(losses) <= 0.0125
