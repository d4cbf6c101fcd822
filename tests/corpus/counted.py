"""What a GPU counted of the sources beside what is expected: python -m tests.corpus.counted FOLDER

FOLDER has the reports of the programs that `python -m tests.corpus.launches` writes.  A table by line and op;
the exit status is 1 where a report is missing, or a counter of the instructions that the source has is
neither the expected number nor the expected ratio to the ideal.  Where the compiler has made other
instructions of an access (wider ones, or fewer), the numbers stand side by side and nothing is concluded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

from layoutalg.profiling import Finding, explain_launch, read_report, with_ends
from tests.corpus import SOURCES, expected
from tests.corpus.launches import CALLS
from tests.corpus.measure import Source

EQUAL, RATIO, OTHER, UNREAD = "equal", "same ratio", "DIFFERENT", "not expected"
REWRITTEN = "other instructions"


def findings(source: Source, report: Path) -> tuple[int, tuple[Finding, ...]]:
    """The blocks of a launch, and its rows joined with what is expected of the source."""
    (launch,) = read_report(report).launches
    accesses: Any = with_ends(expected(source)["accesses"], source.text)
    for each in accesses:
        each.setdefault("total", None)
        each.setdefault("ideal_total", None)
    return prod(launch.grid), explain_launch(launch, source.file, accesses)


def verdict(finding: Finding) -> str:
    """How a row's counter compares."""
    joined = finding.joined
    if joined is None or joined.predicted is None:
        return UNREAD
    if finding.agrees:
        return EQUAL
    share = finding.row.share(joined.counter)
    if share is not None and share == joined.share:
        return RATIO
    executed = sum(each.executed for each in finding.row.instructions)
    return OTHER if joined.exact and executed == joined.instructions else REWRITTEN


def rows(folder: Path) -> Iterator[tuple[str, str]]:
    """(verdict, a line of the table) of every row of every report."""
    for source in SOURCES:
        report = folder / f"{source.kernel}.ncu-rep"
        if source.kernel not in CALLS or not report.exists():
            continue
        _, found = findings(source, report)
        for each in found:
            said = verdict(each)
            row, joined = each.row, each.joined
            counter = joined.counter if joined else "wavefronts"
            predicted = joined.predicted if joined else None
            ratio = row.share(counter) or Fraction(0)
            yield (
                said,
                (
                    f"| {source.kernel}:{row.line} | {row.op} | {predicted} | {row.total(counter)} | "
                    f"{float(ratio):.3g} | {said} |"
                ),
            )


def main() -> int:
    """Print the table and how many rows agree."""
    count: dict[str, int] = {}
    print("| kernel and line | op | expected | counted | over the ideal | |\n|---|---|---:|---:|---:|---|")
    for said, line in rows(Path(sys.argv[1])):
        count[said] = count.get(said, 0) + 1
        print(line)
    print(", ".join(f"{number} {said}" for said, number in sorted(count.items())))
    missing = [name for name in CALLS if not (Path(sys.argv[1]) / f"{name}.ncu-rep").exists()]
    if missing:
        print(f"no report of {', '.join(missing)}")
    return bool(missing or count.get(OTHER))


if __name__ == "__main__":
    sys.exit(main())
