"""`python -m layoutalg` is the command."""

from __future__ import annotations

import subprocess
import sys

import layoutalg


def test_the_module_is_the_command() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "layoutalg", "--version"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0 and layoutalg.__version__ in run.stdout


def test_its_exit_status_is_the_commands() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "layoutalg", "analyze", "(2"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2 and "Traceback" not in run.stderr
