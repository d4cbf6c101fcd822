"""The line of each table, key and array entry of a TOML text: what a message about a value points at.

The idea.  The standard library reads TOML into plain values and does not say where they were.  A text that
it has read is well formed, so a walk over its tokens needs to know only where strings and brackets end.
Paths are those of the values: keys by name, tables of an array by number.

>>> lines = toml_lines("[tiles]\\na = '4:1'\\n\\n[[access]]\\nlimits = [\\n  'ways <= 1',\\n]\\n")
>>> lines["tiles", "a"], lines["access", 0], lines["access", 0, "limits", 0]
(2, 4, 6)

Source: TOML v1.0.0, "Keys", "String", "Array", "Inline Table", "Table", "Array of Tables".
"""

from __future__ import annotations

import re
import tomllib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Path: TypeAlias = "tuple[str | int, ...]"

_TOKEN = re.compile(
    r'("""(?:\\[\s\S]|[^\\])*?"""(?:"{0,2}(?!"))'
    r"|'''[\s\S]*?'''(?:'{0,2}(?!'))"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
    r"|[\[\]{}=,.]|[^\s\[\]{}=,.\"'#]+)|#[^\n]*"
)
"""A string, a mark, or a part of a key or of another value; a comment has no group."""


def toml_lines(text: str) -> dict[Path, int]:
    """The line, from 1, on which each value of a well-formed TOML text begins.

    A table begins at its header, a value of a key at the key.

    >>> toml_lines("a.b = {c = 1}")
    {('a',): 1, ('a', 'b'): 1, ('a', 'b', 'c'): 1}
    """
    return _Walk(text).found


def nearest_line(lines: dict[Path, int], path: Path) -> int:
    """The line of a path, or of the innermost part of it that has one; 1 where none has.

    >>> nearest_line({("access", 0): 4}, ("access", 0, "limits"))
    4
    """
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 1)


class _Walk:
    """A walk over a text from its first statement to its last."""

    def __init__(self, text: str) -> None:
        self.found: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}
        self._tokens = deque(_tokens(text))
        table: Path = ()
        while token := self._next:
            line = self._tokens[0][1]
            if token != "[":
                self._statement(table)
                continue
            self._take()
            array = self._took("[")
            *parents, last = self._keys()
            table = (*self._inside(parents, line), last)
            self.found.setdefault(table, line)
            self._take()
            if array:
                self._take()
                self._tables[table] = number = self._tables.get(table, -1) + 1
                table = (*table, number)
                self.found[table] = line

    @property
    def _next(self) -> str:
        """The next token; "" at the end."""
        return self._tokens[0][0] if self._tokens else ""

    def _take(self) -> str:
        return self._tokens.popleft()[0] if self._tokens else ""

    def _took(self, mark: str) -> bool:
        """Whether the next token is a mark, which is then taken."""
        return self._next == mark and bool(self._take())

    def _inside(self, keys: Sequence[str], line: int) -> Path:
        """The path of a header's parents: the last table of each array among them."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            self.found.setdefault(path, line)
            if path in self._tables:
                path = (*path, self._tables[path])
        return path

    def _statement(self, path: Path) -> None:
        """`key = value`, at the start of its key."""
        line = self._tokens[0][1]
        for key in self._keys():
            path = (*path, key)
            self.found.setdefault(path, line)
        self._take()
        self._value(path)

    def _value(self, path: Path) -> None:
        line, number = self._tokens[0][1], 0
        if self._took("["):
            while self._tokens and not self._took("]"):
                self.found[(*path, number)] = self._tokens[0][1]
                self._value((*path, number))
                number += 1
                self._took(",")
        elif self._took("{"):
            while self._tokens and not self._took("}"):
                self._statement(path)
                self._took(",")
        else:  # such as 1.5 or a date and a time: all that follows on its line
            while self._tokens and self._tokens[0][1] == line and self._next not in (",", "]", "}"):
                self._take()

    def _keys(self) -> list[str]:
        """A dotted key."""
        keys = [_unquoted(self._take())]
        while self._took("."):
            keys.append(_unquoted(self._take()))
        return keys


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """The tokens of a text, each with its line."""
    line = at = 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if match[1]:
            yield match[1], line + 1


def _unquoted(key: str) -> str:
    return next(iter(tomllib.loads(f"{key} = 0"))) if key[:1] in ("'", '"') else key
