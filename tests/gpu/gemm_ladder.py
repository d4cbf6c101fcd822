"""The steps of the products' ladders: what was predicted of each, what the hardware counted, where time went.

python -m tests.gpu.gemm_ladder gemm-sm80             tables, at 4096 x 4096 x 4096
python -m tests.gpu.gemm_ladder gemm-simt 2048        at another size
python -m tests.gpu.gemm_ladder gemm-sm90             the steps of wgmma, with what TMA copies
python -m tests.gpu.gemm_ladder chosen                products as they are chosen, instead of steps
python -m tests.gpu.gemm_ladder gemm-sm80 512 launch  every step once: the process that the profiler watches

Predictions are those of layoutalg.kernels.ladder.step, for the machine code that is launched.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from layoutalg.arch import find_board
from layoutalg.codegen.gpu import compile_sequence, in_processes, load_sequence, prepare
from layoutalg.kernels import Family, find_family
from layoutalg.kernels.checks import bench_of
from layoutalg.kernels.checks.gemm import STEPS_SIZE
from layoutalg.kernels.gemm import GemmProblem, gemm_problem
from layoutalg.kernels.ladder import ARCH, Step, effects, predict_steps
from layoutalg.kernels.ladder.machines import TARGET
from layoutalg.kernels.ladder.step import predict_step
from layoutalg.kernels.registry import find_steps
from tests.gpu.counters import ARRIVED, BY_INSTRUCTION, COPIES, LDS, count_launches, idle_most, verdict

EXECUTED = "smsp__inst_executed.sum"
COPIES_ON = "smsp__inst_executed_op_ldgsts_pred_on_any.sum"
LOADS, LOADS_ON = (f"smsp__inst_executed_op_global_ld{on}.sum" for on in ("", "_pred_on_any"))
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
"""Instructions of warps, and of threads for FFMA; `_on` counts those with a lane whose predicate holds.

