"""`layoutalg inspect chart`: rates of products that `layoutalg bench --json` has measured, drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from layoutalg.answers import Answer, taken
from layoutalg.cli.commands.times.measured import chart_format, cube_side, read_bench
from layoutalg.cli.files import write_whole
from layoutalg.cli.options import OutputOption, argument, one_of, option
from layoutalg.cli.output import say_answer, wants_json
from layoutalg.draw import Chart, Series, as_file, chart_svg, rising
from layoutalg.errors import UnsupportedError, check_choice, printable

Value = Callable[[Mapping[str, Any], str], float | None]


def _rate(row: Mapping[str, Any], contender: str) -> float | None:
    value: float | None = row["rates"].get(contender)
    return value


def _ratio(row: Mapping[str, Any], contender: str) -> float | None:
    value: float | None = row["ratios"].get("cublas") if contender == "ours" else None
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
"""The quantities to draw: the label of the axis, and the number of a row and a contender."""


@dataclass(frozen=True)
class Line:
    """The points of one contender."""

    name: str
    points: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ChartAnswer(Answer, command="inspect chart"):
    """Rates of products over their size."""

    of: str
    """rate, ratio, efficiency, clock, power or temperature."""
    unit: str
    series: tuple[Line, ...]
    output: str | None
    content: str | None
    """The SVG where no file was named."""


def chart_command(
    files: Annotated[
        list[str],
        argument(
            "Output of layoutalg bench FAMILY --json; - reads standard input. Several files are "
            "drawn together."
        ),
    ],
    of: Annotated[
        str,
        option(
            "The quantity to draw: rate, ratio, efficiency, clock, power, temperature.", complete=one_of(*OF)
        ),
    ] = "rate",
    output: OutputOption = None,
) -> None:
    """Chart GEMM rates over the matrix size, from the JSON of layoutalg bench, as SVG, PNG or PDF.

    layoutalg bench gemm-simt --sizes 1024:12800:128 --json > simt.json

    layoutalg inspect chart simt.json --of efficiency -o simt.svg
    """
    check_choice("number of a bench", of, OF)
    read = [read_bench(file) for file in files]
    series = [line for payload in read for line in _series(payload, of, several=len(read) > 1)]
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
    if wants_json():
        content = None if output else drawn
        say_answer(taken(ChartAnswer, None, of=of, unit=label, series=series, output=output, content=content))
    elif output is not None:
        print(printable(f"wrote {output} ({of}, {sum(len(line.points) for line in series)} points)"))
    else:
        sys.stdout.write(drawn)


def _series(payload: Mapping[str, Any], of: str, *, several: bool) -> Iterator[Series]:
    """A line for each contender that has a number."""
    for contender, name in (("ours", payload["family"]), ("cublas", "cuBLAS")):
        points = []
        for row in payload["rows"]:
            side, y = cube_side(row["problem"]), OF[of][1](row, contender)
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
