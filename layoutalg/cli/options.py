"""Options that several commands share, each written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from layoutalg.budget import with_budget
from layoutalg.cli.completions import archs, dtypes, one_of
from layoutalg.cli.inputs import or_input

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
ArchOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--arch", help="Architecture or GPU: sm_80, sm_90, 12.0, H100, RTX4090, ...", autocompletion=archs
    ),
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object and nothing else.")
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
        help="Type of a product's result. Default: that of its operands; s32 of s8.", autocompletion=dtypes
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
