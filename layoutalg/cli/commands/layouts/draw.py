"""`layoutalg draw`: a layout, a swizzle, a thread-value layout, an access, an atom or a composition.

The idea.  An option says what is drawn (--access, --tile, --bits, ...), the layout itself without one; other
options say which part of it, and what its cells say.  An option that has no meaning for the drawing is
refused by name, never ignored.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from layoutalg import draw
from layoutalg.analysis import Access, Place
from layoutalg.answers import Answer
from layoutalg.arch import DEFAULT_ARCH, SMEM_ATOMS, SWIZZLE_MODES, atom_layout
from layoutalg.atoms import CopyAtom, MMAAtom
from layoutalg.cli.files import write_whole
from layoutalg.cli.inputs import read_layout, read_tree
from layoutalg.cli.options import (
    ArchOption,
    DtypeOption,
    LayoutArgument,
    OutputOption,
    accesses,
    one_of,
    option,
)
from layoutalg.cli.output import PAGE, say_answer, wants_json
from layoutalg.dtype import DType
from layoutalg.dtype import dtype as element_type
from layoutalg.errors import (
    ArgumentTypeError,
    ParseError,
    UnknownNameError,
    UnsupportedError,
    check_choice,
    printable,
)
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, flatten_tree, product
from layoutalg.limits import Most
from layoutalg.notation import parse_int_tuple

FORMATS = ("text", *draw.FILE_FORMATS, "dot")
_BY_SUFFIX = {f".{name}": name for name in FORMATS[1:]} | {".gv": "dot", ".txt": "text"}


@dataclass(frozen=True)
class Drawing(Answer, command="draw"):
    """A picture of a layout, an access, an atom or a swizzle."""

    layout: str
    kind: str
    """layout, swizzle, tv, access, atom, graph, memory, chunks, bits, indices, walk or plan."""
    format: str
    """text, svg, tex, dot, png or pdf."""
    output: str | None
    """Path that was written."""
    content: str | None
    """The picture, when no file was written."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options that say what is drawn."""

    access: Annotated[
        str | None,
        option("Draw an access by bank and wavefront: ldmatrix.x4, ld.shared.b32@col.", complete=accesses),
    ] = None
    tile: Annotated[str | None, "The layout maps (thread, value) into a tile of this shape: '(16,8)'."] = None
    memory: Annotated[bool, "Draw a tile in memory order, by bank, with 16 bytes per cell."] = False
    chunks: Annotated[
        bool, "Draw each 16 bytes as a digit: their position among the eight chunks of 128 bytes."
    ] = False
    bits: Annotated[bool, "Draw the bits of the index by field, with the wires of a swizzle."] = False
    table: Annotated[bool, "Draw the indices in four forms: row and column, linear, binary, bit by bit."] = (
        False
    )
    walk: Annotated[
        str | None, "Walk through a swizzled tile from a coordinate by a step: '(3,0),(0,16)'."
    ] = None
    steps: Annotated[int | None, "Steps of the walk. Default: 8."] = None
    copy: Annotated[
        str | None, option("Draw who copies what: cp.async.16, st.shared.b128@row.", complete=accesses)
    ] = None
    graph: Annotated[bool, "Draw the composition as a graph."] = False
    beside: Annotated[str | None, "Another layout, drawn beside the first."] = None
    index: Annotated[bool, "Label each cell with its flat index."] = False
    banks: Annotated[bool, "Label each cell with its bank."] = False
    offsets: Annotated[bool, "Label the cells of an access with their offsets instead of lanes."] = False
    warp: Annotated[int | None, "The warp to draw. Default: the worst."] = None
    register: Annotated[int | None, "The vector of a lane's values to draw. Default: the worst."] = None
    iteration: Annotated[int | None, "The iteration to draw. Default: the worst."] = None
    rows: Annotated[str | None, "Rows to draw: 16, or 16:32."] = None
    cols: Annotated[str | None, "Columns to draw: 16, or 16:32."] = None
    dtype: DtypeOption = "f32"
    arch: ArchOption = DEFAULT_ARCH

    @property
    def given(self) -> list[str]:
        """The names of those that are given, the element type and the architecture aside."""
        names = [name for name, value in asdict(self).items() if value is not None and value is not False]
        return [name for name in names if name not in ("dtype", "arch")]


