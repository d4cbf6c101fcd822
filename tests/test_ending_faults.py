"""Commands ended at a random moment, one by one; tests/bench/bench_ending_faults.py has more."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from tests.stand_ins.ending_faults import COMMANDS, SIGNALS, Ending, prepare, random_ending, wrong_end


def test_endings_of_all_kinds_are_drawn() -> None:
    rng = random.Random(5)
    endings = [random_ending(rng) for _ in range(1000)]
    assert {ending.words for ending in endings} == set(COMMANDS)
    assert {(e.number, e.to_group, e.slow_compiler) for e in endings} == {
        (number, group, slow) for number in SIGNALS for group in (False, True) for slow in (False, True)
    }


SLOW_CHECK = next(words for words in COMMANDS if "swz.cu" in words)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_command_has_started_ends_with_it(number: signal.Signals, tmp_path: Path) -> None:
    """A compiler that takes long, its child and its files go, after a signal that can be caught or not."""
    prepare(tmp_path)
    ending = Ending(SLOW_CHECK, number, 60.0, to_group=False, slow_compiler=True)
    assert wrong_end(ending, tmp_path, begun=tmp_path / "begun") == []


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(40))
def test_an_ended_command_leaves_nothing(seed: int, tmp_path: Path) -> None:
    prepare(tmp_path)
    assert wrong_end(random_ending(random.Random(seed)), tmp_path) == []
