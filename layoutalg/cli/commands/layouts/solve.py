"""`layoutalg solve`: the strides, offsets or bases at which accesses have no conflicts or few sectors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from layoutalg.cli.completions import accesses
from layoutalg.cli.inputs import or_input
from layoutalg.cli.options import ArchOption, DtypeOption, JsonOption
from layoutalg.cli.output import count, progress, say, say_json, table
from layoutalg.cli.refusals import header
from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, UndecidedError
from layoutalg.layout import free_symbols
from layoutalg.notation import parse_open, parse_polynomial

if TYPE_CHECKING:
    from layoutalg.symbolic import Condition, Periodic, ResidueSet, SymbolicLayout

NO_VALUE = 1

_NAMES = re.compile(r"\b(?!Sw<|o\b|smem_ptr|unset)[A-Za-z]\w*", re.ASCII)
_ROWS = 12


def solve_command(
    layout: Annotated[
        str,
        typer.Argument(
            help="A layout with a name in its strides or offset, such as '(64,64):(ld,1)' or "
            "'(64,64):(2*n+8,1)'; - reads it from standard input.",
            show_default=False,
            callback=or_input,
        ),
    ],
    access: Annotated[
        list[str],
        typer.Option(
            help="OP, OP@row, OP@col or OP@TV layout. May be repeated.",
            show_default=False,
            autocompletion=accesses,
        ),
    ],
    dtype: DtypeOption = "f32",
    base: Annotated[str, typer.Option(help="Bytes added to every address; may contain the name.")] = "0",
    least: Annotated[
        int | None, typer.Option(help="Smallest value to consider. Default: 1 in a stride, else 0.")
    ] = None,
    efficiency: Annotated[
        float | None,
        typer.Option(
            help="Least share of useful bytes, of global accesses. Default: as few sectors as large "
            "values allow."
        ),
    ] = None,
    arch: ArchOption = "sm_90",
    as_json: JsonOption = False,
) -> int:
    """Solve for the leading dimensions, pads or bases with no bank conflicts, or with few sectors.

    layoutalg solve "(64,64):(ld,1)" --dtype f16 --access ldmatrix.x4

    Exits 1 when no value suits all accesses, and when it is undecided whether one does.
    """
    from layoutalg.arch import find_arch, find_instruction
    from layoutalg.symbolic import efficiency_share, symbolic_access

    if efficiency is not None:
        efficiency_share(efficiency)
    given, of_strides, of_offset = _symbolic(layout)
    shift, more = _term(base, "--base")
    if not more and shift < 0:
        raise ShapeError(f"--base {base}: bytes are counted from 0 on; a non-negative number is needed")
    known = sorted(of_strides | of_offset | more)
    if len(known) != 1:
        raise ArgumentTypeError(
            f"solve needs one name to solve for, as in (64,64):(ld,1); found {', '.join(known) or 'none'}"
        )
    symbol = _symbol(known[0])
    first = least if least is not None else int(known[0] in of_strides)
    machine = find_arch(arch)
    answers: list[dict[str, Any]] = []
    together: ResidueSet | None = None
    with progress("solving", quiet=as_json):
        for spec in access:
            one = symbolic_access(spec, given, dtype)
            space = find_instruction(one.op, machine).space
            found = _solved(given, one, symbol, shift, first, efficiency, machine, space)
            answers.append(_answer(spec, given, one, symbol, shift, first, machine, space, found))
            together = _both(together, found)
    decided = all(a["open"] is None for a in answers)
    everywhere = _set(together) if together is not None and decided and len(answers) > 1 else None
    if as_json:
        say_json(
            header("solve")
            | {"layout": layout, "symbol": known[0], "base": base, "least": first, "dtype": dtype}
            | {"arch": machine.name, "efficiency": efficiency, "answers": answers, "together": everywhere}
        )
    else:
        _show(answers, efficiency, symbol.name, everywhere)
    none = everywhere is not None and everywhere["empty"]
    return NO_VALUE if none or any(a["open"] is not None or a["empty"] for a in answers) else 0


def _solved(
    layout: SymbolicLayout,
    access: Any,
    symbol: Any,
    base: Any,
    least: int,
    efficiency: float | None,
    machine: Any,
    space: str,
) -> ResidueSet | Condition:
    """The values of one access, or why they are not known."""
    from layoutalg.symbolic import solve_conflict_free, solve_sectors

    if space == "shared":
        return solve_conflict_free(layout, access, symbol, base=base, least=least, arch=machine)
    return solve_sectors(layout, access, symbol, base=base, least=least, efficiency=efficiency, arch=machine)


def _both(first: ResidueSet | None, second: ResidueSet | Condition) -> ResidueSet | None:
    """The values of both, as far as they are known."""
    from layoutalg.symbolic import Condition

    if isinstance(second, Condition):
        return first
    return second if first is None else first & second


def _set(found: ResidueSet) -> dict[str, Any]:
    """A set of values in --json."""
    return {
        "condition": str(found), "empty": not found.residues and not found.also, "modulus": found.modulus,
        "residues": list(found.residues), "also": list(found.also), "but": list(found.but),
    }  # fmt: skip


def _answer(
    spec: str,
    layout: SymbolicLayout,
    access: Any,
    symbol: Any,
    base: Any,
    least: int,
    machine: Any,
    space: str,
    found: ResidueSet | Condition,
) -> dict[str, Any]:
    """One access: the set of values, and the cost by class of values."""
    import sympy

    from layoutalg.symbolic import Condition, symbolic_cost

    fields: dict[str, Any] = {"access": spec, "space": space, "condition": str(found)}
    fields |= {"latex": sympy.latex(found)}
    if isinstance(found, Condition):
        return fields | {"open": found.why, "empty": False, "modulus": None, "residues": [], "also": [],
                         "but": [], "costs": []}  # fmt: skip
    try:
        costs = _classes(symbolic_cost(layout, access, symbol, base=base, least=least, arch=machine))
    except UndecidedError:
        costs = []
    return fields | _set(found) | {"open": None, "costs": costs}


def _classes(cost: Periodic[int | None]) -> list[dict[str, Any]]:
    """The values of the cost, each with the set of values of the symbol that have it."""
    seen = {*cost.values, *(value for _, value in cost.exceptions)}
    numbers = sorted(value for value in seen if value is not None)
    ordered: list[int | None] = [*numbers, *([None] if None in seen else [])]
    return [
        {"total": value, "condition": str(cost.where(lambda v, value=value: v == value))}  # type: ignore[misc]
        for value in ordered
    ]


def _show(
    answers: list[dict[str, Any]], efficiency: float | None, name: str, together: dict[str, Any] | None
) -> None:
    few = f"has an efficiency of {efficiency:g} or more" if efficiency is not None else (
        f"moves as few sectors as large {name} allow"
    )  # fmt: skip
    parts: list[str | Table] = []
    for answer in answers:
        shared = answer["space"] == "shared"
        what = "is free of conflicts" if shared else few
        if answer["open"] is not None:
            parts.append(f"{answer['condition']}.")
            continue
        parts.append(f"{answer['access']} {what} for {answer['condition']}.")
        unit = "wavefronts" if shared else "sectors"
        rows = [
            ("misaligned" if c["total"] is None else count(c["total"]), c["condition"])
            for c in answer["costs"]
        ]
        if rows:
            parts.append("")
            parts.append(table(f"{answer['access']}", (unit, "for"), rows[:_ROWS], left=2))
            if len(rows) > _ROWS:
                parts.append(f"and {len(rows) - _ROWS} more; --json has all of them.")
    if together is not None:
        parts += ["", f"All of these together: {together['condition']}."]
    say(*parts)


def _symbolic(text: str) -> tuple[SymbolicLayout, set[str], set[str]]:
    """A layout text with names in strides or offset, and the names in either."""
    from layoutalg.symbolic import SymbolicLayout

    swizzles, offset, inner = parse_open(text, _named(text))
    return (
        SymbolicLayout(inner.shape, inner.stride, swizzles.reduced(), offset),
        _names(inner.stride),
        _names(offset),
    )


def _term(text: str, what: str) -> tuple[Any, set[str]]:
    """An integer or a polynomial in names, and the names in it; raises ParseError."""
    try:
        value = parse_polynomial(text, _named(text))
    except ParseError as error:
        raise ParseError(f"{what}: {error.message}", text=text, position=error.position) from None
    return value, _names(value)


def _named(text: str) -> dict[str, Any]:
    """A symbol for every name in a text."""
    return {name: _symbol(name) for name in _NAMES.findall(text)}


def _names(*values: Any) -> set[str]:
    """The names of the symbols in values."""
    return {symbol.name for symbol in free_symbols(*values)}


def _symbol(name: str) -> Any:
    import sympy

    return sympy.Symbol(name, integer=True, nonnegative=True)
