"""Launches timed in turn: each on a cold L2, in an order drawn for each round, the host ahead of the GPU.

The idea.  What stands in the L2 from the launch before, and a GPU that waits for its host, would both be
timed too.  So a buffer of 256 MB is read before each launch, which leaves clean data, and the GPU is kept
waiting until the host has given it the launch and the events around it.  Contenders take turns, so that a
clock that drifts meets all of them alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from math import inf
from statistics import median
from typing import Any, TypeVar

AHEAD_CYCLES = 60_000
"""What the GPU waits for before a launch, so that the host is ahead of it."""

FLUSH_ELEMS = 64 << 20
"""Elements of 4 bytes that are read before a launch: several times what an L2 holds."""

Run = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)


def flush_buffer() -> Any:
    """A buffer that is read before each launch."""
    import cupy

    return cupy.zeros(FLUSH_ELEMS, "f4")


def timed_us(run: Run, flush: Any, cycles: int = AHEAD_CYCLES) -> float:
    """Microseconds of one launch on a cold L2."""
    import cupy
    import torch

    before, after = cupy.cuda.Event(), cupy.cuda.Event()
    flush.sum()
    torch.cuda._sleep(cycles)
    before.record()
    run()
    after.record()
    after.synchronize()
    return float(cupy.cuda.get_elapsed_time(before, after)) * 1e3


def times_in_turn(
    runs: Mapping[Name, Run],
    rounds: int,
    flush: Any,
    rng: random.Random,
    cycles: int = AHEAD_CYCLES,
    once_us: float = inf,
) -> dict[Name, list[float]]:
    """Microseconds of each in every round; what takes `once_us` or longer is timed in the first alone."""
    times: dict[Name, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in rng.sample(list(runs), len(runs)):
            if not times[name] or times[name][0] < once_us:
                times[name].append(timed_us(runs[name], flush, cycles))
    return times


def medians_in_turn(
    runs: Mapping[Name, Run],
    rounds: int,
    flush: Any,
    rng: random.Random,
    cycles: int = AHEAD_CYCLES,
    once_us: float = inf,
) -> dict[Name, float]:
    """The median of the microseconds of each, launched in turn."""
    found = times_in_turn(runs, rounds, flush, rng, cycles, once_us)
    return {name: median(times) for name, times in found.items()}
