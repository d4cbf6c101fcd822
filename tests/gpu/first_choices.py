"""First choices beside other ways of the same problems: how much of the fastest does each have?

python -m tests.gpu.first_choices SEED OUT.json [COUNT] [SECONDSs] [WAYSways] [ROOM ...]   draw, time, write

Problems are those of tests.frozen.chosen_kinds: rows, moves, maps and products.  Of each the first FIRST
ways are timed and drawn ones of the others that fit or that a search tries, WAYS in all, on a cold L2 with
the host ahead.  Of the shares that first choices have of the fastest, the geometric mean and the least are
printed, by family.  What is timed in the seconds, compiling included, is written as it comes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import geometric_mean
from typing import Any

from layoutalg.codegen.gpu import gpu_status
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.tuning.board import Case
from tests.frozen.chosen_kinds import ROOMS
from tests.gpu.timing import cold_us, in_time, seconds_of, write

COUNT, SECONDS, FIRST, WAYS, ROUNDS = 120, 110.0, 3, 10, 7
"""Problems, the seconds that a study takes, ways of each, and rounds."""

ARCH = gpu_status().arch or "sm_90"

MOST_BYTES = 1 << 30
"""The most bytes that a problem moves."""


def drawn(rooms: Sequence[str], most: int, text: str) -> list[Case]:
    """The ways of the problem of a text that are timed, the first choice first; none where it has just one,
    is refused or moves too much.

    >>> ways = drawn(["sums"], WAYS, "1 0")
    >>> len(ways) == len(set(ways)) > 1, len({case.problem for case in ways})
    (True, 1)
    """
    rng = random.Random(f"choices {text}")
    case = ROOMS[rooms[int(text.split()[-1]) % len(rooms)]](rng)
    try:
        problem = case.problem
        if getattr(problem, "moved_bytes", 0) > MOST_BYTES:
            return []
        FAMILIES[case.family].machine_on(ARCH)
        every = list(FAMILIES[case.family].searched(problem, ARCH))
    except LayoutAlgError:
        return []
    near, others = every[:FIRST], every[FIRST:]
    ways = (*near, *rng.sample(others, min(most - FIRST, len(others))))
    return [Case(case.family, problem, config) for config in ways] if len(ways) > 1 else []


def row_of(ways: Sequence[tuple[Case, Any, Any]]) -> dict[str, Any] | None:
    """The microseconds of a problem's ways, timed and expected; None where the first is not launched here."""
    times = zip(ways, cold_us(ways, ROUNDS), strict=True)
    found = {str(way.config): (us, expected) for (way, _, expected), us in times if us is not None}
    if len(found) < 2 or (first := found.get(str(ways[0][0].config))) is None:
        return None
    us = {name: timed for name, (timed, _) in found.items()}
    return {
        "family": ways[0][0].family, "problem": str(ways[0][0].problem), "us": us,
        "expected us": {name: expected.us for name, (_, expected) in found.items()},
        "share": min(us.values()) / first[0],
    }  # fmt: skip


def judged(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines by family, and the least shares.

    >>> print(next(judged([{"family": "sum", "problem": "x", "share": 0.5, "us": {}}])))
    sum               1 problems, mean 0.5000, least 0.500, 1 under 0.93
    """
    for name in (*sorted({row["family"] for row in rows}), "all"):
        own = [row["share"] for row in rows if name in (row["family"], "all")]
        few = sum(share < 0.93 for share in own)
        yield (
            f"{name:15s} {len(own):3d} problems, mean {geometric_mean(own):.4f}, least {min(own):.3f}, "
            f"{few} under 0.93"
        )
    for row in sorted(rows, key=lambda row: row["share"])[:20]:
        yield f"{row['share']:.3f} {row['family']} {row['problem']}"


def main(words: Sequence[str]) -> int:
    """See the module's text."""
    seed, path, rooms = int(words[0]), words[1], [word for word in words[2:] if word in ROOMS]
    count = next((int(word) for word in words[2:] if word.isdigit()), COUNT)
    rows = list[dict[str, Any]]()
    most = next((int(word[:-4]) for word in words[2:] if word.endswith("ways")), WAYS)
    draw = partial(drawn, rooms or list(ROOMS), most)
    for ways in in_time(draw, seed, count, seconds_of(words, SECONDS)):
        if (row := row_of(ways)) is not None:
            rows.append(row)
            write(path, rows, seed=seed)
    print(*(judged(rows) if rows else ["no problem was timed in so many seconds"]), sep="\n")
    return not rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
