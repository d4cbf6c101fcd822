"""`layoutalg code`: the index function of a layout, as one function in the language of a kernel."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from layoutalg.answers import Answer
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.inputs import read_layout, read_open, read_tree
from layoutalg.cli.options import (
    ArchOption,
    DtypeOption,
    LayoutArgument,
    WhereOption,
    accesses,
    atoms,
    one_of,
    option,
    targets,
)
from layoutalg.cli.output import progress, say_answer, wants_json
from layoutalg.errors import ArgumentTypeError, ShapeError, check_choice
from layoutalg.layout import AnyLayout, Layout

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
    name: Annotated[str, "The function's name."] = "f",
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
    threads: Annotated[str | None, "Thread layout of --copy, or its shape: '(16,8):(8,1)'."] = None,
    values: Annotated[
        str | None, "Value layout of --copy, or its shape: '(1,8)'. Default: one value."
    ] = None,
    side: Annotated[str, option("Side of --copy: src or dst.", complete=one_of("src", "dst"))] = "src",
    dtype: DtypeOption = "f32",
    unit: Annotated[
        str,
        option("The unit of offsets: elements, or bytes of --dtype.", complete=one_of("elements", "bytes")),
    ] = "elements",
    names: Annotated[str | None, "Names of the parameters: row,col. One per mode, in order."] = None,
    carry: Annotated[
        str | None,
        "The parameter that a loop increments: the function then returns the offset at which the "
        "loop starts, and its comment says what each iteration adds.",
    ] = None,
    where: WhereOption = None,
    asserted: Annotated[
        bool,
        option("A header of C++ whose static_asserts check the function, and each --access.", "--assert"),
    ] = False,
    access: Annotated[
        list[str] | None,
        option("An access of --assert: OP, OP@row or OP@col. May be repeated.", complete=accesses),
    ] = None,
    arch: ArchOption = DEFAULT_ARCH,
) -> None:
    """Print code that computes a layout's offsets: one function, proved equal to the layout.

    layoutalg code "Sw<3,3,3> o 0 o (64,64):(64,1)" --to cuda --name swz

    layoutalg code "Sw<3,3,3> o 0 o (64,64):(64,1)" --to cuda --through ldmatrix.x4 --dtype f16 --unit bytes

    layoutalg code "(32,32):(ld,1)" --to cuda --where "ld in 32..4096, ld % 8 == 0"

    layoutalg code "(64,64):(72,1)" --to cpp --assert --access ldmatrix.x4 --dtype f16

    The function has one parameter per top-level mode, that of a nested mode its flat index, and one per name
    in the layout.
    """
    from layoutalg.indexing import code

    plain, named = read_open(layout)
    if asserted:
        others = (through, copy, names, carry, where)
        if to != "cpp" or unit != "elements" or any(option is not None for option in others):
            raise ArgumentTypeError(
                "--assert writes a header of C++ of a layout and its accesses: with --to cpp, and without "
                "--through, --copy, --unit, --names, --carry and --where"
            )
    elif access:
        raise ArgumentTypeError("--access is counted by --assert; --through takes one as a map")
    if copy is not None and through is not None:
        raise ArgumentTypeError(
            "--copy and --through are both a map in front of the layout: give one of them"
        )
    check_choice("side of a copy", side, SIDES)
    with progress("proving"):
        if asserted:
            text = _asserted(layout, plain, access or (), dtype, arch, name)
        else:
            text = code(
                plain if named is None else named,  # type: ignore[arg-type]  # one of them is there
                to,
                name,
                through=through if copy is None else _copy(copy, dtype, threads, values),
                side=SIDES[SIDES.index(side)],
                element=dtype,
                unit=unit,
                parameters=None if names is None else [part.strip() for part in names.split(",")],
                carry=carry,
                where=where,
            )
    if wants_json():
        shown = str(plain if named is None else named)
        say_answer(IndexFunction(shown, to, name, through, unit, text))
    else:
        sys.stdout.write(text + "\n")


def _asserted(
    asked: str, layout: AnyLayout | None, access: Sequence[str], dtype: str, arch: str, name: str
) -> str:
    """The header of a layout of integers."""
    from layoutalg.indexing import assertions

    if layout is None:
        raise ArgumentTypeError(f"--assert of {asked}: a compiler checks numbers, and not names")
    return assertions(layout, access, dtype, arch, name=name)


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
