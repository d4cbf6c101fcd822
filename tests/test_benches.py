"""The benches of tests/bench: what they say of how they are run is so, and each way of running them works."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHES = {path.stem: path for path in sorted((Path(__file__).parent / "bench").glob("bench_*.py"))}
TAKES_OPTIONS = [name for name, path in BENCHES.items() if "options(" in path.read_text()]

WAYS = (
    "bench_random views --cases 2",
    "bench_random views --cases 2 --numpy",
    "bench_random permutes --cases 2",
    "bench_random permutes --cases 2 --draw matrices --best --arch sm_75",
    "bench_random synthesis --cases 2",
    "bench_random text --cases 1 --only guards",
    "bench_random readers --cases 2",
    "bench_random options --cases 2",
    "bench_random commands --cases 1",
    "bench_random index-text --cases 20 --compiled 0",
    "bench_random index-code --cases 20",
    "bench_random index-code --cases 5 --wild",
    "bench_random notation --cases 10",
)
"""Runs as small as they may be; those that start processes of their own are left to whoever runs them."""


class Taken(Exception):
    """A command line was read."""


def started(monkeypatch: pytest.MonkeyPatch, name: str, words: list[str]) -> None:
    """Run a bench as a program."""
    monkeypatch.setattr(sys, "argv", [str(BENCHES[name]), *words])
    monkeypatch.setattr(sys, "path", [*sys.path])
    runpy.run_path(str(BENCHES[name]), run_name="__main__")


@pytest.mark.parametrize("name", TAKES_OPTIONS)
def test_the_command_lines_that_a_bench_states_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = argparse.ArgumentParser.parse_args

    def taken(self: Any, *words: Any) -> None:
        read(self, *words)
        raise Taken

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", taken)
    text = BENCHES[name].read_text().split('"""')[1]
    lines = re.findall(rf"^    python tests/bench/{name}\.py(.*?)(?:   .*)?$", text, re.M)
    assert lines and text.count("tests/bench/bench_") == len(lines)
    for line in lines:
        with pytest.raises(Taken):
            started(monkeypatch, name, shlex.split(re.sub(r"[][]", "", line)))


@pytest.mark.deep(only=("bench_random notation --cases 10",))
@pytest.mark.parametrize("way", WAYS)
def test_a_bench_runs_and_finds_nothing(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *words = shlex.split(way)
    with pytest.raises(SystemExit) as ended:
        started(monkeypatch, name, words)
    assert ended.value.code == 0


@pytest.mark.parametrize(
    "way",
    [
        "bench_random text --only zzz", "bench_mutants --only zzz", "bench_mutants --kinds zzz",
    ],
)  # fmt: skip
def test_a_bench_of_nothing_is_refused(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It printed that nothing was wrong."""
    name, *words = shlex.split(way)
    with pytest.raises(SystemExit) as ended:
        started(monkeypatch, name, words)
    assert ended.value.code == 2
