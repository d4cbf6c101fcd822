"""What is said of the predicted steps of a product's ladder, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from layoutalg.cli.output import progress, say, say_json, table
from layoutalg.cli.refusals import header

if TYPE_CHECKING:
    from rich.table import Table

    from layoutalg.kernels.gemm_ladder import Step


def predict_command(family: str, sizes: list[int] | None, as_json: bool) -> None:
    """`layoutalg bench gemm-sm80 --predict`: every step at one size, before anything runs."""
    from layoutalg.kernels.gemm_bench import STEPS_SIZE, find_gemm_family
    from layoutalg.kernels.gemm_ladder import ARCH, predict_steps

    chosen, reports = find_gemm_family(family), []
    for size in sizes or [STEPS_SIZE]:
        steps: list[Step] = []
        with progress(f"predicting {family}", len(chosen.steps), quiet=as_json) as advance:
            for step in predict_steps(chosen, size):
                steps.append(step)
                advance()
        reports.append((str(chosen.problem(size)), steps))
    if as_json:
        say_json(
            header("bench")
            | {"family": family, "arch": ARCH}
            | {"predicted": [{"problem": p, "steps": ladder_fields(steps)} for p, steps in reports]}
        )
        return
    say(*(part for problem, steps in reports for part in ladder_tables(f"{problem} on {ARCH}", steps)))


def ladder_tables(problem: str, steps: Sequence[Step]) -> list[Table]:
    """Three tables: what a launch executes, what each resource takes, and what a step changes."""
    counted = list(dict.fromkeys(what for step in steps for what in step.counts))
    executed = (
        (
            step.name,
            str(step.cubin.registers),
            str(step.occupancy.blocks_per_sm),
            f"{_worst(step):.3g}",
            *(_millions(step.counts.get(what, 0)) for what in counted),
        )
        for step in steps
    )
    resources = list(steps[0].cycles)
    taken = (
        (
            step.name,
            *(f"{step.cycles[what]:,.0f}" for what in resources),
            step.bound,
            f"{step.flops_per_cycle:,.0f}",
            f"{step.intensity:.1f}",
            f"{step.index[0]:.1f}",
            f"{step.index[1]:.1f}",
        )
        for step in steps
    )
    changed = ((step.name, _effects(steps[i - 1], step) if i else "-") for i, step in enumerate(steps))
    return [
        table(
            f"{problem}: a launch executes (millions)",
            ("step", "regs", "blocks", "ways", *(_SHORT.get(what, what) for what in counted)),
            executed,
        ),
        table(
            "One block and tile of k takes at least (cycles of a multiprocessor)",
            ("step", *resources, "bound", "flops/cycle", "flops/byte", "index", "lowered"),
            taken,
        ),
        table("Against the step before", ("step", "changes by the factor"), changed, left=2),
    ]


def ladder_fields(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """What `--json` says of the steps."""
    from layoutalg.kernels.gemm_ladder import effects

    return [
        {
            "step": step.name,
            "registers": step.cubin.registers,
            "blocks_per_sm": step.occupancy.blocks_per_sm,
            "counts": dict(step.counts),
            "ways": dict(step.ways),
            "main_loop": dict(step.loop),
            "cycles": dict(step.cycles),
            "bound": step.bound,
            "flops_per_cycle": step.flops_per_cycle,
            "flops_per_byte": step.intensity,
            "index_operations": {"written": step.index[0], "lowered": step.index[1]},
            "effects": dict(effects(steps[i - 1], step)) if i else {},
        }
        for i, step in enumerate(steps)
    ]


_SHORT = {
    "instructions": "all", "shared wavefronts": "wavefr.", "global loads": "loads",
    "sectors loaded": "sec. in", "sectors stored": "out",
}  # fmt: skip


def _worst(step: Step) -> float:
    """The worst bank conflict of a step, 1.0 without."""
    return max((n for op, n in step.ways.items() if "global" not in op), default=1.0)


def _millions(n: int) -> str:
    return f"{n / 1e6:,.4g}" if n < 1e9 else f"{n / 1e6:,.0f}"


def _effects(before: Step, after: Step) -> str:
    from layoutalg.kernels.gemm_ladder import effects

    return ", ".join(f"{what} x {factor:.2f}" for what, factor in effects(before, after).items()) or "nothing"
