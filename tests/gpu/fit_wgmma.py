"""Fit the law of gemm-sm90's time, kernels/gemm/times, to times of its choices; needs no GPU.

python -m tests.gpu.fit_wgmma            the numbers of the law, fitted
python -m tests.gpu.fit_wgmma judged     they and those of the module, judged

The times are those of tests/data/gemm_choice_sm90.json, which tests.gpu.tune_wgmma writes, and of
product_ways.json, which tests.gpu.tune_products writes; of its part "4201" none is fitted to.  All numbers of
`WgmmaLaw` are fitted at once, to the sum of the squares of e^(-x) log(expected / measured), where a time is
1 + x times the fastest of its problem: what is near it counts; past NEAR nobody chooses.  In the logarithms
of the numbers, which keeps them positive.  The times of promotion and of factors of blocks are those with
which the others come nearest to tests/data/gemm_choice_bytes.json, medians of 11 launches with a cold L2.

"judged" has the fastest of all that were timed over the first, and over the fastest of the first 2, 4, 8 and
16 by the law, in the geometric mean and at least, of each part; and how far expected times are off.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import geometric_mean
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from layoutalg.kernels.gemm import GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.gemm import times as laws
from layoutalg.kernels.gemm.choice import SM90
from layoutalg.kernels.gemm.times import LAW, WgmmaLaw
from layoutalg.kernels.model import least_squares, machine_of

BOARD, NEAR = machine_of("sm_90"), 2.0
"""The board, an H200; times that are fitted to, by the fastest one's."""

CLOSE, LONG_NS = 1.25, 400e3
"""Times that say how far the law is off, by the fastest one's; past so long the power limit lowers clocks."""

FIRST = (1, 2, 4, 8, 16)
"""Of how many choices the best is compared with the best of all."""

NAMED = re.compile(
    r"(\d+)x(\d+)x\d+, (\d+) stages(?:, clusters of (\d+)x(\d+)x(\d+))?(, ping-pong)?"
    r"(?:, (\d+) parts of k)?(, crossed)?"
)

FIELDS = (
    "tile_m", "tile_n", "stages", "consumers", "cluster_k", "sharing", "readers", "pingpong"
)  # fmt: skip
"""The properties of a configuration that the law asks for."""

DATA = Path(__file__).parents[1] / "data"
FILES, UNSEEN = ("gemm_choice_sm90.json", "product_ways.json"), "4201"
"""The files of times, and the part that is not fitted to."""

Row = Mapping[str, Any]


class Times(NamedTuple):
    """What was timed, as arrays: what the law asks of each, nanoseconds, and the number of its problem; and
    whether sums are promoted, with factors of blocks."""

    tiles: SimpleNamespace
    demands: laws.Demand
    ns: Any
    problem: Any
    promoted: bool
    factors: bool


def config_named(p: GemmProblem, text: str) -> Sm90Config | None:
    """The configuration that a text names, as a problem has it; None where no such configuration is left.

    >>> print(config_named(gemm_problem(256, 256, 512, "bf16"), "64x96x64, 10 stages, 3 parts of k"))
    64x96x64, 10 stages, 3 parts of k
    """
    found = NAMED.fullmatch(text)
    if found is None:
        return None
    tile_m, tile_n, stages, *cluster = (int(found[i] or 1) for i in range(1, 7))
    pingpong, splits = bool(found[7]), int(found[8] or 1)
    consumers = 2 if pingpong or tile_m == 256 else tile_m // 64
    plain = Sm90Config(
        tile_m, tile_n, stages, consumers, cluster_m=cluster[0], cluster_n=cluster[1], cluster_k=cluster[2],
        pingpong=pingpong, crossed=bool(found[9]),
    )  # fmt: skip
    c = replace(SM90.fitted(p, plain), crossed=bool(found[9]))
    return c if splits == 1 else SM90.parted(p, replace(c, splits=splits))


