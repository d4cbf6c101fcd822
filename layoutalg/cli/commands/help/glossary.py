"""`layoutalg glossary`: what the words of reports and certificates mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from layoutalg.answers import Answer
from layoutalg.cli.options import JsonOption, argument, terms
from layoutalg.cli.output import say, say_answer
from layoutalg.glossary import GLOSSARY, find_term


@dataclass(frozen=True)
class Glossary(Answer, command="glossary"):
    """Terms and what they mean."""

    terms: Mapping[str, str]


def glossary_command(
    terms: Annotated[
        list[str] | None,
        argument("Terms, such as wavefront, phase or 'worst base'. Default: all.", complete=terms),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Explain the terms of tables, sentences and certificates.

    layoutalg glossary wavefront phase
    """
    names = list(dict.fromkeys(map(find_term, terms))) if terms else list(GLOSSARY)
    if as_json:
        say_answer(Glossary({name: GLOSSARY[name] for name in names}))
    else:
        say(*(f"{name}: {GLOSSARY[name]}" for name in names))
    return 0
