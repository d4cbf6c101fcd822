"""Counters of random cases of every family beside their predictions: the table of docs/measured.md.

python -m tests.gpu.kernel_counters SEED OUT.json                       30 cases of each family
python -m tests.gpu.kernel_counters SEED OUT.json --cases 5 --only gemv

The cases are those of `layoutalg verify FAMILY --random 30 --seed SEED --counters`, of all families in one
process of the profiler.  The exit status is 1 where a number differs, has no counter, or no rule says why.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from layoutalg.codegen.costs import COUNTERS
from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.tuning import Counted, count
from tests.gpu.counters import verdict


def line(what: str, cases: Sequence[Counted]) -> str:
    """A row of the table: equal of compared numbers by name, those that a rule explains, and failures."""
    cells = []
    for name in COUNTERS:
        own = [c for c in cases if name in c.predicted and name in c.counted]
        cells.append(f"{sum(c.predicted[name] == c.counted[name] for c in own)} of {len(own)}")
    within = sum(len(c.within) for c in cases)
    return f"| {what} | {' | '.join(cells)} | {within} | {sum(len(c.apart) for c in cases)} |"


def table(cases: Sequence[Counted]) -> Iterator[str]:
    """The table in Markdown: a row of each family and one of all."""
    head = ("family", *COUNTERS, "by a rule", "differ")
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for family in dict.fromkeys(c.family for c in cases):
        yield line(family, [c for c in cases if c.family == family])
    yield line("all", cases)


def differences(cases: Sequence[Counted]) -> Iterator[str]:
    """Every number that is not the prediction, with its rule if one covers it, and every failure."""
    for c in cases:
        if c.failure:
            yield f"{c.family}: {c.name}: {c.failure}"
        for name in c.missing:
            yield f"{c.family}: {c.name}: {name} was not counted"
        for name, said in [*((x, c.rule) for x in c.within), *((x, "differs") for x in c.apart)]:
            yield f"{c.family}: {c.name}: {name} {c.predicted[name]}, counted {c.counted[name]}: {said}"


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path, help="a file of all cases, as JSON")
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--only", nargs="+", default=list(FAMILIES), help="families")
    asked = parser.parse_args(args)
    begun, seeds = time.monotonic(), range(asked.seed, asked.seed + asked.cases)
    cases = count([(family, seed) for family in asked.only for seed in seeds], require_gpu().arch)
    fields = ("family", "seed", "name", "predicted", "counted", "failure")
    stored = [{name: getattr(c, name) for name in fields} for c in cases]
    asked.out.write_text(json.dumps(stored, default=dict, indent=0))
    print(*table(cases), "", *differences(cases), sep="\n")
    compared = [name for c in cases for name in c.predicted]
    wrong = sum(len(c.apart) + len(c.missing) for c in cases) + sum(bool(c.failure) for c in cases)
    print(f"{len(cases)} cases of seed {asked.seed} in {time.monotonic() - begun:.0f} s")
    return verdict(wrong, len(compared))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
