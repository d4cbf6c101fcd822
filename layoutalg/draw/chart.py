"""Charts as SVG: lines and points over two axes, linear or logarithmic; one file, as pictures are.

The idea.  A chart is data: series of points with names, and an axis for either coordinate.  Its scale follows
from the points: ticks at 1, 2 and 5 times powers of ten, or on a logarithmic axis at powers of two or ten.

    speed over size     a line for each contender of a bench
    roofline            a bent line for each level of memory, T = min(beta I, tau), and programs as points

>>> drawn = chart_svg(Chart("speed", "n", "TFLOP/s", (Series("ours", ((1024, 40.0), (2048, 48.0))),)))
>>> drawn.count("<circle")
3
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from layoutalg.arch import Rates
from layoutalg.draw.scene import (
    LETTER,
    LINE_COLORS,
    Box,
    Dot,
    Line,
    Scene,
    Shape,
    Words,
    clean,
    hex_color,
    scene_svg,
    text_width,
)
from layoutalg.errors import ShapeError, UnsupportedError, check_choice, check_type
from layoutalg.limits import Most

_WIDTH, _HEIGHT = 640, 400
_LEFT, _TOP, _RIGHT, _BOTTOM = 72, 44, 24, 52
_DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 2), (9, 3, 2, 3))
"""The dashes of successive lines, which tell them apart without their colours."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points (x, y) under a name, joined by a `line` in their order, each marked where `marks` says so.

    >>> Series("roof", ((1.0, 2.0), (4.0, 2.0)), marks=False).line
    True
    """

    name: str
    points: tuple[tuple[float, float], ...]
    line: bool = True
    marks: bool = True


@dataclass(frozen=True, slots=True)
class Chart:
    """Series over two axes with their labels, linear or `log_x` and `log_y`; notes stand below.

    A linear y begins at 0.  Raises ShapeError for a number that is not finite, or is not positive on a
    logarithmic axis, and for a chart without points, ResourceError past Most.CELLS,
    UnsupportedError for more series than colours and dashes tell apart.

    >>> Chart("empty", "n", "y", ())
    Traceback (most recent call last):
    ...
    layoutalg.errors.ShapeError: chart empty has no points
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = sum(len(series.points) for series in self.series)
        if not count:
            raise ShapeError(f"chart {self.title} has no points")
        Most.CELLS.guard(count, "points of a chart", hint="draw fewer sizes")
        if len(self.series) > (most := len(LINE_COLORS) * len(_DASHES)):
            raise UnsupportedError(f"{len(self.series)} series: colours and dashes tell {most} apart")
        for series in self.series:
            for axis, log in ((0, self.log_x), (1, self.log_y)):
                for point in series.points:
                    if not math.isfinite(point[axis]) or point[axis] < 0 or (log and not point[axis]):
                        needed = "positive" if log else "finite and not negative"
                        raise ShapeError(
                            f"{series.name} of chart {self.title} has a point at {point[axis]} on the "
                            f"{'xy'[axis]} axis; a number that is {needed} is needed"
                        )


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis: it places a number between 0 and 1, and marks the numbers `ticks`."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...]

    def place(self, x: float) -> float:
        low, high = (math.log(v) if self.log else v for v in (self.low, self.high))
        return ((math.log(x) if self.log else x) - low) / (high - low)


def chart_svg(chart: Chart) -> str:
    """Render a chart as a standalone SVG document; all text is escaped.

    >>> "a &lt; b" in chart_svg(Chart("a < b", "n", "y", (Series("one", ((1, 1),)),)))
    True
    """
    return scene_svg(chart_scene(chart))


