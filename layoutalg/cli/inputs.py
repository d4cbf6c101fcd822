"""The inputs of commands, read and checked: layouts, offsets, shapes, conditions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from layoutalg.budget import Budget
from layoutalg.cli.files import read_bytes
from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, check_choice
from layoutalg.layout import AnyLayout, ComposedLayout, IntTuple, Layout, Swizzle
from layoutalg.limits import Most, text_of
from layoutalg.notation import parse, parse_int_tuple

if TYPE_CHECKING:
    from layoutalg.algebra import Order
    from layoutalg.analysis import Wanted
    from layoutalg.symbolic import SymbolicLayout

Offsets = list[int | None]

ORDERS: tuple[Order, ...] = ("row", "col")
"""The storage orders of a tile: which mode is contiguous, the last or the first."""

_INACTIVE = frozenset({"null", "None", "-"})

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class FailOn:
    """A condition under which `analyze` exits 1: conflicts, or an efficiency below `threshold`."""

    text: str
    threshold: Fraction | None

    @property
    def space(self) -> str:
        """The memory whose accesses it judges."""
        return "shared" if self.threshold is None else "global"


def read_fail_on(text: str) -> FailOn:
    """`conflicts`, or `efficiency<0.9` with a number in (0, 1]; raises ParseError."""
    if text.strip() == "conflicts":
        return FailOn("conflicts", None)
    match = re.fullmatch(r"\s*efficiency\s*<\s*([0-9]{1,4}(?:\.[0-9]{1,12})?|\.[0-9]{1,12})\s*", text)
    if match is None:
        raise ParseError(
            f"--fail-on {text!r} is not a condition: accepted are conflicts and efficiency<NUMBER", text=text
        )
    threshold = Fraction(match[1])
    if not 0 < threshold <= 1:
        raise ParseError(
            f"--fail-on {text!r}: an efficiency is above 0 and at most 1, and so must the number be",
            text=text,
            position=match.start(1),
        )
    return FailOn(f"efficiency<{match[1]}", threshold)


def read_method(name: str) -> Wanted:
    """The method of a name; raises UnknownNameError.

    >>> read_method("gcd")
    'gcd'
    """
    from layoutalg.analysis import METHODS

    return check_choice("method", name, ("auto", *METHODS))


def read_level(name: str) -> str:
    """The level of a name; raises UnknownNameError.

    >>> read_level("dram")
    'dram'
    """
    from layoutalg.analysis import LEVELS

    return check_choice("level", name, LEVELS)


def read_open(text: str) -> tuple[AnyLayout | None, Layout | SymbolicLayout | None]:
    """A layout of integers, or else one that holds names as symbols; raises ParseError."""
    try:
        return read_layout(text), None
    except ParseError:
        from layoutalg.symbolic import has_names, open_layout

        if not has_names(text):
            raise
        return None, open_layout(text)


def read_layout(text: str) -> AnyLayout:
    """A layout from CuTe text; a swizzle alone is refused, saying what it lacks."""
    parsed = parse(text)
    if isinstance(parsed, Swizzle):
        raise ShapeError(
            f"{parsed} alone has no shape; say what it acts on, as in {parsed} o 0 o (8,64):(64,1)"
        )
    if not isinstance(parsed, (Layout, ComposedLayout)):
        raise ShapeError(
            "a map of registers and lanes has no offsets; layoutalg convert TEXT prints its thread-value "
            "layout"
        )
    return parsed


def read_offsets(path: Path, lanes: int) -> list[Offsets]:
    """The instructions of an offsets file: `lanes` byte offsets each, None where a lane is inactive.

    The path - is standard input.  Text: one instruction a line, integers (decimal or 0x) or `null`, separated
    by blanks or commas; `#` starts a comment.  JSON: a list of `lanes` entries, or a list of such lists.
    Raises ParseError with the position, ShapeError for another number of lanes or a negative offset,
    ResourceError for large files.
    """
    raw = read_bytes(str(path), Most.FILE)
    return parse_offsets("standard input" if str(path) == "-" else path.name, raw, lanes)


def parse_offsets(name: str, raw: bytes, lanes: int) -> list[Offsets]:
    """`read_offsets` of the bytes of a file that is called `name`; raises as that does.

    >>> parse_offsets("two", b"0 4", 2)
    [[0, 4]]
    """
    text = text_of(raw, name)
    read = _json_rows(name, text) if text.lstrip().startswith("[") else _text_rows(name, text)
    if not read:
        raise ParseError(f"{name} has no instruction: expected {lanes} integers or null on a line", text=text)
    for where, row in read:
        if len(row) != lanes:
            raise ShapeError(
                f"{where} has {len(row)} offsets; one instruction needs {lanes}, integers or null"
            )
        for lane, offset in enumerate(row):
            if offset is not None and not 0 <= offset <= Most.MAGNITUDE.number:
                raise ShapeError(f"{where}, lane {lane}: offset {offset} is not in 0..2^62-1")
    return [row for _, row in read]


def read_seconds(what: str, text: str) -> float:
    """A time such as 90s, 30m, 2h or 1d, in seconds.  Raises ParseError for anything else.

    >>> read_seconds("budget", "30m")
    1800.0
    """
    match = re.fullmatch(r"(\d{1,6})([smhd]?)", text.strip(), re.ASCII)
    if not match or not int(match[1]):
        raise ParseError(
            f"cannot read the {what} {text[:40]!r}: 90s, 30m or 2h are accepted", text=text, position=0
        )
    return float(int(match[1]) * SECONDS[match[2]])


def read_sets(texts: list[str]) -> dict[str, str]:
    """NAME=VALUE texts as a dictionary; several may stand in one text, with commas.

    >>> read_sets(["N=4096,M=128", "T=float"])
    {'N': '4096', 'M': '128', 'T': 'float'}
    """
    return read_assignments("--set", [part for text in texts for part in text.split(",")])


def read_assignments(option: str, texts: list[str]) -> dict[str, str]:
    """NAME=VALUE texts of an option as a dictionary, each name once.

    >>> read_assignments("--let", ["A=(8,64):(64,1)"])
    {'A': '(8,64):(64,1)'}
    """
    out: dict[str, str] = {}
    for part in texts:
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ParseError(f"{option} {part!r} is not NAME=VALUE", text=part)
        if name.strip() in out:
            raise ArgumentTypeError(f"{option} names {name.strip()} twice")
        out[name.strip()] = value.strip()
    return out


def read_shape(text: str | None, names: str | None) -> tuple[IntTuple | None, tuple[str, ...] | None]:
    """The shape that --shape gives, "8x64" or "row=8,col=64", and its modes' names, or those of --names.

    Raises ParseError and ArgumentTypeError.

    >>> read_shape("row=8,col=64", None), read_shape("(8,64)", "r,c")
    (((8, 64), ('row', 'col')), ((8, 64), ('r', 'c')))
    """
    listed = None if names is None else tuple(part.strip() for part in names.split(","))
    if text is None or "=" not in text:
        return (None if text is None else read_tree(text)), listed
    extents: dict[str, IntTuple] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([A-Za-z_][\w.]*)\s*=\s*([0-9]{1,18})\s*", part, re.ASCII)
        if match is None or match[1] in extents:
            raise ParseError(f"--shape {text!r}: {part!r} is not NAME=EXTENT, each name once", text=text)
        extents[match[1]] = int(match[2])
    if listed is not None:
        raise ArgumentTypeError("--shape names the modes already: leave --names out")
    shape: IntTuple = tuple(extents.values()) if len(extents) > 1 else next(iter(extents.values()))
    return shape, tuple(extents)


def read_sides(name: str, text: str) -> tuple[int, int]:
    """Two sides, 256x128.  Raises ParseError.

    >>> read_sides("tile", "256x128")
    (256, 128)
    """
    first, second = read_extents(name, text, "256x128")
    return first, second


def read_extents(name: str, text: str, example: str, counts: str = "") -> tuple[int, ...]:
    """Positive sides, 64x32x8, 64,32,8 or (64,32,8), as many as an example has, or one to three.

    Raises ParseError.

    >>> read_extents("tile", "64x32x8", "128x128x64"), read_extents("block", "(8,8)", "16x16", "one to three")
    ((64, 32, 8), (8, 8))
    """
    count = example.count("x") + 1
    words = parts_of(text)
    fits = 1 <= len(words) <= 3 if counts else len(words) == count
    if not fits or not all(re.fullmatch(r"\s*0*[1-9][0-9]{0,9}\s*", word, re.ASCII) for word in words):
        raise ParseError(
            f"cannot read the {name} {text[:80]!r}: {counts or ('two' if count == 2 else 'three')} positive "
            f"sides are expected, such as {example}",
            text=text,
            position=0,
        )
    return tuple(map(int, words))


def parts_of(text: str) -> list[str]:
    """The words between commas or x, in a pair of parentheses or not.

    >>> parts_of("(64, 8)"), parts_of("64x8")
    (['64', ' 8'], ['64', '8'])
    """
    plain = text.strip(" \t\n")
    plain = plain[1:-1] if plain[:1] == "(" and plain[-1:] == ")" else plain
    crossed = re.fullmatch(r"\s*[1-9]\d*(?:\s*[xX]\s*\d+)+\s*", plain, re.ASCII)  # 0x4 is a hexadecimal 4
    return re.split("[xX]", plain) if crossed else plain.split(",")


def read_tree(text: str) -> IntTuple:
    """A shape as 64x64, 64,64 or (64,64), the last nested as in (64,(8,8)).  Raises ParseError.

    >>> read_tree("64x64"), read_tree("64,64"), read_tree("(64,(8,8))"), read_tree("64")
    ((64, 64), (64, 64), (64, (8, 8)), 64)
    """
    plain = text.strip(" \t\n")
    if re.fullmatch(r"\d+(?:\s*[xX,]\s*\d+)+,?", plain, re.ASCII):
        plain = f"({re.sub('[xX]', ',', plain)})"
    return parse_int_tuple(plain)


def _text_rows(name: str, text: str) -> list[tuple[str, Offsets]]:
    """(place, row) of each line that has entries."""
    rows: list[tuple[str, Offsets]] = []
    budget, position = Budget(f"{name}: not all of it was read when"), 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        content = line.partition("#")[0]
        row: Offsets = []
        for match in re.finditer(r"[^\s,]+", content):
            budget.spend()
            row.append(_entry(f"{name} line {number}", match[0], position + match.start(), text))
        if row:
            rows.append((f"{name} line {number}", row))
        position += len(line)
    return rows


def _entry(where: str, word: str, position: int, text: str) -> int | None:
    if word in _INACTIVE:
        return None
    if not re.fullmatch(r"-?[0-9]{1,40}|0[xX][0-9a-fA-F]{1,32}", word):
        raise ParseError(
            f"{where}: {word[:40]!r} is not an offset; expected an integer or null",
            text=text,
            position=position,
        )
    return int(word, 16) if word[:2] in ("0x", "0X") else int(word)


def _json_rows(name: str, text: str) -> list[tuple[str, Offsets]]:
    """(place, row) of each list in the JSON text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(f"{name} is not JSON: {error.msg}", text=text, position=error.pos) from None
    except (ValueError, RecursionError):
        raise ParseError(f"{name} is not JSON that can be read: too deep, or a number too long") from None
    lists = value if value and isinstance(value[0], list) else [value]
    rows: list[tuple[str, Offsets]] = []
    for index, row in enumerate(lists):
        where = f"{name} list {index}"
        if not isinstance(row, list):
            raise ParseError(f"{where} is {json.dumps(row)[:40]}; expected a list of integers or null")
        for lane, entry in enumerate(row):
            if entry is not None and type(entry) is not int:
                raise ParseError(
                    f"{where}, lane {lane}: {json.dumps(entry)[:40]} is not an offset; "
                    f"expected an integer or null"
                )
        rows.append((where, row))
    return rows
