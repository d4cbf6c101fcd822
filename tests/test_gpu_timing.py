"""How contenders are timed on a GPU: what happens around a launch, and in which order they take turns."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.gpu import timing
from tests.gpu.timing import Turns

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
    assert Turns(1, flush=gpu, cycles=400).us(lambda: gpu.run("fast")) == pytest.approx(TAKES["fast"])
    assert gpu.seen == ["read", "wait 400", "event", "fast", "event", "end"]


def test_all_are_launched_in_each_round_in_orders_that_differ(gpu: Gpu) -> None:
    times = Turns(8, flush=gpu).times(contenders(gpu))
    assert list(times) == list(TAKES) and {len(found) for found in times.values()} == {8}
    launched = [name for name in gpu.seen if name in TAKES]
    rounds = [tuple(launched[n : n + 3]) for n in range(0, 24, 3)]
    assert all(set(one) == set(TAKES) for one in rounds) and len(set(rounds)) > 1


def test_what_is_slow_is_timed_once(gpu: Gpu) -> None:
    times = Turns(5, flush=gpu, once_us=5000.0).times(contenders(gpu))
    assert {name: len(found) for name, found in times.items()} == {"fast": 5, "slow": 1, "again": 5}
    assert Turns(3, flush=gpu).medians(contenders(gpu)) == pytest.approx(TAKES)


def test_a_study_has_a_line_per_row_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "require_gpu", lambda: SimpleNamespace(name="a GPU"))
    found = timing.study(tmp_path / "a", (1, 2, 3), lambda m: {"m": m / 8} if m != 2 else None, seed=3)
    text = (tmp_path / "a").read_text()
    rows = [{"m": 0.125}, {"m": 0.375}]
    assert json.loads(text) | {"date": ""} == {"device": "a GPU", "date": "", "seed": 3, "rows": rows}
    assert found == rows and text.count("\n") == 4 and capsys.readouterr().out == "m=0.125\nm=0.375\n"