def chart_scene(chart: Chart) -> Scene:
    """The chart as shapes on a page.

    >>> chart_scene(Chart("t", "n", "y", (Series("one", ((1, 1),)),))).height
    496
    """
    check_type("chart_svg", chart, Chart, "a chart")
    points = [point for series in chart.series for point in series.points]
    across = _axis([x for x, _ in points], log=chart.log_x, from_zero=False)
    up = _axis([y for _, y in points], log=chart.log_y, from_zero=True)

    def at(x: float, y: float) -> tuple[float, float]:
        return _LEFT + across.place(x) * _WIDTH, _TOP + (1 - up.place(y)) * _HEIGHT

    legend = max((len(series.name) for series in chart.series), default=0)
    width = max(
        _LEFT + _WIDTH + _RIGHT + round(legend * LETTER) + 28, _LEFT + text_width(chart.title, 8.6) + _RIGHT
    )
    letters = int((width - _LEFT) / LETTER)
    notes = [line for note in chart.notes for line in textwrap.wrap(clean(note), letters)]
    below = max(_TOP + _HEIGHT + _BOTTOM, _TOP + 18 * len(chart.series) + 18)
    drawn: list[Shape] = [
        Words(_LEFT, 24, chart.title, bold=True, size=14),
        *_grid(across, up),
        Words(_LEFT + _WIDTH / 2, _TOP + _HEIGHT + 38, chart.x, "middle"),
        Words(16, _TOP + _HEIGHT / 2, chart.y, "middle", turned=True),
    ]
    for number, series in enumerate(chart.series):
        drawn += _series(series, [at(*point) for point in series.points], number)
    drawn += [Words(_LEFT, below + 4 + 18 * n, note, color="#555") for n, note in enumerate(notes)]
    return Scene(chart.title, width, below + 18 * len(notes), tuple(drawn))


def _axis(values: Sequence[float], *, log: bool, from_zero: bool) -> _Axis:
    """The axis of some numbers: its ends are ticks."""
    low, high = min(values), max(values)
    if log:
        for base, logarithm in ((10.0, math.log10), (2.0, math.log2)):
            first, last = math.floor(logarithm(low)), math.ceil(logarithm(high))
            last += first == last
            ticks = tuple(base**n for n in range(first, last + 1))
            if len(ticks) > 3:  # as few powers of ten would be too few ticks
                break
        return _Axis(ticks[0], ticks[-1], log, ticks)
    low = 0.0 if from_zero else low
    step = _step((high - low) or high or 1.0)
    first, last = math.floor(low / step), math.ceil(high / step)
    last += first == last
    return _Axis(first * step, last * step, log, tuple(n * step for n in range(first, last + 1)))


def _step(extent: float) -> float:
    """A distance of ticks: 1, 2 or 5 times a power of ten, so that there are 4 to 10."""
    power = 10.0 ** math.floor(math.log10(extent))
    return next(n * power for n in (0.1, 0.2, 0.5, 1.0) if extent <= 10 * n * power)


def _grid(across: _Axis, up: _Axis) -> Iterable[Shape]:
    """Lines at the ticks, and the numbers beside them."""
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    for x in across.ticks:
        at = _LEFT + across.place(x) * _WIDTH
        yield Line(((at, _TOP), (at, bottom)), "#ddd")
        yield Words(at, bottom + 16, _tick(x), "middle", "#555")
    for y in up.ticks:
        at = _TOP + (1 - up.place(y)) * _HEIGHT
        yield Line(((_LEFT, at), (right, at)), "#ddd")
        yield Words(_LEFT - 6, at + 4, _tick(y), "end", "#555")
    yield Box(_LEFT, _TOP, _WIDTH, _HEIGHT, stroke="#555")


