"""A process in which NumPy and sympy cannot be imported, as in a browser: what it prints for a program."""

from __future__ import annotations

import subprocess
import sys

_BLOCKED = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numpy", "sympy"):
            raise ModuleNotFoundError(f"{name} is blocked", name=name)

sys.meta_path.insert(0, Absent())
"""


def printed_without_numpy(program: str) -> str:
    """What the program prints where neither can be imported; an error of it is an AssertionError."""
    ran = subprocess.run(
        [sys.executable, "-c", _BLOCKED + program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def printed_with_numpy(program: str) -> str:
    """What the same program prints where both are."""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ran.stdout
