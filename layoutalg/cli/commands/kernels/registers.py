"""`layoutalg inspect registers`: the lanes that hold a tile, reductions over it, and its conversions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from layoutalg.answers import Amount, Answer, Count, Positive, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.atoms import MMAAtom, find_mma_atom
from layoutalg.cli.inputs import read_layout, read_sides
from layoutalg.cli.options import ArchOption, DtypeOption, argument, operands, option
from layoutalg.cli.output import Table, progress, say, say_answer, wants_json
from layoutalg.compose import composition
from layoutalg.errors import ArgumentTypeError, DivisibilityError
from layoutalg.layout import Layout
from layoutalg.limits import Most
from layoutalg.registers import (
    Conversion,
    Plan,
    Reduction,
    convert_layout,
    fragment,
    reduction_of,
    register_layout,
)


@dataclass(frozen=True)
class ReductionAnswer:
    """A reduction over a tile in registers; counts are of a lane, wavefronts of the block."""

    along: str
    results: Positive
    operations: Count
    shuffles: Count
    lane_distances: tuple[Positive, ...]
    wavefronts: Count
    barriers: Count
    shared_bytes: Count


@dataclass(frozen=True)
class TileReductions(Answer, command="inspect registers"):
    """Reductions over a tile in registers."""

    source: str
    shape: tuple[Positive, ...]
    layout: str
    registers: Positive
    warps: Positive
    reductions: tuple[ReductionAnswer, ...]


@dataclass(frozen=True)
class PlanAnswer:
    """A conversion of a tile in registers."""

    kind: Literal["rename", "select", "shuffle", "shared"]
    selects: Count
    permutes: Count
    shuffles: Count
    wavefronts: Count
    barriers: Count
    cycles: Amount


@dataclass(frozen=True)
class TileConversions(Answer, command="inspect registers"):
    """Conversions of a tile in registers, the cheapest first."""

    source: str
    to: str
    shape: tuple[Positive, ...]
    dtype: str
    plans: tuple[PlanAnswer, ...]
    refused: tuple[str, ...]


def registers_command(
    source: Annotated[
        str,
        argument(
            "An operand of an MMA instruction, SM80_16x8x16_F32F16F16F32_TN:C, or a layout from "
            "(thread, value) to the flat index in --shape, the first mode fastest.",
            complete=operands,
        ),
    ],
    shape: Annotated[
        str | None,
        "Rows and columns of the tile, 16x32: a multiple of the instruction's. Required for a layout.",
    ] = None,
    along: Annotated[
        list[str] | None, "Reduce along m (each column) or n (each row). May be repeated. Default: both."
    ] = None,
    to: Annotated[
        str | None, option("The register layout of the same tile to convert to.", complete=operands)
    ] = None,
    dtype: DtypeOption = "f32",
    arch: ArchOption = DEFAULT_ARCH,
) -> None:
    """Cost of reducing a tile that is in registers, or of converting it to another register layout.

    layoutalg inspect registers SM80_16x8x16_F32F16F16F32_TN:C --shape 16x32

    layoutalg inspect registers SM80_16x8x8_F32F16F16F32_TN:C --to SM80_16x8x8_F32F16F16F32_TN:A --shape 16x8
    """
    sides = None if shape is None else read_sides("shape", shape)
    tv, sides = _tile(source, sides)
    if to is not None:
        if along:
            raise ArgumentTypeError("--along reduces and --to converts: give one of them")
        target, _ = _tile(to, sides)
        with progress("converting"):
            result = convert_layout(register_layout(tv, sides), register_layout(target, sides), dtype, arch)
        _say_conversion(source, to, sides, result)
        return
    tile = fragment(tv, sides)
    reports = [reduction_of(tile, along=name, arch=arch) for name in along or ("n", "m")]
    if wants_json():
        reductions = tuple(
            taken(
                ReductionAnswer, reduction, results=len(reduction.groups),
                lane_distances=(exchange.distance for exchange in reduction.exchanges),
            )
            for reduction in reports
        )  # fmt: skip
        say_answer(TileReductions(source, sides, str(tv), tile.registers, tile.warps, reductions))
        return
    columns = ("along", "results", "operations", "shuffles", "lanes", "wavefronts", "barriers")
    title = f"{source}, {sides[0]} x {sides[1]}: {tile.registers} values per lane, warps: {tile.warps}"
    say(Table(title, columns, map(_reduction_row, reports)))


def _tile(text: str, sides: tuple[int, int] | None) -> tuple[Layout, tuple[int, int]]:
    """The (thread, value) layout of a tile, and its sides."""
    named = re.fullmatch(r"(SM\d+_\w+):([ABC])", text.strip())
    if named is None:
        layout = read_layout(text)
        if sides is None:
            raise ArgumentTypeError("a layout of (thread, value) needs the --shape of its tile, such as 16x8")
        if not isinstance(layout, Layout):
            raise ArgumentTypeError(f"{text} is a composed layout; a layout of (thread, value) is needed")
        _check_size(sides)
        return layout, sides
    atom: MMAAtom = find_mma_atom(named[1])
    rows, columns = atom.extents(named[2])  # type: ignore[arg-type]
    tv = atom.tv(named[2])  # type: ignore[arg-type]
    if sides is None:
        return tv, (rows, columns)
    _check_size(sides)
    if sides[0] % rows or sides[1] % columns:
        raise DivisibilityError(
            f"a tile of {sides[0]} x {sides[1]} is not tiled by {rows} x {columns} of {text}"
        )
    placed = composition(Layout((rows, columns), (1, sides[0])), tv)
    repeats = Layout((sides[0] // rows, sides[1] // columns), (rows, sides[0] * columns))
    if not isinstance(placed, Layout):
        raise ArgumentTypeError(f"{text} is not a plain layout of a tile of {sides[0]} x {sides[1]}")
    threads, values = placed[0], placed[1]
    return Layout(
        (threads.shape, (values.shape, repeats.shape)), (threads.stride, (values.stride, repeats.stride))
    ), sides


def _check_size(sides: tuple[int, int]) -> None:
    Most.ONE_BY_ONE.guard(sides[0] * sides[1], "elements of a tile in registers")


def _reduction_row(reduction: Reduction) -> tuple[str, ...]:
    lanes = " ".join(f"^{exchange.distance}" for exchange in reduction.exchanges) or "-"
    counts = (len(reduction.groups), reduction.operations, reduction.shuffles)
    return (reduction.along, *map(str, counts), lanes, str(reduction.wavefronts), str(reduction.barriers))


def _say_conversion(source: str, to: str, sides: tuple[int, int], result: Conversion) -> None:
    plans = (result.plan, *result.alternatives)
    if wants_json():
        shown = tuple(taken(PlanAnswer, plan.cost, kind=plan.kind) for plan in plans)
        say_answer(TileConversions(source, to, sides, str(result.element), shown, tuple(result.refused)))
        return
    columns = ("plan", "selects", "permutes", "shuffles", "wavefronts", "barriers", "cycles")
    say(
        Table(
            f"{sides[0]} x {sides[1]} of {result.element}: {source} to {to}", columns, map(_plan_row, plans)
        ),
        *(f"Left out: {reason}." for reason in result.refused),
    )


_COUNTS = ("selects", "permutes", "shuffles", "wavefronts", "barriers")


def _plan_row(plan: Plan) -> tuple[str, ...]:
    return (plan.kind, *(str(getattr(plan.cost, name)) for name in _COUNTS), f"{plan.cost.cycles:g}")
