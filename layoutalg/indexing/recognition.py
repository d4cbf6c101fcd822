"""identify: the layout that a function, an expression or offsets are, or a witness that they are none.

The idea.  A text is read as a term, the term evaluated at every coordinate, and the table of offsets compared
with the laws of each kind of layout (`laws`).  The layout that is found is called on every coordinate and
compared with the table.

>>> print(identify("def f(row, col): return row * 64 + (col ^ row % 8 * 8)", (8, 64)))
Sw<3,3,3> o 0 o (8,64):(64,1)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layoutalg.errors import (
    ArgumentTypeError,
    MismatchError,
    ParseError,
    ShapeError,
    UnknownNameError,
    shown,
)
from layoutalg.indexing.laws import TRIED, found_layout, kind_of
from layoutalg.indexing.open_recognition import found_open
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    coordinate_at,
    flatten_tree,
    normalize,
    product,
    to_text,
)
from layoutalg.limits import Most
from layoutalg.reading import (
    IndexFunction,
    evaluated,
    read_c,
    read_c_expression,
    read_python,
    read_python_expression,
)
from layoutalg.symbolic import SymbolicLayout, Values, values_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

LANGUAGES = ("c", "python")


@dataclass(frozen=True, slots=True)
class Identification:
    """The result of a search: a layout and its kind, or None and why, with coordinates that show it.

    `kind` is plain, padded, swizzled, F2 or rotation; "" where there is no layout.  `name` is the function
    that was read.  `why` is one sentence.  `symbolic` is the layout where `where` names symbols, in place of
    `layout`.
    """

    layout: AnyLayout | None
    kind: str
    why: str
    witness: tuple[IntTuple, ...] = ()
    name: str = ""
    symbolic: Layout | SymbolicLayout | None = None

    def __str__(self) -> str:
        found = self.layout if self.symbolic is None else self.symbolic
        return f"no layout: {self.why}" if found is None else str(found)


def identify(
    source: Any,
    shape: IntTuple | None = None,
    *,
    function: str | None = None,
    language: str | None = None,
    expression: bool = False,
    parameters: Sequence[str] | None = None,
    where: str | Mapping[str, Values | tuple[int, int]] | None = None,
) -> Identification:
    """The layout that `source` computes on `shape`, as an `Identification`.

    `source` is the text of a C, CUDA or Python function, an index expression (`expression`), or offsets: a
    nested list or an array, whose axes are the modes, or flat, then of the flat indices of `shape` in order.
    A function takes the flat index, one integer per mode, or one per leaf.  `parameters` name its parameters,
    or an expression's variables, in the order of the modes; without them an expression's are as they occur.
    Parameters that `where` names are symbols, as in "ld in 32..4096, ld % 8 == 0": the layout then holds
    them, and is the function for all of their values.
    Texts are parsed, never executed; arithmetic has C's 32-bit semantics, and undefined behaviour is a
    witness.

    Raises ParseError with line and column, ShapeError, ResourceError past Most.POINTS, UnknownNameError.

    >>> found = identify([[0, 1, 2, 3], [5, 6, 7, 8]])
    >>> print(found, found.kind)
    (2,4):(5,1) padded
    >>> identify("row * col", (4, 4), expression=True).why
    'offsets do not add: f(1,1) - f(0,0) is 1, and its modes alone make 0; nor is it linear over F2, under one
    swizzle of up to 6 bits or two, or a rotation by one digit'
    """
    if not isinstance(source, str):
        return _of_table(*_given(source, shape), "")
    known = parameters if parameters is None or not expression else (*parameters, *_named(where))
    read = _read(source, function, language, expression, known)
    if shape is None:
        names = ", ".join(read.names)
        raise ShapeError(f"{read.name} takes ({names}); its shape is needed: the extent of each of them")
    extents = normalize(shape, "shape")
    symbols = _symbols(read, where)
    if any(n < 1 for n in flatten_tree(extents)):
        raise ShapeError(f"shape {to_text(extents)}: extents must be positive")
    Most.POINTS.guard(product(extents), "coordinates of the function")
    if parameters is not None and not expression:
        read = _in_order(read, (*parameters, *symbols))
    if symbols:
        return _of_symbols(read, extents, symbols)
    return _of_function(read, extents)


def _read(
    text: str, function: str | None, language: str | None, expression: bool, names: Sequence[str] | None
) -> IndexFunction:
    if language is not None and language not in LANGUAGES:
        raise UnknownNameError("language", language, LANGUAGES)
    marks = "//" if expression else r"(?m)^\s*(def\s+\w+\s*\(|\w+\s*=\s*lambda\b)"
    python = language == "python" or (language is None and re.search(marks, text) is not None)
    try:
        if expression:
            return (read_python_expression if python else read_c_expression)(text, names)
        return (read_python if python else read_c)(text, function)
    except RecursionError:
        raise ParseError("the text is nested too deep to be read", text=text) from None


def read_function(source: str, function: str | None, language: str | None) -> IndexFunction:
    """The function of a text in C, CUDA or Python.

    >>> read_function("def f(i, n): return i * n", None, None).names
    ('i', 'n')
    """
    return _read(source, function, language, False, None)


def _symbols(
    read: IndexFunction, where: str | Mapping[str, Values | tuple[int, int]] | None
) -> dict[str, Values]:
    """The values of the parameters that are symbols, by name."""
    if not where:
        return {}
    values = values_of(where, read.names)
    return {name: values[name] for name in _named(where) if name in values}


def _named(where: str | Mapping[str, Values | tuple[int, int]] | None) -> tuple[str, ...]:
    """The names of which values are stated."""
    found = re.findall(r"(?<![\w])[A-Za-z_]\w*", where) if isinstance(where, str) else where or ()
    return tuple(name for name in dict.fromkeys(found) if name != "in")


def _of_symbols(read: IndexFunction, shape: IntTuple, symbols: Mapping[str, Values]) -> Identification:
    """The identification of a function of coordinates and symbols."""
    modes = tuple(name for name in read.names if name not in symbols)
    sizes = _parameter_extents(read.name, modes, shape)
    found = found_open(read, sizes, symbols)
    if found.layout is None:
        return Identification(None, "", found.why, found.witness, read.name)
    layout = found.layout
    if not isinstance(shape, tuple) and isinstance(layout, Layout):
        layout = layout[0]
    said = "; ".join(map(str, symbols.values()))
    why = f"a layout with symbols, compared as polynomials for {said}"
    return Identification(None, "plain", why, (), read.name, layout)


def _in_order(read: IndexFunction, names: Sequence[str]) -> IndexFunction:
    """The function with its parameters in the order of the modes' names."""
    types = dict(read.parameters)
    if sorted(names) != sorted(types):
        raise ArgumentTypeError(
            f"{read.name} takes ({', '.join(types)}), and the modes are ({', '.join(names)})"
        )
    return read._replace(parameters=tuple((name, types[name]) for name in names))


