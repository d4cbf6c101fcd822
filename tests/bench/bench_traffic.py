"""Traffic of the kernels of every frozen case: is it the stored prediction, from how many classes, how fast.

    python tests/bench/bench_traffic.py [--only softmax] [--shown 12]
    python tests/bench/bench_traffic.py --seed 7 --drawn 100     random cases, which nobody has stored

Prints a line per family, and the slowest cases; exits with 1 if a case is not equal to what is stored, or
takes more than a second.  Milliseconds are of this process's CPU time, of all kernels of a case together.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.codegen.costs import Cost, Prediction, total_costs, traffic_by_access
from tests.bench.options import options
from tests.frozen.kernel_adapter import Launch, plan
from tests.frozen.kernel_cases import drawn, label
from tests.frozen.kernel_freeze import stored

MOST_MS = 1000.0


@dataclass(frozen=True)
class Row:
    """A case: what was counted, and whether the stored prediction agrees."""

    family: str
    name: str
    verdict: str
    accesses: int
    executions: int
    classes: int
    ms: float

    def __str__(self) -> str:
        return (
            f"{self.ms:7.1f} ms {self.classes:6} classes {self.executions:12} executions "
            f"{self.accesses:3} accesses  {self.verdict:8} {self.name}"
        )


def integers(launch: Launch) -> dict[str, int]:
    """The integer arguments of a launch, by name."""
    pairs = zip(launch.kernel.params, launch.arguments, strict=True)
    return {p.name: value for p, value in pairs if isinstance(value, int)}


def summed(predictions: list[dict[str, list[int]]]) -> Prediction:
    """The stored costs of several kernels together."""
    return total_costs({op: Cost(*numbers) for op, numbers in one.items()} for one in predictions)


def row(case: dict[str, Any], predicted: Any) -> Row:
    """Count a case; `predicted` is what is stored of it: numbers, a sentence, or None."""
    launches = plan(case).launches
    start = time.process_time()
    found = [access for one in launches for access in traffic_by_access(one.kernel, integers(one), "sm_90a")]
    ms = 1000 * (time.process_time() - start)
    total = total_costs({access.op: access.cost} for access in found if access.cost.instructions)
    verdict = "new" if not isinstance(predicted, list) else "equal" if summed(predicted) == total else "OTHER"
    executions, classes = sum(a.executions for a in found), sum(a.classes for a in found)
    return Row(case["family"], label(case), verdict, len(found), executions, classes, ms)


def rows(asked: argparse.Namespace) -> Iterator[Row]:
    """The rows of all cases asked for."""
    if asked.drawn:
        cases: list[tuple[Any, Any]] = [(case, None) for case in drawn(asked.seed, asked.drawn)]
    else:
        cases = [(one["case"], one["predicted"]) for one in stored()["cases"]]
    for case, predicted in cases:
        if re.search(asked.only, label(case)):
            yield row(case, predicted)


def main() -> int:
    """See the module's text."""
    parser = options(__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="a regular expression of labels")
    parser.add_argument("--shown", type=int, default=12, help="how many of the slowest cases are printed")
    parser.add_argument("--drawn", type=int, default=0, help="so many random cases instead of the stored")
    asked = parser.parse_args()
    found = sorted(rows(asked), key=lambda r: -r.ms)
    for one in (*[r for r in found if r.verdict == "OTHER"], *found[: asked.shown]):
        print(one)
    for family in dict.fromkeys(r.family for r in sorted(found, key=lambda r: r.family)):
        mine = [r for r in found if r.family == family]
        verdicts = ", ".join(f"{n} {v}" for v, n in sorted(Counter(r.verdict for r in mine).items()))
        middle = mine[len(mine) // 2].ms
        print(f"{family:12} {verdicts:20} median {middle:6.1f} ms, most {mine[0].ms:6.1f} ms")
    return 1 if any(r.verdict == "OTHER" or r.ms > MOST_MS for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
