"""The counter of steps counts loops, and the same on every run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.work import counted


def loop(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def test_steps_grow_with_the_loop_and_repeat() -> None:
    (few, steps), (many, more) = counted(lambda: loop(10)), counted(lambda: loop(1000))
    assert (few, many) == (45, 499500)
    assert 10 <= steps < 50 and 1000 <= more < 3000
    assert counted(lambda: loop(10)) == (few, steps)
    assert counted(lambda: [i + 1 for i in range(1000)])[1] >= 1000


def test_no_test_asks_a_clock() -> None:
    """A loaded machine is no reason to fail: tests count work, benches measure time."""
    clocks = re.compile(r"\b(perf_counter|process_time|monotonic|timeit)\b\(")
    tests = sorted(Path(__file__).parent.rglob("test_*.py"))
    assert len(tests) > 200
    assert not [path.name for path in tests if clocks.search(path.read_text(encoding="utf-8"))]
