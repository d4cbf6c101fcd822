"""The check of an index function: C, CUDA or Python code computes a layout, at every coordinate.

    [[function]]
    file = "swizzle.cuh"
    function = "swz"
    tile = "a"

The file is built and run, in a process of its own with limits on its time and memory.
"""

from __future__ import annotations

from layoutalg.checks.fields import (
    DTYPE,
    TILE,
    Field,
    Kind,
    Values,
    a_file,
    a_name,
    a_number_of_seconds,
    a_text,
    one_of,
)
from layoutalg.checks.limits import Property, by_name
from layoutalg.decide import cosize
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, MismatchError, UndecidedError
from layoutalg.indexing import through_layout
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, size
from layoutalg.limits import Most
from layoutalg.testing import Scope, check_index_function

UNITS = ("elements", "bytes")
"""The units that an index function may count."""

C_SUFFIXES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp")
"""The suffixes of sources in C, C++ and CUDA."""


def function_layout(layout: AnyLayout, through: str | None, element: DType, unit: str) -> AnyLayout:
    """The layout that an index function should be: over a map, or in bytes, a layout over a layout.

    `through` is a TV layout or an access, as of `layoutalg.indexing.code`.  Raises ArgumentTypeError for
    bytes of an element that has no whole number of them, and as `through_layout` does.

    >>> from layoutalg.dtype import dtype
    >>> function_layout(Layout((4, 8), (8, 1)), None, dtype("f16"), "bytes")(1)
    16
    """
    if through is not None:
        layout = _before(layout, through_layout(through, layout, element)[0])
    if unit == "bytes":
        if element.bits % 8:
            raise ArgumentTypeError(f"{element} has {element.bits} bits; count elements")
        layout = ComposedLayout(Layout(cosize(layout), element.bits // 8), 0, layout)
    return layout


def _before(layout: AnyLayout, front: Layout) -> AnyLayout:
    """front, then the layout: as written, without composing them."""
    if isinstance(layout, Layout):
        return ComposedLayout(layout, 0, front)
    return ComposedLayout(layout.outer, layout.offset, _before(layout.inner, front))


def source_language(name: str) -> str | None:
    """c or python by a file's name; None where the name does not say.

    >>> source_language("swz.cuh"), source_language("swz.py"), source_language("-")
    ('c', 'python', None)
    """
    if name.endswith(".py"):
        return "python"
    return "c" if name.endswith(C_SUFFIXES) else None


def _wanted(values: Values) -> AnyLayout:
    return function_layout(values["tile"], values["through"], values["dtype"], values["unit"])


def _difference(values: Values) -> str:
    """Say where the function is not the layout; "" where it is everywhere."""
    wanted = _wanted(values)
    Most.LANES.guard(size(wanted), "coordinates at which the function is run")
    path, text = values["file"]
    try:
        check_index_function(
            text,
            wanted,
            values["function"],
            language=values["language"] or source_language(path.name),
            label=path.name,
            folders=(path.resolve().parent,),
            timeout_s=values["timeout"],
        )
    except (MismatchError, UndecidedError) as error:
        return error.message
    return ""


EQUAL = Property("equal", "the layout's offset at every coordinate", lambda difference, _: str(difference))

FUNCTION = Kind(
    "function",
    "that an index function computes a layout",
    (
        Field("file", "a file in C, CUDA or Python", a_file, required=True),
        TILE,
        Field("function", "swz, tile::swz, swz<64>, a functor, a lambda or a macro", a_name, default="f"),
        Field("language", "c or python", one_of("c", "python")),
        Field("unit", "elements or bytes", one_of(*UNITS), default="elements"),
        Field("through", "a TV layout or an access in front of the tile", a_text),
        Field("timeout", "seconds that the function may take", a_number_of_seconds, default=10.0),
        DTYPE,
    ),
    _difference,
    lambda table: f"{table.get('function', 'f')} in {table['file']}",
    scope=lambda values, difference, part, allowed: Scope("coordinates", size(_wanted(values))),
    properties=lambda values: by_name(EQUAL),
    always=("equal",),
)
