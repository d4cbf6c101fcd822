"""COMMANDS: every command, and the function that it runs; ADD A COMMAND HERE.

A command is imported when it is asked for: `layoutalg help` does not pay for `layoutalg bench`.  A name of
two words is a part of what the first one shows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Command(NamedTuple):
    """Its module and function under commands/; whether it takes --budget, and its help names terms."""

    place: str
    budget: bool = False
    terms: bool = False

    @property
    def function(self) -> Callable[..., Any]:
        """The function, imported now."""
        module, _, name = self.place.partition(":")
        run: Callable[..., Any] = getattr(importlib.import_module(f"layoutalg.cli.commands.{module}"), name)
        return run

    @property
    def summary(self) -> str:
        """The first paragraph of the function's docstring, read in its file: a list of all imports none."""
        module, _, name = self.place.partition(":")
        text = (_COMMANDS / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        return " ".join(text.partition(f"def {name}(")[2].split('"""')[1].split("\n\n")[0].split())


_COMMANDS = Path(__file__).parent / "commands"


COMMANDS: dict[str, Command] = {
    "analyze": Command("accesses.analyze:analyze_command", budget=True, terms=True),
    "solve": Command("layouts.solve:solve_command", budget=True, terms=True),
    "synthesize": Command("layouts.synthesize:synthesize_command", budget=True, terms=True),
    "eval": Command("layouts.evaluate:eval_command", budget=True),
    "explain": Command("layouts.explain:explain_command", budget=True),
    "code": Command("layouts.index_code:code_command", budget=True),
    "identify": Command("layouts.identify:identify_command", budget=True),
    "convert": Command("layouts.convert:convert_command", budget=True),
    "check": Command("layouts.check:check_command", budget=True),
    "legal": Command("layouts.legal:legal_command", budget=True),
    "ci": Command("layouts.ci:ci_command", budget=True),
    "kernel": Command("accesses.kernel:kernel_command", budget=True, terms=True),
    "generate": Command("kernels.generate:generate_command", budget=True),
    "verify": Command("kernels.verify:verify_command", budget=True),
    "bench": Command("times.bench:bench_command"),
    "tune": Command("times.tune:tune_command"),
    "profile": Command("accesses.profile_kernel:profile_command", budget=True),
    "inspect sass": Command("kernels.sass:sass_command"),
    "inspect occupancy": Command("kernels.occupancy:occupancy_command", terms=True),
    "inspect registers": Command("kernels.registers:registers_command"),
    "inspect pipeline": Command("kernels.pipeline:pipeline_command"),
    "inspect l2": Command("kernels.l2_order:l2_command"),
    "inspect roofline": Command("times.roofline:roofline_command"),
    "inspect chart": Command("times.chart:chart_command"),
    "draw": Command("layouts.draw:draw_command", budget=True),
    "report": Command("accesses.report:report_command", budget=True),
    "doctor": Command("help.doctor:doctor_command"),
    "doctor cache": Command("help.cache:cache_command"),
    "doctor demo": Command("help.demo:demo_command"),
    "help": Command("help.words:help_command"),
}

FIRST = tuple(dict.fromkeys(name.partition(" ")[0] for name in COMMANDS))
"""The first words of the names."""


def named(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The name with which some words begin, "" where they begin with none, and the words behind it."""
    for length in (2, 1):
        if " ".join(words[:length]) in COMMANDS:
            return " ".join(words[:length]), words[length:]
    return "", words
