"""How contenders are timed on a GPU: what happens around a launch, and in which order they take turns."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gpu.timing import medians_in_turn, timed_us, times_in_turn

TAKES = {"fast": 2.0, "slow": 9000.0, "again": 2.0}
"""Microseconds of each contender."""


class Gpu:
    """CuPy and PyTorch, as far as they time: what they were asked for, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.now = 0.0
        self.cuda = SimpleNamespace(
            Event=lambda: Event(self), get_elapsed_time=lambda a, b: b.at - a.at, _sleep=self.sleep
        )

    def sleep(self, cycles: int) -> None:
        self.seen.append(f"wait {cycles}")
        self.now += 50.0

    def sum(self) -> None:
        self.seen.append("read")
        self.now += 7.0

    def run(self, name: str) -> None:
        self.seen.append(name)
        self.now += TAKES[name] / 1e3


class Event:
    """An event on the time line of a GPU, in milliseconds."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.at = gpu, 0.0

    def record(self) -> None:
        self.gpu.seen.append("event")
        self.at = self.gpu.now

    def synchronize(self) -> None:
        self.gpu.seen.append("end")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    for name in ("cupy", "torch"):
        monkeypatch.setitem(sys.modules, name, made)
    return made


def contenders(gpu: Gpu) -> dict[str, Any]:
    return {name: lambda name=name: gpu.run(name) for name in TAKES}


def test_a_launch_stands_between_its_events_behind_a_read_and_a_wait(gpu: Gpu) -> None:
    assert timed_us(lambda: gpu.run("fast"), gpu, 400) == pytest.approx(TAKES["fast"])
    assert gpu.seen == ["read", "wait 400", "event", "fast", "event", "end"]


def test_all_are_launched_in_each_round_in_orders_that_differ(gpu: Gpu) -> None:
    times = times_in_turn(contenders(gpu), 8, gpu, random.Random(1))
    assert list(times) == list(TAKES) and {len(found) for found in times.values()} == {8}
    launched = [name for name in gpu.seen if name in TAKES]
    rounds = [tuple(launched[n : n + 3]) for n in range(0, 24, 3)]
    assert all(set(one) == set(TAKES) for one in rounds) and len(set(rounds)) > 1


def test_what_is_slow_is_timed_once(gpu: Gpu) -> None:
    times = times_in_turn(contenders(gpu), 5, gpu, random.Random(1), once_us=5000.0)
    assert {name: len(found) for name, found in times.items()} == {"fast": 5, "slow": 1, "again": 5}
    assert medians_in_turn(contenders(gpu), 3, gpu, random.Random(1)) == pytest.approx(TAKES)
