"""Hops: what a reader opens to follow a kernel from its problem to its text, counted by tracing one call.

The numbers of a board are read once for all families, and how they are read is counted by itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import layoutalg
from layoutalg.arch import find_arch
from layoutalg.codegen import to_cuda
from layoutalg.kernels import find_family
from layoutalg.kernels.model import machine_of
from tests.work import entered

HOME = Path(layoutalg.__file__).parent

PROBLEMS: dict[str, dict[str, Any]] = {
    "softmax": {"shape": (4096, 4096), "axes": -1, "dtype": "f16"},
    "permute": {"shape": (64, 128, 256), "axes": (2, 0, 1), "dtype": "f16"},
    "gemm-sm90": {"m": 4096, "dtype": "f16"},
}

BOARD = "numbers of a board"

CAPS = {
    BOARD: {"files": 2, "lines": 394, "functions": 20},
    "softmax": {"files": 14, "lines": 3840, "functions": 629},
    "permute": {"files": 11, "lines": 3445, "functions": 574},
    "gemm-sm90": {"files": 15, "lines": 5179, "functions": 874},
}
"""Files of kernels/ that are opened, their lines, and the functions entered in all; caps that only fall."""


def way(name: str) -> Callable[[], object]:
    """The code that makes the text of a family's problem, or reads the numbers of a board."""
    if name == BOARD:
        return lambda: (machine_of("sm_90"), machine_of(find_arch("sm_90")))
    family = find_family(name)

    def text() -> None:
        p = family.problem(**PROBLEMS[name])
        to_cuda(family.build(p, family.choose(p)), "sm_90a")

    return text


def hops(name: str) -> dict[str, int]:
    """The hops of a way; only the first count of a process is whole, since answers are kept."""
    seen = entered(way(name), str(HOME))
    files = {path for code in seen if (path := Path(code.co_filename)).is_relative_to(HOME / "kernels")}
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    return {"files": len(files), "lines": lines, "functions": len(seen)}


@pytest.mark.deep
def test_a_kernel_is_followed_in_few_hops() -> None:
    """In a process of its own, where nothing was asked before."""
    run = subprocess.run(
        [sys.executable, "-m", __name__], cwd=HOME.parent, capture_output=True, text=True, check=True
    )
    for name, counts in json.loads(run.stdout).items():
        over = {what: n for what, n in counts.items() if n > CAPS[name][what]}
        assert not over, f"{name} takes {over}, at most {CAPS[name]}"


if __name__ == "__main__":
    print(json.dumps({name: hops(name) for name in CAPS}))
