"""Times that are expected beside those of a GPU, of problems of all families that are drawn.

python -m tests.gpu.predicted_times SEED OUT.json [COUNT] [SECONDSs]     draw, time, print errors, write
python -m tests.gpu.predicted_times plot OUT.json OUT.svg     the times of a file as a scatter plot

Problems are those of tests.frozen.chosen_kinds: 1e5 to 3e8 elements of rows, moves and maps, products, and
attention.
Each is computed as the model chooses it, on a cold L2 with the host ahead.  Of errors |expected / timed - 1|
are printed the median, the share under 10 % and the ninth tenth, by family, with what times leave out, and
the launches that are furthest off.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from math import log10
from pathlib import Path
from statistics import median
from typing import Any

from layoutalg.codegen.gpu import gpu_status
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.tuning.board import Case
from tests.frozen.chosen_kinds import ROOMS, attended
from tests.gpu.timing import cold_us, in_time, seconds_of, write

COUNT, SECONDS, ROUNDS = 200, 110.0, 7
"""Problems that are drawn, the seconds that a study takes, compiling included, and rounds."""

ARCH = gpu_status().arch or "sm_90"

MOST_BYTES = 8 << 30
"""The most bytes that a problem moves, so that a launch takes a few milliseconds."""

NEAR = 0.10
"""The error that nine in ten are to be under."""


def drawn(text: str) -> list[Case]:
    """The problem of a text as the model chooses it; nothing where its family or the board refuses it.

    >>> [case.family for n in range(3) for case in drawn(f"1 {n}")][:2]
    ['prod', 'rms_norm']
    """
    draws = *ROOMS.values(), attended
    case = draws[int(text.split()[-1]) % len(draws)](random.Random(f"times {text}"))
    family = FAMILIES[case.family]
    try:
        problem = case.problem
        family.machine_on(ARCH)
        own = Case(case.family, problem, family.choose(problem, ARCH))
    except LayoutAlgError:
        return []
    return [own] if getattr(problem, "moved_bytes", 0) <= MOST_BYTES else []


def error(row: Mapping[str, Any]) -> float:
    """The relative error of a row.

    >>> error({"expected us": 9.0, "timed us": 10.0})
    0.1
    """
    return float(round(abs(row["expected us"] / row["timed us"] - 1), 12))


def judged(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of errors by family, and those of the worst launches.

    >>> print(next(judged([{"family": "sum", "expected us": 9.5, "timed us": 10.0, "without": ""}])))
    sum                1 launches, median 5.0 %, 100 % under 10 %, nine in ten under 5.0 %
    """
    for name in (*sorted({row["family"] for row in rows}), "all"):
        own = [row for row in rows if name in (row["family"], "all")]
        errors = sorted(map(error, own))
        near = sum(e <= NEAR for e in errors) / len(errors)
        without = {row["without"] for row in own if row["without"]} if name != "all" else ()
        yield (
            f"{name:15s} {len(own):4d} launches, median {median(errors):.1%}, {near:.0%} under {NEAR:.0%}, "
            f"nine in ten under {errors[9 * len(errors) // 10]:.1%}"
        ).replace("%", " %") + f"; without {', '.join(sorted(without))}" * bool(without)
    for row in sorted(rows, key=error, reverse=True)[:25]:
        us = f"{row['timed us']:9.1f} us, {row['expected us']:9.1f} expected"
        yield f"{us}: {row['family']} {row['problem']}"


SIDE, EDGE, COLOURS = 640, 60, ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def plot(rows: Sequence[Mapping[str, Any]]) -> str:
    """Expected times over timed ones as an SVG, on logarithmic axes from 1 us on, with a band of 10 %.

    >>> plot([{"family": "sum", "problem": "a & b", "expected us": 10.0, "timed us": 10.0}]).count("<circle")
    2
    """
    most = max(log10(max(row["timed us"], row["expected us"], 10.0)) for row in rows) + 0.1
    scale = (SIDE - 2 * EDGE) / most
    shown = dict(zip(sorted({row["family"] for row in rows}), cycle(COLOURS)))

    def at(timed: float, expected: float) -> tuple[float, float]:
        x, y = (max(0.0, log10(us)) * scale for us in (timed, expected))
        return EDGE + x, SIDE - EDGE - y

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}" font-family="sans-serif">']
    for factor, dash in ((1.0, ""), (1 + NEAR, ' stroke-dasharray="4"'), (1 - NEAR, ' stroke-dasharray="4"')):
        (x, y), (z, w) = at(1 / min(factor, 1), max(factor, 1)), at(10**most, factor * 10**most)
        lines.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{z:.1f}" y2="{w:.1f}" stroke="#888"{dash}/>')
    for power in range(int(most) + 1):
        (x, _), (_, y) = at(10**power, 1), at(1, 10**power)
        lines.append(f'<text x="{x:.1f}" y="{SIDE - EDGE + 18}" font-size="11">{10**power} us</text>')
        lines.append(f'<text x="{EDGE - 8}" y="{y:.1f}" font-size="11" text-anchor="end">{10**power}</text>')
    for row in rows:
        x, y = at(row["timed us"], row["expected us"])
        lines.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{shown[row["family"]]}" fill-opacity="0.7"/>'
        )
    for n, (name, colour) in enumerate(shown.items()):
        lines.append(f'<circle cx="{EDGE + 12}" cy="{EDGE + 14 * n - 4}" r="3" fill="{colour}"/>')
        lines.append(f'<text x="{EDGE + 20}" y="{EDGE + 14 * n}" font-size="11">{name}</text>')
    lines.append(f'<text x="{SIDE / 2}" y="{SIDE - 12}" font-size="13">timed, expected upwards</text></svg>')
    return "\n".join(lines) + "\n"


def main(words: Sequence[str]) -> int:
    """See the module's text."""
    if words[0] == "plot":
        Path(words[2]).write_text(plot(json.loads(Path(words[1]).read_text("utf-8"))["rows"]), "utf-8")
        return 0
    seed, path, count = int(words[0]), words[1], next((int(w) for w in words[2:] if w.isdigit()), COUNT)
    rows = list[dict[str, Any]]()
    for ways in in_time(drawn, seed, count, seconds_of(words, SECONDS)):
        ((case, _, expected),) = ways
        for us in filter(None, cold_us(ways, ROUNDS)):
            rows.append(
                {"family": case.family, "problem": str(case.problem), "config": str(case.config),
                 "timed us": us, "expected us": expected.us, "without": expected.without}
            )  # fmt: skip
            write(path, rows, seed=seed)
    print(*judged(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
