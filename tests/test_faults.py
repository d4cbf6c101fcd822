"""The cubin cache and the command under faults, a few of each kind; tests/bench has thousands."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.stand_ins import cache_faults as cache
from tests.stand_ins import command_faults as command
from tests.stand_ins import ending_faults as ending


@pytest.mark.parametrize("kind", [*cache.DAMAGE, *cache.SPECIAL])
def test_an_entry_of_each_kind_is_believed_where_it_is_whole(kind: str, tmp_path: Path) -> None:
    case = cache.Case(kind, 0o700, False, 0o600, False)
    assert case.believed == (kind == "good")
    assert cache.wrong_reads(case, tmp_path, random.Random(1)) == []


@pytest.mark.deep
def test_what_others_may_have_written_is_not_believed(tmp_path: Path) -> None:
    rng = random.Random(7)
    cases = [cache.random_case(rng) for _ in range(150)]
    assert {case.believed for case in cases} == {case.folder_trusted for case in cases} == {True, False}
    assert [text for case in cases for text in cache.wrong_reads(case, tmp_path, rng)] == []
    read, used = cache.forged_reads(tmp_path, 150)
    assert read == [] and used <= 150, "a folder that another makes first"


@pytest.mark.deep
def test_writers_that_are_killed_leave_no_damage(tmp_path: Path) -> None:
    assert cache.damage_by_kills(tmp_path, 20, random.Random(7)) == []


@pytest.mark.deep
def test_writers_at_once_keep_the_limit(tmp_path: Path) -> None:
    meanwhile, at_the_end = cache.past_the_limit(tmp_path, 4, 60, random.Random(7))
    assert at_the_end <= 0 and meanwhile <= 0


# --- the command -----------------------------------------------------------------------------------------


def test_runs_and_endings_of_all_kinds_are_drawn(tmp_path: Path) -> None:
    rng = random.Random(7)
    runs = [command.random_run(rng, tmp_path) for _ in range(3000)]
    asked = {words for words, _ in command.COMMANDS}
    assert {run.words[: len(words)] for run in runs for words in asked} >= asked
    assert {run.script for run in runs} >= {*command.STREAMS, command.GONE}
    assert {run.code for run in runs} == {0, 1, 2, 3}
    assert {Path(run.words[-1]).name for run in runs} >= {Path(name).name for name in command.TARGETS}
    endings = [ending.random_ending(rng) for _ in range(1000)]
    assert {e.words for e in endings} == set(ending.COMMANDS)
    assert len({(e.number, e.to_group, e.slow_compiler) for e in endings}) == 4 * len(ending.SIGNALS)


@pytest.mark.deep(but=("2",))
@pytest.mark.parametrize("seed", range(3))
def test_a_run_under_a_fault_ends_as_it_must(seed: int, tmp_path: Path) -> None:
    command.prepare(tmp_path)
    assert command.wrong_end(command.random_run(random.Random(seed), tmp_path), tmp_path) == []


@pytest.mark.deep
def test_a_cupy_that_does_not_import_stops_no_simulator(tmp_path: Path) -> None:
    command.prepare(tmp_path)
    broken = {"PYTHONPATH": str(tmp_path / "cupy"), "LD_LIBRARY_PATH": str(tmp_path / "cupy")}
    verified = ("verify", "permute", "--shape", "6,4", "--axes", "1,0")
    for words, code in ((verified, 0), (("bench", "transpose"), 2)):
        assert command.wrong_end(command.Run(words, code, environment=broken), tmp_path) == []


@pytest.mark.deep(only=("15",))
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_command_has_started_ends_with_it(number: signal.Signals, tmp_path: Path) -> None:
    """A compiler that takes long, its child and its files go, after a signal that can be caught or not."""
    ending.prepare(tmp_path)
    slow = next(words for words in ending.COMMANDS if "swz.cu" in words)
    ended = ending.Ending(slow, number, 60.0, to_group=False, slow_compiler=True)
    assert ending.wrong_end(ended, tmp_path, begun=tmp_path / "begun") == []


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(40))
def test_an_ended_command_leaves_nothing(seed: int, tmp_path: Path) -> None:
    ending.prepare(tmp_path)
    assert ending.wrong_end(ending.random_ending(random.Random(seed)), tmp_path) == []
