"""The command under faults of streams, files, environment and libraries: exit codes and sentences.

    python tests/bench/bench_command_faults.py --seed 1 --cases 400

About a second of CPU per case.  Exits 1 where anything is wrong.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.options import options
from tests.stand_ins.command_faults import prepare, random_run, wrong_end


def main() -> int:
    """Print the counts; 1 where any of them is wrong."""
    given = options(__doc__, cases=100).parse_args()
    rng, wrong, codes = random.Random(given.seed), 0, Counter[int]()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for _ in range(given.cases):
            run = random_run(rng, Path(folder))
            found = wrong_end(run, Path(folder))
            codes[run.code] += 1
            wrong += bool(found)
            for text in found:
                print(text, flush=True)
    print(f"cases {given.cases}, by exit code {dict(sorted(codes.items()))}, wrong {wrong}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
