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
from dataclasses import asdict
from pathlib import Path

from layoutalg.codegen.costs import COUNTERS
from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.tuning import Counted, count
from layoutalg.kernels.tuning.counting import CASES
from tests.gpu.counters import verdict

RULE = "replayed beside other traffic"


def line(what: str, cases: Sequence[Counted]) -> str:
    """A row of the table: how many numbers were as predicted, by name, with replays, and differ."""
    found, cells = [c.found for c in cases], []
    for name in COUNTERS:
        own = [x for x in found if name in x.counted]
        cells.append(f"{sum(name not in (*x.apart, *x.replayed) for x in own)} of {len(own)}")
    replayed, apart = (sum(len(getattr(x, which)) for x in found) for which in ("replayed", "apart"))
    return f"| {what} | {' | '.join(cells)} | {replayed} | {apart} |"


def table(cases: Sequence[Counted]) -> Iterator[str]:
    """The table in Markdown: a row of each family and one of all."""
    head = ("family", *COUNTERS, "replayed", "differ")
    yield f"| {' | '.join(head)} |"
    yield f"|---|{'---:|' * (len(head) - 1)}"
    for family in dict.fromkeys(c.family for c in cases):
        yield line(family, [c for c in cases if c.family == family])
    yield line("all", cases)


def differences(cases: Sequence[Counted]) -> Iterator[str]:
    """Every number that is not the prediction, with its rule if one covers it, and every failure."""
    for c in cases:
        found = c.found
        if c.failure:
            yield f"{c.family}: {c.name}: {c.failure}"
        for name in found.missing:
            yield f"{c.family}: {c.name}: {name} was not counted"
        for rule, names in ((f", {RULE}", found.replayed), ("", found.apart)):
            for name in names:
                said = f"{name} {found.predicted[name]}, counted {found.counted[name]}"
                issued = f", issued {found.issued[name]}" if name in found.issued else ""
                yield f"{c.family}: {c.name}: {said}{issued}{rule}"


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("out", type=Path, help="a file of all cases, as JSON")
    parser.add_argument("--cases", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=200.0, help="after which no more are launched")
    parser.add_argument("--only", nargs="+", default=list(FAMILIES), help="families")
    asked = parser.parse_args(args)
    begun, seeds = time.monotonic(), range(asked.seed, asked.seed + asked.cases)
    cases = list[Counted]()
    for case in count([(family, n) for n in seeds for family in asked.only], require_gpu().arch):
        cases.append(case)
        print("".join(f"{text}\n" for text in differences([case])), end="", flush=True)
        if len(cases) % CASES == 0:
            print(f"{len(cases)} cases, {time.monotonic() - begun:.0f} s", flush=True)
            if time.monotonic() - begun > asked.seconds:
                break
    stored = [
        {"family": c.family, "seed": c.seed, "case": c.name, "failure": c.failure, **asdict(c.found)}
        for c in cases
    ]
    asked.out.write_text(json.dumps(stored, indent=0))
    print(*table(cases), sep="\n")
    compared = sum(len(c.found.predicted) for c in cases)
    wrong = sum(len(c.found.apart) + len(c.found.missing) + bool(c.failure) for c in cases)
    left = len(seeds) * len(asked.only) - len(cases)
    print(f"{len(cases)} cases of seed {asked.seed} in {time.monotonic() - begun:.0f} s, {left} left")
    return verdict(wrong, compared)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
