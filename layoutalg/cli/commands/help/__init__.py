"""Commands for finding one's way: what is installed, what is on disk, what words mean, and one guided run.

doctor      what is installed, what works without it, and how to get the rest
cache       the compiled kernels on disk
glossary    what the words of reports and certificates mean
demo        the whole way from a layout to a verified kernel, in one guided run
"""

from __future__ import annotations

from layoutalg.cli.commands.help.cache import cache_command
from layoutalg.cli.commands.help.demo import demo_command
from layoutalg.cli.commands.help.doctor import doctor_command
from layoutalg.cli.commands.help.glossary import glossary_command

__all__ = [
    "cache_command",
    "demo_command",
    "doctor_command",
    "glossary_command",
]
