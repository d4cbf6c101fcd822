"""`layoutalg inspect l2`: panels of A and B that come from DRAM, by the order of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from layoutalg.answers import Amount, Answer, Positive, Rate, taken
from layoutalg.cli.inputs import read_sides
from layoutalg.cli.options import argument, one_of, option
from layoutalg.cli.output import Table, count, progress, say, say_answer, wants_json
from layoutalg.limits import Most
from layoutalg.model import best_band, l2_locality
from layoutalg.notation import parse


@dataclass(frozen=True)
class OrderAnswer:
    """Panels that an order of blocks takes from DRAM."""

    order: str
    waves: Positive
    a_panels: Positive
    b_panels: Positive
    reuse: Rate
    hit_rate: Amount


@dataclass(frozen=True)
class L2Orders(Answer, command="inspect l2"):
    """Panels of a product that come from DRAM, by the order of blocks."""

    grid: tuple[Positive, ...]
    in_flight: Positive
    tile: tuple[Positive, ...]
    best_band: Positive
    orders: tuple[OrderAnswer, ...]


def l2_command(
    grid: Annotated[str, argument("Rows and columns of the grid of tiles: 32x64.")],
    in_flight: Annotated[
        int, "Blocks that run at the same time: multiprocessors times blocks per multiprocessor."
    ] = 132,
    tile: Annotated[str, "Rows and columns of a tile: the weights of panels of A and of B."] = "1x1",
    order: Annotated[
        list[str] | None,
        option(
            "Block order: row, col, the height of bands, or a layout from block to tile. May be repeated.",
            complete=one_of("col", "row"),
        ),
    ] = None,
) -> None:
    """Count the panels of A and B that a GEMM reads from DRAM, by the order of its thread blocks.

    layoutalg inspect l2 32x64 --in-flight 40 --tile 256x128 --order col --order row --order 4
    """
    sides, shape = read_sides("grid", grid), read_sides("tile", tile)
    Most.BLOCKS.guard(sides[0] * sides[1], "blocks of a grid")
    tried = sides[0] * -(-sides[0] * sides[1] // max(1, in_flight))
    Most.BLOCKS.guard(tried, "waves of all heights of bands")
    with progress("counting"):
        best = best_band(sides, in_flight=in_flight, tile=shape)
        names = order or ["col", "row", str(best)]
        localities = {x: l2_locality(sides, in_flight=in_flight, order=_order(x), tile=shape) for x in names}
    if wants_json():
        orders = tuple(taken(OrderAnswer, locality, order=name) for name, locality in localities.items())
        say_answer(L2Orders(sides, in_flight, shape, best, orders))
        return
    rows = (
        (name, count(each.a_panels), count(each.b_panels), f"{each.reuse:.2f}", f"{each.hit_rate:.1%}")
        for name, each in localities.items()
    )
    first = next(iter(localities.values()))
    say(
        Table(
            f"{sides[0]}x{sides[1]} tiles of {shape[0]}x{shape[1]}, {in_flight} blocks at a time: "
            f"{first.waves} waves",
            ("order", "panels of A", "of B", "reuse", "hits"),
            rows,
        ),
        f"Bands of {best} have the most reuse. Each of {count(first.blocks)} blocks loads a panel of either.",
    )


def _order(text: str) -> Any:
    """A band's height, a name, or a layout."""
    if text.isdecimal() and text.isascii() and len(text) < 10:
        return int(text)
    return parse(text) if "(" in text or ":" in text else text
