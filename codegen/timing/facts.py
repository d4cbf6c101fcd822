"""Latencies and issue intervals of instructions, as data: a number, where it is from, and how it is known.

    latency LDSM.4       cycles from the issue of ldmatrix.x4 to its registers, nothing else on the way
    interval HMMA.16816  cycles between two of them on one scheduler's pipe
    wavefront            cycles that a multiprocessor's shared memory is busy with a wavefront
    l2 bytes             bytes per cycle that the L2 delivers to a multiprocessor, when all ask at once
    queue lsu            instructions of a scheduler that wait for the memory pipe before it stalls

The numbers are in facts.json, a list of rows; `python -m tests.gpu.latency_probe` prints such rows from a
GPU.  Later rows replace those above, so that what was measured goes behind what was published.

A provenance is "measured" (by this project), "published" (a microbenchmark of others), "documented" (NVIDIA's
rates), "derived" (from rates, by division) or "assumed": a guess that nothing states.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from layoutalg.errors import ParseError, UnknownNameError, UnsupportedError

Known: TypeAlias = Literal["measured", "published", "documented", "derived", "assumed"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A number: `what` as in the module's text, in cycles unless it says bytes.

    >>> Fact("sm_90", "latency LDS.32", 29.0, "published", "a table").value
    29.0
    """

    arch: str
    what: str
    value: float
    provenance: Known
    source: str


class Facts:
    """The numbers that are known of an architecture.

    >>> find_facts("sm_90").value("wavefront")
    1.0
    """

    def __init__(self, arch: str, rows: Mapping[str, Fact]) -> None:
        self.arch, self.rows = arch, rows

    def fact(self, what: str) -> Fact | None:
        """The row of a number; of an opcode, that of its longest prefix up to a point, None where none is."""
        while what not in self.rows:
            what, point, _ = what.rpartition(".")
            if not point:
                return None
        return self.rows[what]

    def value(self, what: str) -> float:
        """A number that every architecture has.  Raises UnknownNameError."""
        fact = self.fact(what)
        if fact is None:
            raise UnknownNameError(f"number of {self.arch}", what, self.rows)
        return fact.value


def read_facts(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Facts]:
    """Facts by architecture, from rows as facts.json has them; a later row replaces an earlier one.

    Raises ParseError for a row that is none.

    >>> row = {"arch": "toy", "what": "wavefront", "value": 2, "provenance": "assumed", "source": "nobody"}
    >>> read_facts([row])["toy"].value("wavefront")
    2.0
    """
    tables: dict[str, dict[str, Fact]] = {}
    for row in rows:
        names = set(Fact.__dataclass_fields__)
        if set(row) != names or row["provenance"] not in get_args(Known):
            raise ParseError(f"{dict(row)} is not a row of facts: {', '.join(sorted(names))} are needed")
        value = row["value"]
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ParseError(f"{row['what']} of {row['arch']} is {value!r}: a positive number is needed")
        fact = Fact(row["arch"], row["what"], float(value), row["provenance"], row["source"])
        tables.setdefault(fact.arch, {})[fact.what] = fact
    return MappingProxyType({arch: Facts(arch, MappingProxyType(table)) for arch, table in tables.items()})


@cache
def _stored() -> Mapping[str, Facts]:
    return read_facts(json.loads(files(__package__).joinpath("facts.json").read_text(encoding="utf-8")))


FACTS = "facts.json"
"""The file of the rows, in this room."""


def find_facts(arch: str) -> Facts:
    """The facts of an architecture.  Raises UnsupportedError for one of which nothing is known.

    >>> find_facts("sm_75").fact("latency LDSM.4").provenance
    'published'
    """
    stored = _stored()
    name = arch.removesuffix("a")
    if name not in stored:
        known = ", ".join(stored)
        raise UnsupportedError(f"no latencies of {arch} are known: there are those of {known}")
    return stored[name]