def draw_command(
    layout: LayoutArgument,
    *,
    asked: Wanted,
    format_: Annotated[
        str | None,
        option(
            "text, svg, tex, png, pdf, or dot (the composition in graphviz's language). Default: text, or "
            "that of the file's name.",
            "--format",
            complete=one_of(*FORMATS),
        ),
    ] = None,
    output: OutputOption = None,
    ascii_only: Annotated[bool, option("No box characters in text.", "--ascii")] = False,
    color: Annotated[bool | None, "Colour text. Default: on a terminal."] = None,
) -> None:
    """Draw a layout, an access on it, its bits or its composition, as text, SVG, LaTeX, PNG or PDF.

    A swizzled layout is drawn before and after its swizzle, and so is an access on it. The colour of a cell
    is its bank; of a thread-value layout it is the thread. In place of a layout, the name of an instruction
    (SM80_16x8x16_F32F16F16F32_TN, SM75_U32x4_LDSM_N) draws which lane holds what, and that of an atom of
    wgmma or a swizzle of TMA (Layout_K_SW128_Atom, CU_TENSOR_MAP_SWIZZLE_64B) its layout.
    """
    form = _format(format_, output)
    if form == "dot":
        if set(asked.given) - {"graph"}:
            raise ArgumentTypeError(
                "dot draws the composition; other options are drawn as text, svg, tex, png or pdf"
            )
        subject = read_layout(layout)
        name, kind, content = str(subject), "graph", draw.as_dot(subject).encode() + b"\n"
    else:
        name, kind, drawn = drawing(layout, asked)
        if form in ("png", "pdf") and output is None:
            raise UnsupportedError(f"a {form} does not go to the terminal: name a file with -o FILE.{form}")
        if form != "text":
            content = draw.as_file(drawn, form)
        else:
            printed = output is None and not wants_json()
            boxes = not ascii_only and (not printed or "utf" in (sys.stdout.encoding or "").lower())
            shown = drawn if isinstance(drawn, draw.Picture) else drawn.picture
            text = draw.as_text(shown, width=PAGE, color=printed and wants_color(color), unicode=boxes)
            content = text.encode() + b"\n"
    if output is not None:
        write_whole(output, content)
    if wants_json():
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


WHAT = ("access", "tile", "memory", "chunks", "bits", "table", "walk", "copy", "graph")
"""Options that say what is drawn; at most one is given."""

CROPPED = 64
"""Rows and columns of a layout that is too large to be drawn whole."""

_VIEW = ("rows", "cols", "index", "banks")
_PLACE = ("warp", "register", "iteration", "offsets")
_TAKES: Mapping[str, tuple[str, ...]] = {
    "": (*_VIEW, "beside"),
    "access": (*_PLACE, "beside"),
    "chunks": ("rows", "cols", "beside"),
    "memory": ("beside",),
    "tile": ("beside",),
    "walk": ("steps",),
}
_KINDS = {"": "layout", "tile": "tv", "copy": "plan", "table": "indices"}


def drawing(text: str, wanted: Wanted) -> tuple[str, str, draw.Picture | draw.Diagram]:
    """The subject as it is named in answers, the kind of the drawing, and the drawing."""
    chosen = wanted.given
    what = [name for name in chosen if name in WHAT]
    if len(what) > 1:
        raise ArgumentTypeError(f"--{what[0]} and --{what[1]} draw different things: give one of them")
    subject = read_atom(text) or _read_smem_atom(text, wanted.dtype) or read_layout(text)
    if isinstance(subject, (MMAAtom, CopyAtom)):
        if chosen:
            raise ArgumentTypeError(f"{subject} is an instruction: it is drawn without other options")
        picture = draw.mma_picture(subject) if isinstance(subject, MMAAtom) else draw.copy_picture(subject)
        return str(subject), "atom", picture
    kind = what[0] if what else ""
    allowed = _TAKES.get(kind, ())
    for name in chosen:
        if name not in WHAT and name not in allowed:
            whose = [
                f"--{other}" if other else "a layout" for other, names in _TAKES.items() if name in names
            ]
            drawn = f"--{kind}" if kind else "a layout"
            raise ArgumentTypeError(f"--{name} is for {' or '.join(whose)}, not for {drawn}")
    shown = _draw(kind, subject, wanted)
    if wanted.beside is not None:
        other = _read_smem_atom(wanted.beside, wanted.dtype) or read_layout(wanted.beside)
        second = _draw(kind, other, wanted)
        if isinstance(shown, draw.Picture) and isinstance(second, draw.Picture):
            shown = _beside((str(subject), shown), (str(other), second))
    swizzled = not kind and isinstance(subject, ComposedLayout) and subject.swizzles
    return str(subject), "swizzle" if swizzled else _KINDS.get(kind, kind), shown


def _beside(*named: tuple[str, draw.Picture]) -> draw.Picture:
    """Two pictures as one, the panels of the first before those of the second."""
    (_, first), (_, other) = named
    panels = tuple(
        replace(panel, title=f"{name}: {panel.title}") for name, picture in named for panel in picture.panels
    )
    notes = (*first.notes, *(note for note in other.notes if note not in first.notes))
    across = len(first.panels) if len(first.panels) == len(other.panels) and len(first.panels) > 1 else 0
    title = " and ".join(name for name, _ in named)
    return draw.Picture(title, panels, notes, across, legend=first.legend or other.legend)


