"""The study of a store of timings: the quality of a shorter search, the rates of a GPU, and the T4 format.

    shares(records, (1, 4, 8, 16))       share of the best time that the first n candidates reach
    boards_of(records)                   how fast each board copied, against those of its model
    fitted_rates(records)                nanoseconds of a launch, a sector, a wavefront, with their error
    t4_results(records)                  the T4 results format, which Kernel Tuner's tools read

The idea.  A store holds, for each problem, the times of its candidates in the order of the model.  To search
it again is to look only at the first n: no GPU is needed to know what a shorter search would have found.

Rates are least squares of relative errors: (sum of counters * rate - time) / time is made small over all
records, no rate under 0.  The error that is stated comes from problems that the fit has not seen
(cross-validation by problem), never from those that it has.

Sources: Kernel Tuner, kernel_tuner/file_utils.py, `store_output_file`, T4 results 1.0.0;
Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23, for squares with bounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import geometric_mean, median
from typing import Any

from layoutalg.errors import MismatchError, ResourceError
from layoutalg.kernels.tuning.jobs import CALIBRATION, HELD_BACK, RATES, SLOW, check_counted
from layoutalg.kernels.tuning.keys import VERIFIED, Record

FOLDS = 5
"""The number of parts of the problems, each of which is left out once."""


def by_problem(records: Iterable[Record]) -> dict[tuple[str, ...], list[Record]]:
    """Records of each problem in each place, those that have times, in the order of the family's candidates;
    verifications have none.

    >>> by_problem([])
    {}
    """
    found: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in records:
        if not record.failure and record.key.timing != VERIFIED:
            found[record.key.family, record.key.problem, *record.key.place].append(record)
    return {name: sorted(own, key=lambda r: r.rank) for name, own in found.items()}


def shares(records: Iterable[Record], tops: Sequence[int] = (1, 4, 8, 16)) -> dict[int, float]:
    """The geometric mean over problems of the best time of all candidates over that of the first n.

    Candidates are counted by rank: one that failed is one of the n.  A problem whose first n have all failed
    has no share and is left out (`without` counts them); where all are, the share is 0.  Raises MismatchError
    for no records.

    >>> from layoutalg.kernels.tuning.keys import Key
    >>> def timed(rank, ns):
    ...     key = Key("sum", "a" * 64, f"{rank:064}", "d" * 64, "model", "sm_90", "", "", "", "0.1.0")
    ...     return Record(key, "64 x 64", "by rows", rank, (ns,))
    >>> shares([timed(0, 2000.0), timed(1, 1500.0), timed(2, 1000.0)], (1, 2, 3))
    {1: 0.5, 2: 0.6666666666666666, 3: 1.0}
    """
    problems = by_problem(records)
    if not problems:
        raise MismatchError("no record of the store has times: there is nothing to search")
    found = {}
    for n in tops:
        each = [
            min(r.ns for r in own) / min(first)
            for own in problems.values()
            if (first := [r.ns for r in own if r.rank < n])
        ]
        found[n] = geometric_mean(each) if each else 0.0
    return found


def without(records: Iterable[Record], n: int) -> int:
    """Problems for which none of the first n candidates fits, but another one does.

    >>> without([], 4)
    0
    """
    return sum(all(r.rank >= n for r in own) for own in by_problem(records).values())


@dataclass(frozen=True, slots=True)
class Board:
    """A board by its name: the median of its copies in GB/s, that of all boards of its model, and records.

    `slow` are digests of the records whose own copy was slow; `held_back` is the share of readings in which
    something held clocks back, None where none was made.

    >>> Board("NVIDIA H200", "GPU-5e", 4000.0, 4000.0, 12, frozenset(), None).share
    1.0
    """

    gpu: str
    name: str
    median: float
    of_model: float
    records: int
    slow: frozenset[str]
    held_back: float | None

    @property
    def share(self) -> float:
        """The board's median as a share of its model's median."""
        return self.median / self.of_model

    @property
    def is_slow(self) -> bool:
        """Whether the board's median is under SLOW of the model's.

        >>> Board("NVIDIA H200", "GPU-5e", 3600.0, 4000.0, 12, frozenset(), None).is_slow
        True
        """
        return self.share < SLOW


def boards_of(records: Iterable[Record]) -> list[Board]:
    """The boards that copied beside what they timed, by model and name; others are not listed.

    The median of a model is that of the medians of its boards, so that a board counts once.

    >>> from layoutalg.kernels.tuning.keys import Key
    >>> def timed(board, config, rate):
    ...     key = Key("sum", "a" * 64, f"{config:064}", "d" * 64, "gpu", "NVIDIA H200", "", "", "", "0.1.0")
    ...     return Record(key, "64 x 64", "by rows", 0, (1.0,), {"calibration GB/s": rate}, "", board)
    >>> own = [timed("a", 1, 4000.0), timed("b", 2, 4000.0), timed("c", 3, 3000.0)]
    >>> [(board.name, board.share, board.is_slow) for board in boards_of(own)]
    [('a', 1.0, False), ('b', 1.0, False), ('c', 0.75, True)]
    """
    found: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if CALIBRATION in record.counters and record.board:
            found[record.key.gpu, record.board].append(record)
    middles = {name: median(r.counters[CALIBRATION] for r in own) for name, own in found.items()}
    models = {gpu: median(x for (g, _), x in middles.items() if g == gpu) for gpu, _ in found}
    boards = []
    for (gpu, name), own in sorted(found.items()):
        held = [r.counters[HELD_BACK] for r in own if HELD_BACK in r.counters]
        slow = (r.key.digest for r in own if r.counters[CALIBRATION] < SLOW * models[gpu])
        boards.append(
            Board(
                gpu, name, middles[gpu, name], models[gpu], len(own), frozenset(slow),
                sum(held) / len(held) if held else None,
            )
        )  # fmt: skip
    return boards


@dataclass(frozen=True, slots=True)
class Fit:
    """Nanoseconds by counter; relative errors of times of problems that were not fitted to: median and worst.

    >>> Fit({"launches": 2000.0}, 0.05, 0.2, 40, 8).problems
    8
    """

    rates: Mapping[str, float]
    median_error: float
    worst_error: float
    records: int
    problems: int


def fitted_rates(records: Iterable[Record], names: Sequence[str] = tuple(RATES)) -> Fit:
    """The rates of counters that fit the times best, and how far they are off where they were not fitted.

    Raises MismatchError for records of several places, ResourceError for fewer problems than FOLDS,
    UnsupportedError for records whose counters are not known.

    >>> from layoutalg.kernels.tuning.keys import Key
    >>> def timed(n):
    ...     key = Key("sum", f"{n:064}", "c" * 64, "d" * 64, "model", "sm_90", "", "", "", "0.1.0")
    ...     counters = {"launches": 1.0, "sectors": 100.0 * n * n, "wavefronts": 0.0}
    ...     return Record(key, "64 x 64", "by rows", 0, (1000.0 + 50.0 * n * n,), counters)
    >>> fit = fitted_rates([timed(n) for n in range(1, 11)])
    >>> {name: round(rate, 3) for name, rate in fit.rates.items()}, round(fit.worst_error, 6)
    ({'launches': 1000.0, 'sectors': 0.5, 'wavefronts': 0.0}, 0.0)
    """
    problems = by_problem(records)
    places = {name[2:] for name in problems}
    if len(places) > 1:
        raise MismatchError(f"records of {len(places)} places do not mix: choose a GPU")
    if len(problems) < FOLDS:
        raise ResourceError("parts of the problems of a fit", FOLDS, len(problems))
    for one in (r for own in problems.values() for r in own):
        check_counted(one.counters)
    groups = [problems[name] for name in sorted(problems)]
    errors = []
    for fold in range(FOLDS):
        known = [r for n, own in enumerate(groups) if n % FOLDS != fold for r in own]
        rates = _least_squares(known, names)
        for r in (r for n, own in enumerate(groups) if n % FOLDS == fold for r in own):
            expected = sum(r.counters[name] * rate for name, rate in rates.items())
            errors.append(abs(expected / r.ns - 1))
    every = [r for own in groups for r in own]
    return Fit(_least_squares(every, names), median(errors), max(errors), len(every), len(groups))


def _least_squares(records: Sequence[Record], names: Sequence[str]) -> dict[str, float]:
    """The best rates that are 0 or more: the best of all choices of those that are not 0."""
    import numpy as np

    rows = np.array([[r.counters[name] / r.ns for name in names] for r in records])
    best, least = dict.fromkeys(names, 0.0), float(len(records))
    for count in range(1, len(names) + 1):
        for free in combinations(range(len(names)), count):
            found = np.linalg.lstsq(rows[:, free], np.ones(len(records)), rcond=None)[0]
            left = float(((rows[:, free] @ found - 1) ** 2).sum())
            if (found >= 0).all() and left < least - 1e-12:
                least = left
                best = dict.fromkeys(names, 0.0) | {
                    names[place]: float(rate) for place, rate in zip(free, found, strict=True)
                }
    return best


def t4_results(records: Iterable[Record]) -> dict[str, Any]:
    """Records in the T4 results format: times in milliseconds, one configuration a result.

    >>> t4_results([])
    {'results': [], 'schema_version': '1.0.0'}
    """
    results = [
        {
            "timestamp": "",
            "configuration": {
                "family": r.key.family,
                "problem": r.problem,
                "config": r.config,
                "rank": r.rank,
            },
            "times": {
                "compilation": 0,
                "benchmark": sum(r.times_ns) / 1e6,
                "framework": 0,
                "search_algorithm": 0,
                "validation": 0,
                "runtimes": [ns / 1e6 for ns in r.times_ns],
            },
            "invalidity": "runtime" if r.failure else "correct",
            "correctness": 0 if r.failure else 1,
            "measurements": [] if r.failure else [{"name": "time", "value": r.ns / 1e6, "unit": "ms"}],
            "objectives": ["time"],
        }
        for r in records
    ]
    return {"results": results, "schema_version": "1.0.0"}
