"""The `layoutalg` command: analyze, solve, synthesize, explain, generate, verify, bench, sass, draw,
cache, demo.

Every command answers with tables, or with `--json` as one JSON object that follows
layoutalg/schema/output.json, and exits 0 when it answered or the check passed, 1 when the checked property
fails, 2 on bad input, 3 when there is no answer for another reason, 130 on an interrupt.
"""

from layoutalg.cli.entry import main

__all__ = ["main"]
