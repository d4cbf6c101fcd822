"""Predicted and counted work of gemm-sm90, whole and ragged products, side by side, from one `ncu` run each.

python -m tests.gpu.gemm_sm90_counters            the table; the exit status is 1 when a number is other
python -m tests.gpu.gemm_sm90_counters launch N   launch case N once: the process that the profiler watches

Predictions are those of layoutalg.kernels.ladder.sm90.  TMA, products and shared wavefronts have to be equal;
sectors of the L2 are those of its requests from the L1, to which a launch adds some for tensor maps,
instructions and constants.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from layoutalg.kernels import find_family
from layoutalg.kernels.gemm import GemmProblem, Sm90Config
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.ladder.sm90 import held, work
from tests.gpu.counters import BY_INSTRUCTION, Row, count_launches, table
from tests.gpu.gemm_ladder import MOST_WARPS, launch_all

FAMILY = find_family("gemm-sm90")

L1, L2 = "l1tex__m_", "lts__t_sectors_"
COUNTED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "wgmma": (("sm__inst_executed_pipe_tensor_op_gmma.sum",), "instructions"),
    "TMA loads": (("smsp__sass_inst_executed_op_tma_ld.sum",), "instructions"),
    "TMA stores": (("smsp__sass_inst_executed_op_tma_st.sum",), "instructions"),
    "TMA in": ((f"{L1}xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",), "bytes"),
    "TMA out": ((f"{L1}l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",), "bytes"),
    "shared wavefronts": ((BY_INSTRUCTION,), "wavefronts"),
    "sectors stored": (("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",), "sectors"),
    "L2 in": ((f"{L2}srcunit_tex_op_read.sum", f"{L2}op_read.sum"), "sectors"),
    "L2 out": ((f"{L2}srcunit_tex_op_write.sum", f"{L2}op_write.sum"), "sectors"),
}
"""Each count of a Work: the metrics that say it, the first of which this GPU has, and its unit."""

REGISTERS = "launch__registers_per_thread"

L2_MORE = 0.01
"""Share of the sectors of the L2 by which a launch may have more: tensor maps, instructions, constants."""

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
        found = work(p, c, sequence.kernels[0], {**dict(sequence.scalars), **FAMILY.bench.scalars(p)})
        cubin, occupancy = held(sequence.kernels[0])
        metrics = [metric for names, _ in COUNTED.values() for metric in names] + [REGISTERS, MOST_WARPS]
        (seen,) = count_launches("^gemm_sm90", metrics, "tests.gpu.gemm_sm90_counters", "launch", str(number))
        for what, predicted in found.counts.items():
            names, unit = COUNTED[what]
            counted = next((int(seen[name]) for name in names if name in seen), -1)
            more = what.startswith("L2") and 0 <= counted - predicted <= L2_MORE * predicted
            yield Row(label, what, unit, predicted, counted, "maps, instructions, constants" if more else "")
        yield Row(label, "registers", "per thread", cubin.registers, int(seen.get(REGISTERS, -1)))
        yield Row(label, "occupancy", "warps", occupancy.warps_per_sm, int(seen.get(MOST_WARPS, -1)))


def main(args: list[str]) -> int:
    """Print the table."""
    if args[:1] == ["launch"]:
        p, c = CASES[int(args[1])]
        launch_all(FAMILY, p, [c])
        return 0
    return 1 if table("product", rows()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
