"""The cubin cache under faults: what it believes and should not, damage by kills, bytes past its limit.

    python tests/bench/bench_cache_faults.py --seed 1 --cases 7200

Each case is a folder and an entry of some owner, rights and content; one kill is made for every 18 cases, one
contest with a process that makes the folder first for every 4.  Exits 1 where anything is wrong.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.options import options
from tests.stand_ins.cache_faults import (
    damage_by_kills,
    forged_reads,
    past_the_limit,
    random_case,
    wrong_reads,
)


def main() -> int:
    """Print the counts; 1 where any of them is wrong."""
    given = options(__doc__, cases=1000).parse_args()
    rng, wrong, kinds = random.Random(given.seed), [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        believed = 0
        for _ in range(given.cases):
            case = random_case(rng)
            believed += case.believed
            found = wrong_reads(case, base, rng)
            kinds.update(text.split("): ")[-1].split("(")[0][:30] for text in found)
            wrong += found
        print(f"cases {given.cases}, to be believed {believed}, wrong {len(wrong)} {dict(kinds)}")
        kills = given.cases // 18
        damaged = damage_by_kills(base, kills, rng)
        print(f"kills {kills}, damaged {len(damaged)}")
        read, used = forged_reads(base, given.cases // 4)
        print(f"contests {given.cases // 4}, forged entries read {len(read)}, own entries kept {used}")
        meanwhile, at_the_end = past_the_limit(base, 6, max(given.cases // 20, 50), rng)
        print(f"bytes past the limit: {meanwhile} while 6 writers were at it, {at_the_end} at the end")
    for text in wrong[:5]:
        print(text)
    return int(bool(wrong or damaged or read or max(meanwhile, at_the_end) > 0))


if __name__ == "__main__":
    sys.exit(main())