It counts some others too, on a full GPU: of 792576 loads under @!PT 263432 in one launch, where the counts of
each instruction give none.  So what can be told from the machine code is not asked of it.
"""

LOADED, COPIED = (f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "ldgsts_cache_access"))
"""Sectors that loads and asynchronous copies ask the L1 for."""

ARRIVED_COPIED = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_ldgsts_cache_access.sum"
"""Sectors that come from the L2 of copies that asked the L1: copies of 16 bytes do not, and
have no counter of their own."""

BY_TMA: Mapping[str, str] = {
    "wgmma": "sm__inst_executed_pipe_tensor_op_gmma.sum",
    "TMA loads": "smsp__sass_inst_executed_op_tma_ld.sum",
    "TMA stores": "smsp__sass_inst_executed_op_tma_st.sum",
    "TMA in": "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "TMA out": "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    "L2 in": "lts__t_sectors_srcunit_tex_op_read.sum",
    "L2 out": "lts__t_sectors_srcunit_tex_op_write.sum",
}
"""Instructions and bytes of TMA, products of warpgroups, sectors that the L1 asks the L2 for."""

L2_MORE = 0.01
"""Share by which the L2 may serve more than a program asks for: tensor maps, instructions, constants."""

JOINED = "requests of neighbouring multiprocessors are joined on their way"
"""Why the L2 is asked for fewer sectors than arrive at the multiprocessors."""

Found: TypeAlias = Mapping[str, float]
COUNTERS: Mapping[str, tuple[tuple[str, ...], Callable[[Found], float]]] = {
    "instructions": ((EXECUTED,), lambda f: f[EXECUTED]),
    "mma": (("sm__inst_executed_pipe_tensor_op_hmma.sum",), lambda f: sum(f.values())),
    "ffma": ((FFMA,), lambda f: f[FFMA] / 32),
    "ldmatrix": (("smsp__inst_executed_op_ldsm.sum",), lambda f: sum(f.values())),
    "lds": ((LDS,), lambda f: f[LDS]),
    "shared wavefronts": ((BY_INSTRUCTION,), lambda f: f[BY_INSTRUCTION]),
    "global loads": ((LOADS_ON, COPIES_ON), lambda f: f[LOADS_ON] + f[COPIES_ON]),
    "sectors loaded": (
        (LOADED, COPIED, ARRIVED, ARRIVED_COPIED),
        lambda f: f[LOADED] or f[COPIED] + f[ARRIVED] - f[ARRIVED_COPIED],
    ),
    "sectors stored": (("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",), lambda f: sum(f.values())),
    **{what: ((metric,), lambda f: sum(f.values())) for what, metric in BY_TMA.items()},
}
"""The metrics of each count of a Step, and what they say of it."""

WITH_IDLE = frozenset({"instructions", "lds"})
"""Counts whose metrics include the loads that no lane makes, which the machine code gives."""

STALLS = (
    "selected", "not_selected", "math_pipe_throttle", "wait", "dispatch_stall", "short_scoreboard",
    "mio_throttle", "long_scoreboard", "lg_throttle", "barrier", "branch_resolve", "no_instruction",
)  # fmt: skip
"""What a warp can be doing, as Nsight Compute calls it."""

MOST_WARPS, WARPS = "sm__maximum_warps_avg_per_active_cycle", "sm__warps_active.avg.per_cycle_active"
"""Warps that a multiprocessor can hold of the kernel, by the driver, and those it held."""

CYCLES, TIME_NS = "sm__cycles_elapsed.max", "gpu__time_duration.sum"
"""Cycles and nanoseconds of the launch."""

SMS = find_board(TARGET).sms
"""Multiprocessors of the H100 SXM and the H200."""

SECTOR_BYTES = 32


def stall_metric(name: str) -> str:
    """The metric of a state: warps in it, for one that issues."""
    return f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"


def launch_all(family: Family, p: GemmProblem, configs: Iterable[Any]) -> None:
    """Launch every configuration once, on normal random numbers."""
    arrays = bench_of(family).arrays(p, 0)
    for config in configs:
        compiled = compile_sequence(family.launches(p, config, ARCH), TARGET)
        load_sequence(compiled.ready(family.numbers(p, config))).on_arrays(arrays)()


def compile_step(what: tuple[str, int, str]) -> str:
    """Put a step's machine code into the cache."""
    family, n, name = what
    chosen = find_family(family)
    return prepare(chosen.build(chosen.problem(n), find_steps(chosen.name)[name]), TARGET).cubin.name


def measure(module: str, *args: str) -> list[dict[str, float]]:
    """The metrics of every product that `python -m module args` launches, in order."""
    metrics = [name for names, _ in COUNTERS.values() for name in names]
    metrics += [COPIES, LOADS, MOST_WARPS, WARPS, *map(stall_metric, STALLS), CYCLES, TIME_NS]
    return count_launches("^([sh]?gemm|wgmma)_", metrics, module, *args)


CHOSEN = (
    ("gemm-sm80", 512, 512, 512), ("gemm-sm80", 1024, 1024, 1024), ("gemm-sm80", 4096, 4096, 1024),
    ("gemm-simt", 1024, 1024, 1024), ("gemm-simt", 4096, 4096, 1024),
)  # fmt: skip


def chosen_ways() -> Iterator[tuple[Family, GemmProblem, Any]]:
    """Products in the usual storage of a family, and its first configuration of one kernel."""
    for name, m, n, k in CHOSEN:
        family = find_family(name)
        usual = family.problem(m)
        p = gemm_problem(m, n, k, usual.operand, a_major=usual.a_major, b_major=usual.b_major)
        yield family, p, next(c for c in family.configs(p, TARGET) if c.splits == 1)


def chosen(args: Sequence[str]) -> int:
    """The tables of products as they are chosen; "launch": launch them."""
    if args:
        for family, p, config in chosen_ways():
            launch_all(family, p, [config])
        return 0
    steps = [
        predict_step(family, p, f"{p}, {config.tile_m}x{config.tile_n}x{config.tile_k}", config)
        for family, p, config in chosen_ways()
    ]
    seen = measure("tests.gpu.gemm_ladder", "chosen", "launch")
    return held(counters_table(steps, seen), held_table(steps, seen))


