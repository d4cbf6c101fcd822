"""Random moves between views and relayouts, every plan of each: proven by `check`, run, compared with NumPy.

    python tests/bench/bench_permutes.py --seed 1 --cases 2000 [--draw matrices] [--best] [--arch sm_90]

Prints how many cases and plans were right, wrong and refused, and the first few that were not right; exits
with 1 if there is one.  Case n of seed s is drawn from `random.Random(f"{s} {n}")`.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.options import options
from tests.draws.moves import plans, random_case, random_matrix, verdict

SHOWN = 8
DRAWN = {"any": random_case, "matrices": random_matrix}


def main() -> int:
    """Run the cases that are asked for, and count."""
    parser = options(__doc__, cases=1000)
    parser.add_argument("--most", type=int, default=1500, help="elements of a case")
    parser.add_argument("--draw", choices=list(DRAWN), default="any")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--best", action="store_true", help="the best plan alone")
    asked = parser.parse_args()
    by_case, by_plan, shown = Counter[str](), Counter[str](), 0
    for n in range(asked.cases):
        case = DRAWN[asked.draw](random.Random(f"{asked.seed} {n}"), asked.most)
        worst = "right"
        for number, c in enumerate(islice(plans(case, asked.arch), 1 if asked.best else None)):
            said = verdict(case, c, n, asked.arch)
            kind = said.partition(":")[0] or "right"
            by_plan[kind] += 1
            worst = max(worst, kind, key=("right", "refused", "wrong").index)
            if said and shown < SHOWN:
                shown += 1
                print(f"case {n}, plan {number}: {case}\n    {c}\n    {said}", flush=True)
        by_case[worst] += 1
    print(f"{asked.draw}, seed {asked.seed}, {asked.arch}: cases {dict(by_case)}, plans {dict(by_plan)}")
    return 1 if set(by_case) - {"right"} else 0


if __name__ == "__main__":
    sys.exit(main())
