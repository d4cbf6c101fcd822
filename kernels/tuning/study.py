"""The study of a store of timings: the quality of a shorter search, and slow boards.

    shares(records, (1, 4, 8, 16))       share of the best time that the first n candidates reach
    boards_of(records)                   how fast each board copied, against those of its model

The idea.  A store holds, for each problem, the times of its candidates in the order of the model.  To search
it again is to look only at the first n: no GPU is needed to know what a shorter search would have found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median

from layoutalg.errors import MismatchError
from layoutalg.kernels.tuning.jobs import CALIBRATION, HELD_BACK, SLOW
from layoutalg.kernels.tuning.store import Record, by_problem


def shares(records: Iterable[Record], tops: Sequence[int] = (1, 4, 8, 16)) -> dict[int, float]:
    """The geometric mean over problems of the best time of all candidates over that of the first n.

    Candidates are counted by rank: one that failed is one of the n.  A problem whose first n have all failed
    has no share and is left out (`without` counts them); where all are, the share is 0.  Raises MismatchError
    for no records.

    >>> from layoutalg.kernels.tuning.store import Key
    >>> def timed(rank, ns):
    ...     key = Key("sum", "a" * 64, f"{rank:064}", "d" * 64, "model", "sm_90", "", "", "", "0.1.0")
    ...     return Record(key, "64 x 64", "by rows", rank, (ns,))
    >>> shares([timed(0, 2000.0), timed(1, 1500.0), timed(2, 1000.0)], (1, 2, 3))
    {1: 0.5, 2: 0.6666666666666666, 3: 1.0}
    """
    problems = by_problem(records)
    if not problems:
        raise MismatchError("no record of the store has times: there is nothing to search")
    best = {name: min(r.ns for r in own) for name, own in problems.items()}
    first = {
        n: [best[name] / min(x) for name, own in problems.items() if (x := [r.ns for r in own if r.rank < n])]
        for n in tops
    }
    return {n: geometric_mean(each) if each else 0.0 for n, each in first.items()}


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

    >>> from layoutalg.kernels.tuning.store import Key
    >>> def timed(board, config, rate):
    ...     key = Key("sum", "a" * 64, f"{config:064}", "d" * 64, "gpu", "NVIDIA H200", "", "", "", "0.1.0")
    ...     return Record(key, "64 x 64", "by rows", 0, (1.0,), {"calibration GB/s": rate}, "", board)
    >>> own = [timed("a", 1, 4000.0), timed("b", 2, 4000.0), timed("c", 3, 3000.0)]
    >>> [(board.name, board.share, board.is_slow) for board in boards_of(own)]
    [('a', 1.0, False), ('b', 1.0, False), ('c', 0.75, True)]
    """
    by_board: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if CALIBRATION in record.counters and record.board:
            by_board[record.key.gpu, record.board].append(record)
    middles = {name: median(r.counters[CALIBRATION] for r in own) for name, own in by_board.items()}
    models = {gpu: median(x for (g, _), x in middles.items() if g == gpu) for gpu, _ in by_board}
    boards = []
    for (gpu, name), own in sorted(by_board.items()):
        held = [r.counters[HELD_BACK] for r in own if HELD_BACK in r.counters]
        slow = (r.key.digest for r in own if r.counters[CALIBRATION] < SLOW * models[gpu])
        boards.append(
            Board(
                gpu, name, middles[gpu, name], models[gpu], len(own), frozenset(slow),
                sum(held) / len(held) if held else None,
            )
        )  # fmt: skip
    return boards
