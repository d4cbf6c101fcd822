"""Bad values in every place of every command: exit code 2 and one sentence; and readers that have left.

Exit code 1 says that a checked property fails, so that nothing that is no answer may end with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import run

TILE = "(64,64):(64,1)"
SHARED = ("--access", "LDS.32")

BAD = ("(4,8):(1@0,1@1)", "(m,n):(n,1)", "(n,8):(1,n)", "x", "", "-1", "None", "1.5", "Sw<9,9,9>", "(0,4)")
"""Coordinates, symbols, and what is no layout, no number, no name and no shape."""

ONE_PLACE: tuple[tuple[str, ...], ...] = (
    ("analyze", "?"), ("analyze", "?", "--access", "ldmatrix.x4"), ("analyze", TILE, "--access", "?"),
    ("analyze", TILE, "--dtype", "?"), ("analyze", TILE, "--arch", "?"), ("analyze", TILE, "--base", "?"),
    ("analyze", TILE, "--fail-on", "?"), ("analyze", TILE, "--method", "?"),
    ("analyze", "--index", "lane*4", "--op", "?"), ("analyze", "--offsets", "?", "--op", "LDS.32"),
    ("analyze", "--index", "lane*4", "--op", "LDS.32", "--warps", "?"),
    ("draw", TILE, "--tile", "?"), ("draw", TILE, "--access", "?"), ("draw", TILE, "--format", "?"),
    ("draw", TILE, "--dtype", "?"),
    ("solve", "(64,64):(ld,1)", "--access", "?"), ("solve", "(64,64):(ld,1)", *SHARED, "--base", "?"),
    ("synthesize", "(64,64)", "--access", "?"), ("synthesize", "(64,64)", *SHARED, "--order", "?"),
    ("synthesize", "(64,64)", *SHARED, "--max-extra-bytes", "?"), ("glossary", "?"), ("cache", "?"),
    ("demo", "?"), ("generate", "transpose", "--m", "?", "--n", "64"), ("verify", "?"), ("bench", "?"),
    ("generate", "transpose", "--m", "64", "--n", "64", "--compile", "?"), ("generate", "?"), ("sass", "?"),
    ("generate", "permute", "--shape", "?", "--axes", "1,0"),
    ("verify", "transpose", "--m", "?", "--n", "64"),
    ("generate", "transpose", "--m", "8", "--n", "8", "--dtype", "?"),
    ("generate", "gemm-sm80", "--m", "64", "--n", "64", "--dtype", "?"),
    ("verify", "transpose", "--m", "8", "--n", "8", "--dtype", "?"),
    ("generate", "permute", "--shape", "64,64", "--axes", "?"),
)  # fmt: skip
"""Commands with one place in which something is wrong."""

MAY_SERVE = (("draw", "?"), ("explain", "?"), ("explain", "complement", "?"), ("synthesize", "?", *SHARED))
"""Commands that have an answer for some of these: the picture of coordinates, the value of a swizzle."""


def _wrong(words: tuple[str, ...], codes: tuple[int, ...]) -> Iterator[str]:
    done = run(*words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        yield f"{words}: {done.exception!r}"
    elif done.exit_code not in codes:
        yield f"{words}: exit code {done.exit_code}: {done.output[-100:]!r}"
    elif done.exit_code == 2 and (done.stderr.count("\n") != 1 or not done.stderr.startswith("layoutalg ")):
        yield f"{words}: not one sentence: {done.stderr!r}"


def test_what_is_wrong_in_one_place_is_bad_input() -> None:
    wrong: list[str] = []
    for words in ONE_PLACE:
        for bad in BAD:
            filled = tuple(bad if word == "?" else word for word in words)
            wrong += _wrong(filled, (2,))
    for words in MAY_SERVE:
        for bad in BAD:
            wrong += _wrong(tuple(bad if word == "?" else word for word in words), (0, 2))
    assert not wrong, "\n".join(wrong)


@pytest.mark.deep
def test_a_closed_pipe_is_no_failed_property() -> None:
    """The exit code is the command's, with nothing on standard error, whenever the reader leaves."""
    for words, code in (
        (("draw", "(64,64):(64,1)"), 0),
        (("analyze", TILE, "--json"), 0),
        (("glossary",), 0),
        (("--help",), 0),
        (("analyze", TILE, "--fail-on", "conflicts"), 1),
        (("analyze", "(4,8"), 2),
    ):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "layoutalg", *words],
            stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        os.close(writer)
        assert done.returncode == code, (words, done)
        assert (done.stderr == "") == (code != 2) and "Traceback" not in done.stderr, (words, done.stderr)
