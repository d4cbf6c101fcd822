"""`layoutalg convert`: a layout in one notation, printed in another."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from layoutalg.answers import Answer
from layoutalg.cli.files import read_source
from layoutalg.cli.inputs import read_tree
from layoutalg.cli.options import argument, dtypes, forms, one_of, option
from layoutalg.cli.output import say_answer, wants_json
from layoutalg.errors import ParseError
from layoutalg.limits import Most


@dataclass(frozen=True)
class Conversion(Answer, command="convert"):
    """A layout in another notation."""

    text: str
    from_: str | None
    """The notation of the text; null: detected."""
    to: str
    result: str


def convert_command(
    text: Annotated[
        str,
        argument(
            "A layout as CuTe, C++, the CuTe DSL, Triton, Gluon, NumPy, PyTorch, pycute or "
            "tensor-layouts write it; - reads standard input."
        ),
    ],
    to: Annotated[
        str,
        option(
            "cute, tensor, cpp, cpp-type, gmma, dsl, dsl-print, triton, ttg.NAME, gluon, gluon.NAME, "
            "linear-layout, numpy, torch, pycute or tensor-layouts.",
            complete=forms,
        ),
    ] = "cute",
    form: Annotated[
        str | None, option("The notation of TEXT. Default: detected.", "--from", complete=forms)
    ] = None,
    shape: Annotated[
        str | None,
        "The tensor's shape, '(64,64)': needed from a Triton encoding, and from a thread-value "
        "layout to one.",
    ] = None,
    m: Annotated[
        int | None, option("Rows of the operand whose scales TEXT names, such as nvfp4-scales.")
    ] = None,
    k: Annotated[int | None, option("Elements of a row of that operand.")] = None,
    dtype: Annotated[
        str | None,
        option("The element type, where byte strides, pointers or atoms need one.", complete=dtypes),
    ] = None,
    unit: Annotated[
        str,
        option(
            "The unit of a swizzle in TEXT: elements, or bytes of --dtype.",
            complete=one_of("elements", "bytes"),
        ),
    ] = "elements",
) -> None:
    """Print a layout in another notation.

    layoutalg convert "GMMA::Layout_K_SW128_Atom<half_t>"

    layoutalg convert "Sw<3,3,3> o 0 o (64,64):(64,1)" --to triton

    layoutalg convert "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1],
    order = [1, 0]}>" --shape "(64,64)"

    layoutalg convert nvfp4-scales --m 300 --k 4096

    A tile of shared memory is a layout from coordinates to offsets; registers and lanes are a layout from
    (thread, value) to the coordinate's index, the first dimension fastest. Nothing that TEXT contains is
    run. Exits 2, with line and column, where it cannot be read, and with the reason where the form cannot
    express it.
    """
    from layoutalg.notation import convert

    source = read_source("-") if text == "-" else text
    Most.TEXT.guard(len(source), "length of a text in characters")
    try:
        sizes = None if m is None or k is None else (m, k)
        extents = sizes if shape is None else read_tree(shape)
        result = convert(source, to, shape=extents, element=dtype, unit=unit, form=form)
    except ParseError as error:
        raise _placed(error, source) from None
    if wants_json():
        say_answer(Conversion(source, form, to, result))
    else:
        sys.stdout.write(result + "\n")


def _placed(error: ParseError, text: str) -> ParseError:
    """The error with line and column, where its sentence has none yet."""
    if error.text != text or " line " in error.message:
        return error
    before = text[: error.position]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return ParseError(f"{error.message} (line {line}, column {column})", text=text, position=error.position)
