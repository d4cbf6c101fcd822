"""`layoutalg help`: the commands, one of them, or what the words of reports and certificates mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from layoutalg.answers import Answer
from layoutalg.cli.options import argument, helped
from layoutalg.cli.output import say, say_answer, wants_json
from layoutalg.cli.parameters import overview, parser_of, part_overview
from layoutalg.cli.table import FIRST, named
from layoutalg.glossary import GLOSSARY, find_term


@dataclass(frozen=True)
class Help(Answer, command="help"):
    """Terms and what they mean."""

    terms: Mapping[str, str]


def help_command(
    terms: Annotated[
        list[str] | None,
        argument(
            "A command, terms such as wavefront, phase or 'worst base', or glossary. "
            "Default: the commands; with --json the glossary.",
            complete=helped,
        ),
    ] = None,
) -> int:
    """Explain a command, or the terms of tables, sentences and certificates.

    layoutalg help analyze

    layoutalg help wavefront phase
    """
    words = terms or []
    if not wants_json() and (not words or words[0] in FIRST):
        name, rest = named(words)
        if not words:
            overview().print_help()
            return 0
        if not rest:
            parser_of(name).print_help()
            return 0
        if not name and len(words) == 1:
            part_overview(words[0]).print_help()
            return 0
    every = not words or words == ["glossary"]
    names = list(GLOSSARY) if every else list(dict.fromkeys(map(find_term, words)))
    if wants_json():
        say_answer(Help({name: GLOSSARY[name] for name in names}))
    else:
        say(*(f"{name}: {GLOSSARY[name]}" for name in names))
    return 0
