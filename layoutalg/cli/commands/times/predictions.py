"""`layoutalg bench --predict`: every step of a product's ladder at one size, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any

from layoutalg.answers import Amount, Answer, Positive, Rate, taken
from layoutalg.cli.output import Table, progress, say, say_answer, wants_json
from layoutalg.errors import UnsupportedError

if TYPE_CHECKING:
    from layoutalg.kernels.ladder import Step


@dataclass(frozen=True)
class IndexOperations:
    """Integer instructions for the address of a load of a fragment."""

    written: Amount
    lowered: Amount


@dataclass(frozen=True)
class StepAnswer:
    """A step of a ladder, predicted: what a launch executes, cost over least cost of each access (ways),
    instructions of a warp in one pass over a tile of k (main_loop), cycles of a multiprocessor that a pass of
    a block takes of each resource, and the factors by which counts change against the step before (effects).
    """

    step: str
    registers: Positive
    blocks_per_sm: Positive
    counts: Mapping[str, Positive]
    ways: Mapping[str, Amount]
    main_loop: Mapping[str, Rate]
    cycles: Mapping[str, Amount]
    bound: str
    """The resource that takes most cycles."""
    flops_per_cycle: Rate
    least_cycles: Rate
    """The cycles of a pass at least."""
    overlapped: bool
    """Whether copies and multiplications overlap."""
    share: Rate
    """The largest share of the rate on registers alone."""
    estimated_share: Rate | None
    """The share if copying and multiplying never overlap, null for a step that overlaps them."""
    published_share: float | None
    """The share of cuBLAS that the step's author gives."""
    flops_per_byte: Rate
    index_operations: IndexOperations
    effects: Mapping[str, Rate]


@dataclass(frozen=True)
class RefusedStep:
    """A step that the architecture does not have the instructions for."""

    step: str
    why: str


@dataclass(frozen=True)
class GroupChoice:
    """The way in which groups of rows of one size are computed, in place of steps, and what is expected."""

    way: str
    notes: Mapping[str, Amount | str | None]


@dataclass(frozen=True)
class PredictedProblem:
    """The steps or the choice for one problem."""

    problem: str
    steps: tuple[StepAnswer, ...]
    refused: tuple[RefusedStep, ...]
    choice: GroupChoice | None


@dataclass(frozen=True)
class Predicted(Answer, command="bench"):
    """Predictions of products."""

    family: str
    arch: str
    rates: tuple[str, ...]
    """The source of each rate."""
    predicted: tuple[PredictedProblem, ...]


def predict_command(family: str, sizes: list[int] | None, arch: str | None) -> None:
    """`layoutalg bench gemm-sm75 --predict`: the steps at each size, on one architecture."""
    from layoutalg.kernels.checks import bench_of
    from layoutalg.kernels.ladder import find_machine, predict_steps, usual_arch
    from layoutalg.kernels.registry import find_family, find_steps

    chosen, reports = find_family(family), []
    names = find_steps(family)
    machine = find_machine(usual_arch(family) if arch is None else arch)
    for size in sizes or [bench_of(chosen).steps_size]:
        refusal: UnsupportedError | None = None
        steps: list[Step] = []
        refused: dict[str, str] = {}
        with progress(f"predicting {family}", len(names)) as advance:
            for name in names:
                try:
                    steps += predict_steps(chosen, size, (name,), arch=machine.arch)
                except UnsupportedError as error:
                    refused[name], refusal = str(error), error
                advance()
        if refusal is not None and not steps:
            raise refusal
        reports.append((str(chosen.problem(size)), steps, refused))
    if wants_json():
        predicted = (
            PredictedProblem(p, step_answers(steps), tuple(starmap(RefusedStep, refused.items())), None)
            for p, steps, refused in reports
        )
        say_answer(Predicted(family, machine.arch, tuple(machine.notes), tuple(predicted)))
        return
    where = f"on {machine.arch} ({machine.name})"
    parts: list[Table | str] = []
    for problem, steps, refused in reports:
        parts += ladder_tables(f"{problem} {where}", steps)
        parts += [f"{name}: not on {machine.arch}: {why}." for name, why in refused.items()]
    say(*parts, "Rates per multiprocessor and cycle. " + "; ".join(machine.notes) + ".")


