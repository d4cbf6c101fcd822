"""Sentences of documents and of the help that speak of all cases or state a figure, and what holds them.

The register is tests/docs/claims.toml: document -> what holds a claim -> excerpts of the sentences that it
holds.  A claim is held by a test, whose identifier is named, or by one of HOLDERS.  Blocks of code and
regions of figures are left out here, because they are run and printed; a table is one sentence.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from layoutalg.cli.parameters import ABOUT, parameters_of
from layoutalg.cli.table import COMMANDS
from tests.docs.figures import REGION
from tests.documents import BLOCK, DOCUMENTS, ROOT

REGISTER = Path(__file__).parent / "claims.toml"
HOLDERS = {
    "definition": "says what a word, an option, a column or a design means",
    "theory": "is proved on its page, or is a step of that proof",
    "transcript": "is shown by the block beside it, which is run",
    "run": "is what a run had whose command or date the sentence or its section names",
    "cited": "is what a publication or a thread that the page links says",
}
"""What holds a claim beside a test."""

HELP = "help"
"""The name of the help of all commands in the register."""

_ALL = re.compile(r"\b(all|never|every|equals?|any|always|none)\b", re.I)
_FIGURE = re.compile(r"(?<![\w.<>(,:=-])(?<!>= )\d[\d,]*\.\d+(?![\w.])|\d ?%")
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*(\[\"])")


def units(text: str) -> Iterator[str]:
    """Sentences and tables of a document, each on one line."""
    text = BLOCK.sub("\n", REGION.sub("\n", text))
    text = re.sub(r"^    .*$", "", text, flags=re.M)
    for block in re.split(r"\n\s*\n|\n(?=[*-] )", text):
        line = " ".join(block.split())
        if not line.startswith("#"):
            yield from [line] if line.startswith("|") else _SENTENCE.split(line)


def is_claim(unit: str) -> bool:
    """True for a sentence of all cases or with a figure; code in it and addresses of links do not count."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", unit)
    return bool(_ALL.search(plain) or _FIGURE.search(plain))


_STATED = re.compile(
    r"(?<![\w.^/#-])(?:\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+|\d+(?=(?:(?:, \d+)* and \d+)? ?%))(?!\w|\.\d)"
)
"""A figure in a sentence: with decimals or thousands, or of per cent; others are counts and names."""


def figures(unit: str) -> set[float]:
    """The figures of a sentence or table; code in it and addresses of links do not count."""
    return {float(x.replace(",", "")) for x in _STATED.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", unit))}


def shown(text: str) -> set[float]:
    """All numbers in blocks and printed regions of a document."""
    parts = [part[0] for pattern in (BLOCK, REGION) for part in pattern.finditer(text)]
    found = re.findall(r"\d[\d,]*(?:\.\d+)?", "\n".join([*parts, *re.findall(r"^    .*$", text, re.M)]))
    return {float(x.replace(",", "")) for x in found}


def claims(text: str) -> list[str]:
    """The claims of a document."""
    return [unit for unit in units(text) if is_claim(unit)]


def help_texts() -> Iterator[str]:
    """Texts of all commands and their parameters."""
    yield ABOUT
    for command in COMMANDS.values():
        yield inspect.getdoc(command.function) or ""
        yield from (declared.help for _, declared in parameters_of(command.function))


@cache
def documents() -> dict[str, str]:
    """Texts by the names that the register uses."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in DOCUMENTS}
    return {**texts, HELP: "\n\n".join(dict.fromkeys(help_texts()))}


@cache
def register() -> Mapping[str, Mapping[str, list[str]]]:
    """Document -> holder -> excerpts; `pages` has the tests that hold a whole document."""
    return tomllib.loads(REGISTER.read_text(encoding="utf-8"))


def held(document: str) -> list[str]:
    """Excerpts of the claims of a document that are listed."""
    return [excerpt for excerpts in register().get(document, {}).values() for excerpt in excerpts]
