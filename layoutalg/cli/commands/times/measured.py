"""The timings of matrix products by `layoutalg bench FAMILY --json`, as charts and rooflines read them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from layoutalg.cli.files import read_source
from layoutalg.dtype import dtype
from layoutalg.errors import ParseError

IMAGE_FORMATS = ("png", "pdf")
"""Endings of a chart's file that name another format than SVG."""


def chart_format(output: Path) -> str:
    """The format of a chart's file by its name: PNG or PDF by its ending, else SVG."""
    suffix = output.suffix.lower().removeprefix(".")
    return suffix if suffix in IMAGE_FORMATS else "svg"


def read_bench(place: str) -> dict[str, Any]:
    """A bench of products.  Raises ParseError for another file."""
    name = "standard input" if place == "-" else Path(place).name
    text = read_source(place)
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{name} is not JSON that can be read: {error}") from None
    wanted = isinstance(payload, dict) and payload.get("command") == "bench" and "method" in payload
    rows = payload.get("rows") if wanted else None
    if not isinstance(rows, list) or not rows or not all(_is_row(row) for row in rows):
        raise ParseError(f"{name} is not what layoutalg bench --json prints of matrix products")
    return dict(payload)


def measured_points(place: str, element: str) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """The points of a bench on a roofline: operations per byte that each product must at least move, as
    often as it reads A and B and writes C once, and operations per second."""
    payload = read_bench(place)
    bytes_of = dtype(element).bits / 8
    for contender, name in (("ours", str(payload["family"])), ("cublas", "cuBLAS")):
        points = []
        for row in payload["rows"]:
            m, n, k = _extents(row["problem"])
            rate = row["rates"].get(contender)
            if rate:
                moved = (m * k + k * n + m * n) * bytes_of
                points.append((2 * m * n * k / moved, rate * 1e12))
        if points:
            yield f"{name}, measured", points


def _is_row(row: Any) -> bool:
    """Whether all that is drawn of a row is there, as the schema has it."""
    if not isinstance(row, dict) or row.get("unit") != "TFLOP/s" or not isinstance(row.get("run"), dict):
        return False
    if not isinstance(row.get("problem"), str) or cube_side(row["problem"]) is None:
        return False
    held = [row.get("rates"), row.get("ratios"), *map(row["run"].get, ("contenders", "work_per_joule"))]
    if not all(isinstance(x, dict) for x in held):
        return False
    numbers = [*held[0].values(), *held[1].values()]
    return all(x is None or isinstance(x, int | float) for x in numbers) and all(
        isinstance(seen, dict) for seen in held[2].values()
    )


def cube_side(problem: str) -> float | None:
    """The side of the cube with as many multiplications as the product that a text names."""
    sides = _extents(problem)
    return round(math.cbrt(math.prod(sides)), 6) if sides else None


def _extents(problem: str) -> tuple[int, ...]:
    """M, N and K of the product that a text names; () for another text."""
    match = re.search(r"(\d{1,9}) x (\d{1,9}) x (\d{1,9}) ", problem, re.ASCII)
    return () if match is None else tuple(map(int, match.groups()))
