"""What it costs to make a kernel and to count its accesses: ms to build, to print and for `traffic`.

    python tests/bench/bench_programs.py [--only softmax] [--shown 12] [--runs 7]
    python tests/bench/bench_programs.py --seed 7 --drawn 100     random cases, which nobody has stored

Every frozen case in the configuration that is chosen: building, then checking, lowering and printing, the
least of some runs, before each of which what earlier ones simplified is forgotten; then the counts of all its
kernels together, which have to be the stored prediction.  Prints a line per family, and the slowest cases;
exits with 1 if a case is not equal to what is stored, or is counted for more than a second.  Times are of the
processor.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.codegen.costs import AccessTraffic, Cost, total_costs, traffic_by_access
from layoutalg.codegen.expr.simplifier import forget
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.language.tensor import coordinate_of
from layoutalg.codegen.program import LaunchSequence
from tests.bench.options import options
from tests.frozen.kernel_adapter import ARCH, chosen, plan
from tests.frozen.kernel_cases import drawn, label
from tests.frozen.kernel_freeze import stored

MOST_MS = 1000.0


@dataclass(frozen=True)
class Row:
    """A case: milliseconds, what was counted, and whether the stored prediction agrees."""

    family: str
    name: str
    verdict: str
    built: float
    printed: float
    counted: float
    executions: int
    classes: int

    def __str__(self) -> str:
        ms = f"{self.built:7.1f} + {self.printed:6.1f} ms, counted {self.counted:7.1f} ms"
        classes = f"{self.classes:6} classes of {self.executions:12} executions"
        return f"{ms}, {classes}  {self.verdict:6} {self.name}"


def made(build: Callable[[], LaunchSequence]) -> tuple[float, float]:
    """Milliseconds to build the programs, and to print them."""
    forget()
    coordinate_of.cache_clear()
    start = time.process_time()
    kernels = build().kernels
    built = time.process_time()
    for kernel in kernels:
        to_cuda(kernel, ARCH)
    return 1e3 * (built - start), 1e3 * (time.process_time() - built)


def row(case: Any, predicted: Any, runs: int) -> Row:
    """Make and count a case; `predicted` is what is stored of it: numbers, a sentence, or None."""
    family, p, config = chosen(case)
    build = partial(family.launches, p, config, ARCH)
    built, printed = map(min, zip(*[made(build) for _ in range(runs + 1)][1:], strict=True))
    launches, found = plan(case).launches, list[AccessTraffic]()
    start = time.process_time()
    for one in launches:
        pairs = zip(one.kernel.params, one.arguments, strict=True)
        found += traffic_by_access(one.kernel, {q.name: x for q, x in pairs if isinstance(x, int)}, ARCH)
    counted = 1e3 * (time.process_time() - start)
    total, verdict = total_costs({a.op: a.cost} for a in found if a.cost.instructions), "new"
    if isinstance(predicted, list):
        known = total_costs({op: Cost(*numbers) for op, numbers in one.items()} for one in predicted)
        verdict = "equal" if known == total else "OTHER"
    executions, classes = sum(a.executions for a in found), sum(a.classes for a in found)
    return Row(case["family"], label(case), verdict, built, printed, counted, executions, classes)


def main() -> int:
    """See the module's text; 2 where no case is named so."""
    parser = options(__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="", help="a regular expression of labels")
    parser.add_argument("--shown", type=int, default=12, help="how many of the slowest cases are printed")
    parser.add_argument("--drawn", type=int, default=0, help="so many random cases instead of the stored")
    parser.add_argument("--runs", type=int, default=1)
    asked = parser.parse_args()
    cases = [(one["case"], one["predicted"]) for one in stored()["cases"]]
    if asked.drawn:
        cases = [(case, None) for case in drawn(asked.seed, asked.drawn)]
    rows = [row(*case, asked.runs) for case in cases if re.search(asked.only, label(case[0]))]
    rows.sort(key=lambda r: -r.counted)
    print(*[r for r in rows if r.verdict == "OTHER"], *rows[: asked.shown], sep="\n")
    for family in sorted({r.family for r in rows}):
        mine = [r for r in rows if r.family == family]
        verdicts = ", ".join(f"{n} {v}" for v, n in sorted(Counter(r.verdict for r in mine).items()))
        ms = " + ".join(f"{median(getattr(r, t) for r in mine):.1f}" for t in ("built", "printed", "counted"))
        print(f"{family:12} {verdicts:20} medians {ms} ms, counted in {mine[0].counted:.1f} ms at most")
    wrong = any(r.verdict == "OTHER" or r.counted > MOST_MS for r in rows)
    return 1 if wrong else 2 * (not rows)


if __name__ == "__main__":
    sys.exit(main())
