"""Limits that a request can reach: each with its number, its unit, what it protects, and what may lift it.

    Most.TEXT.guard(len(text), "characters of the source")     refuses a size past a limit
    Most.FILE.read(path)                                       a file's bytes, where it has no more bytes
    Most.ONE_BY_ONE.number                                     the largest size that is accepted
    text_of(raw, name)                                         the text of a file's bytes

A limit bounds memory, or time that no budget counts.  What hardware, a format or the arithmetic of a kernel
allows is not a limit of this table: it is written where it is used.

>>> Most.CELLS.guard(1 << 20, "cells of the picture")
Traceback (most recent call last):
...
layoutalg.errors.ResourceError: cells of the picture: 1048576 asked, the limit is 20000; draw a tile of it
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from layoutalg.errors import ParseError, ResourceError, UndecidedError

if TYPE_CHECKING:
    from pathlib import Path


class Most(Enum):
    """The most of a thing that is accepted: the number, its unit, what it protects, what may lift it."""

    WORK = 2_000_000, "units of work of a question", "time", "--budget N, with_budget(N, ...)"
    TEXT = 1 << 20, "characters of a source or of a notation, bytes of a source's file", "time and memory"
    LINE = 4096, "characters of an expression, or of a text in a file of checks", "time"
    FILE = 16 << 20, "bytes of a file of offsets, of a baseline, of rates", "memory"
    REPORT = 128 << 20, "bytes of a report of Nsight Compute, of a lock", "memory", "record fewer launches"
    BULK = 1 << 30, "bytes of a store of timings, of arrays that the simulator verifies", "memory"
    ARRAYS = 1 << 34, "bytes of arrays that a GPU verifies, or of a simulated launch", "memory"
    PAGE = 2_000_000, "bytes of a page of HTML", "memory of a browser"
    DEPTH = 64, "levels of a shape, statements one inside the other", "the stack"
    NESTING = 96, "operators and brackets that are open at once", "the stack"
    CALLS = 24, "calls one inside the other in an index function", "the stack"
    INT_BITS = 1 << 12, "bits of an integer of a layout", "messages that show it"
    MAGNITUDE = (1 << 62) - 1, "magnitude of an offset, an address, or a number on the way", "64-bit integers"
    TOKENS = 1 << 16, "tokens of a source, integers and names of a notation", "time"
    STATEMENTS = 1 << 14, "statements that an index function runs, operators of what it returns", "time"
    NODES = 400_000, "statements and operators of a kernel that are read, in each turn", "time"
    STEPS = 2_000_000, "instructions of a loop that is timed", "time"
    FOLLOWED = 200_000, "statements of a kernel, turns of its warps", "time", "follow fewer tiles"
    WARPS = 512, "warps that wait for each other in the simulator", "memory, by its square"
    ONE_BY_ONE = 1 << 16, "coordinates, elements or vectors that are looked at one by one", "time"
    ASSERTED = 1 << 14, "offsets, and lanes of an access, that a compiler goes through", "time of a build"
    COUNTED = 1 << 12, "analyses of one question, modes that a layout is filled up to", "time"
    POINTS = 1 << 22, "coordinates, lanes or elements that an array holds", "memory"
    LISTED = 1 << 24, "elements of a move whose bytes are listed", "memory"
    LANES = 1 << 28, "lanes or coordinates that are gone through in arrays", "time"
    BLOCKS = 1 << 21, "blocks, waves or turns of a grid that are told apart", "time"
    MOVES = 1 << 18, "elements that the instructions of a picture touch", "time", "draw a tile of it"
    CELLS = 20_000, "cells of a picture, points of a chart", "time", "draw a tile of it"
    PARTS = 256, "nodes, steps, layouts, launches, GPUs, tiles or definitions of one answer", "time"
    ENTRIES = 100_000, "problems, sizes, candidates, groups or accesses of one question", "memory"
    CASES = 10_000_000, "random cases of a sweep", "disk"

    def __init__(self, number: int, unit: str, protects: str, lift: str = "") -> None:
        self.number, self.unit, self.protects, self.lift = number, unit, protects, lift

    def guard(self, size: int, what: str, *, hint: str = "") -> None:
        """Refuse a size past the limit by a ResourceError that says what was requested, and what helps.

        >>> Most.PARTS.guard(256, "nodes of the graph")
        """
        if size > self.number:
            raise ResourceError(what, size, self.number, hint=hint or self.lift)

    def integer(self, number: int, what: str) -> None:
        """Refuse by a ResourceError what is not an integer from 1 to the limit.

        >>> Most.CASES.integer(0, "cases of a sweep")
        Traceback (most recent call last):
        ...
        layoutalg.errors.ResourceError: cases of a sweep: 0 asked, the limit is 10000000; 1 is the least
        """
        if type(number) is not int or number < 1:
            raise ResourceError(what, number, self.number, hint="1 is the least")
        self.guard(number, what)

    def decide(self, size: int, what: str) -> None:
        """Refuse a size past the limit by an UndecidedError, as a question that is left open.

        >>> Most.COUNTED.decide(5000, "single values")
        Traceback (most recent call last):
        ...
        layoutalg.errors.UndecidedError: single values: 5000 are too many, the limit is 4096
        """
        if size > self.number:
            raise UndecidedError(
                f"{what}: {size} are too many, the limit is {self.number}", budget=self.number
            )

    def read(self, path: Path) -> bytes:
        """The bytes of a file that has no more than the limit.  Raises ResourceError, OSError."""
        what = f"size of {path.name} in bytes"
        self.guard(path.stat().st_size, what)
        with path.open("rb") as file:
            raw = file.read(self.number + 1)  # what a device or a pipe has is not known before
        self.guard(len(raw), what)
        return raw

    def read_text(self, path: Path) -> str:
        """The text of a file that has no more bytes than the limit.  Raises as `read` and `text_of`."""
        return text_of(self.read(path), path.name)


def text_of(raw: bytes, name: str) -> str:
    """The text of a file that is called `name`.  Raises ParseError with the line and byte that is not UTF-8.

    >>> text_of(b"4:1\\n8:\\xff", "tiles")
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: tiles is not UTF-8 text: line 2, byte 3 of it does not decode
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = raw.count(b"\n", 0, error.start) + 1, error.start - raw.rfind(b"\n", 0, error.start)
        why = f"line {line}, byte {column} of it does not decode"
        raise ParseError(f"{name} is not UTF-8 text: {why}", position=error.start) from None
