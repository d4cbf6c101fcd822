"""The command's shell: one door for errors, exit codes, files written whole, inputs checked."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from layoutalg import __version__
from layoutalg.cli.files import write_whole
from layoutalg.cli.inputs import read_fail_on, read_offsets
from layoutalg.cli.output import PAGE, count, size_bytes
from layoutalg.cli.table import COMMANDS, FIRST
from layoutalg.errors import LayoutAlgError, ParseError, ResourceError, ShapeError
from layoutalg.limits import Most
from tests.command import process, run
from tests.sweeps import each

# --- help, version, errors -----------------------------------------------------------------------------


def test_without_words_the_command_introduces_itself() -> None:
    result = run()
    assert result.exit_code == 0
    assert "Exit codes: 0 answered or passed, 1 the checked property fails, 2 bad input" in result.stdout
    assert all(name in result.stdout for name in FIRST) and len(FIRST) <= 22


@each("name", [*COMMANDS])
def test_every_command_has_help_and_json(name: str) -> None:
    result = run(*name.split(), "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert COMMANDS[name].summary in " ".join(result.stdout.split()), "which a list of all reads in the file"
    prose = (
        re.split("\n\n(?:positional arguments|options):", result.stdout)[0].partition("\n\n")[2].splitlines()
    )
    for line, following in itertools.pairwise(prose):  # lines are filled
        if line.strip() and following.strip():
            assert len(f"{line.rstrip()} {following.split()[0]}") > PAGE, line


def test_the_version_is_the_installed_one() -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"layoutalg {__version__}\n"


def test_a_command_that_is_none() -> None:
    result = run("nonsense")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("layoutalg: unknown command 'nonsense': accepted are ")
    payload = json.loads(run("nonsense", "--json").stdout)
    assert (payload["command"], payload["error"]) == ("", "UnknownNameError")


@pytest.mark.deep
def test_a_process_behaves_the_same() -> None:
    """No colours in a pipe, and no character that the terminal lacks."""
    bad = process("draw", "(4,8")
    assert bad.returncode == 2 and bad.stdout == ""
    assert bad.stderr == (
        "layoutalg draw: cannot read '(4,8': expected ',' or ')' at position 4, found the end\n"
    )
    good = process("draw", "(4,8):(8,1)", PYTHONIOENCODING="ascii")
    assert good.returncode == 0 and good.stderr == ""
    assert good.stdout.isascii() and "\x1b" not in good.stdout


# --- files ---------------------------------------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.txt"
    write_whole(path, b"first")
    path.chmod(0o640)
    write_whole(path, b"second")
    assert path.read_bytes() == b"second" and path.stat().st_mode & 0o777 == 0o640

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"third")
    assert path.read_bytes() == b"second"
    assert [p.name for p in tmp_path.iterdir()] == ["out.txt"]


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    for path in (tmp_path, Path(os.devnull)):
        with pytest.raises(OSError, match="not a regular file") as caught:
            write_whole(path, b"x")
        assert caught.value.filename == str(path)
    assert not Path(os.devnull).is_file()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    write_whole(link, b"x")
    assert link.is_symlink() and (tmp_path / "target").read_bytes() == b"x"


def test_draw_writes_what_it_would_print(tmp_path: Path) -> None:
    for name, start in (("x.svg", b"<svg"), ("x.dot", b"digraph"), ("x.txt", b"(4,8):(8,1)")):
        path = tmp_path / name
        result = run("draw", "(4,8):(8,1)", "-o", str(path))
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"wrote {path}")
        assert path.read_bytes().startswith(start)
        printed = run(
            "draw", "(4,8):(8,1)", "--format", {"svg": "svg", "dot": "dot", "txt": "text"}[name[2:]]
        )
        assert printed.stdout.encode() == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" ".join(map(str, range(32))), [list(range(32))]),
        (json.dumps([None] * 32), [[None] * 32]),
        (json.dumps([[0] * 32, [4] * 32]), [[0] * 32, [4] * 32]),
    ],
)
def test_offsets_from_a_file(tmp_path: Path, text: str, expected: list[list[int | None]]) -> None:
    path = tmp_path / "offsets"
    path.write_text(text, encoding="utf-8")
    assert read_offsets(path, 32) == expected


@pytest.mark.parametrize(
    ("content", "error", "part"),
    [
        (b"", ParseError, "offsets has no instruction"),
        (b"1 2 3", ShapeError, "offsets line 1 has 3 offsets"),
        (b"[1.5]", ParseError, "offsets list 0, lane 0: 1.5 is not an offset"),
        (b"[true]", ParseError, "true is not an offset"),
        (b"[" + b"9" * 5000 + b"]", ParseError, "a number too long"),
        (b"\xff\xfe", ParseError, "offsets is not UTF-8 text: line 1, byte 1"),
        (b"-4 " * 32, ShapeError, "offsets line 1, lane 0: offset -4 is not in 0..2^62-1"),
        (b"9223372036854775808 " * 32, ShapeError, "offset 9223372036854775808 is not in"),
        (b" " * (Most.FILE.number + 1), ResourceError, "size of offsets in bytes"),
    ],
    ids=lambda v: repr(v)[:40],
)
def test_offsets_that_are_none(
    tmp_path: Path, content: bytes, error: type[LayoutAlgError], part: str
) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(content)
    with pytest.raises(error) as caught:
        read_offsets(path, 32)
    assert part in str(caught.value)


def test_positions_in_an_offsets_file_point_at_the_word(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    text = " ".join(["0"] * 32) + "\n  0, 0, what"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParseError) as caught:
        read_offsets(path, 32)
    assert text[caught.value.position :] == "what"


def test_conditions_of_fail_on() -> None:
    assert read_fail_on("conflicts").threshold is None
    assert read_fail_on(" efficiency < 0.9 ").threshold == Fraction(9, 10)
    assert read_fail_on("efficiency<1").space == "global"
    for text in (
        "conflict",
        "efficiency>0.9",
        "efficiency<",
        "efficiency<0",
        "efficiency<1.5",
        "efficiency<nan",
    ):
        with pytest.raises(ParseError, match="--fail-on"):
            read_fail_on(text)


def test_numbers_for_people() -> None:
    assert [count(n) for n in (0, 32768, 0.25, 2.0)] == ["0", "32,768", "0.25", "2"]
    sizes = [0, 1023, 1024, 1536, 227 << 10, 5 << 30]
    assert [size_bytes(n) for n in sizes] == ["0 B", "1,023 B", "1 KiB", "1.5 KiB", "227 KiB", "5 GiB"]


# --- any text ------------------------------------------------------------------------------------------
@pytest.mark.deep
def test_a_command_is_imported_when_it_is_asked_for() -> None:
    """The modules that a command loads, which are most of its CPU time, are counted, and have a cap."""
    rooms = "cli.app analysis codegen kernels.checks kernels.tuning.jobs"
    code = (
        "import sys; sys.argv = ['layoutalg', *{words!r}]; before = len(sys.modules)\n"
        "from layoutalg.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*(x for x in {rooms!r}.split() if f'layoutalg.{{x}}' in sys.modules),"
        " len(sys.modules) - before)"
    )
    generate = ["generate", "relu", "--shape", "4,8"]
    for words, loaded, most in (
        (["--version"], [], 62),
        (["analyze", "(32,32):(32,1)", "--access", "ld.shared.b32@col"], ["cli.app", "analysis"], 186),
        (generate, ["cli.app", "analysis", "codegen"], 410),
    ):
        python = [sys.executable, "-c", code.format(words=words, rooms=rooms)]
        done = subprocess.run(python, capture_output=True, text=True, check=True)
        *found, count = done.stdout.splitlines()[-1].split()
        assert found == loaded and int(count) <= most, (words, count)


def test_a_misspelt_command_is_corrected() -> None:
    assert "did you mean 'analyze'?" in run("analyse").stderr
