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

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutants.cases import CASES
from tests.mutants.reasons import reason
from tests.mutants.statements import KINDS

CAUGHT = ("refused", "hazard", "result", "accesses", "")


@dataclass(frozen=True)
class Swept:
    """A case after the sweep: how many mutants were caught by what, the survivors with reasons, the time."""

    mutants: int
    caught: Counter[str]
    survivors: list[tuple[str, str | None]]
    seconds: float


def swept(name: str, kinds: tuple[str, ...], seed: int, sample: int) -> Swept:
    """The verdicts on every mutant of a case, or on a sample of them."""
    started, case = time.perf_counter(), CASES[name]()
    if failure := case.verdict(None):
        return Swept(0, Counter(), [(f"the right program fails: {failure}", None)], 0.0)
    mutants = [m for m in case.mutants() if m.kind in kinds]
    if sample:
        mutants = random.Random(f"{seed} {name}").sample(mutants, min(sample, len(mutants)))
    verdicts = [(m, case.verdict(m)) for m in mutants]
    survivors = [(str(m), reason(name, case, m)) for m, verdict in verdicts if not verdict]
    caught = Counter(verdict for _, verdict in verdicts)
    return Swept(len(mutants), caught, survivors, time.perf_counter() - started)


def main() -> int:
    """Sweep, print, and say whether all is explained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", default="", help="a part of the names of the cases to sweep")
    parser.add_argument("--kinds", default="drop", help="kinds of mistakes, with commas: " + " ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0, help="mutants of each case; 0: all")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    kinds = tuple(given.kinds.split(","))
    names = [name for name in CASES if given.case in name]
    if not names:
        parser.error(f"no case has {given.case!r} in its name; the cases: {', '.join(CASES)}")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kinds of mistakes: {' '.join(sorted(unknown))}; the kinds: {' '.join(KINDS)}")
    total: Counter[str] = Counter()
    survivors: list[tuple[str, str | None]] = []
    print(f"{'case':18}{'mutants':>8}" + "".join(f"{c or 'survive':>9}" for c in CAUGHT) + f"{'seconds':>9}")
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        for name, run in [
            (name, pool.submit(swept, name, kinds, given.seed, given.sample)) for name in names
        ]:
            one = run.result()
            total += one.caught
            counts = "".join(f"{one.caught[c]:9}" for c in CAUGHT)
            print(f"{name:18}{one.mutants:8}{counts}{one.seconds:9.1f}", flush=True)
            survivors += [(f"{name}: {text}", why) for text, why in one.survivors]
    print(f"{'all':18}{total.total():8}" + "".join(f"{total[c]:9}" for c in CAUGHT))
    for text, why in survivors:
        print(f"{text}\n    {why or 'NO REASON IS KNOWN'}")
    unexplained = sum(why is None for _, why in survivors)
    print(f"{unexplained} without a reason")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
