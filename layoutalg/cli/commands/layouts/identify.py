"""`layoutalg identify`: the layout that a function, an index expression or an array of offsets is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from layoutalg.answers import Answer, taken
from layoutalg.cli.files import read_source
from layoutalg.cli.inputs import read_shape
from layoutalg.cli.options import argument, one_of, option
from layoutalg.cli.output import progress, say, say_answer, say_verbatim, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.errors import ArgumentTypeError
from layoutalg.layout import to_text

_OFFSETS = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:[\[{(][\[{(\s]*)?-?(?:0[xX])?[0-9]")


@dataclass(frozen=True)
class Identified(Answer, command="identify"):
    """The layout that a function or an array is; exit code 1 where there is none."""

    layout: str | None
    kind: Literal["plain", "padded", "swizzled", "F2", "rotation"] | None
    why: str
    witness: tuple[str, ...]
    """Coordinates that show that there is none."""


def identify_command(
    source: Annotated[
        str | None,
        argument(
            "A file: a C, CUDA or Python source, or offsets as a nested list or in rows; - reads "
            "standard input.",
            stdin="file",
        ),
    ] = None,
    shape: Annotated[
        str | None,
        "Extents of the function's parameters: '(8,64)', or row=8,col=64. For offsets: their "
        "shape, the first mode fastest; default: their rows and columns.",
    ] = None,
    function: Annotated[str | None, "The function to read: swz, tile::swz, swz<64>, or a macro."] = None,
    index: Annotated[
        str | None,
        option(
            "An index expression in place of a file: 'row*64 + (col ^ row)'; - reads it from standard input.",
            stdin="text",
        ),
    ] = None,
    names: Annotated[
        str | None,
        "Parameters or variables in the order of --shape: row,col. Default: as declared, or as they occur.",
    ] = None,
    language: Annotated[
        str | None, option("c or python. Default: detected from the text.", complete=one_of("c", "python"))
    ] = None,
    where: Annotated[
        str | None, "Parameters that are symbols, and their values: 'ld in 32..4096, ld % 8 == 0'."
    ] = None,
) -> int:
    """Find the layout that a function, an index expression or an array of offsets computes.

    layoutalg identify swz.cu --function swz --shape "(8,64)"

    layoutalg identify --index "row*64 + (col ^ row%8*8)" --shape row=8,col=64

    The code is not executed. Exits 1 if the offsets are not those of a layout, and shows a witness.
    """
    from layoutalg.indexing import identify, parse_array

    if (source is None) == (index is None):
        raise ArgumentTypeError("identify takes a file or --index, one of them")
    extents, mode_names = read_shape(shape, names)
    text = index if source is None else read_source(source)
    if text is None:
        raise ArgumentTypeError("identify takes a file or --index, one of them")
    what: Any = text
    if source is not None and language is None and function is None and _OFFSETS.match(text):
        what = parse_array(text)
    if index is not None and function is not None:
        raise ArgumentTypeError("--function names a function of a file, and --index has none")
    with progress("reading"):
        identified = identify(
            what,
            extents,
            function=function,
            language=language,
            expression=index is not None,
            parameters=mode_names,
            where=where,
        )
    found = identified.layout if identified.symbolic is None else identified.symbolic
    if wants_json():
        witness = tuple(to_text(coordinate) for coordinate in identified.witness)
        layout = None if found is None else str(found)
        kind = identified.kind or None
        say_answer(taken(Identified, identified, layout=layout, kind=kind, witness=witness))
    elif found is None:
        say(f"No layout: {identified.why}.")
    else:
        say_verbatim(str(found))
        say(f"{identified.kind}: {identified.why}")
    return 0 if found is not None else FAILED
