"""Kinds of checks: the keys of their tables, each read and held to its limits, and what they measure.

A Kind is one record: its keys, how its subject is measured, and the quantities and properties that limits
may name.  A Field is one key: what is accepted, and a reader that raises an error of layoutalg.errors for
anything else.  Readers get a Reading: the named tiles of the file and the folder that its paths start from.

>>> reading = Reading(tiles={"a": "4:1"}, folder=Path())
>>> a_whole_number(0)(16, reading)
16
>>> one_of("A", "B")("b", reading)
Traceback (most recent call last):
...
layoutalg.errors.UnknownNameError: unknown value 'b': did you mean 'B'? accepted are A, B
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from layoutalg.answers import Positive
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.checks.limits import Properties, Quantities
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, ShapeError, check_choice
from layoutalg.layout import AnyLayout, ComposedLayout, IntTuple, Layout, Swizzle
from layoutalg.limits import Most
from layoutalg.notation import parse, parse_int_tuple
from layoutalg.testing import Scope


@dataclass(frozen=True, slots=True)
class Reading:
    """The context in which values of a file are read: its tiles by name, and the folder of its paths."""

    tiles: Mapping[str, Any]
    folder: Path


Reader: TypeAlias = Callable[[Any, Reading], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a check's table.

    `shared` keys may be under [defaults] as well; for an `each` key a list makes one check per entry.
    """

    key: str
    what: str
    read: Reader
    required: bool = False
    default: object = None
    shared: bool = False
    each: bool = False


Values: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of the source that a check is about which does not pass."""

    line: Positive
    what: str


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of check; its name is that of its tables, [[name]].

    `measured` makes the subject of the values that the fields have read: what quantities and properties are
    asked about; it may raise any error of layoutalg.errors, by which the check does not pass.  `always` are
    limits that every check of the kind has; without them, a check has to state one.  `label` is the name of
    a check that has none of its own, of its table as it is written; `evidence` the remarks on the lines of
    its file where the check does not pass.

    `scope` says how much of a part of the subject was examined: of the values, the subject, the part's name,
    and whether a limit of the check allows what was not.  The quantity `allows` counts that; a limit on it
    from above, while it holds, is what allows it.
    """

    name: str
    what: str
    fields: tuple[Field, ...]
    measured: Callable[[Values], Any]
    label: Callable[[Mapping[str, Any]], str]
    scope: Callable[[Values, Any, str, bool], Scope] = field(kw_only=True)
    allows: str = field(default="", kw_only=True)
    quantities: Callable[[Values], Quantities] = field(default=lambda values: {})
    properties: Callable[[Values], Properties] = field(default=lambda values: {})
    always: tuple[str, ...] = ()
    evidence: Callable[[Any], Iterable[Evidence]] = field(default=lambda subject: ())


# --- readers -----------------------------------------------------------------------------------------------


def a_text(value: Any, reading: Reading) -> str:
    """A text without characters that control a terminal, at most Most.LINE of them."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{_shown(value)} is not a text")
    Most.LINE.guard(len(value), "characters of a text")
    if not value.replace("\n", "").isprintable():
        raise ParseError("the text has characters that cannot be shown", text=value)
    return value


def a_name(value: Any, reading: Reading) -> str:
    """A text of one line with a character that is not blank."""
    text = a_text(value, reading)
    if not text.strip() or "\n" in text:
        raise ParseError(f"{text!r} is no name: one line that is not blank is needed", text=text)
    return text.strip()


def a_truth(value: Any, reading: Reading) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{_shown(value)} is neither true nor false")
    return value


def a_layout(value: Any, reading: Reading) -> AnyLayout:
    """A layout in CuTe notation, or in another that `layoutalg convert` reads."""
    layout = parse(a_text(value, reading))
    if isinstance(layout, Swizzle):
        raise ShapeError(
            f"{layout} alone has no shape; say what it acts on, as in {layout} o 0 o (8,64):(64,1)"
        )
    if not isinstance(layout, (Layout, ComposedLayout)):
        raise ShapeError("a map of registers and lanes has no offsets; write its thread-value layout")
    return layout


def a_tile(value: Any, reading: Reading) -> AnyLayout:
    """The name of a tile of the file, or a layout in CuTe notation."""
    text, tiles = a_text(value, reading), reading.tiles
    if text not in tiles and (":" in text or not tiles):
        return a_layout(text, reading)
    return a_layout(tiles[check_choice("tile", text, tiles)], reading)


def an_element(value: Any, reading: Reading) -> DType:
    """The name of an element type."""
    return dtype(a_text(value, reading))


def an_arch(value: Any, reading: Reading) -> Arch:
    """The name of an architecture or a GPU."""
    return find_arch(a_text(value, reading))


def an_int_tuple(value: Any, reading: Reading) -> IntTuple:
    """Integers in parentheses, as a text: "(64,64)"."""
    return parse_int_tuple(a_text(value, reading))


def a_whole_number(least: int, most: int = (1 << 62) - 1) -> Reader:
    """The reader of an integer from `least` to `most`."""

    def read(value: Any, reading: Reading) -> int:
        if type(value) is not int:
            raise ArgumentTypeError(f"{_shown(value)} is not a whole number")
        if not least <= value <= most:
            raise ShapeError(f"{value} is not from {least} to {most}")
        return value

    return read


def a_number_of_seconds(value: Any, reading: Reading) -> float:
    """Seconds above 0, at most an hour."""
    if type(value) not in (int, float):
        raise ArgumentTypeError(f"{_shown(value)} is not a number")
    if not 0 < value <= 3600:
        raise ShapeError(f"{value} s is not above 0 and at most 3600")
    return float(value)


def one_of(*choices: str) -> Reader:
    """The reader of one of these words."""

    def read(value: Any, reading: Reading) -> str:
        return check_choice("value", a_text(value, reading), choices)

    return read


def a_file(value: Any, reading: Reading) -> tuple[Path, str]:
    """A file's path and text; a path that does not start at the root starts at the file of checks."""
    path = reading.folder / a_text(value, reading)
    try:
        return path, Most.TEXT.read_text(path)
    except OSError as error:
        raise ParseError(f"{path}: {error.strerror or error}") from None
    except LayoutAlgError:
        raise
    except ValueError as error:
        raise ParseError(f"{value!r} is no path: {error}") from None


def _shown(value: object) -> str:
    """A value of TOML, shortened."""
    return repr(value)[:60]


TILE = Field("tile", "a name of [tiles], or a layout in CuTe notation", a_tile, required=True)
DTYPE = Field("dtype", "an element type such as f16", an_element, default=dtype("f32"), shared=True)
_MACHINES = "an architecture such as sm_90, or a GPU such as H100"
ARCH = Field("arch", _MACHINES, an_arch, default=find_arch(DEFAULT_ARCH), shared=True)
