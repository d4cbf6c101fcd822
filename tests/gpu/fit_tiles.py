"""Fit the laws of the time of gemm-simt and gemm-sm80, kernels/gemm/times, to times of choices; needs no GPU.

python -m tests.gpu.fit_tiles simt      the numbers, and first choices by them and by those of the file
python -m tests.gpu.fit_tiles sm80      of halves of the problems too, judged on the other halves
python -m tests.gpu.fit_tiles "sm80 f64"

Those of gemm-simt are times of tests.gpu.tune_gemm, on a warm L2: what memory takes and the launch are left
out; those of gemm-sm80 are of tests.gpu.tune_products, on a cold one, of seed 4101, and of f64.  Near the
fastest of a problem they weigh most, as in fit_wgmma.  Some numbers are not fitted: documented, those of all
elements, or not measured.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

from layoutalg.arch import find_arch
from layoutalg.kernels.gemm import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.choice import SIMT, SM80, Choice
from layoutalg.kernels.gemm.launches import way
from layoutalg.kernels.gemm.times import TileLaw, tile_law, tile_work
from layoutalg.kernels.model import least_squares, machine_of, time_us
from tests.gpu.tune_products import choices_of, name_of, problem_of

BOARD, CHIP = machine_of("sm_90"), find_arch("sm_90")
DATA = Path(__file__).parents[1] / "data"
OF: dict[str, tuple[Choice[Any], dict[str, Any], frozenset[str]]] = {
    "simt": (SIMT, {"dtype": "f32", "b_major": "mn"}, frozenset({"multiply", "start", "reached", "piece"})),
    "sm80": (SM80, {}, frozenset()),
    "sm80 f64": (SM80, {}, frozenset({"copy", "launch", "part", "byte", "reached"})),
}
"""By the name of the file: the family, the options of its problems, the numbers that are not fitted."""

STEEP, STEPS, SEEDS = {"simt": 3.0, "sm80": 2.0, "sm80 f64": 3.0}, 12, 4
"""The logarithm of a weight per share that a time is longer than the fastest; steps; pairs of halves."""


@dataclass(frozen=True)
class Timed:
    """The times of a file: problems, configurations, nanoseconds, and the number of each problem."""

    products: list[tuple[GemmProblem, Any]]
    ns: Any
    problem: Any
    cold: bool

    def expected(self, law: TileLaw, rows: Any) -> Any:
        """Nanoseconds by a law, of some rows."""
        own = law if self.cold else replace(law, start=0.0)
        products = (self.products[i] for i in rows)
        works = [tile_work(p, c, c.splits, own, BOARD, CHIP) for p, c in products]
        if self.cold:
            return np.array([1e3 * time_us(w, BOARD) for w in works])
        return np.array([1e3 * (w.blocks * w.block_us + w.beside_us) for w in works])

    def shares(self, law: TileLaw, problems: Any) -> list[float]:
        """The fastest of all over the first by a law, for each problem."""
        found = []
        for number in problems:
            rows = np.flatnonzero(self.problem == number)
            first = rows[np.argmin(self.expected(law, rows))]
            found.append(float(self.ns[rows].min() / self.ns[first]))
        return found


def timed(name: str, seed: str = "4101") -> Timed:
    """The times of a family, of all problems; of products that were drawn by a seed."""
    choice, options, _ = OF[name]
    cold, own = name != "simt", "f64" if name.endswith("f64") else seed
    file = json.loads(
        (DATA / ("product_ways.json" if cold else f"gemm_choice_{name}.json")).read_text("utf-8")
    )
    products, ns, problem = list[tuple[GemmProblem, Any]](), list[float](), list[int]()
    for row in file[own] if cold else [*file["fitted"], *file["fresh"]]:
        p = problem_of(row) if cold else gemm_problem(row["m"], row["n"], row["k"], **options)
        (named, unit), number = ((name_of, 1e3) if cold else (way, 1e6)), len(set(problem))
        for c in choice.configs(p) if choice in choices_of(p) else ():
            if (us := row["choices"].get(str(c) if own == "f64" else named(c))) is not None:
                products.append((p, c))
                ns.append(unit * us)
                problem.append(number)
    return Timed(products, np.array(ns), np.array(problem), cold)


def fitted(name: str, t: Timed, problems: Any, steps: int = STEPS) -> TileLaw:
    """The law that fits the times of some problems best, from that of the board's file on."""
    first = tile_law(f"gemm-{name}", BOARD)
    names = [x for x, value in asdict(first).items() if value and x not in OF[name][2]]
    rows = np.flatnonzero(np.isin(t.problem, problems))
    fastest = np.array([t.ns[t.problem == number].min() for number in range(t.problem.max() + 1)])
    weights = np.exp(STEEP[name] * (1 - t.ns / fastest[t.problem]))[rows]

    def law_at(x: Any) -> TileLaw:
        return replace(first, **dict(zip(names, map(float, np.exp(x)), strict=True)))

    def errors(x: Any) -> Any:
        return weights * np.log(t.expected(law_at(x), rows) / t.ns[rows])

    return law_at(least_squares(errors, np.log([getattr(first, x) for x in names]), steps))


def main(args: list[str]) -> int:
    """See the module's text."""
    name = args[0]
    t = timed(name)
    every = range(t.problem.max() + 1)
    law = fitted(name, t, every)
    print(json.dumps({x: float(f"{value:.4g}") for x, value in asdict(law).items() if value}, indent=1))
    say: Callable[[str, list[float]], None] = lambda what, found: print(  # noqa: E731
        f"{what}: {geometric_mean(found):.4f} of the fastest, {min(found):.3f} at least"
    )
    say("as fitted", t.shares(law, every))
    say("as the file has it", t.shares(tile_law(f"gemm-{name}", BOARD), every))
    unseen: list[float] = []
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(every))
        half = len(every) // 2
        for own, other in ((order[:half], order[half:]), (order[half:], order[:half])):
            unseen += t.shares(fitted(name, t, own), other)
    say("on the halves that were not fitted to", unseen)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
