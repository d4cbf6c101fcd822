"""Options that several commands share, each written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from layoutalg.analysis import LEVELS
from layoutalg.budget import with_budget
from layoutalg.cli.completions import accesses, archs, dtypes, instructions, one_of
from layoutalg.cli.inputs import file_or_input, or_input

LayoutArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="A layout in CuTe notation, such as '(64,64):(64,1)' or 'Sw<3,3,3> o 0 o (8,64):(64,1)'; "
        "- reads it from standard input.",
        show_default=False,
        callback=or_input,
    ),
]
DtypeOption: TypeAlias = Annotated[
    str, typer.Option("--dtype", help="Element type: f16, bf16, f32, u8, ...", autocompletion=dtypes)
]
KernelDtypeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Element type. Default: f16 for gemm-sm75 and gemm-sm80, bf16 for gemm-sm90 and gemv, else f32.",
        show_default=False,
        autocompletion=dtypes,
    ),
]
ElementOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Element type. Default: f32 for a layout; --index and --offsets count bytes.",
        show_default=False,
        autocompletion=dtypes,
    ),
]
ArchOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--arch", help="Architecture or GPU: sm_80, sm_90, 12.0, H100, RTX4090, ...", autocompletion=archs
    ),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else.")
]
AccessesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--access",
        help="OP, OP@row, OP@col or OP@TV layout, such as ldmatrix.x4, ld.shared.b32@col or LDS.128. "
        "Repeats. Default: loads of one element, by row and by column.",
        show_default=False,
        autocompletion=accesses,
    ),
]
IndexOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--index",
        help="Instead of a layout: the offset as a Python or C expression in lane, tid, warp and reg, "
        "such as '(lane//8)*144 + (lane%8)*16'; - reads it from standard input.",
        callback=or_input,
    ),
]
OffsetsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--offsets",
        help="Instead of a layout: a file with 32 integers or null per line, or JSON; - reads "
        "standard input.",
        callback=file_or_input,
    ),
]
OpOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--op", help="The instruction of --index or --offsets.", autocompletion=instructions),
]
BaseOption: TypeAlias = Annotated[int, typer.Option("--base", help="Bytes added to every address.")]
WarpsOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--warps", help="Warps that run the --index expression. Default: 1.", show_default=False),
]
RegsOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--regs", help="Values of reg in the --index expression. Default: 1.", show_default=False),
]
MethodOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--method",
        help="auto, f2, gcd, digit-classes or enumerated (the definition).",
        autocompletion=one_of("auto", "f2", "gcd", "digit-classes", "enumerated"),
    ),
]
LevelOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--level",
        help="request: each request of a warp; dram: what memory moves for all of them together.",
        autocompletion=one_of(*LEVELS),
    ),
]
FailOnOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        help="Exit 1 on 'conflicts' or 'efficiency<0.9'. Repeats.",
        show_default=False,
        autocompletion=one_of("conflicts", "efficiency<1"),
    ),
]
OutputOption: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file, whole or not at all.")
]
LdsOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Leading dimension of the source, in elements. Default: n.")
]
LddOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Leading dimension of the destination. Default: its row length.")
]
ShapeOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Shape of a dense tensor: 64,1024,128. For permute and the following.")
]
AxesOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Order of a permute's axes; axes to reduce, by default the last.")
]
LdaOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Leading dimension of A, of a product. Default: its row length.")
]
LdbOption: TypeAlias = Annotated[
    int | None, typer.Option(help="Leading dimension of B, of a product. Default: its row length.")
]
LdcOption: TypeAlias = Annotated[int | None, typer.Option(help="Leading dimension of C. Default: n.")]
AMajorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The mode that A is stored along: k (row-major) or mn. Default: k.",
        autocompletion=one_of("k", "mn"),
    ),
]
BMajorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="The mode that B is stored along: mn (row-major), or k, the default of gemm-sm80, gemm-sm90 and "
        "gemv.",
        autocompletion=one_of("mn", "k"),
    ),
]
AccumulatorOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Type of a product's sums. Default: f32; f64, s32 of s8, f16 of gemm-sm75.",
        autocompletion=dtypes,
    ),
]
ResultOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Type of the result of a product or a permute. Default: that of the operands; s32 of s8.",
        autocompletion=dtypes,
    ),
]
COption: TypeAlias = Annotated[bool | None, typer.Option("--c/--no-c", help="Add beta C to a product.")]
BiasOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Add a number per column (n) or per row (m) of a product, or none.",
        autocompletion=one_of("n", "m", "none"),
    ),
]
ActivationOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Apply a function to a product: relu, gelu, silu. Default: none.",
        autocompletion=one_of("relu", "gelu", "silu", "none"),
    ),
]
GroupsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Groups of rows of a product by gemm-sm90, each with a B of its own; m is of all. Default: none."
    ),
]
ProblemsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help='A JSON file with a list of problems by their arguments: [{"m": 64, "n": 4096}].',
        show_default=False,
    ),
]
StepOption: TypeAlias = Annotated[
    str | None, typer.Option(help="A step of a product's ladder, by name or number. Default: the best tile.")
]
TileOption: TypeAlias = Annotated[
    str | None, typer.Option(help="The tile of a product: 128x128x64. Default: the best.")
]
ScheduleOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Which tiles a block of a product has: data_parallel, persistent, streamk. Default: the best.",
        autocompletion=one_of("data_parallel", "persistent", "streamk"),
    ),
]
BudgetOption: TypeAlias = Annotated[
    int, typer.Option("--budget", help="How many times the usual work a search may take, from 1 on.")
]


def budgeted(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with an option --budget, by which all its budgets of work are multiplied."""

    @functools.wraps(command)
    def run(*args: Any, budget: int = 1, **options: Any) -> Any:
        return with_budget(budget, command, *args, **options)

    given = inspect.signature(command, eval_str=True)
    budget = inspect.Parameter("budget", inspect.Parameter.KEYWORD_ONLY, default=1, annotation=BudgetOption)
    run.__signature__ = given.replace(parameters=[*given.parameters.values(), budget])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*given.parameters.values(), budget)}
    return run
