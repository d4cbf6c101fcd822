"""Options that several commands share, each written once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from layoutalg.budget import with_budget
from layoutalg.cli.completions import archs, dtypes
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
    Path | None, typer.Option("--output", "-o", help="Write to this file; it is replaced only when complete.")
]
GroupsOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Grouped GEMM by gemm-sm90: this many groups of rows, each with its own B; m counts the rows of "
        "all groups. Default: none."
    ),
]
ProblemsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help='A JSON file with a list of problems, each an object of arguments: [{"m": 64, "n": 4096}].',
        show_default=False,
    ),
]
BudgetOption: TypeAlias = Annotated[
    int, typer.Option("--budget", help="Factor on the work limit of searches, 1 or more.")
]


def spread(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the fields of its records of options as options, where it takes the records.

    >>> from dataclasses import make_dataclass
    >>> Size = make_dataclass("Size", [("m", int, 1), ("n", int, 2)])
    >>> def area(*, size: Size, unit: str = "mm2") -> None:
    ...     print(size, unit)
    >>> inspect.signature(spread(area))
    <Signature (*, m: int = 1, n: int = 2, unit: str = 'mm2')>
    >>> spread(area)(m=3, n=4, unit="km2")
    Size(m=3, n=4) km2
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    records: dict[str, Any] = {p.name: p.annotation for p in parameters if is_dataclass(p.annotation)}

    @functools.wraps(command)
    def run(**options: Any) -> Any:
        made = {
            name: record(**{field.name: options.pop(field.name) for field in fields(record)})
            for name, record in records.items()
        }
        return command(**options, **made)

    shown: list[inspect.Parameter] = []
    for parameter in parameters:
        record = records.get(parameter.name)
        shown += [parameter] if record is None else _parameters(record)
    return _signed(run, shown)


def budgeted(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with an option --budget, by which all its budgets of work are multiplied."""

    @functools.wraps(command)
    def run(*args: Any, budget: int = 1, **options: Any) -> Any:
        return with_budget(budget, command, *args, **options)

    parameters = inspect.signature(command, eval_str=True).parameters.values()
    budget = inspect.Parameter("budget", inspect.Parameter.KEYWORD_ONLY, default=1, annotation=BudgetOption)
    return _signed(run, [*parameters, budget])


def _parameters(record: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters, which are given by name."""
    types = get_type_hints(record, include_extras=True)
    return [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
        for f in fields(record)
    ]


def _signed(run: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> Callable[..., Any]:
    """The function with these parameters, by name, which is where typer looks for its options."""
    named = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in named}
    return run
