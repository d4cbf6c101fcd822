"""Options that several commands share, each written once.

The values that the shell completes are those of a table of the library, or of words that are listed:

    typer.Option(autocompletion=accesses)
    typer.Option(autocompletion=one_of("c", "python"))

Tables are imported when a shell asks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, get_type_hints

import typer

from layoutalg.budget import with_budget
from layoutalg.cli.inputs import or_input

Completer: TypeAlias = Callable[[str], list[str]]


def one_of(*words: str) -> Completer:
    """The completion of one of these words.

    >>> one_of("auto", "f2", "gcd")("")
    ['auto', 'f2', 'gcd']
    """
    return lambda incomplete: _begun(words, incomplete)


def accesses(incomplete: str) -> list[str]:
    """An instruction, and behind @ the ways of lanes over a tile.

    >>> accesses("ldmatrix.x4@"), accesses("ldmatrix.x4")
    (['ldmatrix.x4@row', 'ldmatrix.x4@col'], ['ldmatrix.x4', 'ldmatrix.x4.trans'])
    """
    op, at, _ = incomplete.partition("@")
    return _begun((f"{op}@row", f"{op}@col"), incomplete) if at else instructions(incomplete)


def instructions(incomplete: str) -> list[str]:
    """An instruction of any architecture."""
    from layoutalg.arch import INSTRUCTIONS

    return _begun(INSTRUCTIONS, incomplete)


def dtypes(incomplete: str) -> list[str]:
    """An element type.

    >>> dtypes("bf")
    ['bf16']
    """
    from layoutalg.dtype import DTYPES

    return _begun(DTYPES, incomplete)


def archs(incomplete: str) -> list[str]:
    """A compiler's name of an architecture.

    >>> archs("sm_9")
    ['sm_90', 'sm_90a']
    """
    from layoutalg.arch import ARCHS

    return _begun((target for arch in ARCHS.values() for target in arch.targets), incomplete)


def families(incomplete: str) -> list[str]:
    """A family of kernels, or an operation of one."""
    from layoutalg.kernels.registry import FAMILIES

    return _begun(FAMILIES, incomplete)


FUNCTION_NAMES = "relu, gelu, gelu_tanh, silu"
"""The functions of one number, as the help and completions have them, which import no kernels."""


def operations(incomplete: str) -> list[str]:
    """An operation to explain."""
    from layoutalg.explanation import OPERATIONS

    return _begun(("analyze", "synthesize", *OPERATIONS), incomplete)


def targets(incomplete: str) -> list[str]:
    """A language of index functions.

    >>> targets("c")
    ['c', 'cuda', 'cpp']
    """
    from layoutalg.indexing import TARGETS

    return _begun(TARGETS, incomplete)


def forms(incomplete: str) -> list[str]:
    """A notation that is written.

    >>> forms("cpp")
    ['cpp', 'cpp-type']
    """
    from layoutalg.notation import FORMS

    return _begun((name for name, form in FORMS.items() if form.write is not None), incomplete)


def terms(incomplete: str) -> list[str]:
    """A term of the glossary."""
    from layoutalg.glossary import GLOSSARY

    return _begun(GLOSSARY, incomplete)


def atoms(incomplete: str) -> list[str]:
    """A copy atom."""
    from layoutalg.atoms import COPY_ATOMS

    return _begun(COPY_ATOMS, incomplete)


def operands(incomplete: str) -> list[str]:
    """An operand of an MMA atom.

    >>> operands("SM80_8x8x4_F64F64F64F64_TN:")
    ['SM80_8x8x4_F64F64F64F64_TN:A', 'SM80_8x8x4_F64F64F64F64_TN:B', 'SM80_8x8x4_F64F64F64F64_TN:C']
    """
    from layoutalg.atoms import MMA_ATOMS

    return _begun((f"{name}:{operand}" for name in MMA_ATOMS for operand in "ABC"), incomplete)


def _begun(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def option(
    text: str, *names: str, complete: Completer | None = None, callback: Callable[..., Any] | None = None
) -> Any:
    """An option with its text of help; without names it is called as its parameter is.

    What None stands for is said in the text.
    """
    return typer.Option(*names, help=text, autocompletion=complete, callback=callback)


def argument(text: str, *, complete: Completer | None = None, **more: Any) -> Any:
    """An argument with its text of help, which says its default."""
    return typer.Argument(help=text, show_default=False, autocompletion=complete, **more)


LayoutArgument: TypeAlias = Annotated[
    str,
    argument(
        "A layout in CuTe notation, such as '(64,64):(64,1)' or 'Sw<3,3,3> o 0 o (8,64):(64,1)'; "
        "- reads it from standard input.",
        callback=or_input,
    ),
]
DtypeOption: TypeAlias = Annotated[str, option("Element type: f16, bf16, f32, u8, ...", complete=dtypes)]
ArchOption: TypeAlias = Annotated[
    str, option("Architecture or GPU: sm_80, sm_90, 12.0, H100, RTX4090, ...", complete=archs)
]
JsonOption: TypeAlias = Annotated[bool, option("Print one JSON object and nothing else.", "--json")]
OutputOption: TypeAlias = Annotated[
    Path | None, option("Write to this file; it is replaced only when complete.", "--output", "-o")
]
GroupsOption: TypeAlias = Annotated[
    int | None,
    option(
        "Grouped GEMM by gemm-sm90: this many groups of rows, each with its own B; m counts the rows of "
        "all groups. Default: none."
    ),
]
ProblemsOption: TypeAlias = Annotated[
    str | None,
    option('A JSON file with a list of problems, each an object of arguments: [{"m": 64, "n": 4096}].'),
]
BudgetOption: TypeAlias = Annotated[int, option("Factor on the work limit of searches, 1 or more.")]


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
