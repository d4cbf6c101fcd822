"""`layoutalg draw`: a layout, a swizzle, a thread-value layout, an access, an atom or a composition."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from layoutalg.answers import Answer
from layoutalg.cli.commands.layouts.drawings import Wanted, drawing
from layoutalg.cli.completions import accesses, one_of
from layoutalg.cli.inputs import read_layout
from layoutalg.cli.options import ArchOption, DtypeOption, JsonOption, LayoutArgument, OutputOption
from layoutalg.cli.output import PAGE, say_answer, write_whole
from layoutalg.draw import Picture, as_dot, as_file, as_text
from layoutalg.errors import ArgumentTypeError, UnknownNameError, UnsupportedError, check_choice, printable

FORMATS = ("text", "svg", "png", "pdf", "dot")
_BY_SUFFIX = {f".{name}": name for name in FORMATS[1:]} | {".gv": "dot", ".txt": "text"}


@dataclass(frozen=True)
class Drawing(Answer, command="draw"):
    """A picture of a layout, an access, an atom or a swizzle."""

    layout: str
    kind: str
    """layout, swizzle, tv, access, atom, graph, memory, chunks, bits, indices, walk or plan."""
    format: str
    """text, svg, dot, png or pdf."""
    output: str | None
    """Path that was written."""
    content: str | None
    """The picture, when no file was written."""


def draw_command(
    layout: LayoutArgument,
    access: Annotated[
        str | None,
        typer.Option(
            help="Draw an access by bank and wavefront: ldmatrix.x4, ld.shared.b32@col.",
            autocompletion=accesses,
        ),
    ] = None,
    tile: Annotated[
        str | None, typer.Option(help="The layout maps (thread, value) into a tile of this shape: '(16,8)'.")
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Draw a tile in memory order, by bank, with 16 bytes per cell.")
    ] = False,
    chunks: Annotated[
        bool,
        typer.Option(
            "--chunks",
            help="Draw each 16 bytes as a digit: their position among the eight chunks of 128 bytes.",
        ),
    ] = False,
    bits: Annotated[
        bool, typer.Option("--bits", help="Draw the bits of the index by field, with the wires of a swizzle.")
    ] = False,
    table: Annotated[
        bool,
        typer.Option(
            "--table", help="Draw the indices in four forms: row and column, linear, binary, bit by bit."
        ),
    ] = False,
    walk: Annotated[
        str | None,
        typer.Option(help="Walk through a swizzled tile from a coordinate by a step: '(3,0),(0,16)'."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the walk. Default: 8.")] = None,
    copy: Annotated[
        str | None,
        typer.Option(help="Draw who copies what: cp.async.16, st.shared.b128@row.", autocompletion=accesses),
    ] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the composition as a graph.")] = False,
    beside: Annotated[str | None, typer.Option(help="Another layout, drawn beside the first.")] = None,
    index: Annotated[bool, typer.Option("--index", help="Label each cell with its flat index.")] = False,
    banks: Annotated[bool, typer.Option("--banks", help="Label each cell with its bank.")] = False,
    offsets: Annotated[
        bool,
        typer.Option("--offsets", help="Label the cells of an access with their offsets instead of lanes."),
    ] = False,
    warp: Annotated[int | None, typer.Option(help="The warp to draw. Default: the worst.")] = None,
    register: Annotated[
        int | None, typer.Option(help="The vector of a lane's values to draw. Default: the worst.")
    ] = None,
    iteration: Annotated[int | None, typer.Option(help="The iteration to draw. Default: the worst.")] = None,
    rows: Annotated[str | None, typer.Option(help="Rows to draw: 16, or 16:32.")] = None,
    cols: Annotated[str | None, typer.Option(help="Columns to draw: 16, or 16:32.")] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="text, svg, png, pdf, or dot (the composition in graphviz's language). Default: text, or "
            "that of the file's name.",
            autocompletion=one_of(*FORMATS),
        ),
    ] = None,
    output: OutputOption = None,
    dtype: DtypeOption = "f32",
    arch: ArchOption = "sm_90",
    ascii_only: Annotated[bool, typer.Option("--ascii", help="No box characters in text.")] = False,
    color: Annotated[bool | None, typer.Option(help="Colour text. Default: on a terminal.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a layout, an access on it, its bits or its composition, as text, SVG, PNG or PDF.

    A swizzled layout is drawn before and after its swizzle, and so is an access on it. The colour of a cell
    is its bank; of a thread-value layout it is the thread. In place of a layout, the name of an instruction
    (SM80_16x8x16_F32F16F16F32_TN, SM75_U32x4_LDSM_N) draws which lane holds what, and that of an atom of
    wgmma or a swizzle of TMA (Layout_K_SW128_Atom, CU_TENSOR_MAP_SWIZZLE_64B) its layout.
    """
    form = _format(format_, output)
    options = {
        "access": access, "tile": tile, "memory": memory, "chunks": chunks, "bits": bits, "table": table,
        "walk": walk, "copy": copy, "graph": graph, "beside": beside, "index": index, "banks": banks,
        "offsets": offsets, "warp": warp, "register": register, "iteration": iteration, "rows": rows,
        "cols": cols, "steps": steps,
    }  # fmt: skip
    if form == "dot":
        if any(value for name, value in options.items() if name != "graph"):
            raise ArgumentTypeError(
                "dot draws the composition; other options are drawn as text, svg, png or pdf"
            )
        subject = read_layout(layout)
        name, kind, content = str(subject), "graph", as_dot(subject).encode() + b"\n"
    else:
        name, kind, drawn = drawing(layout, Wanted(options, dtype, arch))
        if form in ("png", "pdf") and output is None:
            raise UnsupportedError(f"a {form} does not go to the terminal: name a file with -o FILE.{form}")
        if form != "text":
            content = as_file(drawn, form)
        else:
            printed = output is None and not as_json
            boxes = not ascii_only and (not printed or "utf" in (sys.stdout.encoding or "").lower())
            shown = drawn if isinstance(drawn, Picture) else drawn.picture
            text = as_text(shown, width=PAGE, color=printed and wants_color(color), unicode=boxes)
            content = text.encode() + b"\n"
    if output is not None:
        write_whole(output, content)
    if as_json:
        picture = content.decode() if output is None else None
        say_answer(Drawing(name, kind, form, None if output is None else str(output), picture))
    elif output is not None:
        print(printable(f"wrote {output} ({kind}, {form}, {len(content):,} bytes)"))
    else:
        sys.stdout.write(content.decode())


def _format(named: str | None, output: Path | None) -> str:
    """The format of the option, or of the file's name without it."""
    if named is not None:
        check_choice("picture format", named, FORMATS)
        return named
    if output is None or not output.suffix:
        return "text"
    if output.suffix.lower() not in _BY_SUFFIX:
        raise UnknownNameError("ending of a picture's file", output.suffix, _BY_SUFFIX)
    return _BY_SUFFIX[output.suffix.lower()]


def wants_color(color: bool | None) -> bool:
    """Whether to colour: as the option says, else if stdout is a terminal without NO_COLOR (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") if color is None else color
