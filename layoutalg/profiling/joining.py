"""The join of measured instructions with the accesses of the source, by file and line.

The idea.  `-lineinfo` names the line of each instruction, and `layoutalg kernel` states the accesses of each
line.  A row belongs to the accesses of its line of the same op, or of a statement that continues on it; where
the compiler changed their width (four words as one vector), to those of the same direction and space.
The reading is of one block: the launch is compared with its wavefronts times the blocks, and with the ratio
to the ideal, which does not depend on the number of blocks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from layoutalg.arch import INSTRUCTIONS
from layoutalg.errors import ParseError
from layoutalg.limits import Most
from layoutalg.profiling.records import Launch, Row

_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_NEEDED = "line", "op"
_COUNTS = "total", "ideal_total"


@dataclass(frozen=True, slots=True)
class Joined:
    """The accesses that a row is: their lines and arrays, and what was predicted of them.

    `predicted` is wavefronts or sectors of the whole launch, `ideal` the least of them, `instructions` how
    many the source has, all None where an access was not read; `why` says why not.  `pitch` is bytes between
    rows of the array, where it has rows; `fixes` are its layouts without conflicts.  `exact`: the ops are the
    same, else the compiler chose another.
    """

    lines: tuple[int, ...] = ()
    arrays: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    exact: bool = False
    pitch: int | None = None
    fixes: tuple[str, ...] = ()
    predicted: int | None = None
    ideal: int | None = None
    why: str | None = None
    instructions: int | None = None

    @property
    def counter(self) -> str:
        """The quantity that was predicted: wavefronts of shared memory, or sectors."""
        return "sectors" if "global" in self.ops[0] else "wavefronts"

    @property
    def share(self) -> Fraction | None:
        """The predicted number over its ideal."""
        return Fraction(self.predicted, self.ideal) if self.predicted is not None and self.ideal else None


def checked(accesses: Any) -> list[Mapping[str, Any]]:
    """Accesses as `layoutalg kernel --json` has them; raises ParseError for anything else.

    >>> checked([{"line": 3, "op": "ld.shared.b32", "total": 4, "ideal_total": 4}])[0]["line"]
    3
    """
    if not isinstance(accesses, Sequence) or isinstance(accesses, str) or len(accesses) > Most.ENTRIES.number:
        raise ParseError("the accesses of a source are a list of objects")
    for each in accesses:
        complete = isinstance(each, Mapping) and all(name in each for name in _NEEDED)
        if not complete or not isinstance(each["line"], int) or not isinstance(each["op"], str | None):
            raise ParseError(f"an access of a source needs a line and an op, and has {str(each)[:100]}")
        if not all(each.get(name) is None or isinstance(each[name], int) for name in _COUNTS):
            raise ParseError(f"the counts of an access are integers or null: {str(each)[:100]}")
    return list(accesses)


def join(
    row: Row, launch: Launch, source: str, accesses: Sequence[Mapping[str, Any]], whole: bool
) -> Joined | None:
    """The accesses of the file `source` that a row is; None where its line has none of its kind.

    `whole`: their counts are of all blocks, else of one.
    """
    if row.file is None or row.line is None or file_name(row.file) != file_name(source):
        return None
    kind = _of_line(row.op, [each for each in accesses if each["op"] and each["line"] == row.line])
    kind = kind or _of_line(row.op, [each for each in accesses if each["op"] and _spans(each, row.line)])
    kind = kind or _only(row.op, accesses)
    if not kind:
        return None
    pitches = {each.get("pitch") for each in kind}
    why = next((str(each["why"]) for each in kind if each.get("why")), None)
    read = all(each.get(name) is not None for each in kind for name in _COUNTS)
    blocks = 1 if whole else prod(launch.grid)
    return Joined(
        tuple(sorted({each["line"] for each in kind})),
        tuple(dict.fromkeys(str(each.get("array") or "?") for each in kind)),
        tuple(dict.fromkeys(each["op"] for each in kind)),
        all(each["op"] == row.op for each in kind),
        pitches.pop() if len(pitches) == 1 else None,
        tuple(dict.fromkeys(str(fix) for each in kind for fix in each.get("fixes") or ())),
        blocks * sum(each["total"] - _bias(each) for each in kind) if read else None,
        blocks * sum(each["ideal_total"] - _bias(each) for each in kind) if read else None,
        why,
        blocks * sum(each["instructions"] for each in kind)
        if all(isinstance(each.get("instructions"), int) for each in kind)
        else None,
    )


def with_ends(accesses: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]]:
    """Accesses with `last`, the line on which their statement ends: instructions may be of any of its lines.

    >>> [each["last"] for each in with_ends([{"line": 1}, {"line": 2}], "a[i] = 0;\\nasm(\\n);")]
    [1, 3]
    """
    lines = _QUOTED.sub('""', text).splitlines()
    ends = [number for number, line in enumerate(lines, 1) if ";" in line]
    return [
        {**each, "last": next((end for end in ends if end >= each["line"]), each["line"])}
        for each in accesses
    ]


def _bias(access: Mapping[str, Any]) -> int:
    """Wavefronts of the pipe that the counter of instructions has not: of placeholders before copies."""
    rule = INSTRUCTIONS.get(access["op"])
    return rule.counter_bias * (access.get("instructions") or 0) if rule else 0


def _of_line(op: str, here: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The accesses of the same op, or without any, those of its direction and space."""
    same = [each for each in here if each["op"] == op]
    return same or [each for each in here if _kind(each["op"]) == _kind(op)]


def _only(op: str, accesses: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The accesses of an op that a single line of the source has: a function's, counted at its call."""
    same = [each for each in accesses if each["op"] == op]
    return same if len({each["line"] for each in same}) == 1 else []


def _spans(access: Mapping[str, Any], line: int) -> bool:
    """Whether a line is of the access's statement, after the access."""
    return bool(access["line"] < line <= access.get("last", access["line"]))


def file_name(path: str) -> str:
    """The last part of a path of either kind.

    >>> file_name("/a/b.cu"), file_name("C:\\\\a\\\\b.cu")
    ('b.cu', 'b.cu')
    """
    return PureWindowsPath(PurePosixPath(path).name).name


def _kind(op: str) -> tuple[str, str]:
    """Direction and space: (ld, shared) of ld.shared.b64 and of ldmatrix.x4."""
    if op.startswith(("ldmatrix", "stmatrix")):
        return op[:2], "shared"
    parts = op.split(".")
    return parts[0], parts[1] if len(parts) > 1 else ""