def held(*tables: tuple[int, int]) -> int:
    """Print how many numbers of some tables hold; the exit status."""
    return verdict(sum(wrong for wrong, _ in tables), sum(of for _, of in tables))


def main(args: Sequence[str]) -> int:
    """Print the tables; the exit status is 1 when a prediction is refuted."""
    if args[0] == "chosen":
        return chosen(args[1:])
    family, n = find_family(args[0]), int(args[1]) if len(args) > 1 else STEPS_SIZE
    if args[2:] == ["launch"]:
        launch_all(family, family.problem(n), find_steps(family.name).values())
        return 0
    in_processes(compile_step, [(family.name, n, name) for name in find_steps(family.name)])
    steps = list(predict_steps(family, n))
    seen = measure("tests.gpu.gemm_ladder", family.name, str(n), "launch")
    tables = (counters_table(steps, seen), effects_table(steps, seen), held_table(steps, seen))
    time_table(steps, seen)
    return held(*tables)


def counters_table(steps: Sequence[Step], seen: Sequence[Found]) -> tuple[int, int]:
    """Each count beside its counter; returns how many are refuted, and of how many that were compared."""
    wrong = compared = 0
    print("| step | counted | predicted | measured | |\n|---|---|---:|---:|---|")
    for step, found in zip(steps, seen, strict=True):
        for what, predicted in step.counts.items():
            if (measured := count_of(step, what, found)) is not None:
                judged = judge(step, what, predicted, found)
                wrong, compared = wrong + judged.startswith("refuted"), compared + 1
                print(f"| {step.name} | {what} | {predicted} | {measured:.0f} | {judged} |", flush=True)
            elif what in COUNTERS:
                print(f"| {step.name} | {what} | {predicted} | | not counted |", flush=True)
    return wrong, compared


def count_of(step: Step, what: str, found: Found) -> float | None:
    """What the hardware counted, less the loads that no lane makes; None where it has no counter for it."""
    if what not in COUNTERS:
        return None
    metrics, value = COUNTERS[what]
    if not all(metric in found for metric in metrics):
        return None
    idle = step.idle_loads if what in WITH_IDLE else 0
    return value({metric: found[metric] for metric in metrics}) - idle


def most_sectors(what: str, counts: Mapping[str, int]) -> float:
    """Sectors of the L2 at most: of all requests, those of boxes that reach past a matrix whole."""
    asked = counts.get("TMA in", 0) // 32 if what == "L2 in" else 0
    return max(asked, counts[what]) * (1 + L2_MORE)


def judge(step: Step, what: str, predicted: float, found: Found) -> str:
    """Whether a count is the predicted one; instructions are predicted to within a few per cent."""
    measured = count_of(step, what, found) or 0.0
    if predicted == measured:
        return "equal"
    apart, off = measured / predicted - 1, found[COPIES] - step.copies
    if what == "instructions" and abs(apart) < 0.03:
        return f"{apart:+.2%}"
    if what.startswith("L2") and measured <= most_sectors(what, step.counts):
        return f"{apart:+.2%}: at most, {JOINED}"
    if what == "shared wavefronts":
        if step.merged > 1 and abs(apart) < 0.01:
            return f"{apart:+.2%}: some loads merged, some not"
        if 0 < measured - predicted <= idle_most(step.accesses, round(off)):
            return f"{apart:+.2%}: counted for {off:.0f} copies past the end that no lane makes"
    if what == "lds" and 0 < predicted - measured <= step.idle_once:
        return f"{apart:+.2%}: {predicted - measured:.0f} idle loads stand where branches pass them by"
    if what == "global loads" and predicted < measured <= found[LOADS] + found[COPIES]:
        idle = found[LOADS] + found[COPIES] - predicted
        return f"{apart:+.2%}: {measured - predicted:.0f} of {idle:.0f} that no lane makes are counted"
    return f"refuted: {apart:+.2%}"


