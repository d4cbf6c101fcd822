"""COMMANDS: every command, and the function that it runs; ADD A COMMAND HERE.

A command is imported when it is asked for: `layoutalg glossary` does not pay for `layoutalg bench`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """Its module and function under commands/; whether it takes --budget, and its help names the glossary."""

    place: str
    budget: bool = False
    terms: bool = False

    @property
    def function(self) -> Callable[..., Any]:
        """The function, imported now."""
        module, _, name = self.place.partition(":")
        run: Callable[..., Any] = getattr(importlib.import_module(f"layoutalg.cli.commands.{module}"), name)
        return run


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
    "chart": Command("times.chart:chart_command"),
    "sass": Command("kernels.sass:sass_command"),
    "occupancy": Command("kernels.occupancy:occupancy_command", terms=True),
    "roofline": Command("times.roofline:roofline_command"),
    "l2": Command("kernels.l2_order:l2_command"),
    "registers": Command("kernels.registers:registers_command"),
    "pipeline": Command("kernels.pipeline:pipeline_command"),
    "profile": Command("accesses.profile_kernel:profile_command", budget=True),
    "draw": Command("layouts.draw:draw_command", budget=True),
    "report": Command("accesses.report:report_command", budget=True),
    "glossary": Command("help.glossary:glossary_command"),
    "cache": Command("help.cache:cache_command"),
    "doctor": Command("help.doctor:doctor_command"),
    "demo": Command("help.demo:demo_command"),
}
