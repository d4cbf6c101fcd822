"""Trace: the notes that an operation takes while it is explained.

An explanation that is computed beside an operation can drift from it.  So the operations of the algebra take
an optional `trace` and note what they find where they find it; layoutalg.explanation says these facts in
words.  Without a trace nothing is noted, and an operation pays one comparison for each place.

>>> trace = Trace()
>>> trace.note("digit", extent=4, stride=8)
>>> trace.records
[('digit', {'extent': 4, 'stride': 8})]
"""

from __future__ import annotations

from typing import Any


class Trace:
    """The notes of an operation, in the order in which they were made: (kind, facts by name)."""

    __slots__ = ("records",)

    def __init__(self) -> None:
        self.records: list[tuple[str, dict[str, Any]]] = []

    def note(self, kind: str, **facts: Any) -> None:
        """Add one note; `kind` is a key of the words that layoutalg.explanation.words has for it."""
        self.records.append((kind, facts))