def effects_table(steps: Sequence[Step], seen: Sequence[Found]) -> tuple[int, int]:
    """Each predicted effect of a step beside the measured one; returns how many are refuted, of how many."""
    wrong = compared = 0
    print("\n| from | to | effect on | predicted | measured | |\n|---|---|---|---:|---:|---|")
    for at in range(1, len(steps)):
        for what, factor in effects(steps[at - 1], steps[at]).items():
            before, after = (count_of(steps[i], what, seen[i]) for i in (at - 1, at))
            if before is None or after is None or what.startswith("L2"):  # bounds, see JOINED
                continue
            measured = after / before if before else math.inf
            held = abs(measured / factor - 1) < 0.03
            wrong, compared = wrong + (not held), compared + 1
            name, then = steps[at - 1].name, steps[at].name
            print(f"| {name} | {then} | {what} | x {factor:.3f} | x {measured:.3f} | "
                  f"{'confirmed' if held else 'refuted'} |", flush=True)  # fmt: skip
    return wrong, compared


def resolution_warps(step: Step) -> float:
    """The least excess of the warps held that says something: one block more on one multiprocessor.

    The metric divides a sum over multiprocessors, of warps in every cycle, by one of their active cycles; the
    two may be counted in different launches of the kernel, whose cycles differ by some per mille.  A block
    that shares a multiprocessor with one more than predicted, for the whole launch, raises the quotient by
    its warps over the number of multiprocessors that are active, which is at most all of them.
    """
    return step.occupancy.threads // 32 / SMS


def held_table(steps: Sequence[Step], seen: Sequence[Found]) -> tuple[int, int]:
    """Warps that a multiprocessor can hold, those of this grid that it does, and operations for each byte.

    Returns how many are refuted, of how many: the driver allows others, or more are held than the grid has
    for it, by `resolution_warps` or more.
    Operations are for each byte that the L1 is asked for.  What several lanes or blocks ask the same sector
    for, and bytes of a sector that nobody needs, make them fewer than tiles alone would allow.
    """
    wrong = 0
    print(
        "\n| step | most warps | by the driver | of this grid | held | flops a byte of the tile | measured |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for step, found in zip(steps, seen, strict=True):
        sectors = count_of(step, "sectors loaded", found) or count_of(step, "L2 in", found) or math.nan
        most, held = (found.get(metric, math.nan) for metric in (MOST_WARPS, WARPS))
        rate, warps = step.problem.flops / (SECTOR_BYTES * sectors), step.occupancy.warps_per_sm
        grid = min(warps, -(-step.blocks // SMS) * (step.occupancy.threads // 32))
        wrong += most != warps or not held < grid + resolution_warps(step)
        counted = f"{most:.0f} | {grid} | {held:.2f}"
        print(f"| {step.name} | {warps} | {counted} | {step.intensity:.1f} | {rate:.1f} |")
    return wrong, len(steps)


def time_table(steps: Sequence[Step], seen: Sequence[Found]) -> None:
    """Operations a cycle beside the bound, and the share of a warp's time in each state."""
    states = [name for name in STALLS if any(found.get(stall_metric(name), 0) > 0.05 for found in seen)]
    print(f"\n| step | bound by | flops a cycle, at most | measured | TFLOP/s | {' | '.join(states)} |")
    print("|---|---|---:|---:|---:|" + "---:|" * len(states))
    for step, found in zip(steps, seen, strict=True):
        total = sum(found.get(stall_metric(name), 0.0) for name in STALLS)
        shares = [f"{found.get(stall_metric(name), 0.0) / total:.1%}" for name in states]
        rate = step.problem.flops / found[CYCLES] / SMS
        print(f"| {step.name} | {step.bound} | {step.flops_per_cycle:.0f} | {rate:.0f} | "
              f"{step.problem.flops / found[TIME_NS] / 1e3:.1f} | "
              f"{' | '.join(shares)} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
