"""Mutation sweep: every statement of the printed programs mistaken once, and what verification makes of it.

    python tests/bench/bench_mutants.py                          all cases, every instruction dropped once
    python tests/bench/bench_mutants.py --case softmax           some cases
    python tests/bench/bench_mutants.py --kinds operand,place    other mistakes, see tests.mutants
    python tests/bench/bench_mutants.py --seed 3 --sample 20     at random, 20 of each case

Prints for every case how many mutants were refused by `check`, were a hazard to the simulator, gave a wrong
result, or accesses that were not predicted; then the survivors, with the reason where tests.mutants.reasons
has one.  Exits with 1 if one survives without a reason, or if a program that is right fails.  Every dropped
instruction that survives has one; of other mistakes survivors are listed for whoever wants to look at them.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.options import options
from tests.mutants.cases import CASES
from tests.mutants.reasons import reason
from tests.mutants.statements import KINDS

CAUGHT = ("refused", "hazard", "result", "accesses", "")


Swept = tuple[Counter[str], Sequence[tuple[str, str | None]]]
"""How many mutants were caught by what, and the survivors with reasons."""


def swept(name: str, kinds: tuple[str, ...], seed: int, sample: int) -> Swept:
    """The verdicts on every mutant of a case, or on a sample of them."""
    case = CASES[name]()
    if failure := case.verdict(None):
        return Counter(), [(f"the right program fails: {failure}", None)]
    mutants = [m for m in case.mutants() if m.kind in kinds]
    if sample:
        mutants = random.Random(f"{seed} {name}").sample(mutants, min(sample, len(mutants)))
    verdicts = [(m, case.verdict(m)) for m in mutants]
    survivors = [(str(m), reason(name, case, m)) for m, verdict in verdicts if not verdict]
    return Counter(verdict for _, verdict in verdicts), survivors


def table(
    what: str, names: Sequence[str], sweep: Callable[..., Swept], args: tuple[Any, ...],
    verdicts: Sequence[str], jobs: int,
) -> int:  # fmt: skip
    """Sweep by processes and print a row of each name, then the survivors; how many have no reason."""
    total, survivors = Counter[str](), list[tuple[str, str | None]]()
    heads = "".join(f"{v or 'survive':>9}" for v in verdicts)
    print(f"{what:18}{'mutants':>8}{heads}{'seconds':>9}")
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for name, run in [(name, pool.submit(sweep, name, *args)) for name in names]:
            started = time.perf_counter()
            caught, left = run.result()
            total += caught
            counts, seconds = "".join(f"{caught[v]:9}" for v in verdicts), time.perf_counter() - started
            print(f"{name:18}{caught.total():8}{counts}{seconds:9.1f}", flush=True)
            survivors += [(f"{name}: {text}", why) for text, why in left]
    print(f"{'all':18}{total.total():8}" + "".join(f"{total[v]:9}" for v in verdicts))
    for text, why in survivors:
        print(f"{text}\n    {why or 'NO REASON IS KNOWN'}")
    return sum(not why for _, why in survivors)


def main() -> int:
    """Sweep, print, and say whether all is explained."""
    parser = options(__doc__, seed=0)
    parser.add_argument("--case", default="", help="a part of the names of the cases to sweep")
    parser.add_argument("--kinds", default="drop", help="kinds of mistakes, with commas: " + " ".join(KINDS))
    parser.add_argument("--sample", type=int, default=0, help="mutants of each case; 0: all")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    kinds = tuple(given.kinds.split(","))
    names = [name for name in CASES if given.case in name]
    if not names:
        parser.error(f"no case has {given.case!r} in its name; the cases: {', '.join(CASES)}")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kinds of mistakes: {' '.join(sorted(unknown))}; the kinds: {' '.join(KINDS)}")
    args = (kinds, given.seed, given.sample)
    unexplained = table("case", names, swept, args, CAUGHT, given.jobs)
    print(f"{unexplained} without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
