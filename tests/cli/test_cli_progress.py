"""Progress: on stderr, only on a terminal, and of every command that may take longer than a second."""

from __future__ import annotations

import ast
import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = {"doctor cache", "inspect chart", "convert", "draw", "help", "legal", "inspect roofline"}
"""Commands that look up what is there or judge one layout; pictures have a limit on their cells."""


def test_every_command_that_computes_shows_progress() -> None:
    silent = []
    for path in sorted((ROOT / "layoutalg" / "cli" / "commands").glob("*.py")):
        calls = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        if path.stem not in QUICK | {"__init__"} and "progress" not in calls:
            silent.append(path.stem)
    assert not silent, silent


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
    assert b"reading" in seen and seen.rstrip().endswith(b"\x1b[2K")
