"""Charts of the site, drawn from the tables of docs/measured.md as they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from layoutalg.draw import Chart, Series, chart_svg

MEASURED = Path(__file__).parents[2] / "docs" / "measured.md"


def section(heading: str) -> str:
    """The text under a heading of docs/measured.md."""
    text = MEASURED.read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(heading: str, first: str) -> list[dict[str, str]]:
    """The table of a section whose first column is headed so: a row by column."""
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    head = [cell.strip() for cell in lines[start].strip("|").split("|")]
    found = []
    for line in lines[start + 2 :]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != len(head) or cells[0] == first:
            break
        found.append(dict(zip(head, cells, strict=True)))
    return found


def number(text: str) -> float:
    """A number as tables write it."""
    return float(text.replace(",", ""))


def _sorted(name: str, values: Sequence[float]) -> Series:
    """The values in order: how many cases reach at least so much."""
    ordered = sorted(values, reverse=True)
    return Series(name, tuple((float(i), value) for i, value in enumerate(ordered, 1)), marks=False)


def _rates(heading: str, first: str, columns: Sequence[str], title: str) -> Chart:
    table = rows(heading, first)
    series = tuple(
        _sorted(column, [number(row[column]) for row in table if re.fullmatch(r"[\d,.]+", row[column])])
        for column in columns
    )
    return Chart(title, "cases, the fastest first", "GB/s", series)


def products() -> Chart:
    """f32 products over their size."""
    sizes = [
        (re.match(r"(\d+) x \1 x \1 f32", row["problem"]), row) for row in rows("f32 products", "problem")
    ]
    points = sorted((float(found[1]), row) for found, row in sizes if found)
    series = [
        Series(name, tuple((size, number(row[column])) for size, row in points))
        for name, column in (("layoutalg", "ours"), ("cuBLAS", "cuBLAS"))
    ]
    return Chart("f32 products on an H200", "m = n = k", "TFLOP/s", tuple(series))


def wgmma() -> Chart:
    """bf16 products beside cuBLAS, by case."""
    table = rows("Products by wgmma, beside cuBLAS", "m x n x k")
    ratios = [number(row["cuBLAS / ours"]) for row in table]
    ones = Series("cuBLAS", ((1.0, 1.0), (float(len(ratios)), 1.0)), marks=False)
    return Chart(
        "bf16 products by wgmma on an H200", "cases, the best first", "time of cuBLAS over ours",
        (_sorted("layoutalg, chosen tile", ratios), ones),
    )  # fmt: skip


DRAWN = {
    "f32-products": ("f32 products", products),
    "wgmma": ("Products by wgmma, beside cuBLAS", wgmma),
    "permutes": (
        "Permutes",
        lambda: _rates("Permutes", "problem", ("ours", "copy", "PyTorch", "CuPy"), "Permutes on an H200"),
    ),
    "reductions": (
        "Reductions, softmax and layer norm",
        lambda: _rates(
            "Reductions, softmax and layer norm", "case", ("ours", "read", "PyTorch"), "Reductions on an H200"
        ),
    ),
}
"""File -> the section of docs/measured.md that it draws, and the chart."""


def charts() -> dict[str, str]:
    """The page of charts and its pictures, by name."""
    parts = [
        "# Charts\n\nThe tables of [measured](measured.md), drawn when the site is built. "
        "Each section there has its command, device and date.\n"
    ]
    files = {}
    for name, (heading, draw) in DRAWN.items():
        files[f"charts/{name}.svg"] = chart_svg(draw())
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        parts.append(
            f"## {heading}\n\n![{heading}](charts/{name}.svg)\n\n[The table](measured.md#{anchor})\n"
        )
    return {**files, "charts.md": "\n".join(parts)}
