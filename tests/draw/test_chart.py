"""Charts: scales, what is refused, and rooflines whose corners are the balance points."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from layoutalg.arch import T4_ACHIEVED, Rates
from layoutalg.draw import Chart, Series, chart_svg, rising, roofline_chart
from layoutalg.draw.chart import chart_scene
from layoutalg.draw.scene import Dot, Line, Words
from layoutalg.errors import ResourceError, ShapeError, UnknownNameError
from layoutalg.limits import Most
from layoutalg.model import balance_point

SIZES = tuple((float(n), 50 - 3e4 / n) for n in range(1024, 12801, 128))


def test_a_chart_is_one_svg_with_a_mark_per_point() -> None:
    series = (Series("a & b", SIZES), Series("roof", SIZES, marks=False))
    text = chart_svg(Chart("speed <ours>", "n", "TFLOP/s", series))
    ElementTree.fromstring(text)
    shapes = chart_scene(Chart("speed", "n", "TFLOP/s", series)).shapes
    lines = [shape for shape in shapes if isinstance(shape, Line) and len(shape.points) == len(SIZES) == 93]
    marks = [shape for shape in shapes if isinstance(shape, Dot)]
    assert len(lines) == 2 and len(marks) == len(SIZES) + 1, "a mark per point and one in the legend"
    assert lines[0].color != lines[1].color and lines[0].dash != lines[1].dash
    assert "speed &lt;ours&gt;" in text and "a &amp; b" in text and "href" not in text


@pytest.mark.parametrize(
    ("values", "log", "ticks"),
    [
        ([1024, 12800], False, ["0", "2,000", "4,000", "6,000", "8,000", "10,000", "12,000", "14,000"]),
        ([3, 3], False, ["3", "3.5"]),
        ([1, 1000], True, ["1", "10", "100", "1,000"]),
        ([3, 40], True, ["2", "4", "8", "16", "32", "64"]),
    ],
)
def test_ticks_are_round_and_hold_all_points(values: list[float], log: bool, ticks: list[str]) -> None:
    shapes = chart_scene(
        Chart("t", "x", "y", (Series("", tuple((v, 1.0) for v in values)),), log_x=log)
    ).shapes
    shown = [shape.text for shape in shapes if isinstance(shape, Words) and shape.color == "#555"]
    assert shown[: len(ticks)] == ticks
    marks = [shape.x for shape in shapes if isinstance(shape, Dot)][:-1]
    assert len(marks) == len(values) and all(72 <= x <= 72 + 640 for x in marks)


def test_a_logarithmic_axis_is_one() -> None:
    points = tuple((10.0**n, 10.0**n) for n in range(4))
    text = chart_svg(Chart("t", "x", "y", (Series("s", points),), log_x=True, log_y=True))
    places = [tuple(map(float, p)) for p in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)]
    assert len({round(b[0] - a[0]) for a, b in pairwise(places)}) == 1 and places[0][1] > places[-1][1]


@pytest.mark.parametrize(
    ("points", "log"), [([(0.0, 1.0)], True), ([(1.0, -1.0)], False), ([(math.nan, 1.0)], False), ([], False)]
)
def test_points_that_are_nowhere_are_refused(points: list[tuple[float, float]], log: bool) -> None:
    with pytest.raises(ShapeError):
        Chart("t", "x", "y", (Series("s", tuple(points)),), log_x=log)


def test_a_chart_has_an_end() -> None:
    with pytest.raises(ResourceError):
        Chart("t", "x", "y", (Series("s", ((1.0, 1.0),) * (Most.CELLS.number + 1)),))
    with pytest.raises(ShapeError, match="two points of a line are at 1"):
        rising([(1, 2), (1, 3)])


def test_the_roofs_of_a_board_bend_at_their_balance_points() -> None:
    chart = roofline_chart(T4_ACHIEVED, {"256x128": {"dram": 85.3, "registers": 5.0}})
    for roof, level in zip(chart.series, T4_ACHIEVED.levels, strict=False):
        (_, low), (corner, peak), (_, flat) = roof.points
        assert corner == balance_point(T4_ACHIEVED, level) and low < peak == flat == 49.4
    ((intensity, bound),) = chart.series[-1].points
    assert intensity == 85.3 and bound == pytest.approx(85.3 * 220e9 / 1e12)


def test_a_roofline_of_what_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unit"):
        roofline_chart(Rates("r", {"f32": 1e12}, {"dram": 1e11}, "made up"), {})
    with pytest.raises(ShapeError, match="must be positive"):
        roofline_chart(T4_ACHIEVED, {"one": {"dram": 0.0}})
