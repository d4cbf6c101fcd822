"""Commands that answer yes or no, with a reason.

check       whether a function of a user's own is a layout
legal       whether the hardware accepts a request
ci          a file of checks, with the outcomes in the form that a CI reads
"""

from __future__ import annotations

from layoutalg.cli.commands.checks.check import check_command
from layoutalg.cli.commands.checks.ci import ci_command
from layoutalg.cli.commands.checks.legal import legal_command

__all__ = [
    "check_command",
    "ci_command",
    "legal_command",
]
