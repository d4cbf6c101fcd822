"""The options of commands about accesses: which of them are counted, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from layoutalg.analysis import LEVELS
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.options import ArchOption, WhereOption, accesses, dtypes, instructions, one_of, option
from layoutalg.errors import ArgumentTypeError


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Accesses of a layout, or of an index expression or offsets in its place, and what they are held to."""

    access: Annotated[
        list[str] | None,
        option(
            "OP, OP@row, OP@col or OP@TV layout, such as ldmatrix.x4, ld.shared.b32@col or LDS.128. "
            "May be repeated. Default: loads of one element, by row and by column.",
            complete=accesses,
        ),
    ] = None
    index: Annotated[
        str | None,
        option(
            "Instead of a layout: the offset as a Python or C expression in lane, tid, warp and reg, "
            "such as '(lane//8)*144 + (lane%8)*16'; - reads it from standard input.",
            stdin="text",
        ),
    ] = None
    offsets: Annotated[
        Path | None,
        option(
            "Instead of a layout: a file with 32 integers or null per line, or JSON; - reads standard input.",
            stdin="file",
        ),
    ] = None
    op: Annotated[str | None, option("The instruction of --index or --offsets.", complete=instructions)] = (
        None
    )
    dtype: Annotated[
        str | None,
        option(
            "Element type. Default: f32 for a layout; --index and --offsets count bytes.", complete=dtypes
        ),
    ] = None
    where: WhereOption = None
    arch: ArchOption = DEFAULT_ARCH
    base: Annotated[int, "Bytes added to every address."] = 0
    warps: Annotated[int | None, "Number of warps that evaluate the --index expression. Default: 1."] = None
    regs: Annotated[int | None, "Number of values of reg in the --index expression. Default: 1."] = None
    method: Annotated[
        str,
        option(
            "How to count: auto, f2, gcd, digit-classes or enumerated (the definition).",
            complete=one_of("auto", "f2", "gcd", "digit-classes", "enumerated"),
        ),
    ] = "auto"
    level: Annotated[
        str,
        option(
            "request: the sectors of each request of a warp; dram: the DRAM traffic of all of them together.",
            complete=one_of(*LEVELS),
        ),
    ] = "request"
    fail_on: Annotated[
        list[str] | None,
        option(
            "Exit with 1 on 'conflicts' or 'efficiency<0.9'. May be repeated.",
            complete=one_of("conflicts", "efficiency<1"),
        ),
    ] = None


def check_source(layout: bool, asked: AccessOptions) -> None:
    """Raise ArgumentTypeError unless one of a layout, --index and --offsets is given, and what it needs."""
    if sum((layout, asked.index is not None, asked.offsets is not None)) != 1:
        raise ArgumentTypeError("give one of a LAYOUT, --index EXPRESSION or --offsets FILE")
    if asked.index is None and (asked.warps is not None or asked.regs is not None):
        raise ArgumentTypeError("--warps and --regs go with --index")
    if layout and asked.op is not None:
        raise ArgumentTypeError(f"--op goes with --index and --offsets; for a layout say --access {asked.op}")
    if not layout and (asked.op is None or asked.access):
        raise ArgumentTypeError("--index and --offsets need the instruction as --op, and no --access")
