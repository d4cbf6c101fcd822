"""Every script in examples/ runs top to bottom; its own assertions are the test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_examples() -> None:
    assert len(SCRIPTS) >= 3


@pytest.mark.deep(
    only=(
        *("check_your_own_index", "find_a_swizzle", "generate_a_kernel", "pictures", "property_checks"),
        *("store_a_fragment", "tile_a_gemm"),
    )
)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.strip(), "an example shows something"
    assert "assert " in script.read_text(encoding="utf-8"), "and checks it"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_imports_the_libraries_that_it_says_it_needs(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    head, _, code = text.partition('"""')[2].partition('"""')
    for library in ("hypothesis", "numpy", "cupy", "torch"):
        if re.search(rf"needs [^\n]*\b{library}\b", head):
            assert re.search(rf"^\s*(import|from) {library}\b", code, re.MULTILINE), library
