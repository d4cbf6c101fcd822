"""code, identify and check: what they print, their exit codes, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import answer, invoke, refusal, run
from tests.draws.index_functions import read

TILE = "Sw<3,3,3> o 0 o (8,64):(64,1)"


def test_code_prints_one_function_and_nothing_else() -> None:
    text = run("code", TILE, "--to", "cuda", "--name", "swz").stdout
    layout = read(TILE)
    assert text == layout.code("cuda", "swz") + "\n"
    fields = answer("code", TILE, "--to", "python", "--through", "(8,64):(64,1)", "--names", "tid,u")
    assert fields["to"] == "python" and fields["code"].startswith("def f(tid, u):")
    copied = run(
        *("code", "(16,64):(64,1)", "--copy", "UniversalCopy<uint128_t>", "--threads", "(16,8):(8,1)"),
        *("--values", "(1,8)", "--dtype", "f16", "--unit", "bytes", "--to", "cuda"),
    ).stdout
    assert "unsigned tid, unsigned u" in copied and "in bytes" in copied
    carried = run("code", "(8,4):(4,64)", "--carry", "col", "--to", "cuda").stdout
    assert "adds 64 to the pointer" in carried


@pytest.mark.deep
def test_identify_and_check_go_with_what_code_prints(tmp_path: Path) -> None:
    file = tmp_path / "swz.cu"
    file.write_text(run("code", TILE, "--to", "cuda", "--name", "swz").stdout)
    found = run("identify", str(file), "--shape", "row=8,col=64", "--function", "swz")
    assert found.stdout.splitlines()[0] == TILE and found.exit_code == 0
    checked = run("check", TILE, str(file), "--function", "swz")
    assert checked.exit_code == 0 and "the same at all 512 coordinates" in checked.stdout
    assert "process of its own" in checked.stdout
    other = run("check", "(8,64):(64,1)", str(file), "--function", "swz", "--json")
    assert other.exit_code == 1 and '"equal": false' in other.stdout
    file.write_text("int f(int i) { volatile int go = 1; while (go) {} return i; }")
    ended = run("check", "8:1", str(file), "--timeout", "1")
    assert ended.exit_code == 1 and "has not returned at index 0 after 1 s" in ended.stdout


def test_identify_reads_expressions_and_arrays(tmp_path: Path) -> None:
    assert run("identify", "--index", "row*72+col", "--shape", "row=8,col=64").stdout.startswith(
        "(8,64):(72,1)\npadded"
    )
    none = run("identify", "--index", "row*col", "--shape", "row=4,col=4")
    assert none.exit_code == 1 and none.stdout.startswith(
        "No layout: offsets do not add: f(1,1) - f(0,0) is 1"
    )
    assert answer("identify", "--index", "i*i", "--shape", "8", exit_code=1)["layout"] is None
    file = tmp_path / "offsets.txt"
    file.write_text("# rows\n0 1 2 3\n8 9 10 11\n")
    assert run("identify", str(file)).stdout.splitlines()[0] == "(2,4):(8,1)"
    file.write_text("{{0, 1}, {4, 5}}")
    assert answer("identify", str(file))["kind"] == "padded"


def test_files_that_are_no_text_are_refused_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "odd.cu"
    file.write_bytes(b"int f(int i) {\n  return \xff;\n}")
    for words in (("identify", str(file), "--shape", "8"), ("check", "8:1", str(file))):
        assert "line 2, byte 10 of it does not decode" in run(*words).stderr
    file.write_bytes(b"x" * ((1 << 20) + 1))
    assert "size of" in run("identify", str(file), "--shape", "8").stderr
    file.write_text("int f(int i) {\n  return i +;\n}")
    assert refusal("identify", str(file), "--shape", "8")[0] == "ParseError"
    assert "line 2, column 13" in run("identify", str(file), "--shape", "8").stderr
    refused = run("check", "8:1", str(file))
    assert refused.exit_code == 2 and "odd.cu:2:13" in refused.stderr


@pytest.mark.parametrize("source", ["int f(int i) { return i; }", "def f(i): return i", "0 1 2 3 4 5 6 7"])
def test_a_source_may_come_from_standard_input(source: str) -> None:
    made = invoke("identify", "-", "--shape", "8", input=source)
    assert made.exit_code == 0 and made.stdout.startswith("8:1")
