"""Random index expressions against their definition in C's types, and against the host's compiler.

    python tests/bench/bench_index_text.py --seed 1 --cases 20000

Prints counts; exits 1 if any is wrong.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.errors import ParseError, ResourceError
from layoutalg.notation import parse_index
from tests.bench.options import options, tallied
from tests.draws import index_trees

BATCH = 100
"""Expressions that are compiled at once."""


def main() -> int:
    words = options(__doc__, cases=20000)
    words.add_argument("--compiled", type=int, default=400, help="how many are compiled as well")
    given = words.parse_args()
    rng, seen, lane = random.Random(given.seed), Counter[str](), np.arange(32)
    for _ in range(given.cases):
        tree = index_trees.draw(rng, rng.randrange(1, 12))
        wanted = index_trees.expected(tree)
        try:
            got = parse_index(tree.text)(lane=lane).tolist()
        except ResourceError:
            seen["refused as too large"] += 1
        except ParseError:
            right = None in wanted
            seen["refused, and disputed" if right else "WRONG: refused, though all agree"] += 1
            if not right:
                print("refused", tree.text)
        else:
            right = got == wanted
            seen["accepted" if right else "WRONG: accepted"] += 1
            if not right and seen["WRONG: accepted"] < 6:
                print("accepted", tree.text)
    for batch in range(0, given.compiled, BATCH):
        wrong, accepted = index_trees.against_the_compiler(given.seed + batch, BATCH)
        seen["compiled"] += accepted
        seen["WRONG: the compiler has something else"] += len(wrong)
        print(*wrong, sep="\n", end="")
    return tallied(seen)


if __name__ == "__main__":
    sys.exit(main())