def _parameter_extents(name: str, names: Sequence[str], shape: IntTuple) -> tuple[int, ...]:
    """The extents of a function's parameters: of the flat index, the modes or the leaves."""
    choices: dict[int, tuple[int, ...]] = {1: (product(shape),)}
    for extents in (_sizes(shape), flatten_tree(shape)):
        if extents:
            choices.setdefault(len(extents), extents)
    if len(names) not in choices:
        accepted = ", ".join(map(str, sorted(choices)))
        taken = f"{name} takes {len(names)} parameters ({', '.join(names)})"
        raise ShapeError(
            f"{taken}; for the shape {to_text(shape)} it may take {accepted}, and symbols that where names"
        )
    return choices[len(names)]


def _of_function(read: IndexFunction, shape: IntTuple) -> Identification:
    """The identification of a function on a shape."""
    import numpy as np

    extents = _parameter_extents(read.name, read.names, shape)
    indices = np.arange(product(shape), dtype=np.int64)
    digits = flatten_tree(coordinate_at(indices, extents))
    for (name, ctype), extent in zip(read.parameters, extents, strict=True):
        if ctype is not None and extent - 1 > ctype.greatest:
            raise ShapeError(f"the parameter {name} of {read.name}, a {ctype}, does not hold {extent - 1}")
    values, bad = evaluated(read.term, dict(zip(read.names, digits, strict=True)))
    if bad is not None:
        at, why = bad.first()
        crd = coordinate_at(at, shape)
        return Identification(None, "", f"at {_at(crd)} there is {why}", (crd,), read.name)
    return _of_table(values, shape, read.name)


