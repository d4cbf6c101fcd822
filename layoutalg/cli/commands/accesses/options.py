"""The options of commands about accesses: which of them are counted, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from layoutalg.analysis import LEVELS
from layoutalg.cli.inputs import file_or_input, or_input
from layoutalg.cli.options import ArchOption, accesses, dtypes, instructions, one_of


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """Accesses of a layout, or of an index expression or offsets in its place, and what they are held to."""

    access: Annotated[
        list[str] | None,
        typer.Option(
            "--access",
            help="OP, OP@row, OP@col or OP@TV layout, such as ldmatrix.x4, ld.shared.b32@col or LDS.128. "
            "May be repeated. Default: loads of one element, by row and by column.",
            show_default=False,
            autocompletion=accesses,
        ),
    ] = None
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            help="Instead of a layout: the offset as a Python or C expression in lane, tid, warp and reg, "
            "such as '(lane//8)*144 + (lane%8)*16'; - reads it from standard input.",
            callback=or_input,
        ),
    ] = None
    offsets: Annotated[
        Path | None,
        typer.Option(
            "--offsets",
            help="Instead of a layout: a file with 32 integers or null per line, or JSON; - reads "
            "standard input.",
            callback=file_or_input,
        ),
    ] = None
    op: Annotated[
        str | None,
        typer.Option("--op", help="The instruction of --index or --offsets.", autocompletion=instructions),
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            help="Element type. Default: f32 for a layout; --index and --offsets count bytes.",
            show_default=False,
            autocompletion=dtypes,
        ),
    ] = None
    arch: ArchOption = "sm_90"
    base: Annotated[int, typer.Option("--base", help="Bytes added to every address.")] = 0
    warps: Annotated[
        int | None,
        typer.Option(
            "--warps",
            help="Number of warps that evaluate the --index expression. Default: 1.",
            show_default=False,
        ),
    ] = None
    regs: Annotated[
        int | None,
        typer.Option(
            "--regs",
            help="Number of values of reg in the --index expression. Default: 1.",
            show_default=False,
        ),
    ] = None
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="How to count: auto, f2, gcd, digit-classes or enumerated (the definition).",
            autocompletion=one_of("auto", "f2", "gcd", "digit-classes", "enumerated"),
        ),
    ] = "auto"
    level: Annotated[
        str,
        typer.Option(
            "--level",
            help="request: the sectors of each request of a warp; dram: the DRAM traffic of all of them "
            "together.",
            autocompletion=one_of(*LEVELS),
        ),
    ] = "request"
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            help="Exit with 1 on 'conflicts' or 'efficiency<0.9'. May be repeated.",
            show_default=False,
            autocompletion=one_of("conflicts", "efficiency<1"),
        ),
    ] = None
