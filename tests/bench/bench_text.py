"""Generated text against what it says: index code compiled, kernels run at the edges of their domains.

    python tests/bench/bench_text.py --seed 1 --cases 400

Each part has its own share of the cases: random index expressions compiled as C and as C++ and compared at
points around 2^31, 2^32 and 2^63; index functions of random layouts, compared with the layout over its whole
domain; kernels of every family, whose comments are read and held to their declarations, and which are run in
the simulator and as text on the host at the edges of what the comments state; guards on up to 2^66 threads.
Prints how many cases of each were wrong, the first of them, and exits 1 if there was one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.codegen.expr import to_c
from layoutalg.errors import CompileError, MismatchError
from layoutalg.testing import check_index_function
from tests.bench.options import options
from tests.draws.ctext_cases import draw_case, draw_function, wrong
from tests.draws.domains import TRIALS
from tests.draws.guards import active_lanes
from tests.draws.guards import draw_case as draw_guard

BATCH = 150
"""Expressions that are compiled together."""


def expressions(seed: str, cases: int) -> Iterator[str]:
    """Wrong texts among `cases` expressions, in either language."""
    rng = random.Random(seed)
    for start in range(0, cases, BATCH):
        batch = [draw_case(rng) for _ in range(min(BATCH, cases - start))]
        for language in ("c", "c++"):
            yield from (f"{language}: {case.node} as {to_c(case.node)}" for case in wrong(batch, language))


def functions(seed: str, cases: int) -> Iterator[str]:
    """Index functions that are not their layouts."""
    rng = random.Random(seed)
    for _ in range(cases):
        layout, text = draw_function(rng)
        try:
            check_index_function(text, layout, "place")
        except (MismatchError, CompileError) as error:
            yield f"{layout}: {error}"


def domains(family: str, seed: str, cases: int) -> Iterator[str]:
    """What is wrong with kernels of a family, three launches each."""
    for n in range(cases):
        yield from (f"case {n}: {fault}" for fault in TRIALS[family](random.Random(f"{seed} {n}"), 3))


def guards(seed: str, cases: int) -> Iterator[str]:
    """Guards that leave another number of lanes active than there are."""
    rng = random.Random(seed)
    for _ in range(cases):
        layout, guard, wanted = draw_guard(rng)
        found = active_lanes(layout, guard)
        if found not in (wanted, None):
            yield f"{layout} under {guard}: {found} instead of {wanted}"


Part = Callable[[str, int], Iterator[str]]
SHARES: dict[str, tuple[Part, float]] = {
    "index expressions": (expressions, 5.0), "index functions": (functions, 0.25),
    **{f"edges of {name}": (partial(domains, name), 0.1) for name in TRIALS}, "guards": (guards, 2.0),
}  # fmt: skip
"""Each part, and its cases as a multiple of --cases."""


def main() -> int:
    """Run every part; 1 if anything was wrong."""
    parser = options(__doc__, cases=400)
    parser.add_argument("--only", default="", help="the parts whose names contain this")
    given = parser.parse_args()
    if not any(given.only in name for name in SHARES):
        parser.error(f"no part has {given.only!r} in its name; the parts: {', '.join(SHARES)}")
    failed = False
    for name, (part, share) in SHARES.items():
        if given.only in name:
            cases = max(1, round(given.cases * share))
            found = list(part(f"{given.seed} {name}", cases))
            failed = failed or bool(found)
            print(f"{name:<24} {cases:>7} cases  {len(found):>5} wrong", flush=True)
            for line in found[:3]:
                print(f"    {line[:400]}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
