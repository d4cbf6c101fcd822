"""Predicted and counted work of gemm-sm90, whole and ragged products, side by side, from one `ncu` run each.

python -m tests.gpu.gemm_sm90_counters            the table; the exit status is 1 when a number is other
python -m tests.gpu.gemm_sm90_counters launch N   launch case N once: the process that the profiler watches

Predictions are those of layoutalg.kernels.ladder.counters.  TMA, products and shared wavefronts have to be
equal; sectors of the L2 are at most those of the requests, since those of neighbouring multiprocessors are
joined on their way, and a launch adds some for tensor maps, instructions and constants.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.ladder.counters import work
from layoutalg.kernels.ladder.step import held
from tests.gpu.counters import BY_INSTRUCTION, METRICS, Row, count_launches, table
from tests.gpu.gemm_ladder import BY_TMA, JOINED, MOST_WARPS, launch_all, most_sectors

FAMILY = find_family("gemm-sm90")

UNITS = ("instructions", "instructions", "instructions", "bytes", "bytes", "sectors", "sectors")
COUNTED: Mapping[str, tuple[str, str]] = {
    **{what: (metric, unit) for (what, metric), unit in zip(BY_TMA.items(), UNITS, strict=True)},
    "shared wavefronts": (BY_INSTRUCTION, "wavefronts"), "sectors stored": METRICS["st.global"],
}  # fmt: skip
"""Each count of a Work: its metric and its unit."""

REGISTERS = "launch__registers_per_thread"

CASES: tuple[tuple[GemmProblem, Sm90Config], ...] = (
    (gemm_problem(1024, 1024, 1024, "bf16"), Sm90Config(128, 256, 4)),
    (gemm_problem(1000, 776, 520, "bf16"), Sm90Config(128, 256, 4)),
    (gemm_problem(2104, 2112, 712, "bf16"), Sm90Config(128, 192, 4)),
    (gemm_problem(520, 392, 264, "f16", a_major="mn", b_major="mn"), Sm90Config(128, 128, 6)),
    (gemm_problem(515, 389, 264, "bf16"), Sm90Config(64, 128, 8, 1, through="shared", result_vec=1)),
    (gemm_problem(640, 500, 328, "f16", result="f32"), Sm90Config(128, 128, 4, result_vec=4)),
    (gemm_problem(1000, 1000, 520, "bf16"), Sm90Config(128, 256, 4, cluster_m=2)),
    (gemm_problem(1000, 1000, 520, "bf16"), Sm90Config(64, 256, 4, pingpong=True)),
)
"""Whole and ragged products, of every way that results leave, of clusters and of ping-pong."""


def rows() -> Iterator[Row]:
    """Every count of every case beside its counter."""
    for number, (p, c) in enumerate(CASES):
        label = f"{p}, {c}"
        sequence = FAMILY.launches(p, c, "sm_90")
        found = work(p, c, sequence.kernels[0], {**dict(sequence.scalars), **FAMILY.scalars(p)})
        cubin, occupancy = held(sequence.kernels[0])
        metrics = [*(metric for metric, _ in COUNTED.values()), REGISTERS, MOST_WARPS]
        (seen,) = count_launches("^gemm_sm90", metrics, "tests.gpu.gemm_sm90_counters", "launch", str(number))
        for what, predicted in found.counts.items():
            metric, unit = COUNTED[what]
            counted = int(seen.get(metric, -1))
            why = ""
            if what.startswith("L2") and counted <= most_sectors(what, found.counts):
                why = f"at most, {JOINED}"
            elif what == "shared wavefronts" and 0 < predicted - counted <= found.result_wavefronts // 2:
                why = "branches pass by results that no lane stores" if c.through == "shared" else ""
            yield Row(label, what, unit, predicted, counted, why)
        yield Row(label, "registers", "per thread", cubin.registers, int(seen.get(REGISTERS, -1)))
        yield Row(label, "occupancy", "warps", occupancy.warps_per_sm, int(seen.get(MOST_WARPS, -1)))


def main(args: list[str]) -> int:
    """Print the table."""
    if args[:1] == ["launch"]:
        p, c = CASES[int(args[1])]
        launch_all(FAMILY, p, [c])
        return 0
    return table("product", rows())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
