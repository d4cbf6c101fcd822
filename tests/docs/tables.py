"""Long tables of docs/measured.md: data in docs/measured/NAME.csv, of which the page prints a few rows.

    python -m tests.docs.tables NAME < printed.md     stores a table that a script of tests/gpu printed
    python -m tests.docs.pages                        prints the rows of the page anew

A table stands between `<!-- table: NAME by COLUMN -->` and `<!-- end of table -->`: the least, the median and
the greatest by that column are shown.  Where predictions stand beside counts, that furthest off is.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path

MEASURED = Path(__file__).parents[2] / "docs" / "measured.md"
FOLDER = MEASURED.with_suffix("")
REGION = re.compile(r"(<!-- table: (\w+)(?: by ([^>]+))? -->\n)(.*?)(<!-- end of table -->)", re.S)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in (head, ["---"] * len(head), *rows))


def stored(name: str) -> list[dict[str, str]]:
    """The rows of a stored table, by column."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(text: str) -> float:
    """A number as tables write it, without what is said behind it."""
    found = re.match(r"(?:x )?([\d,]*\.?\d+)", text)
    if found is None:
        raise ValueError(f"a table has {text!r} where a number is expected")
    return float(found[1].replace(",", ""))


def _off(row: Mapping[str, str]) -> float:
    """Share of a prediction by which its count differs."""
    predicted, counted = number(row["predicted"]), number(row["measured"])
    return abs(counted - predicted) / max(predicted, 1)


def _shown(name: str, column: str | None) -> str:
    """The part of a table that the page shows, and where the rest is."""
    rows = stored(name)
    link = f"[{name}.csv](measured/{name}.csv)"
    if column is None:
        wrong = [row for row in rows if _off(row)]
        equal = f"{len(rows) - len(wrong):,} of {len(rows):,} counts are equal to their predictions: {link}."
        if not wrong:
            return f"{equal}\n"
        some = [max(wrong, key=_off)]
        lead = f"{equal} Furthest off:"
    else:
        ordered = sorted(rows, key=lambda row: number(row[column]))
        some = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
        lead = f"Least, median and greatest of {len(rows)} rows by `{column}`: {link}."
    return f"{lead}\n\n{table(list(some[0]), [list(row.values()) for row in some])}"


def printed(text: str) -> str:
    """The page with the rows that it shows of each table."""
    return REGION.sub(lambda found: f"{found[1]}{_shown(found[2], found[3])}{found[5]}", text)


def whole(text: str) -> str:
    """The page with all rows of each table."""

    def rows(found: re.Match[str]) -> str:
        data = stored(found[2])
        return table(list(data[0]), [list(row.values()) for row in data])

    return REGION.sub(rows, text)


def section(heading: str) -> str:
    """The text under a heading of the page, with all rows of its tables."""
    text = MEASURED.read_text(encoding="utf-8")
    return whole(text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0])


def as_csv(text: str) -> str:
    """A table in Markdown as CSV."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head, rule, *rows = cells
    if not all(re.fullmatch(r":?-+:?", cell) for cell in rule) or any(len(row) != len(head) for row in rows):
        raise ValueError("a table has a head, a rule, and rows of as many cells as its head")
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([[name or "verdict" for name in head], *rows])
    return out.getvalue()


if __name__ == "__main__":
    (FOLDER / f"{sys.argv[1]}.csv").write_text(as_csv(sys.stdin.read()), encoding="utf-8")
