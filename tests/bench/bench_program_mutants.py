"""Mutants of programs in the kernel language through the public `verify`.

    python tests/bench/bench_program_mutants.py                    the list of tests/data/program_mutants.txt
    python tests/bench/bench_program_mutants.py --generic          every statement of the printed programs
    python tests/bench/bench_program_mutants.py --generic --kinds drop,turn --program gemm

The list has mutants of a program's text, each with what is said of it; exits with 1 where that is not so any
more.  Of the generic ones (see tests.mutants.statements) the program that is printed has one mistake at one
statement; exits with 1 where one survives without a reason of tests/mutants/language.py.  What `pipeline`
writes is made only once.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.bench_mutants import table
from tests.bench.options import options
from tests.mutants.language import GENERIC, swept
from tests.mutants.statements import KINDS
from tests.mutants.texts import CAUGHT, SAME, Listed, listed, programs


def of_the_list(names: list[str], jobs: int) -> int:
    """The counts of the list by program, and what is not as it says."""
    mutants = [m for m in listed() if m.program in names]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(Listed.found, mutants, chunksize=4))
    verdicts = (*CAUGHT, *SAME)
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
    parser = options(__doc__, seed=None)
    parser.add_argument("--program", default="", help="a part of the names of the programs")
    parser.add_argument("--generic", action="store_true", help="mistakes at statements, not the list")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of mistakes, with commas")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    there = [name for name in programs() if name != "gemm ring" or not given.generic]
    names, kinds = [name for name in there if given.program in name], tuple(given.kinds.split(","))
    if not names or set(kinds) - set(KINDS):
        parser.error(f"the programs: {', '.join(programs())}; the kinds: {', '.join(KINDS)}")
    if given.generic:
        wrong = table("program", names, swept, (kinds,), GENERIC, given.jobs)
    else:
        wrong = of_the_list(names, given.jobs)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