def _series(series: Series, places: Sequence[tuple[float, float]], number: int) -> Iterable[Shape]:
    """A line, marks, and the name at the right; past the eighth the colours come again with other dashes."""
    color = hex_color(LINE_COLORS[number % len(LINE_COLORS)])
    dash = _DASHES[(number + number // len(LINE_COLORS)) % len(_DASHES)]
    if series.line and len(places) > 1:
        yield Line(tuple(places), color, 1.5, dash)
    if series.marks:
        for x, y in places:
            yield from _mark(x, y, 2.5 if series.line else 4, color, number)
    top, left = _TOP + 8 + 18 * number, _LEFT + _WIDTH + 8
    if series.line:
        yield Line(((left, top - 4), (left + 18, top - 4)), color, 2.5, dash)
    if series.marks:
        yield from _mark(left + 9, top - 4, 3.5, color, number)
    yield Words(left + 24, top, series.name, color=color)


def _mark(x: float, y: float, radius: float, color: str, number: int) -> Iterable[Shape]:
    """The mark of a series: a disk, a square, a ring or a square without its inside."""
    hollow = number % 4 >= 2
    fill, stroke = ("#fff", color) if hollow else (color, color)
    if number % 2 == 0:
        yield Dot(x, y, radius, fill, stroke)
    else:
        yield Box(x - radius, y - radius, 2 * radius, 2 * radius, fill, stroke)


def _tick(x: float) -> str:
    if x and not 1e-3 <= x < 1e6:
        return f"{x:.0e}".replace("e+0", "e").replace("e-0", "e-")
    return f"{x:,.10g}" if x < 1 else f"{x:,.6g}"


# --- rooflines -----------------------------------------------------------------------------------------


def roofline_chart(
    rates: Rates,
    programs: Mapping[str, Mapping[str, float]],
    unit: str = "tensor",
    measured: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> Chart:
    """The roofs of a board, one for each level of memory, and programs as points under them.

    `programs` are operations per byte by level, of each program by name; a point is where the level's roof
    bounds it.  `measured` are points (operations per byte, operations per second) that somebody has found, by
    name.  Raises UnknownNameError for a unit without a rate, and ShapeError for an intensity or a rate that
    is not positive.

    >>> from layoutalg.arch import T4_ACHIEVED
    >>> chart = roofline_chart(T4_ACHIEVED, {"256x128": {"dram": 85.3, "shared": 32.0}})
    >>> [one.name for one in chart.series]
    ['dram, 220 GB/s', 'l2, 1,280 GB/s', 'shared, 3,662 GB/s', '256x128']
    """
    check_type("roofline_chart", rates, Rates, "rates")
    check_choice("unit", unit, rates.units)
    peak = rates.units[unit]
    balances = {level: peak / beta for level, beta in rates.levels.items()}
    intensities = [n for levels in programs.values() for level, n in levels.items() if level in balances]
    runs = dict(measured or {})
    intensities += [x for points in runs.values() for x, _ in points]
    for n in [*intensities, *(y for points in runs.values() for _, y in points)]:
        if not n > 0:
            raise ShapeError(f"the intensity or the rate of a program is {n}; it must be positive")
    known = [*balances.values(), *intensities]
    low, high = min(known) / 4, max(known) * 4
    roofs = [
        Series(
            f"{level}, {beta / 1e9:,.0f} GB/s",
            tuple((x, min(beta * x, peak) / 1e12) for x in (low, balances[level], high)),
            marks=False,
        )
        for level, beta in rates.levels.items()
    ]
    points = [
        Series(
            name,
            tuple((n, min(rates.levels[x] * n, peak) / 1e12) for x, n in levels.items() if x in rates.levels),
            line=False,
        )
        for name, levels in programs.items()
    ]
    points += [
        Series(name, tuple((x, y / 1e12) for x, y in places), line=False) for name, places in runs.items()
    ]
    return Chart(
        f"Roofline of {rates.name}, {unit} {peak / 1e12:,.4g} TFLOP/s",
        "operations per byte", "TFLOP/s", (*roofs, *(line for line in points if line.points)), True, True,
        (f"Rates: {rates.source}",),
    )  # fmt: skip


def rising(points: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Points by x.  Raises ShapeError for two at one x.

    >>> rising([(2, 5.0), (1, 7.0)])
    ((1, 7.0), (2, 5.0))
    """
    ordered = tuple(sorted(points))
    for (x, _), (after, _) in pairwise(ordered):
        if x == after:
            raise ShapeError(f"two points of a line are at {x}")
    return ordered
