"""What hardware serves otherwise than instruction by instruction: lines, words with banks on both sides."""

from __future__ import annotations

from layoutalg.kernels.gemm.heuristic import SIMT
from layoutalg.kernels.gemm.launches import predictions
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.smem_loads import copied_lines, copied_words, counted, vectorized_loads
from layoutalg.kernels.gemm.tiles import SIMT_LADDER as LADDER
from layoutalg.kernels.gemm.tiles import SimtConfig, Sm80Config
from tests.sweeps import each


@each(
    ("p", "tile_k", "lines_of_eight_lanes"),
    [
        (gemm_problem(128, 256, 128), 64, 1),
        (gemm_problem(128, 256, 128), 32, 2),
        (gemm_problem(128, 256, 128), 16, 4),
        (gemm_problem(128, 256, 128, a_major="mn", b_major="mn"), 32, 1),
        (gemm_problem(128, 256, 128, lda=160, ldb=160), 64, 1.5),  # every other row starts inside a line
        (gemm_problem(128, 256, 128, "s8"), 64, 2),
    ],
)
def test_copies_are_written_line_by_line(p: GemmProblem, tile_k: int, lines_of_eight_lanes: float) -> None:
    copies = (128 + 256) * 128 * p.operand.nbytes // 16
    assert copied_lines(p, Sm80Config(128, 256, tile_k, 2, 4, 2)) == copies / 8 * lines_of_eight_lanes


def parts(dtype: str, k: int, splits: int) -> tuple[GemmProblem, SimtConfig]:
    p = gemm_problem(256, 256, k, dtype, b_major="mn")
    whole = (c for c in SIMT.configs(p) if c.splits == splits and not (256 % c.tile_m or 256 % c.tile_n))
    return p, next(whole)


def test_words_of_a_turned_tile_meet_in_banks_on_both_sides() -> None:
    """Counted on an H200: 2395132 wavefronts of f64, of which copies past the end are 32764 at most."""
    p, c = parts("f64", 1024, 2)
    assert (c.tile_m, c.tile_n, c.tile_k) == (32, 32, 16)
    alone = predictions(p, c)[0]
    found = counted(p, c, alone)
    copies = found["cp.async.8"]
    assert copied_words(p, c) == {"cp.async.8": (8 * copies.instructions, 10 * copies.instructions)}
    assert copies.total / copies.instructions == 10 > alone["cp.async.8"].total / copies.instructions
    total = sum(cost.total for op, cost in found.items() if "global" not in op)
    past_the_end = 2 * (p.m // c.tile_m) * (p.n // c.tile_n) * c.splits * 6 * c.threads // 32
    assert 0 <= 2395132 - total <= 8 * past_the_end
    assert {op: cost for op, cost in found.items() if op != "cp.async.8"} == {
        op: cost for op, cost in alone.items() if op != "cp.async.8"
    }


def test_f32_words_of_four_rows_take_four_wavefronts() -> None:
    p, c = parts("f32", 2048, 4)
    expected = 4 * predictions(p, c)[0]["cp.async.4"].instructions
    assert copied_words(p, c) == {"cp.async.4": (expected, expected)}


def test_what_the_compiler_loads_at_once_counts_as_vectors() -> None:
    p, c = gemm_problem(32, 32, 32, "f32", b_major="mn"), LADDER["v2"][1]
    alone = predictions(p, c)[0]
    assert counted(p, c, alone, vectorized=True) == vectorized_loads(p, c)
    assert counted(p, c, alone) == alone and copied_words(p, c) == {}