def _draw(kind: str, layout: AnyLayout, wanted: Wanted) -> draw.Picture | draw.Diagram:
    """The drawing of a layout."""
    element = element_type(wanted.dtype)
    match kind:
        case "access" if wanted.access is not None:
            place = None
            if (wanted.warp, wanted.register, wanted.iteration) != (None, None, None):
                place = Place(wanted.warp or 0, wanted.register or 0, wanted.iteration or 0)
            access = Access.of(wanted.access, layout, element, wanted.arch)
            says: Literal["lane", "offset"] = "offset" if wanted.offsets else "lane"
            return draw.layout_access_picture(layout, access, wanted.arch, place=place, says=says)
        case "tile" if wanted.tile is not None:
            return draw.tv_picture(layout, read_tree(wanted.tile))
        case "memory":
            return draw.memory_picture(layout, element)
        case "chunks":
            return draw.chunk_picture(layout, element, view=_view(wanted))
        case "bits":
            return draw.bits_diagram(layout, element)
        case "table":
            return draw.index_picture(layout)
        case "graph":
            return draw.graph_diagram(layout)
        case "copy" if wanted.copy is not None:
            return draw.plan_picture(
                layout, Access.of(wanted.copy, layout, element, wanted.arch), wanted.arch
            )
        case "walk" if wanted.walk is not None:
            start, step = _walk(wanted.walk)
            return draw.walk_picture(layout, start, step, 8 if wanted.steps is None else wanted.steps)
    return _layout_picture(layout, element, _view(wanted))


def _layout_picture(layout: AnyLayout, element: DType, view: draw.View) -> draw.Picture:
    view = _cropped(layout, view)
    if isinstance(layout, ComposedLayout) and layout.swizzles:
        return draw.swizzle_picture(layout, element=element, view=view)
    return draw.layout_picture(layout, element=element, view=view)


def picture_text(subject: object, dtype: str) -> str:
    """The picture of a layout or of an instruction as text.  Raises UnsupportedError for another value."""
    if isinstance(subject, (MMAAtom, CopyAtom)):
        picture = draw.mma_picture(subject) if isinstance(subject, MMAAtom) else draw.copy_picture(subject)
    elif isinstance(subject, (Layout, ComposedLayout)):
        picture = _layout_picture(subject, element_type(dtype), draw.View())
    else:
        raise UnsupportedError(
            f"a layout or an instruction is drawn, not a value of type {type(subject).__name__}"
        )
    unicode = "utf" in (sys.stdout.encoding or "").lower()
    return draw.as_text(picture, width=PAGE, color=bool(wants_color(None)), unicode=unicode) + "\n"


def _view(wanted: Wanted) -> draw.View:
    says: Literal["offset", "index", "bank"] = "index" if wanted.index else "offset"
    if wanted.banks:
        says = "bank"
    if wanted.index and wanted.banks:
        raise ArgumentTypeError("--index and --banks say different things in a cell: give one of them")
    return draw.View(_range("rows", wanted.rows), _range("cols", wanted.cols), says)


def _cropped(layout: AnyLayout, view: draw.View) -> draw.View:
    """The first rows and columns of a layout that is too large, where the options name no part."""
    if any(type(extent) is not int for extent in flatten_tree(layout.shape)):
        return view
    if product(layout.shape) <= Most.CELLS.number or view.rows is not None or view.columns is not None:
        return view
    return replace(view, rows=range(CROPPED), columns=range(CROPPED))


def _range(name: str, text: str | None) -> range | None:
    """8 or 8:16, as Python's slices count."""
    if text is None:
        return None
    match = re.fullmatch(r"(?:(\d{1,9}):)?(\d{1,9})", text.strip(), re.ASCII)
    if match is None:
        raise ParseError(
            f"--{name} {text}: a number of {name}, or first:end such as 8:16, is needed", text=text
        )
    return range(int(match[1] or 0), int(match[2]))


def _walk(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """((row,column),(rows,columns)) of the start and of a step."""
    tree = parse_int_tuple(text if text.lstrip().startswith("((") else f"({text})")
    match tree:
        case ((int() as row, int() as column), (int() as down, int() as along)):
            return (row, column), (down, along)
    raise ParseError(f"--walk {text}: a start and a step are needed, such as (3,0),(0,16)", text=text)


def read_atom(text: str) -> MMAAtom | CopyAtom | None:
    """The instruction that is named, or None for what does not begin as a name does."""
    from layoutalg.atoms import COPY_ATOMS, find_copy_atom, find_mma_atom

    if (
        re.match(
            r"\s*(cute::)?(SM\d|UniversalFMA|UniversalCopy|AutoVectorizing|DefaultCopy|(?:MMA|Copy)_(?:Atom|Traits)<)",
            text,
        )
        is None
    ):
        return None
    name = text.replace(" ", "").removeprefix("cute::")
    is_copy = name in COPY_ATOMS or re.search(r"LDSM|STSM|MOVM|Shuffle|CP_ASYNC|Copy", name) is not None
    return find_copy_atom(name) if is_copy else find_mma_atom(name)


def _read_smem_atom(text: str, dtype: str) -> AnyLayout | None:
    """The layout of an atom of wgmma, by CUTLASS's name or that of TMA's swizzle; None for another text."""
    name = text.strip().removeprefix("cute::").removeprefix("SM90::").removeprefix("GMMA::")
    tma = re.fullmatch(r"CU_TENSOR_MAP_SWIZZLE_(\w+)", name, re.ASCII)
    if tma is not None and tma[1] in SWIZZLE_MODES:
        name = f"Layout_K_{SWIZZLE_MODES[tma[1]].atom}_Atom"
    return atom_layout(name, dtype) if name in SMEM_ATOMS else None
