"""`layoutalg inspect sass`: the machine code of a generated kernel, its main loop apart and timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from layoutalg.answers import Amount, Answer, Count, Positive, Rate, taken
from layoutalg.arch import find_board
from layoutalg.cli.commands.kernels.options import FamilyArgument, SizeOptions, StepOption
from layoutalg.cli.kernel_names import find_kernel, whole_size_options
from layoutalg.cli.options import GroupsOption, archs, option
from layoutalg.cli.output import Table, count, progress, say, say_answer, size_bytes, wants_json
from layoutalg.errors import UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.gpu import SassInstruction
    from layoutalg.codegen.timing import KernelTime

SCHEDULERS = 4
"""The number of schedulers of a multiprocessor."""


@dataclass(frozen=True)
class InstructionClasses:
    """Machine instructions by class, and those of each class by opcode without suffix."""

    classes: Mapping[str, Positive]
    opcodes: Mapping[str, Mapping[str, Positive]]
    total: Count


@dataclass(frozen=True)
class TurnTime:
    """A turn of the main loop on one scheduler of a multiprocessor, in cycles."""

    level: Literal["L1", "L2", "DRAM"]
    blocks: Positive
    warps_per_scheduler: Positive
    instructions: Positive
    cycles: Rate
    cycles_per_instruction: Rate
    states: Mapping[str, Amount]
    bounds: Mapping[str, Amount]
    assumed: tuple[str, ...]


@dataclass(frozen=True)
class MachineCode(Answer, command="inspect sass"):
    """The instructions of a kernel."""

    family: str
    problem: str
    kernel: str
    arch: str
    registers: Positive
    spill_bytes: Count
    all: InstructionClasses
    main_loop: InstructionClasses | None
    """A turn of the loop that multiplies most, inner loops of a known count repeated; null where none
    multiplies."""
    time: TurnTime | None
    """With --time."""


def sass_command(
    family: FamilyArgument,
    *,
    asked: SizeOptions,
    groups: GroupsOption = None,
    part: Annotated[int, "The number of the kernel, where several are launched in order."] = 1,
    step: StepOption = None,
    arch: Annotated[str, option("Compile target: sm_80, sm_90a, H100, ...", complete=archs)] = "sm_90a",
    time: Annotated[
        bool, "Model the time of one iteration of the main loop, and what its warps wait for."
    ] = False,
    level: Annotated[str, "With --time: where loads of global memory hit: L1, L2 or DRAM."] = "L2",
) -> None:
    """Count the SASS instructions of a kernel by class and opcode, in total and in a turn of its main loop.
    Needs no GPU.

    layoutalg inspect sass gemm-sm80 --m 8192 --n 8192 --k 8192

    layoutalg inspect sass gemm-sm90 --m 8192 --groups 8
    """
    from layoutalg.codegen import gpu
    from layoutalg.codegen.timing import find_facts, time_main_loop

    named_arch, arch = arch, gpu.compile_target(arch)
    if time and (board := find_board(named_arch)) != find_board(arch):
        find_facts(arch)
        raise UnsupportedError(
            f"no latencies of {board.name} are known: name {arch} for those of {find_board(arch).name}"
        )
    options = whole_size_options(family, {**asdict(asked), "groups": groups})
    with progress(f"compiling {family}"):
        located = find_kernel(family, options, arch, step, part)
        problem, kernel = located.problem, located.kernel
        cubin = gpu.prepare(kernel, arch).cubin
        function, loop = gpu.read_code(kernel, cubin)
        timed = time_main_loop(kernel, cubin, arch, level=level) if time else None  # type: ignore[arg-type]
    totals, inner = _counted(function.instructions), _counted(loop)
    if wants_json():
        turn = None
        if timed:
            turn = taken(
                TurnTime, timed.time, level=timed.level, blocks=timed.blocks,
                warps_per_scheduler=timed.time.warps, cycles_per_instruction=timed.time.cpi,
                bounds=timed.bounds.cycles, assumed=timed.assumed,
            )  # fmt: skip
        say_answer(
            taken(
                MachineCode, cubin, family=family, problem=problem, kernel=kernel.name, arch=arch,
                all=totals, main_loop=inner if loop else None, time=turn,
            )
        )  # fmt: skip
        return
    if timed:
        say(*_time_words(kernel.name, problem, timed))
        return
    rows = [
        (name, count(n), count(inner.classes.get(name, 0)) if loop else "-")
        for name, n in totals.classes.items()
    ]
    total = ("total", count(totals.total), count(inner.total) if loop else "-")
    spills = "no spills" if not cubin.spill_bytes else f"{size_bytes(cubin.spill_bytes)} of spills"
    say(
        Table(f"{kernel.name} for {problem} on {arch}", ("class", "kernel", "main loop"), (*rows, total)),
        f"Opcodes of {'the main loop' if loop else 'the kernel'}: {_mix(inner if loop else totals)}.",
        f"{cubin.registers} registers per thread, {spills}."
        + ("" if loop else " No loop of it multiplies, so none is its main loop."),
    )


def _counted(instructions: Sequence[SassInstruction]) -> InstructionClasses:
    from layoutalg.codegen.gpu import count_classes

    classes = count_classes(instructions)
    opcodes = {
        kind: Counter(i.opcode.partition(".")[0] for i in instructions if i.kind == kind) for kind in classes
    }
    return InstructionClasses(classes, opcodes, len(instructions))


def _mix(counted: InstructionClasses) -> str:
    """The opcodes of each class, most frequent first."""
    listed = (
        (kind, sorted(opcodes.items(), key=lambda pair: -pair[1]))
        for kind, opcodes in counted.opcodes.items()
    )
    return "; ".join(f"{kind} " + ", ".join(f"{op} {n:,}" for op, n in pairs) for kind, pairs in listed)


def _time_words(kernel: str, problem: str, timed: KernelTime) -> Iterator[Any]:
    """A turn of the main loop beside what bounds it, the states of a warp, and what is assumed."""
    turn, bounds = timed.time, timed.bounds
    rows = sorted(bounds.cycles.items(), key=lambda pair: -pair[1])
    yield Table(
        f"A turn of the main loop of {kernel} for {problem} on {timed.arch}, with the latencies of "
        f"{find_board(timed.arch).name}",
        ("cycles", "at least", "share"),
        [
            *((name, count(round(value)), f"{value / turn.cycles:.0%}") for name, value in rows),
            ("simulated", count(round(turn.cycles)), "100%"),
        ],
    )
    yield Table(
        "What a warp does, per issued instruction",
        ("state", "cycles"),
        [(name, f"{value:.2f}") for name, value in turn.states.items() if value >= 0.005]
        + [("all", f"{turn.cpi:.2f}")],
    )
    yield (
        f"{timed.blocks} {'block' if timed.blocks == 1 else 'blocks'} on a multiprocessor; warps on each of "
        f"{SCHEDULERS} schedulers: {turn.warps}, of {turn.instructions} instructions per turn; global memory "
        f"comes from {timed.level}."
    )
    if timed.assumed:
        yield f"Assumed, as nothing states them: {'; '.join(timed.assumed)}."
