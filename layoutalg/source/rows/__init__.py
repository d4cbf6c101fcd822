"""The rows of a reading: their records, sizes that are not given, and neighbours that a compiler may join.

records    SourceAccess, KernelReading and their parts
sizes      Open: the values that numbers which are not given are counted with, and what depends on them
joined     joined_rows: accesses that a compiler may join, and their cost then
"""

from __future__ import annotations

from layoutalg.source.rows.joined import Joined, joined_rows
from layoutalg.source.rows.records import (
    CONSTANT,
    FETCH,
    REGISTERS,
    KernelReading,
    Question,
    Row,
    SourceAccess,
    TakenNumber,
    Unfollowed,
    line_of,
)
from layoutalg.source.rows.sizes import TAKEN, Open, Sized

__all__ = [
    "CONSTANT",
    "FETCH",
    "REGISTERS",
    "TAKEN",
    "Joined",
    "KernelReading",
    "Open",
    "Question",
    "Row",
    "Sized",
    "SourceAccess",
    "TakenNumber",
    "Unfollowed",
    "joined_rows",
    "line_of",
]
