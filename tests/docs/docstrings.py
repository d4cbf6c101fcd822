"""Docstrings as reStructuredText: prose, indented examples, doctests and lists, as they are written here.

The project's docstrings are plain text: names stand between single backticks, tables and examples are
indented, and nothing else is markup.  What reStructuredText would take for markup is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def _prose(text: str) -> str:
    """A line of prose: single backticks become literals, what is not markup here is escaped."""
    parts = re.split(r"`([^`]+)`", text)
    out = []
    for place, part in enumerate(parts):
        if place % 2:
            out.append(f"``{part.strip()}``" if part.strip() else "")
            before, after = parts[place - 1], parts[place + 1]
            if before and not before[-1].isspace():
                out.insert(-1, "\\ ")
            if after and not after[0].isspace():
                out.append("\\ ")
        else:
            out.append(re.sub(r"([\\*|`]|_(?=\W|$))", r"\\\1", part))
    return "".join(out)


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Runs of lines between empty ones."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def as_rst(lines: Sequence[str]) -> list[str]:
    """A docstring's lines, without their common indent, as reStructuredText.

    >>> as_rst(["The `size` of *a*.", "", "    table  1", "", ">>> 1", "1"])
    ['The ``size`` of \\\\*a\\\\*.', '', '::', '', '    table  1', '', '>>> 1', '1', '']
    """
    out: list[str] = []
    literal = False
    for block in _blocks(lines):
        indented = all(line.startswith("  ") for line in block)
        if block[0].lstrip().startswith(">>>") and not indented:
            out += [*block, ""]
        elif indented:
            if not literal:
                out += ["::", ""]
            out += [*(f"    {line}" if not line.startswith("    ") else line for line in block), ""]
        else:
            first = next((i for i, line in enumerate(block) if line.lstrip().startswith(">>>")), len(block))
            inside = [i for i, line in enumerate(block[:first]) if line.startswith(" ")]
            if inside and not block[0].lstrip().startswith(("- ", "* ")):
                # prose whose later lines are indented: a line of text over a table
                head = block[: inside[0]]
                out += [
                    *map(_prose, head),
                    "",
                    "::",
                    "",
                    *(f"    {line}" for line in block[inside[0] : first]),
                    "",
                ]
            elif block[0].startswith(("- ", "* ")):
                out += [line[:2] + _prose(line[2:]) for line in block[:first]] + [""]
            else:
                out += [*map(_prose, block[:first]), ""]
            if first < len(block):
                out += [*block[first:], ""]
        literal = indented
    return out
