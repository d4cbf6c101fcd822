"""The tables of texts.txt: texts of notations, and what is made of them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("texts.txt")


@functools.cache
def _sections() -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for part in FILE.read_text(encoding="utf-8").split("\n[")[1:]:
        title, _, lines = part.partition("]\n")
        found[title] = [_row(line) for line in lines.splitlines() if line]
    return found


def _row(line: str) -> tuple[Any, ...]:
    text, *wanted = line.split(" => ")
    return text.replace("\\n", "\n"), *(int(part) if part.isdigit() else part for part in wanted)


def rows(title: str) -> list[tuple[Any, ...]]:
    """The rows of a table, their positions as numbers."""
    return _sections()[title]
