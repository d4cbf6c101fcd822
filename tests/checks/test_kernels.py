"""The check of a kernel: what it counts is what the source's reading counts, told at the source's lines."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from layoutalg.checks import Results, failure_lines, read_checks, run_checks
from layoutalg.checks.formats import as_github, as_junit, as_sarif
from layoutalg.errors import ParseError
from layoutalg.source import read_kernel
from tests.sweeps import each

ROOT = Path(__file__).parents[2]
SOURCE = """\
template <int T, int PAD> __global__ void transpose(float* out, const float* in, int N) {
    __shared__ float tile[T][T + PAD];
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * N + x];
    __syncthreads();
    out[(blockIdx.x * T + threadIdx.y) * N + blockIdx.y * T + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
"""
CHECK = """
[[kernel]]
file = "transpose.cu"
block = {block}
set = {{T = 32, PAD = {pad}, N = 4096}}
limits = [{limits}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "transpose.cu").write_text(SOURCE)
    return tmp_path


def outcome(folder: Path, limits: str, *, pad: int = 0, block: str = '"32x32"') -> Any:
    """The outcome of the check of the transpose."""
    text = CHECK.format(block=block, pad=pad, limits=limits)
    (found,) = run_checks(read_checks(text, folder=folder))
    return found


@pytest.mark.deep
@each("pad", (0, 1, 2))
@each("block", ('"32x32"', "[32, 32]", "[32, 8]"))
def test_numbers_are_those_of_the_reading(folder: Path, pad: int, block: str) -> None:
    found = outcome(folder, "'accesses >= 1'", pad=pad, block=block)
    sizes = (32, 8) if "8" in block else (32, 32)
    reading = read_kernel(SOURCE, sizes, sets={"T": 32, "PAD": pad, "N": 4096})
    shared = [access for access in reading.memory if access.ways is not None]
    moved = [access for access in reading.memory if access.ways is None]
    assert len(shared) == len(moved) == 2
    assert found.numbers == {
        "accesses": 4,
        "unread": 0,
        "wavefronts": sum(access.total or 0 for access in shared),
        "ideal": sum(access.ideal_total or 0 for access in shared),
        "ways": max(access.ways or 0 for access in shared),
        "sectors": sum(access.total or 0 for access in moved),
        "efficiency": min(Fraction(access.efficiency or 0) for access in moved),
    }
    assert found.numbers["ways"] == {0: 32, 1: 1, 2: 2}[pad]


def test_a_conflict_is_told_at_its_line(folder: Path) -> None:
    found = outcome(folder, "'ways <= 1', 'conflict-free'")
    assert [failure.why for failure in found.failures] == [
        "ways is 32, and the limit is ways <= 1",
        "bank conflicts: ld.shared.b32 tile 32-way (line 6)",
    ]
    assert [one.line for one in found.evidence] == [6]
    assert outcome(folder, "'ways <= 1', 'conflict-free'", pad=1).status == "passed"
    results = Results("layoutalg.toml", [found])
    place = (folder / "transpose.cu").as_posix()
    said = "ld.shared.b32 tile: 32-way, 1024 wavefronts, and 32 without conflicts"
    assert f"::warning file={place},line=6,title=layoutalg kernel::{said}" in as_github(results)
    assert f"{place}, line 6: {said}." in failure_lines(results)
    log = json.loads(as_sarif(results))
    schema = json.loads((ROOT / "tests" / "data" / "sarif_2_1_0.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(log)
    (related,) = log["runs"][0]["results"][0]["relatedLocations"]
    assert related["physicalLocation"]["region"]["startLine"] == 6 and related["message"]["text"] == said
    assert "bank conflicts" in as_junit(results)


def test_what_is_not_read_is_counted_and_told(folder: Path) -> None:
    source = SOURCE.replace("in[y * N + x]", "in[int(out[x])]")
    (folder / "transpose.cu").write_text(source)
    found = outcome(folder, "'unread <= 0'", pad=1)
    assert found.status == "failed" and found.numbers["unread"] >= 1
    assert any("is not read: " in one.what and one.line == 4 for one in found.evidence)


@each(
    "line, part",
    [
        ("block = '32y32'", "line 3, block: '32y32' is not one to three numbers"),
        ("block = 1.5", "line 3, block: 1.5 is not a text"),
        ("block = ['a']", "line 3, block: ['a'] is not a text"),
        ("block = 32\nset = 3", "line 4, set: this is not a table of numbers and texts"),
        ("block = 32\nset = {N = [1]}", "line 4, set: this is not a table of numbers and texts"),
        ("block = 32\nkernel = ''", "line 4, kernel: '' is no name"),
    ],
)
def test_values_that_are_none(folder: Path, line: str, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_checks(f"[[kernel]]\nfile = 'transpose.cu'\n{line}\nlimits = ['ways <= 1']", folder=folder)
    assert part in str(caught.value)
