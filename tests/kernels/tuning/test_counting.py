"""Counters of many cases: what the profiler is asked, what is read of its text, and what is refused.

A program of a few lines that is named ncu stands for the profiler, or a function for all launches.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import layoutalg.codegen.gpu
from layoutalg.codegen.costs import BYTES_READ, COUNTERS, predicted_counters
from layoutalg.codegen.gpu import Compared, CompiledSequence, Run, compare, counters
from layoutalg.codegen.gpu.counters import count_launches, launches_in
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.program import LaunchSequence, launch_sequence
from layoutalg.errors import ProfilerError
from layoutalg.kernels.tuning import counting
from tests.command import answer, refusal, run
from tests.sweeps import each

STORED = COUNTERS["sectors stored"]
Outcome = tuple[str, list[dict[str, Any]]]


def text_of(launches: Sequence[dict[str, Any]]) -> str:
    """What the profiler prints of launches."""
    lines = [
        f'"{n}","77","k","Command line profiler metrics","{name}","sector","{value}"'
        for n, launch in enumerate(launches)
        for name, value in launch.items()
    ]
    head = '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
    return "\n".join(["==PROF== Connected to process 77", "==PROF== Profiling", head, *lines])


@pytest.fixture
def profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts a program on PATH that keeps what it was asked; a call notes outcomes and prints a text."""

    def install(*calls: tuple[str, str], status: int = 0) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        program, asked = folder / "ncu", tmp_path / "asked.jsonl"
        program.write_text(
            f"#!{sys.executable}\nimport json, sys\n"
            f"with open({str(asked)!r}, 'a+') as file:\n"
            "    file.seek(0)\n    number = len(file.readlines())\n"
            "    file.write(json.dumps(sys.argv[1:]) + '\\n')\n"
            f"done, text = {list(calls)!r}[min(number, {len(calls) - 1})]\n"
            "if done:\n    open(sys.argv[-1] + '.done', 'w').write(done)\n"
            f"print(text)\nsys.exit({status})\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        return asked

    return install


def runs(count: int) -> list[Run]:
    """Runs of sequences of one kernel; what they hold is never launched."""
    return [Run(CompiledSequence(launch_sequence([]), (None,)), {}) for _ in range(count)]  # type: ignore[arg-type]


def test_runs_share_a_process_until_one_fails(profiler: Callable[..., Path]) -> None:
    asked = profiler(
        ("\n\nCUDARuntimeError: illegal address\n", text_of([{STORED: 4}, {STORED: "1,024"}])),
        ("\n", text_of([{STORED: 7}])),
    )
    found = count_launches(runs(4), [STORED], timeout_s=60)
    assert found == [({STORED: 4.0},), ({STORED: 1024.0},), "CUDARuntimeError: illegal address",
                     ({STORED: 7.0},)]  # fmt: skip
    first, _ = map(json.loads, asked.read_text().splitlines())
    assert first[first.index("--metrics") + 1] == STORED and "--profile-from-start" in first


READ = text_of([{STORED: "4,096"}])


@each(
    "text",
    ["", "==WARNING== No kernels were profiled.", '"ID"\n"0"\n',
     *(READ.replace('"4,096"', f'"{wrong}"') for wrong in ("n/a", "nan", "-1"))],
)  # fmt: skip
def test_what_the_profiler_prints_is_read(text: str) -> None:
    assert launches_in(READ) == [{STORED: 4096.0}] and not any(launches_in(text))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (("", "==ERROR== the application returned 1"), "counted nothing: .* the application returned"),
        (("", "==ERROR== ERR_NVGPUCTRPERM - no permission"), "for administrators"),
        (("\n", "==ERROR== Failed to profile kernel"), "cannot count a launch: .* Failed to profile"),
        (("\n", READ.replace("4,096", "n/a")), "cannot count a launch"),
    ],
)
def test_where_nothing_is_counted_its_words_are_kept(
    call: tuple[str, str], word: str, profiler: Callable[..., Path]
) -> None:
    profiler(call, status=1)
    with pytest.raises(ProfilerError, match=word):
        count_launches(runs(1), [STORED], timeout_s=60)


def test_a_profiler_that_hangs_is_ended(profiler: Callable[..., Path], tmp_path: Path) -> None:
    profiler(("", ""))
    (tmp_path / "bin" / "ncu").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    with pytest.raises(TimeoutError, match="within 1 s"):
        count_launches(runs(1), [STORED], timeout_s=1)


@pytest.fixture
def counted(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[LaunchSequence, dict[str, int]], Any]], None]:
    """A GPU by name whose counters are those predicted, changed by a function; nothing is compiled."""

    def install(change: Callable[[LaunchSequence, dict[str, int]], Any]) -> None:
        def count(runs: Sequence[Run], metrics: Sequence[str], *, timeout_s: float) -> Any:
            assert not runs or (tuple(metrics) == tuple(COUNTERS.values()) and timeout_s > 0)
            return [change(run.compiled.sequence, dict(run.given)) for run in runs]

        here = GpuStatus(True, "NVIDIA H200", "sm_90a")
        monkeypatch.setattr(layoutalg.codegen.gpu, "require_gpu", lambda: here)
        monkeypatch.setattr(layoutalg.codegen.gpu, "profiler", lambda: "ncu")
        monkeypatch.setattr(counting, "in_processes", lambda work, items: list(map(work, items)))
        monkeypatch.setattr(counting, "each_in_processes", map)
        monkeypatch.setattr(
            counters, "compile_sequence", lambda sequence, arch: CompiledSequence(sequence, ())
        )
        monkeypatch.setattr(counters, "count_launches", count)

    return install


