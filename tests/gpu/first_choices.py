"""First choices beside other ways of the same problems: how much of the fastest does each have?

python -m tests.gpu.first_choices SEED OUT.json [COUNT] [SECONDSs] [ROOM ...]    draw, time, print, write

Problems are those of tests.frozen.chosen_kinds: rows, moves, maps and products.  Of each the first FIRST ways
and OTHERS drawn ones of those that fit are timed, in turn, on a cold L2 with the host ahead.  Of the shares
that first choices have of the fastest, the geometric mean and the least are printed, by family.  What is
timed in the seconds, compiling included, is written as it comes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from statistics import geometric_mean
from typing import Any

from layoutalg.codegen import gpu
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.tuning.board import Case
from tests.frozen.chosen_kinds import ROOMS
from tests.gpu.timing import expected_beside_timed, in_time, seconds_of, write

COUNT, SECONDS, FIRST, OTHERS, ROUNDS = 120, 110.0, 3, 7, 7
"""Problems, the seconds that a study takes, ways of each, and rounds."""

MOST_BYTES = 1 << 30
"""The most bytes that a problem moves."""


def drawn(seed: int, count: int, arch: str, rooms: Sequence[str]) -> Iterator[list[Case]]:
    """The ways of each problem that are timed, the first choice first; those that are refused aside.

    >>> ways = next(drawn(1, 1, "sm_90", ["sums"]))
    >>> len(ways) == len(set(ways)) > 1, len({case.problem for case in ways})
    (True, 1)
    """
    rng = random.Random(f"choices {seed}")
    for room in islice(cycle(rooms), 20 * count):
        case = ROOMS[room](rng)
        try:
            problem, family = case.problem, FAMILIES[case.family]
            first, *more = family.configs(problem, arch)
        except LayoutAlgError:
            continue
        if getattr(problem, "moved_bytes", 0) > MOST_BYTES:
            continue
        near, others = more[: FIRST - 1], more[FIRST - 1 :]
        ways = dict.fromkeys((first, *near, *rng.sample(others, min(OTHERS, len(others)))))
        if len(ways) > 1:
            yield [Case(case.family, problem, config) for config in ways]
            count -= 1
        if not count:
            return


def row_of(ways: Sequence[Case], codes: Sequence[Any], arch: str) -> dict[str, Any] | None:
    """The microseconds of a problem's ways, timed and expected; None where the first is not launched here."""
    found = {
        str(case.config): times
        for case, code in zip(ways, codes, strict=True)
        if (times := expected_beside_timed(case, code, arch, ROUNDS)) is not None
    }
    if len(found) < 2 or (first := found.get(str(ways[0].config))) is None:
        return None
    us = {name: timed for name, (timed, _) in found.items()}
    return {
        "family": ways[0].family, "problem": str(ways[0].problem), "us": us,
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
    arch, rows = gpu.require_gpu().arch, list[dict[str, Any]]()
    problems = drawn(seed, count, arch, rooms or list(ROOMS))
    for ways, codes in in_time(problems, seconds_of(words, SECONDS)):
        if (row := row_of(ways, codes, arch)) is not None:
            rows.append(row)
            write(path, rows, seed=seed)
    print(*judged(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
