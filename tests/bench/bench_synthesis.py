"""Synthesis against enumeration: random questions, mutated answers, and lanes that are ignored.

    python tests/bench/bench_synthesis.py [--seed 1] [--cases 1000]

Questions: found and right, none and the claim true, refused (a vector torn in storage order), undecided.
Rows of chunks: a layout without extra memory exists for all of these, so that none is wrong.
Mutants: answers with one or two statements changed: rejected, or accepted and true, or wrong.
Ignored lanes: ldmatrix and stmatrix .x1/.x2 whose ignored lanes hold anything, and answers that differ.

The judges are those of tests/draws/synthesis_cases.py, tests/mutants/syntheses.py and
tests/draws/addressing.py, which count one by one.  The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.options import options
from tests.draws import addressing, synthesis_cases
from tests.mutants import syntheses

SHOWN = 20
"""Wrong cases of a sort that are printed."""


def main(seed: int, cases: int) -> int:
    """Print one line for each sort of case; the number of wrong ones."""
    start = time.process_time()
    outcomes, wrong = synthesis_cases.mistakes(seed, cases)
    failed = _report("questions", f"{cases}: {_counts(outcomes)}", wrong, start)
    start = time.process_time()
    wrong = synthesis_cases.missed_rows(seed, max(1, cases // 2))
    failed += _report("rows of chunks", f"{max(1, cases // 2)}: a layout each", wrong, start)
    start = time.process_time()
    outcomes, wrong = syntheses.mistakes(seed, max(1, cases // 10))
    failed += _report("mutants", f"{sum(outcomes.values()) + len(wrong)}: {_counts(outcomes)}", wrong, start)
    start = time.process_time()
    answered, wrong = addressing.mistakes(seed, max(1, cases // 5))
    failed += _report("ignored lanes", f"{max(1, cases // 5)}: {answered} answered", wrong, start)
    return failed


def _counts(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))


def _report(what: str, counts: str, wrong: list[str], start: float) -> int:
    print(f"{what} {counts}; {len(wrong)} wrong ({time.process_time() - start:.0f} s of processor time)")
    print("".join(f"  {line[:600]}\n" for line in wrong[:SHOWN]), end="", flush=True)
    return len(wrong)


if __name__ == "__main__":
    given = options(__doc__, cases=1000).parse_args()
    sys.exit(1 if main(given.seed, given.cases) else 0)
