"""Charts of the site, drawn from the tables of docs/measured.md as they stand."""

from __future__ import annotations

import re
from collections.abc import Sequence

from layoutalg.draw import Chart, Series, chart_svg
from tests.docs.tables import number, stored


def _sorted(name: str, values: Sequence[float]) -> Series:
    """The values in order: how many cases reach at least so much."""
    ordered = sorted(values, reverse=True)
    return Series(name, tuple((float(i), value) for i, value in enumerate(ordered, 1)), marks=False)


def _rates(name: str, columns: Sequence[str], title: str) -> Chart:
    table = stored(name)
    series = tuple(
        _sorted(column, [number(row[column]) for row in table if re.fullmatch(r"[\d,.]+", row[column])])
        for column in columns
    )
    return Chart(title, "cases, the fastest first", "GB/s", series)


def products() -> Chart:
    """f32 products over their size."""
    sizes = [(re.match(r"(\d+) x \1 x \1 f32", row["problem"]), row) for row in stored("f32_products")]
    points = sorted((float(found[1]), row) for found, row in sizes if found)
    series = [
        Series(name, tuple((size, number(row[column])) for size, row in points))
        for name, column in (("layoutalg", "ours"), ("cuBLAS", "cuBLAS"))
    ]
    return Chart("f32 products on an H200", "m = n = k", "TFLOP/s", tuple(series))


def wgmma() -> Chart:
    """bf16 products beside cuBLAS, by case."""
    ratios = [number(row["cuBLAS / ours"]) for row in stored("bf16_products")]
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
        lambda: _rates("permutes", ("ours", "copy", "PyTorch", "CuPy"), "Permutes on an H200"),
    ),
    "reductions": (
        "Reductions, softmax and layer norm",
        lambda: _rates("reductions", ("ours", "read", "PyTorch"), "Reductions on an H200"),
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
