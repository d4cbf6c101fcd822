"""Who is right of random calls on random views, by the code of a GPU in the simulator.

    python tests/bench/bench_views.py --seed 0 --cases 2000
    python tests/bench/bench_views.py --seed 0 --cases 500 --functions softmax layer_norm --jobs 2
    python tests/bench/bench_views.py --seed 0 --cases 500 --numpy                  by the code of the CPU

Prints, for each function, how many were right, refused for a reason that holds, and wrong; exit status 1 if
any was wrong.  Case n is drawn from the integer SEED + n, by tests/views.py.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.options import options
from tests.view_judge import Verdict, run_in_numpy, run_in_simulator
from tests.views import EVERY, FUNCTIONS, Case, draw


def decided(asked: tuple[int, int, tuple[str, ...], bool]) -> tuple[Case, Verdict]:
    """The case of an integer, and what became of it."""
    number, most, functions, on_cpu = asked
    case = draw(number, most=most, functions=functions, library="numpy" if on_cpu else "host")
    return case, run_in_numpy(case) if on_cpu else run_in_simulator(case)


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = options(__doc__, seed=0, cases=1000)
    parser.add_argument("--most", type=int, default=3000, help="elements of an array")
    parser.add_argument("--functions", nargs="+", choices=EVERY, default=FUNCTIONS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--numpy", action="store_true", help="arrays on the CPU")
    asked = parser.parse_args(args)
    numbers = range(asked.seed, asked.seed + asked.cases)
    functions = tuple(f for f in EVERY if f in asked.functions)
    work = [(n, asked.most, functions, asked.numpy) for n in numbers]
    counts: Counter[tuple[str, str]] = Counter()
    refusals: Counter[str] = Counter()
    start = time.perf_counter()
    with ProcessPoolExecutor(asked.jobs) as pool:
        decisions = pool.map(decided, work, chunksize=8) if asked.jobs > 1 else map(decided, work)
        for case, verdict in decisions:
            counts[case.function, verdict.kind] += 1
            if verdict.kind == "refused":
                refusals[verdict.why] += 1
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
