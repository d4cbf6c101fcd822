"""Progress: on stderr, only on a terminal, and of every command that may take longer than a second."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from layoutalg.cli.table import COMMANDS

ROOT = Path(__file__).parents[2]
QUICK = {
    "doctor cache", "doctor demo", "inspect chart", "convert", "draw", "eval", "help", "legal",
    "inspect roofline",
}  # fmt: skip
"""Commands that look up what is there, judge one layout, or run others; pictures have limits."""


def test_every_command_that_computes_shows_progress() -> None:
    silent = set()
    for name, command in COMMANDS.items():
        file = command.place.partition(":")[0].replace(".", "/")
        text = (ROOT / "layoutalg" / "cli" / "commands" / f"{file}.py").read_text(encoding="utf-8")
        if not re.search(r"\bprogress\(", text):
            silent.add(name)
    assert silent == QUICK


@pytest.mark.deep
def test_progress_is_for_terminals() -> None:
    """The answer is the same in both, and the terminal is left clean."""
    words = [
        sys.executable,
        "-m",
        "layoutalg",
        "identify",
        "--index",
        "4*row + col",
        "--shape",
        "row=8,col=4",
    ]
    piped = subprocess.run(words, cwd=ROOT, capture_output=True, check=True)
    assert piped.stderr == b""
    ours, theirs = pty.openpty()
    shown = subprocess.Popen(
        words, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # what the reader of a terminal is told when its last writer has left
        while part := os.read(ours, 1 << 12):
            seen += part
    os.close(ours)
    assert shown.communicate()[0] == piped.stdout
    assert b"reading" in seen and seen.endswith((b"\x1b[K", b"\x1b[2K"))  # the line is erased
