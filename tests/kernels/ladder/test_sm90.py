"""What is predicted of gemm-sm90 in closed form is what the simulator counts, and brute force."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.costs import sequence_traffic
from layoutalg.codegen.program import printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.ladder import predict_steps
from layoutalg.kernels.ladder.counters import Lines, work
from layoutalg.kernels.ladder.hopper import Hopper
from tests.gpu import multicast_counters
from tests.kernels.gemm.cases import arguments
from tests.sweeps import each, first

SMALL = Sm90Config(64, 64, 3, 1)
FIRST = Hopper(64, 48, 2, 1, loop="tma")
TN, LONG = gemm_problem(100, 88, 136, "bf16"), gemm_problem(150, 88, 104, "bf16")
CASES: dict[str, tuple[GemmProblem, Sm90Config]] = {
    "TN": (TN, SMALL), "odd starts": (replace(TN, ldd=104), replace(SMALL, tile_n=48)),
    "NT": (gemm_problem(136, 72, 72, "f16", a_major="mn", b_major="mn"), Sm90Config(128, 64, 2)),
    "f32 result": (gemm_problem(72, 100, 72, "f16", result="f32"), replace(SMALL, result_vec=4)),
    "by rows": (gemm_problem(67, 71, 40, "bf16", ldd=75), replace(SMALL, through="shared", result_vec=1)),
    "parts": (gemm_problem(72, 88, 400, "bf16"), replace(SMALL, through="shared", result_vec=4, splits=3)),
    "ping-pong": (LONG, Sm90Config(64, 48, 2, pingpong=True)),
    "cluster below": (LONG, replace(SMALL, cluster_m=2)),
    "cluster along k": (gemm_problem(72, 88, 264, "bf16"), replace(SMALL, cluster_k=2)),
    "first step": (TN, replace(FIRST, stages=1, loop="threads")), "third step": (TN, FIRST),
    "three consumers": (gemm_problem(300, 40, 72, "bf16"), Sm90Config(192, 32, 2, 3)),
    "cluster of odd rows": (gemm_problem(150, 88, 104, "bf16", ldb=120), replace(SMALL, cluster_m=2)),
    "cluster of odd columns": (
        gemm_problem(72, 200, 104, "bf16", a_major="mn", lda=88), Sm90Config(128, 64, 2, cluster_n=2)
    ),
    "cluster beside": (gemm_problem(72, 200, 104, "bf16", b_major="mn"), replace(SMALL, cluster_n=2)),
}  # fmt: skip


@pytest.mark.parametrize("name", first(6, sorted(CASES)))
def test_the_simulator_counts_what_is_predicted(name: str) -> None:
    p, c = CASES[name]
    one = launches(p, c)
    scalars = {**dict(one.scalars), "alpha": 1}
    found, kernel = work(p, c, one.kernels[0], scalars), printed(one.kernels[0])
    names = {q.name for q in kernel.params}
    given = arguments(p) | scalars
    args: dict[str, Any] = {name: x for name, x in given.items() if name in names}
    if "sums" in names:
        args["sums"] = np.zeros(one.scratch_bytes // 4, np.uint32)
    run = simulate(kernel, args)

    def of(start: str) -> int:
        return sum(sum(by_warp) for key, by_warp in run.executed.items() if key.startswith(start))

    assert [found.wgmma, found.tma_loads, found.tma_stores] == [
        *map(of, ("wgmma_m", "tma_load", "tma_store"))
    ]
    assert found.read_bytes == run.counted["load"] and found.written_bytes == run.counted["store"]
    assert found.operand_wavefronts * 128 == run.counted["wgmma"]
    shared = sum(t.total for t in run.trace.totals() if "global" not in t.site.op)
    assert found.thread_wavefronts == shared and found.accesses == sequence_traffic(one, {"alpha": 1})[0]


def test_crossed_tiles_are_refused() -> None:
    p, c = gemm_problem(72, 200, 264, "bf16"), replace(SMALL, crossed=True)
    one = launches(p, c)
    with pytest.raises(UnsupportedError, match="crossed"):
        work(p, c, one.kernels[0], dict(one.scalars))


def brute(x: Lines) -> tuple[int, int]:
    """Sectors and zeros, byte by byte."""
    sectors = zeros = 0
    for line in range(x.covered):
        for chunk in range(x.chunks):
            there = range(chunk * x.chunk_bytes, (chunk + 1) * x.chunk_bytes)
            inside = [line * x.pitch_bytes + n for n in there if line < x.lines and n < x.nbytes]
            touched = {n // 32 for n in inside}
            missing = len(there) - len(inside)
            if x.shared:
                lines = [sum(n // 4 == line for n in touched) for line in {n // 4 for n in touched}]
                sectors += sum(max(2, n) for n in lines)
                zeros += max(3, -(-missing // 32)) if inside and missing else -(-missing // 32)
            else:
                sectors += len(touched)
                zeros += -(-missing // 32)
    return sectors, zeros


@pytest.mark.parametrize("seed", range(40))
def test_lines_are_counted_as_byte_by_byte(seed: int) -> None:
    rng = random.Random(seed)
    nbytes, chunk = 2 * rng.randint(1, 200), rng.choice([32, 64, 128])
    pitch = -(-nbytes // 16) * 16 + 16 * rng.randint(0, 2)
    lines = rng.randint(1, 9)
    x = Lines(lines, nbytes, pitch, lines + rng.randint(0, 5), -(-nbytes // chunk) + rng.randint(0, 2), chunk)
    assert (x.sectors, x.zeros) == brute(x)
    shared = replace(x, shared=True, chunk_bytes=128, chunks=-(-nbytes // 128) + rng.randint(0, 2))
    assert (shared.sectors, shared.zeros) == brute(shared)


COUNTED = json.loads((Path(__file__).parents[2] / "data" / "h200_multicast.json").read_text(encoding="utf-8"))


@each("row", COUNTED["boxes"], sample=30)
def test_boxes_that_a_cluster_shares_count_what_an_h200_counted(row: list[Any]) -> None:
    *fields, counted = row
    assert multicast_counters.simulated(multicast_counters.Case(*fields)) == counted


@each("number", range(len(COUNTED["products"])), sample=9)
def test_products_whose_clusters_share_rows_count_what_an_h200_counted(number: int) -> None:
    p, c = multicast_counters.PRODUCTS[number]
    one = launches(p, c)
    found = work(p, c, one.kernels[0], {**dict(one.scalars), "alpha": 1})
    assert found.read_bytes == COUNTED["products"][number]


@pytest.mark.deep
def test_every_row_of_the_page_is_what_is_predicted() -> None:
    """The cycles, the bound and the share of each step in docs/hopper.md."""
    page = (Path(__file__).parents[3] / "docs" / "hopper.md").read_text(encoding="utf-8")
    cells = r" \| ([\d,]+)" * 4
    rows = re.findall(rf"^\| (\d+ [^|]+?) \| [^|]+{cells} \| (\w+) \| (\d+) % \|", page, re.M)
    assert len(rows) == 11
    steps = predict_steps(find_family("gemm-sm90"), 4096, tuple(row[0] for row in rows))
    for (name, *cycles, bound, share), step in zip(rows, steps, strict=True):
        predicted = [f"{dict(step.cycles)[what]:,.0f}" for what in ("tensor", "L1", "L2", "results")]
        assert (cycles, bound, share) == (predicted, step.bound, f"{100 * step.share:.0f}"), name
