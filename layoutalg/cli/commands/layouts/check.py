"""`layoutalg check`: whether an index function in a file is a layout: it is run in a process with limits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from layoutalg.answers import Answer, Positive
from layoutalg.cli.files import read_source
from layoutalg.cli.inputs import read_open
from layoutalg.cli.options import (
    DtypeOption,
    LayoutArgument,
    WhereOption,
    accesses,
    argument,
    one_of,
    option,
)
from layoutalg.cli.output import count, progress, say, say_answer, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.dtype import dtype as element_type
from layoutalg.errors import (
    ArgumentTypeError,
    MismatchError,
    UndecidedError,
    check_choice,
)
from layoutalg.layout import Layout, size
from layoutalg.limits import Most

if TYPE_CHECKING:
    from layoutalg.symbolic import SymbolicLayout

MOST_SECONDS = 3600.0


@dataclass(frozen=True)
class Checked(Answer, command="check"):
    """Whether a function is a layout; exit code 1 where it is not."""

    layout: str
    source: str
    function: str
    coordinates: Positive | None
    """null where names stand for many numbers."""
    equal: bool
    why: str | None


def check_command(
    layout: LayoutArgument,
    source: Annotated[
        str, argument("A source file: .cu, .cuh, .c, .cpp or .py; - reads standard input.", stdin="file")
    ],
    function: Annotated[str, "The function: swz, tile::swz, swz<64>, a functor, a lambda or a macro."] = "f",
    through: Annotated[
        str | None,
        option(
            "A map composed with the layout, as in layoutalg code: a TV layout, or an access.",
            complete=accesses,
        ),
    ] = None,
    dtype: DtypeOption = "f32",
    unit: Annotated[
        str,
        option(
            "The unit of the function: elements, or bytes of --dtype.", complete=one_of("elements", "bytes")
        ),
    ] = "elements",
    language: Annotated[
        str | None,
        option(
            "c or python. Default: detected from the file's name and text.", complete=one_of("c", "python")
        ),
    ] = None,
    where: WhereOption = None,
    permutation: Annotated[
        bool, "The first argument is a count, and the function takes each number below it once."
    ] = False,
    timeout: Annotated[float, "Time limit for evaluating the function everywhere, in seconds."] = 10.0,
) -> int:
    """Check that an index function in C, CUDA or Python equals a layout at every coordinate.

    layoutalg check "Sw<3,3,3> o 0 o (64,64):(64,1)" kernel.cu --function swz

    The file is compiled and executed: in a separate process, with limits on its time and memory, in a private
    folder that is removed. Exits 1 if the function differs, divides by zero or does not return.

    layoutalg check "(32,32):(ld,1)" kernel.cu --where "ld in 32..4096"

    layoutalg check "gm*gn" raster.cu --permutation --where "gm in 1..64, gn in 1..8"

    A function that takes names is read, not executed, and checked for their values in --where.
    """
    from layoutalg.checks import UNITS, function_layout, source_language

    check_choice("unit", unit, UNITS)
    if not 0 < timeout <= MOST_SECONDS:
        raise ArgumentTypeError(
            f"--timeout is {timeout}; seconds above 0, up to {MOST_SECONDS:g}, are accepted"
        )
    plain, named = (None, None) if permutation else read_open(layout)
    if plain is None:
        if through is not None or unit != "elements":
            raise ArgumentTypeError("--through and --unit are for layouts of integers")
        return _held(layout, named, source, function, language, where)
    if where is not None:
        raise ArgumentTypeError(f"--where {where!r}: {layout} holds no name")
    wanted = function_layout(plain, through, element_type(dtype), unit)
    Most.LANES.guard(size(wanted), "coordinates at which the function is run")
    text = read_source(source)
    if function == "f" and not re.search(r"\bf\b", text):
        raise ArgumentTypeError(f"{source} has no function f: --function names that which is checked")
    why = ""
    from layoutalg.testing import check_index_function

    label, folders = (
        ("standard input", ()) if source == "-" else (Path(source).name, (Path(source).resolve().parent,))
    )
    try:
        with progress("building and running"):
            check_index_function(
                text,
                wanted,
                function,
                language=language or source_language(source),
                label=label,
                folders=folders,
                timeout_s=timeout,
            )
    except (MismatchError, UndecidedError) as error:
        why = error.message
    points = size(wanted)
    if wants_json():
        say_answer(Checked(str(wanted), source, function, points, not why, why or None))
    elif why:
        say(f"No: {why}.", _said(timeout))
    else:
        shown = layout + (f" of {through}" if through else "") + (", in bytes" if unit == "bytes" else "")
        say(f"{function} is {shown}: the same at all {count(points)} coordinates.", _said(timeout))
    return FAILED if why else 0


def _held(
    asked: str, layout: Layout | SymbolicLayout | None, source: str, function: str, language: str | None,
    where: str | None,
) -> int:  # fmt: skip
    """The check of a function with symbols, of which the text is read."""
    from layoutalg.checks import source_language
    from layoutalg.indexing import is_layout, is_permutation

    text, language = read_source(source), language or source_language(source)
    with progress("looking"):
        if layout is None:
            held = is_permutation(text, asked, where=where, function=function, language=language)
        else:
            held = is_layout(text, layout, where=where, function=function, language=language)
    if wants_json():
        why = None if held.holds else held.why
        say_answer(Checked(asked, source, function, None, held.holds, why))
    else:
        is_it = f"a permutation of {asked} numbers" if layout is None else str(layout)
        say(f"{function} is {is_it}: {held.why}." if held.holds else f"No: {held.why}.")
    return 0 if held.holds else FAILED


def _said(timeout: float) -> str:
    return f"It ran in a process of its own, for at most {timeout:g} s and within 4 GiB."
