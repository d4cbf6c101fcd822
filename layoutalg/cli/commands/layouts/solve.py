"""`layoutalg solve`: the strides, offsets or bases at which accesses have no conflicts or few sectors."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from layoutalg.answers import Answer, Count, Positive, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.options import ArchOption, DtypeOption, accesses, argument, option
from layoutalg.cli.output import Table, count, progress, say, say_answer, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, UndecidedError
from layoutalg.layout import free_symbols
from layoutalg.notation import parse_open, parse_polynomial

if TYPE_CHECKING:
    from layoutalg.arch import Arch
    from layoutalg.symbolic import Condition, Periodic, ResidueSet, SymbolicLayout


_NAMES = re.compile(r"\b(?!Sw<|o\b|smem_ptr|unset)[A-Za-z]\w*", re.ASCII)
_ROWS = 12


@dataclass(frozen=True)
class ValueSet:
    """Values of the symbol: from smallest on, residues modulo modulus, also, not but."""

    condition: str
    """The set, or the open condition, as one line."""
    empty: bool
    """No value serves; exit code 1."""
    smallest: Count | None
    """The least value that serves; smaller values do not, whatever their residue."""
    modulus: Positive | None
    residues: tuple[Count, ...]
    also: tuple[Count, ...]
    but: tuple[Count, ...]


@dataclass(frozen=True)
class CostClass:
    """Wavefronts or sectors in all, and for which values; null: misaligned."""

    total: Count | None
    condition: str


@dataclass(frozen=True)
class Solution(ValueSet):
    """The values of the symbol that serve one access: from smallest on, residues modulo modulus, also, not
    but."""

    access: str
    space: Literal["shared", "global"]
    latex: str
    open: str | None
    """The reason why an answer is not closed, null when it is; exit code 1."""
    stores: bool
    """Whether the access stores: then no two elements share an address at the values."""
    overlapping: tuple[tuple[Count | None, ...], ...] | None
    """Ranges, first and last, of values at which two elements of the layout share an address; last null:
    endless. Null where that is not decided."""
    smallest_distinct: Count | None
    """The least value that serves and at which no two elements share an address."""
    costs: tuple[CostClass, ...]


@dataclass(frozen=True)
class Solutions(Answer, command="solve"):
    """The values at which accesses have no conflicts, or few sectors."""

    layout: str
    symbol: str
    base: str
    least: Count
    dtype: str
    arch: str
    efficiency: float | None
    answers: tuple[Solution, ...]
    together: ValueSet | None
    """The values for all accesses; null for one, and where one is open."""


def solve_command(
    layout: Annotated[
        str,
        argument(
            "A layout with a name in its strides or offset, such as '(64,64):(ld,1)' or "
            "'(64,64):(2*n+8,1)'; - reads it from standard input.",
            stdin="text",
        ),
    ],
    access: Annotated[
        list[str], option("OP, OP@row, OP@col or OP@TV layout. May be repeated.", complete=accesses)
    ],
    dtype: DtypeOption = "f32",
    base: Annotated[str, "Bytes added to every address; may contain the name."] = "0",
    least: Annotated[int | None, "Smallest value to consider. Default: 1 in a stride, else 0."] = None,
    efficiency: Annotated[
        float | None,
        "Least share of useful bytes, of global accesses. Default: as few sectors as large values allow.",
    ] = None,
    arch: ArchOption = DEFAULT_ARCH,
) -> int:
    """Solve for the leading dimensions, pads or bases with no bank conflicts, or with few sectors.

    layoutalg solve "(64,64):(ld,1)" --dtype f16 --access ldmatrix.x4

    Values at which two elements share an address are left out for stores, and named for loads.

    Exits 1 when no value suits all accesses, and when it is undecided whether one does.
    """
    from layoutalg.arch import find_arch
    from layoutalg.symbolic import efficiency_share, symbolic_access

    if efficiency is not None:
        efficiency_share(efficiency)
    parsed, of_strides, of_offset = _symbolic(layout)
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
    answers: list[Solution] = []
    together: ResidueSet | None = None
    with progress("solving"):
        for spec in access:
            resolved = symbolic_access(spec, parsed, dtype)
            of = {"base": shift, "least": first}
            answer, values = _answer(spec, parsed, resolved, symbol, efficiency, machine, **of)
            answers.append(answer)
            together = _both(together, values)
    decided = all(answer.open is None for answer in answers)
    several = together is not None and decided and len(answers) > 1
    everywhere = taken(ValueSet, together, **_extent(together)) if several else None
    if wants_json():
        request = layout, known[0], base, first, dtype, machine.name, efficiency
        say_answer(Solutions(*request, tuple(answers), everywhere))
    else:
        _show(answers, efficiency, symbol.name, everywhere)
    none = everywhere is not None and everywhere.empty
    return FAILED if none or any(a.open is not None or a.empty for a in answers) else 0


def _both(first: ResidueSet | None, second: ResidueSet | Condition) -> ResidueSet | None:
    """The values of both, as far as they are known."""
    from layoutalg.symbolic import Condition

    if isinstance(second, Condition):
        return first
    return second if first is None else first & second


def _extent(values: ResidueSet | None) -> dict[str, Any]:
    """The set as one line, and whether it is empty."""
    return {"condition": str(values), "empty": values is None or values.smallest is None}


def _answer(
    spec: str, layout: SymbolicLayout, access: Any, symbol: Any, efficiency: float | None, machine: Arch,
    **of: Any,
) -> tuple[Solution, ResidueSet | Condition]:  # fmt: skip
    """The answer for an access, with the cost by class of values, and the values that serve.

    `of` are the base and the least value.
    """
    import sympy

    from layoutalg import symbolic
    from layoutalg.arch import find_instruction

    rule = find_instruction(access.op, machine)

    def solved(*, distinct: bool | None) -> ResidueSet | Condition:
        more: dict[str, Any] = {"distinct": distinct, "arch": machine, **of}
        if rule.space == "shared":
            return symbolic.solve_conflict_free(layout, access, symbol, **more)
        return symbolic.solve_sectors(layout, access, symbol, efficiency=efficiency, **more)

    values = free = solved(distinct=False)
    distinct: ResidueSet | None = None
    overlapping = None
    with contextlib.suppress(UndecidedError):
        ranges = symbolic.shared_ranges(layout, symbol, of["least"])
        distinct, overlapping = symbolic.solve_distinct(layout, symbol, least=of["least"]), ranges
    both = None if distinct is None or isinstance(free, symbolic.Condition) else free & distinct
    if rule.stores:
        values = solved(distinct=True) if both is None else both
    fields: dict[str, Any] = {
        "access": spec, "space": rule.space, "latex": sympy.latex(values), "overlapping": overlapping,
        "stores": rule.stores, "smallest_distinct": None if both is None else both.smallest,
    }  # fmt: skip
    if isinstance(values, symbolic.Condition):
        none = ValueSet(str(values), False, None, None, (), (), ())
        return taken(Solution, none, open=values.why, costs=(), **fields), values
    costs: tuple[CostClass, ...] = ()
    with contextlib.suppress(UndecidedError):
        costs = _classes(symbolic.symbolic_cost(layout, access, symbol, arch=machine, **of))
    return taken(Solution, values, open=None, costs=costs, **_extent(values), **fields), values


def _classes(cost: Periodic[int | None]) -> tuple[CostClass, ...]:
    """The values of the cost, each with the set of values of the symbol that have it."""
    seen = {*cost.values, *(value for _, value in cost.exceptions)}
    numbers = sorted(value for value in seen if value is not None)
    ordered: list[int | None] = [*numbers, *([None] if None in seen else [])]
    return tuple(
        CostClass(value, str(cost.where(lambda v, value=value: v == value)))  # type: ignore[misc]
        for value in ordered
    )


def _show(answers: list[Solution], efficiency: float | None, name: str, together: ValueSet | None) -> None:
    few = f"has an efficiency of {efficiency:g} or more" if efficiency is not None else (
        f"moves as few sectors as large {name} allow"
    )  # fmt: skip
    parts: list[str | Table] = []
    for answer in answers:
        shared = answer.space == "shared"
        what = "is free of conflicts" if shared else few
        if answer.open is not None:
            parts.append(f"{answer.condition}.")
            continue
        least = f"; the least is {name} = {answer.smallest}" if answer.stores and not answer.empty else ""
        parts.append(f"{answer.access} {what} for {answer.condition}{least}.")
        parts += _overlap_words(answer, name)
        unit = "wavefronts" if shared else "sectors"
        rows = [("misaligned" if c.total is None else count(c.total), c.condition) for c in answer.costs]
        if rows:
            parts.append("")
            parts.append(Table(answer.access, (unit, "for"), rows[:_ROWS], left=2))
            if len(rows) > _ROWS:
                parts.append(f"and {len(rows) - _ROWS} more; --json has all of them.")
    if together is not None:
        least = f"; the least is {name} = {together.smallest}" if any(a.stores for a in answers) else ""
        parts += ["", f"All of these together: {together.condition}{'' if together.empty else least}."]
    say(*parts)


def _overlap_words(answer: Solution, name: str) -> list[str]:
    """Sentences on values at which two elements share an address; none where that concerns no value."""
    ranges, least = answer.overlapping, answer.smallest_distinct
    if ranges is None:
        return [f"It is not decided at which {name} two elements share an address."]
    if not ranges:
        return []
    if ranges[-1][1] is None:
        return [f"Two elements share an address at every {name}{', which no store may do' * answer.stores}."]
    texts = [str(first) if first == last else f"{first}..{last}" for first, last in ranges[:_ROWS]]
    more = f" and {len(ranges) - _ROWS} more ranges" if len(ranges) > _ROWS else ""
    where = f"{name} in {{{', '.join(texts)}}}{more}"
    if answer.stores:
        return [f"Left out is {where}, at which two elements share an address."]
    if answer.smallest == least:
        return []
    without = "none is without" if least is None else f"the least without is {name} = {least}"
    return [f"At {where} two elements share an address, as loads may: {without}."]


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
