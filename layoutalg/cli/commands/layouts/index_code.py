"""`layoutalg code`: the index function of a layout, as one function in the language of a kernel."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from layoutalg.answers import Answer
from layoutalg.cli.inputs import read_layout, read_tree
from layoutalg.cli.options import (
    DtypeOption,
    JsonOption,
    LayoutArgument,
    accesses,
    atoms,
    one_of,
    option,
    targets,
)
from layoutalg.cli.output import progress, say_answer
from layoutalg.errors import ArgumentTypeError, ShapeError, check_choice
from layoutalg.layout import Layout

if TYPE_CHECKING:
    from layoutalg.atoms import TiledCopy
    from layoutalg.indexing import Side

SIDES: tuple[Side, ...] = ("src", "dst")


@dataclass(frozen=True)
class IndexFunction(Answer, command="code"):
    """The index function of a layout, as text."""

    layout: str
    to: str
    """c, cuda, cpp, dsl, triton or python."""
    name: str
    through: str | None
    """The map in front of the layout."""
    unit: str
    """elements or bytes."""
    code: str


def code_command(
    layout: LayoutArgument,
    to: Annotated[
        str,
        option("c, cuda, cpp (CuTe C++), dsl (CuTe DSL), triton (and Gluon) or python.", complete=targets),
    ] = "c",
    name: Annotated[str, option("The function's name.")] = "f",
    through: Annotated[
        str | None,
        option(
            "A map composed with the layout: a TV layout, for a function of (tid, u), or an access OP, "
            "OP@row or OP@col, for one of (lane, fragment): ldmatrix.x4.",
            complete=accesses,
        ),
    ] = None,
    copy: Annotated[
        str | None, option("A TiledCopy as that map: its atom, with --threads and --values.", complete=atoms)
    ] = None,
    threads: Annotated[str | None, option("Thread layout of --copy, or its shape: '(16,8):(8,1)'.")] = None,
    values: Annotated[
        str | None, option("Value layout of --copy, or its shape: '(1,8)'. Default: one value.")
    ] = None,
    side: Annotated[str, option("Side of --copy: src or dst.", complete=one_of("src", "dst"))] = "src",
    dtype: DtypeOption = "f32",
    unit: Annotated[
        str,
        option("The unit of offsets: elements, or bytes of --dtype.", complete=one_of("elements", "bytes")),
    ] = "elements",
    names: Annotated[str | None, option("Names of the parameters: row,col. One per mode, in order.")] = None,
    carry: Annotated[
        str | None,
        option(
            "The parameter that a loop increments: the function then returns the offset at which the "
            "loop starts, and its comment says what each iteration adds."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print code that computes a layout's offsets: one function, proved equal to the layout.

    layoutalg code "Sw<3,3,3> o 0 o (64,64):(64,1)" --to cuda --name swz

    layoutalg code "Sw<3,3,3> o 0 o (64,64):(64,1)" --to cuda --through ldmatrix.x4 --dtype f16 --unit bytes

    The function has one parameter per top-level mode; that of a nested mode is its flat index.
    """
    from layoutalg.indexing import code

    parsed = read_layout(layout)
    if copy is not None and through is not None:
        raise ArgumentTypeError(
            "--copy and --through are both a map in front of the layout: give one of them"
        )
    check_choice("side of a copy", side, SIDES)
    with progress("proving", quiet=as_json):
        text = code(
            parsed,
            to,
            name,
            through=through if copy is None else _copy(copy, dtype, threads, values),
            side=SIDES[SIDES.index(side)],
            element=dtype,
            unit=unit,
            parameters=None if names is None else [part.strip() for part in names.split(",")],
            carry=carry,
        )
    if as_json:
        say_answer(IndexFunction(str(parsed), to, name, through, unit, text))
    else:
        sys.stdout.write(text + "\n")


def _copy(atom: str, dtype: str, threads: str | None, values: str | None) -> TiledCopy:
    """The TiledCopy that the options describe."""
    from layoutalg.atoms import make_tiled_copy

    if threads is None:
        raise ArgumentTypeError("--copy needs --threads, the layout of its threads: '(16,8):(8,1)'")
    texts = (threads, *(() if values is None else (values,)))
    layouts = [read_layout(text) if ":" in text else Layout(read_tree(text)) for text in texts]
    plain = [part for part in layouts if isinstance(part, Layout)]
    if len(plain) < len(layouts):
        raise ShapeError("the threads and values of a copy are numbered by layouts without swizzles")
    return make_tiled_copy(atom, dtype, *plain)
