"""Random kernels of whole statements: what is read of each line is what its threads do when they run.

python -m tests.source.test_random_programs 2000 SEED [wide] [loads]
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.source.lane_oracle import ran, told
from tests.source.random_programs import program

LEAST_READ = 0.6
"""The share of lines with an access that are read."""


def _judged(seeds: range, *, wide: bool = False, loads: bool = False) -> dict[int, tuple[int, int]]:
    """(lines with accesses, those that are not read) by seed; asserts that no other line is wrong."""
    cases, found = [program(seed, wide=wide, loads=loads) for seed in seeds], {}
    read_of = [one for at in range(0, len(cases), 25) for one in told(cases[at : at + 25])]
    for seed, case, read, run in zip(seeds, cases, read_of, ran(cases), strict=True):
        assert not read.wrong(run), (seed, read.wrong(run), case.text)
        every = {line for line, _ in {*read.counts, *run}} | set(read.unread)
        found[seed] = len(every), len(every if read.note else read.unread)
    return found


@pytest.mark.deep
def test_what_is_read_of_random_kernels_is_what_they_do(golden: Callable[[str, str], None]) -> None:
    """And no more is unread than in the golden file, seed by seed."""
    found = _judged(range(12), wide=True)
    golden("source_random_programs.txt", "".join(f"{n} {a} {b}\n" for n, (a, b) in found.items()))


@pytest.mark.parametrize("first", [0, pytest.param(20_000, marks=pytest.mark.deep)])
def test_numbers_that_are_loaded_are_what_a_run_loads(first: int) -> None:
    """Whatever a run finds in memory: another number in each turn and each call, alike in a warp or not."""
    lines, unread = map(
        sum,
        zip(
            *_judged(range(first, first + (20 if first else 6)), wide=True, loads=True).values(), strict=True
        ),
    )
    assert unread <= (1 - LEAST_READ) * lines, (lines, unread)


@pytest.mark.deep
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("first", range(10_000, 11_000, 100))
def test_what_is_read_of_random_kernels_is_what_they_do_at_length(first: int, wide: bool) -> None:
    lines, unread = map(sum, zip(*_judged(range(first, first + 100), wide=wide).values(), strict=True))
    assert unread <= (1 - LEAST_READ) * lines, (lines, unread)


if __name__ == "__main__":
    count, seed = map(int, sys.argv[1:3])
    forms = {"wide": "wide" in sys.argv, "loads": "loads" in sys.argv}
    totals = [0, 0]
    for first in range(seed, seed + count, 50):
        for lines, unread in _judged(range(first, min(first + 50, seed + count)), **forms).values():
            totals = [totals[0] + lines, totals[1] + unread]
    print("lines, not read:", *totals)
