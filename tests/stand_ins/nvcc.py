"""nvcc for tests: whether it is there, and compilations that fail at every warning."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
FLAGS = ("-std=c++17", "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror")


def nvcc(arguments: Sequence[str | Path]) -> None:
    """Run nvcc with every warning an error.  Raises AssertionError with what it says."""
    assert NVCC is not None
    done = subprocess.run([NVCC, *FLAGS, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def compiled(source: Path, target: str) -> None:
    """Compile a file for an architecture and keep nothing."""
    nvcc(
        ["-gencode", f"arch={target.replace('sm', 'compute')},code={target}", "-c", "-o", "/dev/null", source]
    )
