"""The drawings of `layoutalg draw`: a picture of a layout, an instruction or an atom, by its options.

The idea.  An option says what is drawn (--access, --tile, --bits, ...), the layout itself without one; other
options say which part of it, and what its cells say.  An option that has no meaning for the drawing is
refused by name, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from layoutalg.analysis import Access, Place
from layoutalg.arch import SMEM_ATOMS, SWIZZLE_MODES, atom_layout
from layoutalg.atoms import CopyAtom, MMAAtom
from layoutalg.cli.inputs import read_layout
from layoutalg.draw import (
    Diagram,
    Picture,
    View,
    bits_diagram,
    chunk_picture,
    copy_picture,
    graph_diagram,
    index_picture,
    layout_access_picture,
    layout_picture,
    memory_picture,
    mma_picture,
    plan_picture,
    swizzle_picture,
    tv_picture,
    walk_picture,
)
from layoutalg.dtype import dtype as element_type
from layoutalg.errors import ArgumentTypeError, ParseError
from layoutalg.layout import AnyLayout, ComposedLayout, flatten_tree, product
from layoutalg.limits import Most
from layoutalg.notation import parse_int_tuple

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options as they are given: None or False for those that are not."""

    options: Mapping[str, Any]
    dtype: str
    arch: str

    def __getitem__(self, name: str) -> Any:
        return self.options[name]


def drawing(text: str, wanted: Wanted) -> tuple[str, str, Picture | Diagram]:
    """The subject as it is named in answers, the kind of the drawing, and the drawing."""
    chosen = [name for name, value in wanted.options.items() if value is not None and value is not False]
    what = [name for name in chosen if name in WHAT]
    if len(what) > 1:
        raise ArgumentTypeError(f"--{what[0]} and --{what[1]} draw different things: give one of them")
    subject = read_atom(text) or _read_smem_atom(text, wanted.dtype) or read_layout(text)
    if isinstance(subject, (MMAAtom, CopyAtom)):
        if chosen:
            raise ArgumentTypeError(f"{subject} is an instruction: it is drawn without other options")
        picture = mma_picture(subject) if isinstance(subject, MMAAtom) else copy_picture(subject)
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
    shown, drawn_kind = _draw(kind, subject, wanted)
    if wanted["beside"] is not None:
        other = _read_smem_atom(wanted["beside"], wanted.dtype) or read_layout(wanted["beside"])
        second, _ = _draw(kind, other, wanted)
        if isinstance(shown, Picture) and isinstance(second, Picture):
            shown = _beside((str(subject), shown), (str(other), second))
    return str(subject), drawn_kind, shown


def _beside(*named: tuple[str, Picture]) -> Picture:
    """Two pictures as one, the panels of the first before those of the second."""
    (_, first), (_, other) = named
    panels = tuple(
        replace(panel, title=f"{name}: {panel.title}") for name, picture in named for panel in picture.panels
    )
    notes = (*first.notes, *(note for note in other.notes if note not in first.notes))
    across = len(first.panels) if len(first.panels) == len(other.panels) and len(first.panels) > 1 else 0
    title = " and ".join(name for name, _ in named)
    return Picture(title, panels, notes, across, legend=first.legend or other.legend)


def _draw(kind: str, layout: AnyLayout, wanted: Wanted) -> tuple[Picture | Diagram, str]:
    """The drawing of a layout, and what it is called in answers."""
    element = element_type(wanted.dtype)
    named = _KINDS.get(kind, kind)
    match kind:
        case "access":
            place = None
            if any(wanted[name] is not None for name in ("warp", "register", "iteration")):
                place = Place(wanted["warp"] or 0, wanted["register"] or 0, wanted["iteration"] or 0)
            access = Access.of(wanted["access"], layout, element, wanted.arch)
            says: Literal["lane", "offset"] = "offset" if wanted["offsets"] else "lane"
            return layout_access_picture(layout, access, wanted.arch, place=place, says=says), named
        case "tile":
            return tv_picture(layout, parse_int_tuple(wanted["tile"])), named
        case "memory":
            return memory_picture(layout, element), named
        case "chunks":
            return chunk_picture(layout, element, view=_view(wanted)), named
        case "bits":
            return bits_diagram(layout, element), named
        case "table":
            return index_picture(layout), named
        case "graph":
            return graph_diagram(layout), named
        case "copy":
            return plan_picture(
                layout, Access.of(wanted["copy"], layout, element, wanted.arch), wanted.arch
            ), named
        case "walk":
            start, step = _walk(wanted["walk"])
            return walk_picture(layout, start, step, 8 if wanted["steps"] is None else wanted["steps"]), named
    view = _cropped(layout, _view(wanted))
    if isinstance(layout, ComposedLayout) and layout.swizzles:
        return swizzle_picture(layout, element=element, view=view), "swizzle"
    return layout_picture(layout, element=element, view=view), named


def _view(wanted: Wanted) -> View:
    says: Literal["offset", "index", "bank"] = "index" if wanted["index"] else "offset"
    if wanted["banks"]:
        says = "bank"
    if wanted["index"] and wanted["banks"]:
        raise ArgumentTypeError("--index and --banks say different things in a cell: give one of them")
    return View(_range("rows", wanted["rows"]), _range("cols", wanted["cols"]), says)


def _cropped(layout: AnyLayout, view: View) -> View:
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
