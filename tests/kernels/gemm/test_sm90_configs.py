"""Every tile of gemm-sm90 at a small ragged size, simulated, with every option beside every other."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.gemm.choice.heuristic import SM90
from layoutalg.kernels.gemm.choice.tables import SM90_TILES
from layoutalg.kernels.gemm.validate import check_config
from tests.kernels.gemm.test_epilogue_steps import computed

OPTIONS = ("through", "a_major", "b_major", "result", "dtype", "activation", "parts")


def drawn(i: int) -> dict[str, bool]:
    """Seven options by three bits of a number: of eight numbers every pair of options has all four values."""
    bits = [i & 1, i >> 1 & 1, i >> 2 & 1]
    columns = [*bits, bits[0] ^ bits[1], bits[0] ^ bits[2], bits[1] ^ bits[2], bits[0] ^ bits[1] ^ bits[2]]
    return dict(zip(OPTIONS, map(bool, columns), strict=True))


def case(i: int, tile: Sm90Config) -> tuple[GemmProblem, Sm90Config]:
    """A product of a little less than a tile and than one or two steps of k, and the tile as it takes it."""
    on = drawn(i)
    by_rows, result = on["through"], "f32" if on["result"] else None
    m, n = tile.cluster_m * tile.tile_m - 3, tile.cluster_n * tile.tile_n - 8 + 3 * by_rows
    k = 104 if i < 4 else 40
    if on["a_major"]:
        m -= m % 8
    adds = by_rows and on["activation"]
    dtype = "f16" if on["dtype"] else "bf16"
    p = gemm_problem(
        m, n, k, dtype, a_major="mn" if on["a_major"] else "k", b_major="mn" if on["b_major"] else "k",
        result=result, reads_c=adds, bias="m" if adds else "none",
        activation="relu" if on["activation"] else "none", ldb=-(-n // 8) * 8 if on["b_major"] else k,
    )  # fmt: skip
    c = SM90.fitted(p, tile)
    if by_rows and c.through == "tma":
        c = replace(c, through="shared", result_vec=1)
    return p, SM90.parted(p, replace(c, splits=2)) if on["parts"] else c


BESIDE = (
    Sm90Config(64, 48, 3, pingpong=True), Sm90Config(128, 48, 3, cluster_n=4),
    Sm90Config(64, 64, 3, cluster_m=4, pingpong=True), Sm90Config(192, 32, 2, 3),
    Sm90Config(64, 48, 3, 1, schedule="streamk"),
)  # fmt: skip
"""What users may ask for beside the offered tiles, in small tiles."""


def accepted(i: int, tile: Sm90Config) -> tuple[int, GemmProblem, Sm90Config]:
    """The first options from number i on that are not refused together with a tile."""
    for number in range(i, i + 8):
        p, c = case(number % 8, tile)
        try:
            check_config(p, c)
        except LayoutAlgError:
            continue
        return number % 8, p, c
    raise AssertionError(f"nothing is accepted with {tile}")


TILES = [*(tile.config for tile in SM90_TILES), *BESIDE]
CASES = [accepted(i, tile) for i, tile in enumerate(TILES)]


@pytest.mark.deep(but=("0", "11", "24", "37", "49", "62", "73", "85"))
@pytest.mark.parametrize("number", range(len(CASES)))
def test_every_tile_at_a_ragged_size(number: int) -> None:
    """All warps of a role together, of some warp by warp."""
    _, p, c = CASES[number]
    got, value, allowed = computed(p, c, 2 * number + (number % 6 == 0))
    assert np.all(np.abs(got - value) <= allowed)


def test_every_option_stands_beside_every_other() -> None:
    taken = [drawn(i) for i, _, _ in CASES]
    for one, other in combinations(OPTIONS, 2):
        assert len({(on[one], on[other]) for on in taken}) == 4
