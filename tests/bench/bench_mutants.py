"""Mutation sweeps: every statement of programs mistaken once, and what verification makes of it.

    python tests/bench/bench_mutants.py                            all cases, every instruction dropped once
    python tests/bench/bench_mutants.py --only softmax             some cases
    python tests/bench/bench_mutants.py --kinds operand,place      other mistakes, see tests.mutants
    python tests/bench/bench_mutants.py --seed 3 --sample 20       at random, 20 of each case
    python tests/bench/bench_mutants.py language --only gemm       the same of the documented kernels
    python tests/bench/bench_mutants.py texts                      the list of tests/data/program_mutants.txt

Prints for every case how many mutants were refused by `check`, were a hazard to the simulator, gave a wrong
result, or accesses that were not predicted; then the survivors, with the reason where tests.mutants.reasons
or tests.mutants.language has one.  Exits with 1 if one survives without a reason, or if a program that is
right fails.  Every dropped instruction that survives has one; of other mistakes survivors are listed for
whoever wants to look at them.  The list has mutants of a program's text, each with what is said of it: exits
with 1 where that is not so any more.
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
from tests.mutants import language
from tests.mutants.cases import CASES
from tests.mutants.reasons import reason
from tests.mutants.statements import KINDS
from tests.mutants.texts import CAUGHT as SAID
from tests.mutants.texts import SAME, Listed, listed, programs

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


def of_the_list(names: Sequence[str], jobs: int) -> int:
    """The counts of the list by program, and what is not as it says; how many are not."""
    mutants = [m for m in listed() if m.program in names]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(Listed.found, mutants, chunksize=4))
    verdicts = (*SAID, *SAME)
    print(f"{'program':18}{'mutants':>8}" + "".join(f"{v:>16}" for v in verdicts))
    for name in (*names, "all"):
        counts = Counter(m.verdict for m in found if name in (m.program, "all"))
        print(f"{name:18}{counts.total():8}" + "".join(f"{counts[v]:16}" for v in verdicts))
    wrong = [(m, n) for m, n in zip(mutants, found, strict=True) if m != n]
    for m, n in wrong:
        print(f"\n{m.program}\n{m}is now\n{n}")
    print(f"{len(wrong)} are not as listed")
    return len(wrong)


def main() -> int:
    """Sweep, print, and say whether all is explained."""
    parser = options(__doc__, seed=0)
    parser.add_argument("what", nargs="?", choices=("kernels", "language", "texts"), default="kernels")
    parser.add_argument("--only", default="", help="a part of the names of the cases to sweep")
    parser.add_argument("--kinds", help="kinds of mistakes, with commas: " + " ".join(KINDS))
    parser.add_argument("--sample", type=int, default=0, help="mutants of each case; 0: all")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    kinds = tuple((given.kinds or ("drop" if given.what == "kernels" else ",".join(KINDS))).split(","))
    of_texts = [x for x in programs() if x != "gemm ring" or given.what == "texts"]
    every = list(CASES) if given.what == "kernels" else of_texts
    names = [name for name in every if given.only in name]
    if not names:
        parser.error(f"no case has {given.only!r} in its name; the cases: {', '.join(every)}")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kinds of mistakes: {' '.join(sorted(unknown))}; the kinds: {' '.join(KINDS)}")
    if given.what == "texts":
        return int(of_the_list(names, given.jobs) > 0)
    if given.what == "language":
        unexplained = table("program", names, language.swept, (kinds,), language.GENERIC, given.jobs)
    else:
        unexplained = table("case", names, swept, (kinds, given.seed, given.sample), CAUGHT, given.jobs)
    print(f"{unexplained} without a reason")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