def _given(source: Any, shape: IntTuple | None) -> tuple[NDArray[Any], IntTuple]:
    """The table of offsets in flat order, and its shape."""
    import numpy as np

    try:
        array = np.asarray(source)
    except (ValueError, OverflowError):
        raise ShapeError(f"offsets {shown(source)}: lists of one length and integers are needed") from None
    kind = array.dtype.kind
    if kind in "fO" and all(type(x) is int for x in np.asarray(source, dtype=object).flat):
        array, kind = np.asarray(source, dtype=object), "i"  # integers past 64 bits
    if kind not in "iu" or array.size == 0 or array.ndim == 0:
        raise ArgumentTypeError(f"offsets {shown(source)}: integers are needed, at least one")
    Most.POINTS.guard(array.size, "offsets")
    Most.MAGNITUDE.guard(max(abs(int(array.min())), abs(int(array.max()))), "magnitude of an offset")
    extents: IntTuple = tuple(array.shape) if array.ndim > 1 else int(array.shape[0])
    if shape is not None:
        wanted = normalize(shape, "shape")
        sizes = _sizes(wanted)
        if product(wanted) != array.size or (array.ndim > 1 and sizes != array.shape):
            raise ShapeError(f"{array.size} offsets of shape {to_text(extents)} are not of {to_text(wanted)}")
        extents = wanted
    return array.astype(np.int64).flatten(order="F"), extents


def parse_array(text: str) -> Any:
    """An array of offsets as text: a nested JSON list, the braces of C, or rows of integers, one per line.

    Raises ParseError.

    >>> parse_array("0 1 2\\n8 9 10"), parse_array("{{0, 1}, {4, 5}}")
    ([[0, 1, 2], [8, 9, 10]], [[0, 1], [4, 5]])
    """
    stripped = text.strip().rstrip(";").strip()
    if stripped[:1] in ("[", "{", "("):
        listed = stripped.translate(str.maketrans("{}()", "[][]"))
        listed = re.sub(r",(\s*\])", r"\1", listed)
        try:
            return json.loads(listed)
        except json.JSONDecodeError as error:
            line, column = error.lineno, error.colno
            raise ParseError(
                f"line {line}, column {column}: {error.msg}; a list of integers is read"
            ) from None
        except (ValueError, RecursionError):
            raise ParseError("the list is nested too deep to be read, or a number is too long") from None
    rows: list[list[int]] = []
    for number, written in enumerate(text.splitlines(), 1):
        row: list[int] = []
        for match in re.finditer(r"[^\s,]+", written.partition("#")[0]):
            if not re.fullmatch(r"-?[0-9]{1,20}|0[xX][0-9a-fA-F]{1,16}", match[0]):
                position = f"line {number}, column {match.start() + 1}"
                raise ParseError(f"{position}: {match[0][:40]!r} is not an offset; an integer is read")
            row.append(int(match[0], 16) if match[0][:2] in ("0x", "0X") else int(match[0]))
        if row:
            rows.append(row)
    return rows[0] if len(rows) == 1 else rows


def _of_table(table: NDArray[Any], shape: IntTuple, name: str) -> Identification:
    """The layout of a table of offsets in flat order."""
    import numpy as np

    sizes = _sizes(shape) or (1,)
    layout, law, witness = found_layout(table.reshape(sizes, order="F"))
    if layout is None:
        places = tuple(_in_shape(w, sizes, shape) for w in witness)
        return Identification(None, "", f"{law}; {TRIED}", places, name)
    if not isinstance(shape, tuple):
        layout = _one_mode(layout)
    if not np.array_equal(np.broadcast_to(layout(np.arange(table.size)), table.shape), table):
        raise MismatchError(f"identify: {layout} is not the table it was found for")
    kind = kind_of(layout)
    return Identification(layout, kind, _sentence(kind, table.size), (), name)


def _one_mode(layout: AnyLayout) -> AnyLayout:
    """A layout of one mode without its parentheses."""
    if isinstance(layout, Layout):
        return layout[0]
    return ComposedLayout(layout.outer, layout.offset, _one_mode(layout.inner))


def _sentence(kind: str, count: int) -> str:
    """State what a kind is, and that it was compared."""
    what = {
        "plain": "a plain layout", "padded": "a plain layout with gaps",
        "swizzled": "a layout under a swizzle",
        "F2": "linear over F2, up to a constant: swizzles over a layout",
        "rotation": "a rotation: a digit that adds modulo its extent, as a layout over a layout",
    }[kind]  # fmt: skip
    return f"{what}, compared at all {count:,} coordinates"


def _in_shape(crd: tuple[int, ...], sizes: tuple[int, ...], shape: IntTuple) -> IntTuple:
    """A coordinate of the modes as one of the shape's own form."""
    index, step = 0, 1
    for c, n in zip(crd, sizes, strict=True):
        index, step = index + c * step, step * n
    result: IntTuple = coordinate_at(index, shape)
    return result


def _sizes(shape: IntTuple) -> tuple[int, ...]:
    """Sizes of the top-level modes."""
    return tuple(map(product, shape)) if isinstance(shape, tuple) else (shape,)


def _at(crd: IntTuple) -> str:
    return to_text(crd) if isinstance(crd, tuple) else f"({crd})"
