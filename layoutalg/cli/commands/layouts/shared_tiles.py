"""`layoutalg synthesize --for`: the tiles of a shape that TMA writes and wgmma reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from layoutalg.answers import Answer, Positive
from layoutalg.cli.inputs import ORDERS, read_tree
from layoutalg.cli.output import Table, count, say, say_answer, say_verbatim, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.cli.reports import AccessAnswer, access_answers, report_tables
from layoutalg.errors import ShapeError, UnsupportedError, check_choice
from layoutalg.layout import to_text

if TYPE_CHECKING:
    from layoutalg.analysis import Named
    from layoutalg.arch import Major
    from layoutalg.dtype import DType
    from layoutalg.legality import SharedTile


@dataclass(frozen=True)
class SharedTileAnswer:
    """A tile of a swizzle mode."""

    layout: str
    """From (M or N, K) to an offset in elements."""
    mode: str
    """The swizzle mode of the tensor map and of the descriptors."""
    cute: str
    """The expression of CuTe that makes the layout of its atom."""
    tma_box: tuple[Positive, ...] | None
    """The box of the tensor map, innermost side first; null where TMA was not asked for."""
    tma_boxes: int
    """Boxes that fill the tile."""
    box_bytes: int
    """Bytes that a barrier expects of a box."""
    wgmma: tuple[str, ...]
    """The operands that it is, with the fields of their descriptors."""
    accesses: tuple[AccessAnswer, ...]
    """The accesses that were asked for, on the layout."""


@dataclass(frozen=True)
class SharedTiles(Answer, command="synthesize"):
    """Tiles that TMA writes and wgmma reads."""

    shape: str
    major: Literal["K", "MN"]
    dtype: str
    arch: str
    uses: tuple[str, ...]
    tiles: tuple[SharedTileAnswer, ...]
    """Best first: fewest wavefronts of the accesses, then the widest swizzle; empty, exit code 1: none."""
    refusal: str | None
    """Why no mode serves the shape."""


def for_hardware(
    text: str,
    element: DType,
    uses: str,
    order: str | None,
    access: Sequence[str],
    arch: str,
) -> int:
    """Answer for a shape (M or N, K); returns the exit code."""
    from layoutalg.analysis import analyze
    from layoutalg.legality import shared_tiles

    shape = read_tree(text)
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(type(n) is int and n > 0 for n in shape)):
        raise ShapeError(f"--for takes the shape of a tile, (M or N, K), such as (128,64), not {text}")
    sides = (int(shape[0]), int(shape[1]))  # type: ignore[arg-type]  # both are ints
    major: Major = "K" if check_choice("order", order or "row", ORDERS) == "row" else "MN"
    names = tuple(dict.fromkeys(use.strip() for use in uses.split(",")))
    refusal: str | None = None
    tiles: list[tuple[SharedTile, Named]] = []
    try:
        for tile in shared_tiles(sides, element, names, major=major, arch=arch):
            tiles.append((tile, [(a, analyze(tile.layout, a, element, arch)) for a in access]))
    except ShapeError as error:
        if tiles:
            raise
        refusal = error.message
    tiles.sort(key=lambda pair: sum(getattr(report, "total", 0) for _, report in pair[1]))
    answers = tuple(_answer(tile, reports) for tile, reports in tiles)
    if wants_json():
        say_answer(SharedTiles(to_text(sides), major, element.name, arch, names, answers, refusal))
    elif refusal is not None:
        say(refusal)
    else:
        _show(answers, tiles[0][1])
    return 0 if answers else FAILED


def _answer(tile: SharedTile, reports: Named) -> SharedTileAnswer:
    copy = tile.copy
    return SharedTileAnswer(
        str(tile.layout),
        tile.mode.name,
        _cute(tile),
        None if copy is None else tuple(copy.tensor_map.box),
        tile.boxes,
        0 if copy is None else copy.transaction_bytes,
        tuple(map(str, tile.operands)),
        access_answers(reports),
    )


def _cute(tile: SharedTile) -> str:
    """The expression of CuTe, by which atoms follow each other along the other mode first."""
    from layoutalg.arch import atom_layout
    from layoutalg.legality import operand_shape
    from layoutalg.notation import convert

    try:
        atom = convert(atom_layout(tile.atom, tile.element), "gmma", element=tile.element)
    except UnsupportedError:  # an element type without a name in CUTLASS
        atom = f"GMMA::{tile.atom.name}<{tile.element}>"
    rows, k = operand_shape(tile.layout)
    step = "" if tile.atom.major == "K" else ", Step<_2,_1>{}"
    return f"tile_to_shape({atom}{{}}, make_shape(Int<{rows}>{{}}, Int<{k}>{{}}){step})"


def _show(answers: Sequence[SharedTileAnswer], reports: Named) -> None:
    best, *others = answers
    say_verbatim(best.layout)
    say_verbatim(best.cute)
    if best.tma_box is not None:
        boxes = "1 box" if best.tma_boxes == 1 else f"{best.tma_boxes} boxes"
        say(
            f"TMA: swizzle {best.mode}, {boxes} of {to_text(best.tma_box)} in the tensor map, innermost "
            f"first, {count(best.box_bytes)} bytes each"
        )
    say(*(f"wgmma: {operand}" for operand in best.wgmma))
    if reports:
        say("", *report_tables(reports))
    if others:
        rows = (
            (a.layout, a.mode, "" if a.tma_box is None else to_text(a.tma_box), str(a.tma_boxes or ""))
            for a in others
        )
        say("", Table("Narrower swizzles", ("layout", "mode", "box", "boxes"), rows, left=2))
