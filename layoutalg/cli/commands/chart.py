"""`layoutalg chart`: what `layoutalg bench --json` has measured of products, over their size, drawn."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from layoutalg.cli.completions import one_of
from layoutalg.cli.inputs import read_source
from layoutalg.cli.options import JsonOption, OutputOption
from layoutalg.cli.output import say_json, write_whole
from layoutalg.cli.refusals import header
from layoutalg.draw import Chart, Series, as_file, chart_svg, rising
from layoutalg.dtype import dtype
from layoutalg.errors import ParseError, UnknownNameError, UnsupportedError, printable

IMAGE_FORMATS = ("png", "pdf")

MOST_FILES = 8
"""Of one chart."""

Value = Callable[[Mapping[str, Any], str], float | None]


def _rate(row: Mapping[str, Any], contender: str) -> float | None:
    value: float | None = row["ours_tflop_per_s" if contender == "ours" else "cublas_tflop_per_s"]
    return value


def _ratio(row: Mapping[str, Any], contender: str) -> float | None:
    value: float | None = row["ratio"] if contender == "ours" else None
    return value


def _median(name: str) -> Value:
    def value(row: Mapping[str, Any], contender: str) -> float | None:
        span = row["run"]["contenders"].get(contender, {}).get(name)
        return None if span is None else float(span["median"])

    return value


def _efficiency(row: Mapping[str, Any], contender: str) -> float | None:
    value = row["run"]["work_per_joule"].get(contender)
    return None if value is None else value / 1e9


OF: Mapping[str, tuple[str, Value]] = {
    "rate": ("TFLOP/s", _rate),
    "ratio": ("times cuBLAS", _ratio),
    "efficiency": ("GFLOP/J", _efficiency),
    "clock": ("SM clock, MHz", _median("sm_mhz")),
    "power": ("W", _median("power_w")),
    "temperature": ("degrees Celsius", _median("temperature_c")),
}
"""What is drawn: the label of its axis, and the number of a row and a contender."""


def chart_command(
    files: Annotated[
        list[str],
        typer.Argument(
            help="What layoutalg bench FAMILY --json has printed; - reads standard input. Several are "
            "drawn together.",
            show_default=False,
        ),
    ],
    of: Annotated[
        str,
        typer.Option(
            help="What is drawn: rate, ratio, efficiency, clock, power, temperature.",
            autocompletion=one_of(*OF),
        ),
    ] = "rate",
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw the rates of matrix products over their size, from the JSON of a bench, as SVG, PNG or PDF.

    layoutalg bench gemm-simt --sizes 1024:12800:128 --json > simt.json

    layoutalg chart simt.json --of efficiency -o simt.svg
    """
    if of not in OF:
        raise UnknownNameError("number of a bench", of, OF)
    if len(files) > MOST_FILES:
        raise UnsupportedError(f"{len(files)} files: at most {MOST_FILES} fit a chart")
    read = [_read(place) for place in files]
    series = [one for payload in read for one in _series(payload, of, several=len(read) > 1)]
    label, _ = OF[of]
    if not series:
        why = next((p["method"]["not_read"] for p in read if p["method"]["not_read"]), None)
        raise UnsupportedError(
            f"no row of {', '.join(files)} has a number of {label}{(why and f': {why}') or ''}"
        )
    chart = Chart(
        " and ".join(dict.fromkeys(f"{p['family']} on {p['device']}" for p in read)),
        "n of n x n x n", label, tuple(series), notes=tuple(dict.fromkeys(map(_note, read))),
    )  # fmt: skip
    drawn = chart_svg(chart)
    if output is not None:
        write_whole(output, as_file(chart, chart_format(output)))
    if as_json:
        found = [{"name": one.name, "points": [list(point) for point in one.points]} for one in series]
        say_json(
            header("chart")
            | {"of": of, "unit": label, "series": found}
            | {"output": None if output is None else str(output), "content": None if output else drawn}
        )
    elif output is not None:
        print(printable(f"wrote {output} ({of}, {sum(len(one.points) for one in series)} points)"))
    else:
        sys.stdout.write(drawn)


def chart_format(output: Path) -> str:
    """What the name of a chart's file asks for: PNG or PDF by its ending, else SVG."""
    suffix = output.suffix.lower().removeprefix(".")
    return suffix if suffix in IMAGE_FORMATS else "svg"


def _read(place: str) -> dict[str, Any]:
    """A bench of products.  Raises ParseError for another file."""
    name = "standard input" if place == "-" else Path(place).name
    text = read_source(place)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{name} is not JSON that can be read: {error}") from None
    wanted = isinstance(found, dict) and found.get("command") == "bench" and "method" in found
    rows = found.get("rows") if wanted else None
    if not isinstance(rows, list) or not rows or not all(_is_row(row) for row in rows):
        raise ParseError(f"{name} is not what layoutalg bench --json prints of matrix products")
    return dict(found)


def measured_points(place: str, element: str) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """The points of a bench on a roofline: operations per byte that each product must at least move, as
    often as it reads A and B and writes C once, and operations per second."""
    payload = _read(place)
    bytes_of = dtype(element).bits / 8
    for contender, name in (("ours", str(payload["family"])), ("cublas", "cuBLAS")):
        points = []
        for row in payload["rows"]:
            m, n, k = _extents(row["problem"])
            rate = _rate(row, contender)
            if rate:
                moved = (m * k + k * n + m * n) * bytes_of
                points.append((2 * m * n * k / moved, rate * 1e12))
        if points:
            yield f"{name}, measured", points


def _is_row(row: Any) -> bool:
    """Whether all that is drawn of a row is there, as the schema has it."""
    numbers = ("ours_tflop_per_s", "cublas_tflop_per_s", "ratio")
    if not isinstance(row, dict) or not isinstance(row.get("problem"), str) or _side(row["problem"]) is None:
        return False
    if not all(row.get(name, "") is None or isinstance(row.get(name), int | float) for name in numbers):
        return False
    run = row.get("run")
    if not isinstance(run, dict) or not all(
        isinstance(run.get(x), dict) for x in ("contenders", "work_per_joule")
    ):
        return False
    return all(isinstance(seen, dict) for seen in run["contenders"].values())


def _side(problem: str) -> float | None:
    """The side of the cube with as many multiplications as the product that a text names."""
    sides = _extents(problem)
    return round(math.cbrt(math.prod(sides)), 6) if sides else None


def _extents(problem: str) -> tuple[int, ...]:
    """M, N and K of the product that a text names; () for another text."""
    found = re.search(r"(\d{1,9}) x (\d{1,9}) x (\d{1,9}) ", problem, re.ASCII)
    return () if found is None else tuple(map(int, found.groups()))


def _series(payload: Mapping[str, Any], of: str, *, several: bool) -> Iterator[Series]:
    """A line for each contender that has a number."""
    for contender, name in (("ours", payload["family"]), ("cublas", "cuBLAS")):
        points = []
        for row in payload["rows"]:
            side, y = _side(row["problem"]), OF[of][1](row, contender)
            if side is not None and y is not None:
                points.append((side, y))
        if points:
            shown = f"{name}, {payload['family']}" if several and contender != "ours" else name
            yield Series(str(shown), rising(points), marks=len(points) < 40)


def _note(payload: Mapping[str, Any]) -> str:
    method = payload["method"]
    rule = "mean of the later half" if method["rule"] == "later half" else "median of rounds in turn"
    return (
        f"{payload['family']}, {payload['date']}: {rule}, data {'cold' if method['cold'] else 'as it lies'}"
    )
