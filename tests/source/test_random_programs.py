"""Random kernels of whole statements: what is read of each line is what its threads do when they run.

python -m tests.source.test_random_programs 2000 SEED
"""

from __future__ import annotations

import sys

import pytest

from tests.source.lane_oracle import ran, told
from tests.source.random_programs import program

LEAST_READ = 0.6
"""The share of lines with an access that are read; at the seeds of the first test, 300 of 404 are."""


def _judged(seeds: range) -> tuple[int, int]:
    """(lines with accesses, those that are not read); asserts that no other line is wrong."""
    cases = [program(seed) for seed in seeds]
    lines = unread = 0
    for seed, read, run in zip(seeds, told(cases), ran(cases), strict=True):
        assert not read.wrong(run), (seed, read.wrong(run), program(seed).text)
        every = {line for line, _ in {*read.counts, *run}} | set(read.unread)
        lines += len(every)
        unread += len(every if read.note else read.unread)
    print(f"{len(seeds)} kernels: {lines} lines with accesses, {unread} of them not read")
    return lines, unread


def test_what_is_read_of_random_kernels_is_what_they_do() -> None:
    lines, unread = _judged(range(60))
    assert unread <= (1 - LEAST_READ) * lines, (lines, unread)


@pytest.mark.deep
@pytest.mark.parametrize("first", range(10_000, 12_000, 100))
def test_what_is_read_of_random_kernels_is_what_they_do_at_length(first: int) -> None:
    lines, unread = _judged(range(first, first + 100))
    assert unread <= (1 - LEAST_READ) * lines, (lines, unread)


if __name__ == "__main__":
    count, seed = map(int, sys.argv[1:])
    totals = [_judged(range(first, min(first + 50, seed + count))) for first in range(seed, seed + count, 50)]
    print("lines, not read:", *map(sum, zip(*totals, strict=True)))
