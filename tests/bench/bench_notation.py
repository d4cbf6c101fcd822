"""Notations there and back: parse(convert(layout, form)) is the layout, in every form that can express it.

    python tests/bench/bench_notation.py                        5,000 layouts, seed 20261123
    python tests/bench/bench_notation.py --cases 100 --seed 3   fewer, others

Layouts are plain, nested, padded, reversed, under swizzles and over outer layouts; every fifth is a map of
registers, lanes and warps.  Forms for C++ and Python give the same value, those of Triton, which have no
nested modes, the same function; what a form refuses is counted.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.options import options
from tests.draws import notation_cases


def main() -> int:
    given = options(__doc__, seed=20261123, cases=5000).parse_args()
    rng = random.Random(given.seed)
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    start = time.perf_counter()
    for case in range(given.cases):
        value = notation_cases.linear(rng) if case % 5 == 4 else notation_cases.layout(rng)
        element = rng.choice(notation_cases.ELEMENTS)
        for form in notation_cases.forms(value):
            result = notation_cases.judged(value, form, element)
            counted[form][result] += 1
            if result.startswith("WRONG"):
                print(f"{result}: {form} of {value!r}, {element}")
    for form, results in counted.items():
        wrong = sum(n for result, n in results.items() if result.startswith("WRONG"))
        print(f"{form:30} {results['same']:6} same {results['refused']:6} refused {wrong:4} wrong")
    print(f"{given.cases} layouts, seed {given.seed}, {time.perf_counter() - start:.0f} s")
    return 1 if any(r.startswith("WRONG") for results in counted.values() for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