def as_predicted(sequence: LaunchSequence, given: dict[str, Any], more: int = 0) -> Any:
    """The counters of one launch that are predicted, with `more` sectors stored."""
    scalars = {name: x for name, x in given.items() if isinstance(x, int)}
    found = {COUNTERS[name]: float(n) for name, n in predicted_counters(sequence, scalars, "sm_90a").items()}
    return ({**found, STORED: found[STORED] + more},)


def test_only_wavefronts_that_were_issued_as_predicted_are_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs whose wavefronts differ are launched again, and no others; once more where nothing was counted."""
    asked = list[tuple[int, int]]()

    def count(asking: Sequence[Run], metrics: Sequence[str], *, timeout_s: float) -> Any:
        asked.append((len(asking), len(metrics)))
        issued = 0.0 if len(asked) == 2 else 4.0
        return [({x: issued if "sass" in x else 9.0 for x in metrics},) for _ in asking]

    monkeypatch.setattr(counters, "count_launches", count)
    (empty,) = runs(1)
    wavefronts = [replace(empty, predicted={"wavefronts stored": n}) for n in (9, 8, 7, 10)]
    found = compare([*wavefronts, replace(empty, predicted={"sectors stored": 8})])
    assert asked == [(5, len(COUNTERS)), (3, 4), (3, 4)] and all(isinstance(x, Compared) for x in found)
    assert [(len(x.replayed), len(x.apart)) for x in found if isinstance(x, Compared)] == [
        (0, 0), (1, 0), (0, 1), (0, 1), (0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "apart"),
    [(0, False), (26144, False), (-26144 - 512, False), (26145, True), (-26145 - 512, True)],
)
def test_bytes_of_memory_may_differ_by_two_percent_and_six_kib_and_code_that_is_not_run(
    more: int, apart: bool
) -> None:
    found = Compared({BYTES_READ: 1000000}, {BYTES_READ: 1000000 + more}, unrun=512)
    assert bool(found.apart) == apart and not found.replayed


WORDS = ("verify", "relu", "--random", "4", "--counters")


def test_equal_counters_pass(counted: Callable[..., None]) -> None:
    counted(as_predicted)
    shown = answer(*WORDS)
    assert shown["passed"] and not shown["reports"]
    assert [shown["random"][name] for name in ("passed", "compared", "equal", "missing")] == [4, 16, 16, 0]


def test_a_number_that_differs_fails_the_command_and_is_made_smaller(counted: Callable[..., None]) -> None:
    def wrong(sequence: LaunchSequence, given: dict[str, Any]) -> Any:
        return as_predicted(sequence, given, 4 * (given["dst"].nbytes >= 16))

    counted(wrong)
    told = run(*WORDS)
    said = " ".join(told.output.split())
    assert told.exit_code == 1 and said.endswith("FAILED."), told.output
    assert "12 of 16 numbers equal, 4 differ." in said
    assert "The smallest problem found that differs: relu" in said
    least = said.partition("that differs: ")[2]
    assert "sectors stored 1, counted 5" in least, least
    shown = answer(*WORDS, exit_code=1)
    assert len(shown["reports"]) == 4 and not shown["reports"][0]["passed"]


def test_numbers_that_are_not_in_the_report_and_failures_do_not_pass(counted: Callable[..., None]) -> None:
    counted(lambda sequence, given: ({STORED: as_predicted(sequence, given)[0][STORED]},))
    shown = answer(*WORDS, exit_code=1)
    assert [shown["random"][name] for name in ("equal", "missing")] == [4, 12]
    said = " ".join(run(*WORDS).output.split())
    assert said.endswith("Not passed: 12 predicted numbers were not counted.")
    counted(lambda sequence, given: "CUDARuntimeError: illegal address")
    said = " ".join(run(*WORDS).output.split())
    assert "illegal address" in said and said.endswith("FAILED.")


def test_what_cannot_be_counted_is_refused(
    counted: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> str:
        raise ProfilerError("ncu is not on PATH")

    counted(as_predicted)
    monkeypatch.setattr(layoutalg.codegen.gpu, "profiler", absent)
    assert refusal(*WORDS, exit_code=3) == ("ProfilerError", "ncu is not on PATH")
    for words, part in (
        (("--counters",), "goes with random cases"),
        ((*WORDS[2:], "--store", "x"), "keeps no store"),
        ((*WORDS[2:], "--scheduler", "tcp://x"), "keeps no store"),
    ):
        kind, said = refusal(*WORDS[:2], *words)
        assert kind == "UnsupportedError" and part in said
