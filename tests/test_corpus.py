"""The CUDA sources of tests/data/sources: their expected costs are the counted ones, and they compile."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.corpus import SOURCES, expected
from tests.corpus.measure import FOLDER, Source

CHECKED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def names(source: Source) -> str:
    return source.file


@pytest.mark.parametrize("source", SOURCES, ids=names)
def test_expected_is_counted(source: Source) -> None:
    """Each entry of expected.json is what the enumeration gives."""
    assert CHECKED[source.file] == expected(source)


def test_no_source_is_left_out() -> None:
    """Every file of the folder has its accesses written down, and no entry is of a file that is gone."""
    files = {path.name for path in FOLDER.glob("*.cu")}
    assert files == set(CHECKED) == {source.file for source in SOURCES}


@pytest.mark.deep
@pytest.mark.parametrize("source", SOURCES, ids=names)
def test_source_compiles(source: Source, tmp_path: Path) -> None:
    """nvcc takes the file as it is."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not on PATH")
    command = [nvcc, "-arch=sm_90a", "-cubin", "-o", str(tmp_path / "out.cubin"), str(FOLDER / source.file)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
