"""Predicted and measured accesses of permutes, side by side, from one `ncu` run of all.

python -m tests.gpu.permute_counters                                   small ones, and all of the bench
python -m tests.gpu.permute_counters f16 31,63,127,255 3,1,0,2         one kernel
python -m tests.gpu.permute_counters u8:f32 31,63,127,255 3,1,0,2      one that converts
python -m tests.gpu.permute_counters why out.json 10                   what bounds the worst that were timed

The file is what `python -m tests.gpu.tune_permute 2027 80 0 out.json` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.costs import copied, traffic
from layoutalg.codegen.gpu import Prepared, in_processes, load_prepared, prepare, random_bytes, require_gpu
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.cases import CASES as QUOTED
from layoutalg.kernels.move.cases import random_cases
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import Moves, normalise, permute_problem
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.model import copied_sectors, tag_sectors
from tests.gpu.counters import LOST, METRICS, Case, Row, cases_of, count_launches, ints, table, words_of
from tests.gpu.gemm_ladder import ARRIVED
from tests.gpu.needed_wavefronts import needed_wavefronts

SHAPES = (
    ((5, 60, 60, 3), (0, 3, 1, 2)), ((5, 3, 60, 60), (0, 2, 3, 1)), ((20, 18, 16, 14), (3, 2, 1, 0)),
    ((3, 7, 101, 55), (3, 1, 0, 2)), ((4, 64, 16, 32), (0, 2, 1, 3)), ((333, 199), (1, 0)),
)  # fmt: skip


def of_all_types(shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> tuple[Case, ...]:
    """Shapes and axes as cases, of every type."""
    return tuple(
        (dtype, ",".join(map(str, shape)), ",".join(map(str, axes)))
        for dtype in ("f32", "f16", "u8")
        for shape, axes in shapes
    )


CONVERTED = (
    ("f32:f16", "5,60,60,3", "0,3,1,2"), ("u8:f32", "3,7,101,55", "3,1,0,2"), ("f64:f16", "333,199", "1,0"),
    ("f16:f64", "20,18,16,14", "3,2,1,0"), ("f32:u8", "4,64,16,32", "0,2,1,3"), ("bf16:s8", "333,199", "1,0"),
)  # fmt: skip
"""Types of source and result."""

SMALL = (*of_all_types(SHAPES), *CONVERTED)
CASES = (*SMALL, *of_all_types((*QUOTED, *random_cases())))
"""A few small ones, and with them every case of `layoutalg bench permute`."""

SUNK = "elements that are not stored are not loaded"
"""The compiler moves a load to where its element is stored, behind the test of whole vectors."""

UNIT_BYTES = 16

_STALLS = (
    "long_scoreboard", "short_scoreboard", "barrier", "lg_throttle", "mio_throttle", "drain", "membar",
    "math_pipe_throttle", "not_selected", "wait", "branch_resolving", "no_instruction",
)  # fmt: skip
WHY = {
    "dram read": "dram__bytes_read.sum",
    "dram written": "dram__bytes_write.sum",
    "dram %": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 sectors read": "lts__t_sectors_op_read.sum",
    "L2 sectors written": "lts__t_sectors_op_write.sum",
    "L2 requests": "lts__t_requests.sum",
    "L2 tag %": "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "L2 %": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 read misses": "lts__t_sectors_op_read_lookup_miss.sum",
    "L2 write misses": "lts__t_sectors_op_write_lookup_miss.sum",
    "L2 fills": "lts__t_sectors_srcnode_ltc.sum",
    "L1 %": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "shared wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "LSU wavefronts %": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "instructions": "smsp__inst_executed.sum",
    "issue %": "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    "warps %": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "us": "gpu__time_duration.sum",
    **{
        f"stall {name}": f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"
        for name in _STALLS
    },
}
"""Counters that say what bounds a permute."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The best configuration of a case, ready to load; `costs` are totals by instruction."""

    label: str
    ready: Prepared
    element_bytes: int
    result_bytes: int
    source_bytes: int
    target_bytes: int
    blocks: int
    costs: dict[str, int]
    copies: tuple[int, ...] | None
    needed: int

    def total(self, access: str) -> int:
        """What the instructions cost whose names have `access` in them."""
        return sum(cost for op, cost in self.costs.items() if access in op)


