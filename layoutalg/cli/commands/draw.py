"""`layoutalg draw`: a layout, a swizzle, a thread-value layout, an access, an atom or a composition."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutalg.analysis import Access
from layoutalg.atoms import CopyAtom, MMAAtom
from layoutalg.cli.completions import accesses, one_of
from layoutalg.cli.inputs import read_layout
from layoutalg.cli.options import ArchOption, DtypeOption, JsonOption, LayoutArgument, OutputOption
from layoutalg.cli.output import PAGE, say_json, write_whole
from layoutalg.cli.refusals import header
from layoutalg.draw import (
    Picture,
    as_dot,
    as_svg,
    as_text,
    copy_picture,
    layout_access_picture,
    layout_picture,
    memory_picture,
    mma_picture,
    render,
    swizzle_picture,
    tv_picture,
)
from layoutalg.dtype import dtype as element_type
from layoutalg.errors import ArgumentTypeError, UnknownNameError, UnsupportedError, printable
from layoutalg.layout import AnyLayout, ComposedLayout
from layoutalg.notation import parse_int_tuple

FORMATS = ("text", "svg", "dot", "png")
_BY_SUFFIX = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".png": "png", ".txt": "text"}


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
        bool, typer.Option("--memory", help="Draw a tile in the order of memory, by bank, 16 bytes per cell.")
    ] = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="text, svg, dot (the composition as a graph) or png (that graph drawn).",
            autocompletion=one_of("text", "svg", "dot", "png"),
        ),
    ] = None,
    output: OutputOption = None,
    dtype: DtypeOption = "f32",
    arch: ArchOption = "sm_90",
    ascii_only: Annotated[bool, typer.Option("--ascii", help="No box characters in text.")] = False,
    color: Annotated[bool | None, typer.Option(help="Colour text. Default: on a terminal.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a layout as text or SVG, or its composition as a graph.

    A swizzled layout is drawn before and after its swizzle, and so is an access on it. The colour of a cell
    is its bank; of a thread-value layout it is the thread. In place of a layout, the name of an instruction
    (SM80_16x8x16_F32F16F16F32_TN, SM75_U32x4_LDSM_N) draws which lane holds what.
    """
    form = _format(format_, output)
    if access is not None and tile is not None:
        raise ArgumentTypeError("--access draws an access and --tile a thread-value layout: give one of them")
    if memory and (access is not None or tile is not None):
        raise ArgumentTypeError("--memory draws a tile as it lies; --access and --tile draw something else")
    if form in ("dot", "png") and (access is not None or tile is not None or memory):
        raise ArgumentTypeError(f"{form} draws the composition; --access and --tile are drawn as text or svg")
    drawn = _read_atom(layout) or read_layout(layout)
    if isinstance(drawn, (MMAAtom, CopyAtom)) and (form in ("dot", "png") or access or tile or memory):
        raise ArgumentTypeError(
            f"{drawn} is an instruction: it is drawn as text or svg, without other options"
        )
    if form in ("dot", "png") and not isinstance(drawn, (MMAAtom, CopyAtom)):
        kind, content = "graph", as_dot(drawn).encode() + b"\n"
        if form == "png":
            if output is None:
                raise UnsupportedError("a png does not go to the terminal: name a file with -o FILE.png")
            content = render(content.decode(), "png")
    else:
        kind, picture = _picture(drawn, access, tile, dtype, arch, memory=memory)
        if form == "svg":
            content = as_svg(picture).encode()
        else:
            printed = output is None and not as_json
            boxes = not ascii_only and (not printed or "utf" in (sys.stdout.encoding or "").lower())
            text = as_text(picture, width=PAGE, color=printed and wants_color(color), unicode=boxes)
            content = text.encode() + b"\n"
    if output is not None:
        write_whole(output, content)
    if as_json:
        say_json(
            header("draw")
            | {"layout": str(drawn), "kind": kind, "format": form}
            | {"output": None if output is None else str(output)}
            | {"content": content.decode() if output is None else None}
        )
    elif output is not None:
        print(printable(f"wrote {output} ({kind}, {form}, {len(content):,} bytes)"))
    else:
        sys.stdout.write(content.decode())


def _read_atom(text: str) -> MMAAtom | CopyAtom | None:
    """The instruction that is named, or None for what does not begin as a name does."""
    from layoutalg.atoms import COPY_ATOMS, find_copy_atom, find_mma_atom

    if re.match(r"\s*(cute::)?(SM\d|UniversalFMA|UniversalCopy)", text) is None:
        return None
    name = text.replace(" ", "").removeprefix("cute::")
    is_copy = name in COPY_ATOMS or re.search(r"LDSM|STSM|MOVM|Shuffle|CP_ASYNC|Copy", name) is not None
    return find_copy_atom(name) if is_copy else find_mma_atom(name)


def _picture(
    layout: AnyLayout | MMAAtom | CopyAtom,
    access: str | None,
    tile: str | None,
    dtype: str,
    arch: str,
    *,
    memory: bool,
) -> tuple[str, Picture]:
    element = element_type(dtype)
    if isinstance(layout, MMAAtom):
        return "atom", mma_picture(layout)
    if isinstance(layout, CopyAtom):
        return "atom", copy_picture(layout)
    if access is not None:
        return "access", layout_access_picture(layout, Access.of(access, layout, element), arch)
    if memory:
        return "memory", memory_picture(layout, element)
    if tile is not None:
        return "tv", tv_picture(layout, parse_int_tuple(tile))
    if isinstance(layout, ComposedLayout) and layout.swizzles:
        return "swizzle", swizzle_picture(layout, element=element)
    return "layout", layout_picture(layout, element=element)


def _format(given: str | None, output: Path | None) -> str:
    """The format that was asked for, or the one of the file's name."""
    if given is not None:
        if given not in FORMATS:
            raise UnknownNameError("picture format", given, FORMATS)
        return given
    if output is None or not output.suffix:
        return "text"
    if output.suffix.lower() not in _BY_SUFFIX:
        raise UnknownNameError("ending of a picture's file", output.suffix, _BY_SUFFIX)
    return _BY_SUFFIX[output.suffix.lower()]


def wants_color(color: bool | None) -> bool:
    """What was asked for, or whether stdout is a terminal that has not opted out (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") if color is None else color