def times_of(rows: Sequence[Row], near: float = NEAR) -> Times:
    """The times of some problems, up to `near` of the fastest of each."""
    tiles, demands, ns, problem = [], [], [], []
    promoted = any(row.get("dtype", "bf16") != "bf16" for row in rows)
    factors = any(row.get("arithmetic") == "blocks" for row in rows)
    for number, row in enumerate(rows):
        majors = {x: row.get(x, "k") for x in ("a_major", "b_major")}
        more = {x: row[x] for x in ("dtype", "arithmetic") if x in row}
        p = gemm_problem(row["m"], row["n"], row["k"], **more, **majors)
        inputs, most = laws.sm90_inputs(p, BOARD), near * min(row["choices"].values())
        for text, us in row["choices"].items():
            c = config_named(p, text.removeprefix("gemm-sm90 ")) if us <= most else None
            if c is not None:
                tiles.append([getattr(c, name) for name in FIELDS])
                demands.append(inputs(c, c.splits)[1])
                ns.append(1e3 * us)
                problem.append(number)
    arrays = SimpleNamespace(**dict(zip(FIELDS, np.array(tiles, float).T, strict=True)))
    return Times(
        arrays, laws.Demand(*np.array(demands, float).T), np.array(ns), np.array(problem), promoted, factors
    )  # fmt: skip


def expected(times: Times, law: WgmmaLaw) -> Any:
    """Nanoseconds by the law."""
    tile = laws.tile_time(
        times.tiles, law, promoted=times.promoted, factors=times.factors, busy=times.demands.busy
    )
    return laws.law_ns(tile, times.demands, law)


def fitted(times: Times, first: WgmmaLaw = LAW) -> WgmmaLaw:
    """The law that fits some times best, from a first one on."""
    names = [x for x in asdict(first) if x not in ("promoted", "factors")]  # which these times do not have
    fastest = np.full(times.problem.max() + 1, np.inf)
    np.minimum.at(fastest, times.problem, times.ns)
    weights = np.exp(1 - times.ns / fastest[times.problem])

    def law_at(x: Any) -> WgmmaLaw:
        return replace(first, **dict(zip(names, map(float, np.exp(x)), strict=True)))

    def errors(x: Any) -> Any:
        return weights * np.log(expected(times, law_at(x)) / times.ns)

    return law_at(least_squares(errors, np.log([getattr(first, x) for x in names])))


def shares(times: Times, law: WgmmaLaw) -> list[list[float]]:
    """Of each problem the fastest of all over the fastest of the first 1, 2, 4, ... by the law."""
    ns, found = expected(times, law), []
    for number in np.unique(times.problem):
        own = np.flatnonzero(times.problem == number)
        order = own[np.argsort(ns[own], kind="stable")]
        found.append([times.ns[own].min() / times.ns[order[:first]].min() for first in FIRST])
    return found


def judged(parts: Mapping[str, Times], law: WgmmaLaw) -> None:
    """Print a row of each part."""
    for name, times in parts.items():
        found = list(zip(*shares(times, law), strict=True))
        means = (f"{geometric_mean(own):.4f}, {min(own):.3f}" for own in found)
        print(f"| {len(found[0])} {name} |", " | ".join(means), "|")


def said_off(times: Times, law: WgmmaLaw) -> str:
    """How far the law is off: the standard deviation, and the mean of times past LONG_NS."""
    off = np.log(expected(times, law) / times.ns)
    long = times.ns > LONG_NS
    return f"off by {off.std():.1%}; past {LONG_NS / 1e3:.0f} us by {off[long].mean():+.1%} in the mean"


def text_of(law: WgmmaLaw) -> str:
    """The numbers as the board's file has them."""
    return json.dumps({name: float(f"{x:.4g}") for name, x in asdict(law).items()}, indent=1)


def measured(*files: str) -> dict[str, list[Row]]:
    """The problems of some files by parts, those without tensor cores left out."""
    parts = (json.loads((DATA / name).read_text(encoding="utf-8")).items() for name in files)
    return {
        name: [row for row in rows if row.get("dtype") != "f32" and row.get("class") != "odd"]
        for own in parts
        for name, rows in own
        if isinstance(rows, list) and name != "f64"
    }


def main(args: list[str]) -> int:
    """See the module's text."""
    parts = measured(*FILES)
    law = fitted(times_of([row for name, rows in parts.items() if name != UNSEEN for row in rows]))
    print(text_of(law))
    if args == ["judged"]:
        every = {name: times_of(rows, np.inf) for name, rows in parts.items()}
        for title, own in (("as fitted", law), ("as it stands", LAW)):
            print(
                f"\n| {title} | first |",
                " | ".join(f"of {n}" for n in FIRST[1:]),
                "|\n|---|---|---|---|---|---|",
            )
            judged(every, own)
            print(said_off(times_of([row for rows in parts.values() for row in rows], CLOSE), own))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
