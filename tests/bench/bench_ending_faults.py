"""Commands ended by TERM, HUP, INT or KILL at random moments: what they leave behind, and their exit codes.

    python tests/bench/bench_ending_faults.py --seed 1 --cases 100

About three seconds per case.  Exits 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.stand_ins.ending_faults import prepare, random_ending, wrong_end


def main() -> int:
    """Print the counts; 1 where any of them is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=40)
    given = parser.parse_args()
    rng, wrong, signals = random.Random(given.seed), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for _ in range(given.cases):
            ending = random_ending(rng)
            found = wrong_end(ending, Path(folder))
            signals[ending.number.name] += 1
            wrong += bool(found)
            for text in found:
                print(text, flush=True)
    print(f"cases {given.cases}, by signal {dict(sorted(signals.items()))}, wrong {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
