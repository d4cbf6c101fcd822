"""`layoutalg inspect roofline`: the bound of a tiled product on a board, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from layoutalg.answers import Answer, Rate, taken
from layoutalg.arch import DEFAULT_ARCH, T4_ACHIEVED, Arch, Rates, board_rates, find_arch, find_board
from layoutalg.cli.commands.times.measured import chart_format, measured_points
from layoutalg.cli.files import write_whole
from layoutalg.cli.inputs import read_sides
from layoutalg.cli.options import ArchOption, OutputOption, one_of, option
from layoutalg.cli.output import Table, say, say_answer, wants_json
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import UnsupportedError, check_choice
from layoutalg.limits import Most
from layoutalg.model import Roofline, gemm_intensities, l2_locality, roofline_of

ACHIEVED = {"T4": T4_ACHIEVED}
"""Boards whose rates somebody has measured and published."""


@dataclass(frozen=True)
class BoundAnswer:
    """The bound of a level of memory."""

    level: str
    bytes_per_s: Rate
    balance: Rate
    intensity: Rate
    flops_per_s: Rate


@dataclass(frozen=True)
class TileAnswer:
    """The bounds of a tile; unknown levels have no rate."""

    tile: str
    flops_per_s: Rate
    limiting: str
    unknown: tuple[str, ...]
    bounds: tuple[BoundAnswer, ...]


@dataclass(frozen=True)
class RooflineAnswer(Answer, command="inspect roofline"):
    """Bounds of tiled products at each level of memory."""

    arch: str
    rates: str
    source: str
    unit: str
    peak_flops_per_s: Rate
    output: str | None
    tiles: tuple[TileAnswer, ...]


def roofline_command(
    tile: Annotated[
        list[str] | None, "Rows and columns of a block's tile: 256x128. May be repeated. Default: 128x128."
    ] = None,
    warp: Annotated[str, "A warp's tile."] = "64x64",
    instruction: Annotated[str, "An MMA instruction's tile; with --unit f32, a thread's."] = "16x8",
    dtype: Annotated[
        str,
        option(
            "Element type of A and B whose rate is known: f16 or bf16; f32 with --unit f32.",
            complete=one_of("f16", "bf16", "f32"),
        ),
    ] = "f16",
    unit: Annotated[
        str, option("The units that compute: tensor (cores) or f32.", complete=one_of("tensor", "f32"))
    ] = "tensor",
    rates: Annotated[
        str,
        option(
            "sheet: rates of the data sheet; achieved: those of microbenchmarks (T4 only).",
            complete=one_of("sheet", "achieved"),
        ),
    ] = "sheet",
    clock: Annotated[float | None, "Scale the data sheet's compute rates to this clock, in MHz."] = None,
    size: Annotated[
        int | None, "Side of the matrices: counts the L2 reuse of panels by concurrent blocks."
    ] = None,
    order: Annotated[
        str,
        option(
            "With --size, the order of blocks: row, col, or the height of bands.",
            complete=one_of("row", "col"),
        ),
    ] = "row",
    ladder: Annotated[
        str | None, "Also draw the tiles of this family's optimisation ladder: gemm-sm80."
    ] = None,
    measured: Annotated[
        list[str] | None,
        "Output of layoutalg bench FAMILY --json: draw its rates, over the operations per byte "
        "that a GEMM can reach. May be repeated.",
    ] = None,
    output: OutputOption = None,
    arch: ArchOption = DEFAULT_ARCH,
) -> None:
    """Roofline of a tiled GEMM at each level of memory: T = min(bandwidth x intensity, peak).

    layoutalg inspect roofline --arch T4 --rates achieved --tile 256x128 --tile 256x256 --size 8192 -o t4.svg

    layoutalg inspect roofline --arch "RTX 3090" --unit f32 --dtype f32 --tile 128x128 --clock 1395
    """
    machine = find_arch(arch)
    board = _rates(arch, rates, clock)
    _check_rated(machine, unit, dtype)
    texts = tile or ["128x128"]
    small = {"warp": read_sides("warp", warp), "instruction": read_sides("instruction", instruction)}
    programs, reports = {}, {}
    for text in texts:
        block = read_sides("tile", text)
        text = f"{block[0]}x{block[1]}"
        reuse = 1.0 if size is None else _reuse(size, block, order, find_board(arch).sms)
        programs[text] = gemm_intensities(block=block, element=dtype, l2_reuse=reuse, **small)
        reports[text] = roofline_of(board, programs[text], unit)
    if (ladder or measured) and output is None:
        raise UnsupportedError("--ladder and --measured are drawn: name a file with -o FILE.svg")
    if output is not None:
        from layoutalg.draw import as_file, roofline_chart

        drawn = programs | (_ladder(ladder, dtype, small) if ladder else {})
        points = {name: points for file in measured or () for name, points in measured_points(file, dtype)}
        write_whole(output, as_file(roofline_chart(board, drawn, unit, points), chart_format(output)))
    if wants_json():
        tiles = (taken(TileAnswer, report, tile=text) for text, report in reports.items())
        fields = {"peak_flops_per_s": board.units[unit], "tiles": tiles, "output": output}
        say_answer(taken(RooflineAnswer, board, arch=machine.name, rates=board.name, unit=unit, **fields))
        return
    rows = [_row(text, report, level) for text, report in reports.items() for level in report.bounds]
    peak = f"{board.units[unit] / 1e12:,.4g} TFLOP/s"
    columns = ("tile", "level", "GB/s", "balance", "intensity", "TFLOP/s at most", "")
    say(Table(f"{board.name}, {unit} {peak}", columns, rows, left=2))
    for text, report in reports.items():
        bound = (
            f"{report.flops_per_s / 1e12:,.4g} TFLOP/s ({report.flops_per_s / report.peak_flops_per_s:.0%})"
        )
        say(f"{text}: {bound} at most, limited by {report.limiting}.")
    if unknown := next(iter(reports.values())).unknown:
        say(f"No rate is known of {', '.join(unknown)}: these levels may limit it further.")
    say(f"Rates: {board.source}.")
    if output is not None:
        say(f"wrote {output}")


def _ladder(family: str, dtype: str, small: dict[str, tuple[int, int]]) -> dict[str, dict[str, float]]:
    """Operations per byte of DRAM of a family's steps, those of one tile together."""
    from layoutalg.kernels.registry import LADDERS, find_family, find_steps

    if find_family(family).name not in LADDERS:
        raise UnsupportedError(f"{family} has no ladder of products: {', '.join(LADDERS)} have one")
    by_tile: dict[tuple[int, int], list[str]] = {}
    for name, step in find_steps(family).items():
        by_tile.setdefault((step.tile_m, step.tile_n), []).append(name.split(" ")[0])
    names: dict[float, list[str]] = {}
    for block, steps in by_tile.items():
        warp, instruction = (
            (min(small[name][0], block[0]), min(small[name][1], block[1])) for name in ("warp", "instruction")
        )
        intensities = gemm_intensities(block=block, element=dtype, warp=warp, instruction=instruction)
        names.setdefault(intensities["dram"], []).append(f"{block[0]}x{block[1]}: {', '.join(steps)}")
    return {"; ".join(same): {"dram": intensity} for intensity, same in names.items()}


