"""The line of each table, key and array entry of a TOML text: what a message about a value points at.

The idea.  The standard library reads TOML into plain values and does not say where they were.  A text that
it has read is well formed, so a walk over it needs to know only where strings, brackets and comments end.
Paths are those of the values: keys by name, tables of an array by number.

>>> lines = toml_lines("[tiles]\\na = '4:1'\\n\\n[[access]]\\nlimits = [\\n  'ways <= 1',\\n]\\n")
>>> lines["tiles", "a"], lines["access", 0], lines["access", 0, "limits", 0]
(2, 4, 6)

Source: TOML v1.0.0, "Keys", "String", "Array", "Inline Table", "Table", "Array of Tables".
"""

from __future__ import annotations

import re
from typing import TypeAlias

Path: TypeAlias = "tuple[str | int, ...]"

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_INLINE_BLANK = re.compile(r"[ \t]*")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRING = re.compile(
    r'"""(?:\\[\s\S]|[^\\])*?"""(?:"{0,2}(?!"))'
    r"|'''[\s\S]*?'''(?:'{0,2}(?!'))"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'"
)


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
        self.text = text
        self.found: dict[Path, int] = {}
        self._at = 0
        self._line, self._counted = 1, 0
        self._tables: dict[Path, int] = {}
        table: Path = ()
        while self._skip(_BLANK):
            if self._taken("[["):
                table = self._entry(self._keys())
                self._taken("]]")
            elif self._taken("["):
                keys = self._keys()
                table = (*self._inside(keys[:-1]), keys[-1])
                self.found.setdefault(table, self._here())
                self._taken("]")
            else:
                self._statement(table)

    def _entry(self, keys: tuple[str, ...]) -> Path:
        """The path of the next table of an array."""
        array = (*self._inside(keys[:-1]), keys[-1])
        self.found.setdefault(array, self._here())
        number = self._tables[array] = self._tables.get(array, -1) + 1
        self.found[(*array, number)] = self._here()
        return (*array, number)

    def _inside(self, keys: tuple[str, ...]) -> Path:
        """The path of a header's parents: the last table of each array among them."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            self.found.setdefault(path, self._here())
            if path in self._tables:
                path = (*path, self._tables[path])
        return path

    def _statement(self, table: Path) -> None:
        """`key = value`, at the start of its key."""
        line = self._here()
        path = table
        for key in self._keys():
            path = (*path, key)
            self.found.setdefault(path, line)
        self._taken("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip(_INLINE_BLANK)
        if self._taken("["):
            number = 0
            while self._skip(_BLANK) and not self._taken("]"):
                self.found[(*path, number)] = self._here()
                self._value((*path, number))
                number += 1
                self._skip(_BLANK)
                self._taken(",")
        elif self._taken("{"):
            while self._skip(_BLANK) and not self._taken("}"):
                self._statement(path)
                self._skip(_BLANK)
                self._taken(",")
        elif (match := _STRING.match(self.text, self._at)) is not None:
            self._at = match.end()
        else:
            self._skip(_SCALAR)

    def _keys(self) -> tuple[str, ...]:
        """A dotted key."""
        keys: list[str] = []
        while True:
            self._skip(_INLINE_BLANK)
            quoted = _STRING.match(self.text, self._at)
            match = quoted or _BARE.match(self.text, self._at)
            if match is None:  # not the text of a TOML file
                self._at = len(self.text)
                return tuple(keys) or ("",)
            self._at = match.end()
            keys.append(_unquoted(match[0]) if quoted else match[0])
            self._skip(_INLINE_BLANK)
            if not self._taken("."):
                return tuple(keys)

    def _skip(self, what: re.Pattern[str]) -> bool:
        """Go past what is of no interest; whether anything follows."""
        match = what.match(self.text, self._at)
        self._at = match.end() if match is not None else self._at
        return self._at < len(self.text)

    def _taken(self, mark: str) -> bool:
        if not self.text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _here(self) -> int:
        """The line of this place; places are looked up from top to bottom."""
        self._line += self.text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line


def _unquoted(text: str) -> str:
    import tomllib

    (key,) = tomllib.loads(f"{text} = 0")
    return key
