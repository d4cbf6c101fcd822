"""The rows of a reading: their records, sizes that are not given, and neighbours that a compiler may join.

records    SourceAccess, KernelReading and their parts
sizes      Open: the values that numbers which are not given are counted with, and what depends on them
joined     Joiner: accesses that a compiler may join, and their cost then, or that it has joined
compiling  machine_code: the instructions of a kernel that touch memory, by statement
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later
from layoutalg.source.rows.joined import Code, Joined, Joiner, statement_end, statement_ends
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
    by_row,
    line_of,
)
from layoutalg.source.rows.sizes import TAKEN, Open, Sized

if TYPE_CHECKING:
    from layoutalg.source.rows.compiling import machine_code

__getattr__ = later(__name__, {"compiling": "machine_code"})  # compilers are not imported by who only reads
