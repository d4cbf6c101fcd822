"""`layoutalg inspect occupancy`: the blocks that an SM holds at once, and which resource is spent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from layoutalg.answers import Answer, Count, Positive, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.kernels.options import SizeOptions, StepOption, TileOption
from layoutalg.cli.kernel_names import find_kernel, whole_size_options
from layoutalg.cli.options import ArchOption, argument, families
from layoutalg.cli.output import Table, count, progress, say, say_answer, wants_json
from layoutalg.errors import ArgumentTypeError
from layoutalg.model import occupancy_of


@dataclass(frozen=True)
class Limit:
    """Blocks that a resource allows."""

    resource: Literal["warps", "registers", "blocks", "shared"]
    per_block: Positive
    per_sm: Positive
    blocks: Positive


@dataclass(frozen=True)
class OccupancyAnswer(Answer, command="inspect occupancy"):
    """Blocks that a multiprocessor holds at once, and what each resource allows."""

    kernel: str | None
    arch: str
    threads: Positive
    registers: Positive
    shared_bytes: Count
    blocks_per_sm: Positive
    warps_per_sm: Positive
    max_warps_per_sm: Positive
    limiting: tuple[str, ...]
    limits: tuple[Limit, ...]


def occupancy_command(
    family: Annotated[
        str | None,
        argument(
            "A kernel family, compiled here to know its registers. Without one: --threads, "
            "--registers and --shared.",
            complete=families,
        ),
    ] = None,
    *,
    threads: Annotated[int | None, "Threads per block."] = None,
    registers: Annotated[int | None, "Registers per thread."] = None,
    shared: Annotated[int | None, "Bytes of shared memory per block."] = None,
    asked: SizeOptions,
    step: StepOption = None,
    tile: TileOption = None,
    part: Annotated[int, "The number of the kernel, where several are launched in order."] = 1,
    arch: ArchOption = DEFAULT_ARCH,
) -> None:
    """Count the blocks of a kernel that are resident on a multiprocessor, and say what limits them.

    layoutalg inspect occupancy --threads 256 --registers 104 --shared 49152 --arch T4

    layoutalg inspect occupancy gemm-sm80 --step 8 --arch sm_80
    """
    kernel = None
    if family is None:
        if threads is None or registers is None:
            raise ArgumentTypeError("--threads and --registers are needed, or a family whose kernel has them")
    else:
        if (threads, registers, shared) != (None, None, None):
            raise ArgumentTypeError(f"{family} has threads, registers and shared memory of its own")
        from layoutalg.codegen.gpu import prepare

        with progress(f"compiling {family}"):
            options = whole_size_options(family, asdict(asked))
            located = find_kernel(family, options, arch, step, part, tile=tile)
            registers = prepare(located.kernel, arch).cubin.registers
        kernel, threads, shared = located.kernel.name, located.kernel.threads, located.kernel.shared_bytes
    report = occupancy_of(arch, threads=threads, registers_per_thread=registers, shared_bytes=shared or 0)
    if wants_json():
        limits = tuple(taken(Limit, x, per_sm=x.available) for x in report.limits)
        registers = report.registers_per_thread
        say_answer(taken(OccupancyAnswer, report, kernel=kernel, registers=registers, limits=limits))
        return
    rows = (
        (
            x.resource,
            count(x.per_block),
            count(x.available),
            x.blocks,
            count(x.available - report.blocks_per_sm * x.per_block),
        )
        for x in report.limits
    )
    what = f"{kernel}, " if kernel else ""
    title = f"{what}{threads} threads, {registers} registers, {count(shared or 0)} bytes on {report.arch}"
    say(
        Table(title, ("resource", "per block", "per SM", "blocks", "idle"), rows),
        f"{_some(report.blocks_per_sm, 'block')}, {report.warps_per_sm} of {report.max_warps_per_sm} warps "
        f"({report.occupancy:.0%}); limited by {' and '.join(report.limiting)}.",
    )


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