def predict_groups(family: str, problems: Sequence[Any], arch: str) -> None:
    """`layoutalg bench gemm-sm90 --groups 8 --predict`: the choice for groups of one size, and its time.

    Raises UnsupportedError for a product without groups.
    """
    from layoutalg.kernels.checks import bench_of
    from layoutalg.kernels.registry import find_family

    chosen, choices = find_family(family), []
    for p in problems:
        config = chosen.choose(p, arch)
        notes = bench_of(chosen).notes(p, config, arch)
        if not notes:
            raise UnsupportedError(f"{p} has no groups: of products without, --predict is of --size")
        choices.append((p, chosen.way(config), notes))
    law = chosen.machine_on(arch)
    if wants_json():
        predicted = (PredictedProblem(str(p), (), (), GroupChoice(way, notes)) for p, way, notes in choices)
        say_answer(Predicted(family, arch, (f"times of {law.board}",), tuple(predicted)))
        return
    rows = [
        (
            str(p), way, f"{notes['expected us']:.1f}", f"{p.flops / notes['expected us'] / 1e6:.0f}",
            f"{notes['boxes by TMA']:,}", f"{notes['boxes by threads']:,}",
        )
        for p, way, notes in choices
    ]  # fmt: skip
    columns = ("problem", "way", "us", "TFLOP/s", "by TMA", "cut")
    say(
        Table(f"{family} on {arch} ({law.board}): groups of one size, expected", columns, rows, left=2),
        "By TMA and cut are boxes of 64 rows of results: those that leave by TMA, and those that a group's "
        "end cuts, which threads store.",
    )


def ladder_tables(problem: str, steps: Sequence[Step]) -> list[Table]:
    """Tables: what a launch executes, what each resource takes, and what a step changes."""
    counted = list(dict.fromkeys(what for step in steps for what in step.counts))
    launch = f"{problem}: a launch executes (millions)"
    executed = [
        (
            step.name,
            str(step.cubin.registers),
            str(step.occupancy.blocks_per_sm),
            f"{_worst(step):.3g}",
            *(_millions(step.counts.get(what, 0)) for what in counted[:MOST_COUNTS]),
        )
        for step in steps
    ]
    columns = [_SHORT.get(what, what) for what in counted]
    tables = [Table(launch, ("step", "regs", "blocks", "ways", *columns[:MOST_COUNTS]), executed)]
    if len(counted) > MOST_COUNTS:
        more = ((s.name, *(_millions(s.counts.get(x, 0)) for x in counted[MOST_COUNTS:])) for s in steps)
        tables.append(Table("and", ("step", *columns[MOST_COUNTS:]), more))
    resources, published = list(steps[0].cycles), any(map(_published, steps))
    taken = (
        (
            _number(step),
            *(f"{step.cycles[what]:,.0f}" for what in resources),
            step.bound,
            f"{step.share:.0%}",
            "" if step.estimated_share is None else f"{step.estimated_share:.0%}",
            *([_published(step)] if published else []),
            f"{step.intensity:.1f}",
            f"{step.index[0]:.1f}",
            f"{step.index[1]:.1f}",
        )
        for step in steps
    )
    changed = ((step.name, _effects(steps[i - 1], step) if i else "-") for i, step in enumerate(steps))
    return [
        *tables,
        Table(
            "One block and tile of k takes at least (cycles of a multiprocessor; of the rate on registers)",
            (
                "step",
                *resources,
                "bound",
                "at most",
                "estimate",
                *["was"] * published,
                "flops/B",
                "index",
                "lowered",
            ),
            taken,
        ),
        Table("Against the step before", ("step", "changes by the factor"), changed, left=2),
    ]


def step_answers(steps: Sequence[Step]) -> tuple[StepAnswer, ...]:
    """The records of the steps, each against the one before it."""
    from layoutalg.kernels.ladder import effects

    return tuple(
        taken(
            StepAnswer, step, step=step.name, registers=step.cubin.registers,
            blocks_per_sm=step.occupancy.blocks_per_sm, main_loop=step.loop, published_share=step.published,
            flops_per_byte=step.intensity, index_operations=IndexOperations(*step.index),
            effects=effects(steps[i - 1], step) if i else {},
        )
        for i, step in enumerate(steps)
    )  # fmt: skip


MOST_COUNTS = 8
"""The most columns of counts in a table."""

_SHORT = {
    "instructions": "all", "shared wavefronts": "wavefr.", "global loads": "loads",
    "sectors loaded": "sec. in", "sectors stored": "out",
}  # fmt: skip


def _number(step: Step) -> str:
    """A step's number where it has one, or its name."""
    first = step.name.split()[0]
    return first if first.isdecimal() else step.name


def _published(step: Step) -> str:
    """The share of cuBLAS that the author of a step gives, if it is there."""
    return "" if step.published is None else f"{step.published:.0%}"


def _worst(step: Step) -> float:
    """The worst bank conflict of a step, 1.0 without."""
    return max((n for op, n in step.ways.items() if "global" not in op), default=1.0)


def _millions(n: int) -> str:
    return f"{n / 1e6:,.4g}" if n < 1e9 else f"{n / 1e6:,.0f}"


def _effects(before: Step, after: Step) -> str:
    from layoutalg.kernels.ladder import effects

    return ", ".join(f"{what} x {factor:.2f}" for what, factor in effects(before, after).items()) or "nothing"
