"""`python -m layoutalg` is the command."""

from __future__ import annotations

import subprocess
import sys

import pytest

import layoutalg


@pytest.mark.parametrize(("words", "status"), [(("--version",), 0), (("analyze", "(2"), 2)])
def test_the_module_is_the_command(words: tuple[str, ...], status: int) -> None:
    command = [sys.executable, "-m", "layoutalg", *words]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == status and "Traceback" not in run.stderr
    assert status or layoutalg.__version__ in run.stdout
