"""Lines of C++ that are too long, broken where a reader would."""

from __future__ import annotations

import re
from collections.abc import Iterator

WIDTH = 110
"""The most columns of a line."""

_BREAK = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<open>[([{])|(?P<close>[)\]}])|(?P<comma>, )|(?P<sign> (?=[-+*/%&|^?:<>=]+ ))'
)
"""Strings, parentheses, and where a line may end: after a comma, in front of an operator."""

_RANK = {"?": 0, ":": 0, "&&": 0, "||": 0, "+": 1, "-": 1}
"""The operators by how good they are to break at; what binds closer stays together."""

_LAST = 99
"""An assignment is broken where nothing else can be."""


def wrapped(line: str) -> Iterator[str]:
    """A line of code, or several of at most WIDTH columns: broken where the fewest parentheses are.

    A line that cannot be broken stays as it is.

    >>> list(wrapped("f(" + "a" * 60 + ", " + "b" * 60 + ");"))[1].strip()[:2]
    'bb'
    """
    indent = line[: len(line) - len(line.lstrip())]
    more = indent + "    "
    if len(line) > WIDTH and line.lstrip().startswith("//"):
        yield from (f"{indent}{x}" for x in comment(line.strip()[3:], len(indent)).splitlines())
        return
    while len(line) > WIDTH:
        at = _place(line, len(more) + 1)
        if at is None:
            break
        yield line[:at].rstrip()
        line = more + line[at:].lstrip()
    yield line


def _place(line: str, least: int) -> int | None:
    """The position at which a line is broken."""
    best: tuple[int, int, int] | None = None
    depth = 0
    for match in _BREAK.finditer(line):
        if match["open"]:
            depth += 1
        elif match["close"]:
            depth -= 1
        elif match["comma"] or match["sign"]:
            at = match.end() if match["comma"] else match.start()
            rank = 0 if match["comma"] else _RANK.get(line[at : at + 3].strip(), 2)
            level = _LAST if line[at : at + 3] == " = " else depth
            if least < at <= WIDTH and (best is None or (level, rank, -at) <= best):
                best = level, rank, -at
    return None if best is None else -best[2]


def comment(text: str, indent: int = 0) -> str:
    """Lines of a comment; what is longer than WIDTH goes on in the next, with more indent.

    >>> comment("a")
    '// a'
    """
    line = f"// {text}".rstrip().replace("\\", "/")
    out = []
    indented = "//     " if not text.startswith(" ") else "//" + " " * (len(text) - len(text.lstrip()) + 5)
    while len(line) > WIDTH - indent:
        at = line.rfind(" ", len(indented) + 1, WIDTH - indent + 1)
        if at < 0:
            break
        out.append(line[:at].rstrip())
        line = indented + line[at:].lstrip()
    return "\n".join([*out, line])