def _rates(arch: str, kind: str, clock: float | None) -> Rates:
    """The rates of the board that a name asks for, of a kind, at a clock."""
    board = find_board(arch)
    check_choice("kind of rates", kind, ("sheet", "achieved"))
    if kind == "achieved":
        check_choice("board whose rates were measured", board.name, ACHIEVED)
        if clock is not None:
            raise UnsupportedError("rates that were achieved are those of the clocks they were measured at")
        return ACHIEVED[board.name]
    sheet = board_rates(board)
    if clock is None:
        return sheet
    if board.boost_hz is None:
        raise UnsupportedError(f"no document states the clock that the rates of {board.name} are those of")
    if not 1 <= clock <= 10_000:
        raise UnsupportedError(f"a clock of {clock:g} MHz: one from 1 to 10,000 is accepted")
    share = clock * 1e6 / board.boost_hz
    units = {name: rate * share for name, rate in sheet.units.items()}
    return Rates(f"{sheet.name}, at {clock:g} MHz", units, sheet.levels, sheet.source)


def _check_rated(machine: Arch, unit: str, element: str) -> None:
    """Raise UnsupportedError for elements that a unit multiplies at a rate that is not known."""
    halves = ("f16",) if unit == "tensor" and machine.compute_capability < (8, 0) else ("f16", "bf16")
    known = (*halves, "f32") if unit == "f32" else halves
    if find_dtype(element).name not in known:
        raise UnsupportedError(
            f"products of {element} by {unit} on {machine.name}: the rate that is known is of "
            f"{' and '.join(known)}"
        )


def _reuse(size: int, block: tuple[int, int], order: str, sms: int) -> float:
    """The number of times that the L2 serves a panel, with a block per multiprocessor."""
    m, n = block
    grid = -(-size // m), -(-size // n)
    Most.BLOCKS.guard(-(-grid[0] * grid[1] // sms), "waves of blocks")
    height: Any = int(order) if order.isdecimal() and order.isascii() and len(order) < 10 else order
    return l2_locality(grid, in_flight=sms, order=height, tile=block).reuse


def _row(text: str, report: Roofline, bound: Any) -> tuple[str, ...]:
    return (
        text,
        bound.level,
        f"{bound.bytes_per_s / 1e9:,.0f}",
        f"{bound.balance:.1f}",
        f"{bound.intensity:.1f}",
        f"{bound.flops_per_s / 1e12:,.4g}",
        "limits" if bound.level == report.limiting else "",
    )