def planned(what: tuple[str, Case]) -> Plan:
    """The plan of a case for an architecture."""
    arch, (dtype, shape, axes) = what
    of, _, to = dtype.partition(":")
    x = normalise(permute_problem(ints(shape), ints(axes), of, result=to or None))
    return plan_of(f"{shape.replace(',', 'x')} -> {axes} {dtype}", x, configs(x, arch)[0], arch)


def plan_of(label: str, x: Moves, config: PermuteConfig, arch: str) -> Plan:
    """A configuration of some moves, for an architecture."""
    size, kernel = x.element_bytes, build(x, config)
    sectors = tuple(copied(kernel, {}, 16, count, arch) for count in (tag_sectors, copied_sectors))
    return Plan(
        label, prepare(kernel, arch),
        size, x.result_bytes, x.src_elems * size, x.dst_elems * x.result_bytes, Stage(x, config).blocks,
        {op: cost.total for op, cost in traffic(kernel, {}, arch).items()}, sectors if any(sectors) else None,
        needed_wavefronts(x, config, arch),
    )  # fmt: skip


def plans(cases: Sequence[Case]) -> list[Plan]:
    """The plans of all cases, for this machine's GPU."""
    arch = require_gpu().arch
    return in_processes(planned, [(arch, case) for case in cases])


def launch(cases: Sequence[Case]) -> None:
    """Launch every case once, on random bytes."""

    def on_gpu(nbytes: int, size: int) -> Any:
        return random_bytes(-(-nbytes // UNIT_BYTES) * UNIT_BYTES, 0).view(CARRIER[size])

    for p in plans(cases):
        src, dst = on_gpu(p.source_bytes, p.element_bytes), on_gpu(p.target_bytes, p.result_bytes)
        load_prepared(p.ready)(src=src, dst=dst)


def measure(cases: Sequence[Case]) -> Iterator[Row]:
    """Every case's predictions beside the counters of its launch."""
    metrics = [*(metric for metric, _ in METRICS.values()), ARRIVED]
    made, arch = plans(cases), require_gpu().arch
    seen = count_launches("^permute_", metrics, "tests.gpu.permute_counters", "launch", *words_of(cases))
    for p, found in zip(made, seen, strict=True):
        yield from compared(p, found, arch)


def compared(p: Plan, found: Mapping[str, float], arch: str) -> Iterator[Row]:
    """What is predicted of a plan beside the counters of its launch."""
    board = find_arch(arch).board
    quiet = board is not None and p.blocks <= board.sms
    loads = int(found[METRICS["ld.shared"][0]])
    sunk = p.needed <= loads < p.total("ld.shared")
    tags, arriving = p.copies or (p.total(":global"), 0)
    rows = (
        ("ld.global", p.total("ld.global") + tags, ""),
        ("st.global", p.total("st.global"), ""),
        ("ld.shared", p.total("ld.shared"), SUNK if sunk else "" if quiet else LOST),
    )
    for access, predicted, reason in rows:
        metric, unit = METRICS[access]
        yield Row(p.label, access, unit, predicted, int(found[metric]), reason)
    if p.copies is not None:
        loaded, measured = p.total("ld.global"), int(found[ARRIVED])
        served = 0 < arriving + loaded - measured <= loaded
        reason = f"{loaded} by loads, of which the L1 serves some" if served else ""
        yield Row(p.label, "from the L2", "sectors", arriving + loaded, measured, reason)


def why(path: str, count: int) -> None:
    """Print what bounds the worst of the tensors that were timed."""
    every = json.loads(Path(path).read_text())
    timed = list({(one["dtype"], *one["shape"], *one["axes"]): one for one in every}.values())
    timed.sort(key=lambda one: one["rates"][0] / one["copy"])
    cases = [
        (one["dtype"], ",".join(map(str, one["shape"])), ",".join(map(str, one["axes"])))
        for one in timed[:count]
    ]
    metrics = list(WHY.values())
    seen = count_launches("^permute_", metrics, "tests.gpu.permute_counters", "launch", *words_of(cases))
    for one, case, found in zip(timed, cases, seen, strict=False):
        print(f"{one['rates'][0] / one['copy']:.3f} {' '.join(case)}\n    {one['configs'][0]}")
        said = (f"{name} {found[metric]:.4g}" for name, metric in WHY.items() if metric in found)
        print("    " + ", ".join(said), flush=True)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    if args[:1] == ["why"]:
        why(args[1], int(args[2]))
        return 0
    if args[:1] == ["launch"]:
        launch(cases_of(args[1:], 3))
        return 0
    return table("permute", measure(cases_of(args, 3) or CASES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
