"""The terms of reports, tables and certificates, each explained in a sentence or two.

>>> print(look_up("wavefronts"))
One pass over the banks of shared memory: at most one word from each bank. A phase takes as many wavefronts as
its busiest bank has different words to serve, an instruction the sum over its phases.
>>> list(GLOSSARY)[:4]
['access', 'alternative', 'atom', 'bank']
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from layoutalg.errors import UnknownNameError


def _entries(text: str) -> dict[str, str]:
    """Term -> meaning, of lines `term: meaning` that go on where they are indented."""
    lines = text.strip().replace("\n  ", " ").split("\n")
    return {term: meaning for term, _, meaning in (line.partition(": ") for line in lines)}


GLOSSARY: Mapping[str, str] = MappingProxyType(
    _entries((files("layoutalg") / "glossary.txt").read_text(encoding="utf-8"))
)
"""Term -> what it means, in alphabetical order; read only."""

_OTHER_NAMES: Mapping[str, str] = MappingProxyType({
    "conflict": "bank conflict", "its ideal": "worst", "kind": "layout", "footprint": "F", "kernel": "K",
    "moved bytes": "sector", "thread-value layout": "TV layout", "phase group": "phase", "box": "TMA",
})  # fmt: skip
"""Words that tables use -> the term under which they are explained."""


def look_up(term: str) -> str:
    """The meaning of a term, in singular or plural; raises UnknownNameError with near names.

    >>> look_up("ways") == look_up("bank conflict") == look_up("Bank conflicts")
    True
    """
    return GLOSSARY[find_term(term)]


def find_term(term: str) -> str:
    """The name under which a term is in the glossary; raises as `look_up` does.

    >>> find_term("its ideal"), find_term("SECTORS"), find_term("k")
    ('worst', 'sector', 'K')
    """
    known = {name.lower(): name for name in GLOSSARY} | dict(_OTHER_NAMES)
    wanted = " ".join(str(term).lower().split())
    for name in (wanted, wanted.removesuffix("s"), wanted.removesuffix("es")):
        if name in known:
            entry = known[name]
            meaning = GLOSSARY[entry]
            return find_term(meaning[4:-1]) if meaning.startswith("See ") else entry
    raise UnknownNameError("term", term, GLOSSARY)
