"""Who is right of random calls on random views, by the code of a GPU in the simulator.

    python tests/bench/bench_views.py --seed 0 --cases 2000
    python tests/bench/bench_views.py --seed 0 --cases 500 --functions softmax layer_norm
    python tests/bench/bench_views.py --seed 0 --cases 500 --numpy                  by the code of the CPU

Prints, for each function, how many were right, refused for a reason that holds, and wrong; exit status 1 if
any was wrong.  Case n is drawn from the integer SEED + n, by tests/draws/views.py.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.options import options
from tests.draws.views import EVERY, FUNCTIONS, draw
from tests.judges.view_judge import run_in_numpy, run_in_simulator


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = options(__doc__, seed=0, cases=1000)
    parser.add_argument("--most", type=int, default=3000, help="elements of an array")
    parser.add_argument("--functions", nargs="+", choices=EVERY, default=FUNCTIONS)
    parser.add_argument("--numpy", action="store_true", help="arrays on the CPU")
    asked = parser.parse_args(args)
    functions = tuple(f for f in EVERY if f in asked.functions)
    library, run = ("numpy", run_in_numpy) if asked.numpy else ("host", run_in_simulator)
    counts, refusals, start = Counter[tuple[str, str]](), Counter[str](), time.perf_counter()
    for n in range(asked.seed, asked.seed + asked.cases):
        case = draw(n, most=asked.most, functions=functions, library=library)  # type: ignore[arg-type]
        verdict = run(case)
        counts[case.function, verdict.kind] += 1
        refusals.update([verdict.why] if verdict.kind == "refused" else [])
        if verdict.kind == "wrong":
            print(f"case {case.seed}: {case}\n    {verdict.why}", flush=True)
    print(f"{'':12}{'right':>8}{'refused':>8}{'wrong':>8}")
    for function in functions:
        print(f"{function:12}" + "".join(f"{counts[function, k]:8}" for k in ("right", "refused", "wrong")))
    for why, count in refusals.most_common():
        print(f"{count} refused: {why}")
    wrong = sum(count for (_, kind), count in counts.items() if kind == "wrong")
    print(f"{wrong} of {asked.cases} wrong, {time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
