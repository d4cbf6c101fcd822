"""Code lines and tokens of each part of the project, and the caps that only fall.

    python -m tests.size            what each part has, its cap, and the largest rooms
    python -m tests.size --lower    bring the caps down to what is there, and drop the allowances

A code line holds a token that is neither a comment nor a docstring; tokens are what longer lines cannot save.
The caps stand in tests/data/size.json.  A change that adds a capability states an allowance there: the part,
lines, tokens, and what for.  Nothing raises a cap.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "data" / "size.json"
PARTS = ("layoutalg", "codegen", "kernels", "tests")
SLACK = 0.02
"""The share of a cap that may be free before the cap has to come down."""

TOKEN = re.compile(
    r"""(?P<name>[^\W\d]\w*+(?!["']))|(?P<end>\n)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comment>\#[^\n]*|\\\n)"""
    r"""|(?P<string>[bBfFrRuU]{0,2}(?:\"{3}(?:\\[\s\S]|[^\\])*?\"{3}|'{3}(?:\\[\s\S]|[^\\])*?'{3}"""
    r"""|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'))"""
    r"""|(?P<other>0[xX]\w+|\.?\d(?:[eE][+-]|[\w.])*|\w+|\.{3}|->|:=|(?:\*\*|//|>>|<<|[-+*/%&|^=<>!@])=?|\S)"""
)
"""A token of Python, as `tokenize` finds it, in a third of the time; a whole f-string is one."""


@dataclass(frozen=True, slots=True)
class Size:
    """Code lines and tokens."""

    lines: int = 0
    tokens: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.lines + other.lines, self.tokens + other.tokens)

    def within(self, other: Size) -> bool:
        """Whether neither number is larger than the other's."""
        return self.lines <= other.lines and self.tokens <= other.tokens


def size_of(text: str) -> Size:
    """The size of a module's text."""
    lines: set[int] = set()
    tokens, depth, line, first = 0, 0, 1, True
    alone = range(0)  # the lines of a string that begins a statement: a docstring where it ends it, too
    for match in TOKEN.finditer(text):
        kind, begins = match.lastgroup, line
        if kind == "end":
            line += 1
            first, alone = (True, range(0)) if not depth else (first, alone)
            continue
        if kind in ("string", "comment"):
            line += match[0].count("\n")
        if kind == "comment":
            continue
        if alone:
            lines.update(alone)
            tokens, alone = tokens + 1, range(0)
        if kind == "string" and first:
            alone = range(begins, line + 1)
        else:
            tokens += 1
            lines.update(range(begins, line + 1)) if line > begins else lines.add(line)
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        first = False
    return Size(len(lines), tokens)


def rooms_of(part: str, root: Path = ROOT) -> dict[str, Size]:
    """The size of each room of a part; layoutalg/codegen and layoutalg/kernels are links to other parts."""
    sizes: dict[str, Size] = {}
    for path in sorted((root / part).rglob("*.py")):
        room, *inner = path.relative_to(root / part).parts
        if part != "layoutalg" or room not in PARTS:
            room = room if inner else "."
            sizes[room] = sizes.get(room, Size()) + size_of(path.read_text("utf-8"))
    return sizes


def total(sizes: Iterable[Size]) -> Size:
    """The sum."""
    return sum(sizes, Size())


def caps(record: Path = RECORD) -> tuple[dict[str, Size], dict[str, Size]]:
    """The cap of each part, and the sum of its allowances."""
    stored = json.loads(record.read_text("utf-8"))
    allowed = {part: Size() for part in stored["caps"]}
    for allowance in stored["allowances"]:
        allowed[allowance["part"]] += Size(allowance["lines"], allowance["tokens"])
    return {part: Size(*cap) for part, cap in stored["caps"].items()}, allowed


def verdict(part: str, size: Size, cap: Size, allowed: Size) -> str:
    """What is wrong with the size of a part, or nothing."""
    if not size.within(cap + allowed):
        more = Size(size.lines - cap.lines - allowed.lines, size.tokens - cap.tokens - allowed.tokens)
        return (
            f"{part} is {max(more.lines, 0)} code lines and {max(more.tokens, 0)} tokens over its cap: "
            "take as much out elsewhere, or state an allowance in tests/data/size.json"
        )
    if size.within(Size(int(cap.lines * (1 - SLACK)), int(cap.tokens * (1 - SLACK)))):
        return f"{part} is well under its cap: lower it with `python -m tests.size --lower`"
    return ""


def main(args: list[str] | None = None) -> None:
    """Print the sizes, or lower the caps."""
    parser = argparse.ArgumentParser(prog="python -m tests.size", description=str(__doc__).splitlines()[0])
    parser.add_argument("--lower", action="store_true", help="bring the caps down to what is there")
    lower = parser.parse_args(args).lower
    limits, allowed = caps()
    lowered = {}
    for part in PARTS:
        rooms = rooms_of(part)
        size, cap = total(rooms.values()), limits[part]
        lowered[part] = [min(size.lines, cap.lines), min(size.tokens, cap.tokens)]
        largest = Counter({room: room_size.lines for room, room_size in rooms.items()}).most_common(8)
        print(f"{part:10} {size.lines:7,} lines of {cap.lines:,} + {allowed[part].lines:,}, ", end="")
        print(f"{size.tokens:9,} tokens of {cap.tokens:,} + {allowed[part].tokens:,}: ", end="")
        print(", ".join(f"{room} {lines:,}" for room, lines in largest))
    if lower:
        RECORD.write_text(json.dumps({"caps": lowered, "allowances": []}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
