"""The reports of tests/data/reports, read once; tests of them skip where ncu-report is not installed."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

import pytest

from layoutalg.profiling import Launch, read_report
from layoutalg.profiling.reading import Report

FOLDER = Path(__file__).parents[1] / "data" / "reports"
"""Reports of an H200, recorded by record.sh from the programs beside them."""

NAMES = (
    "async_copy",
    "matrix_load",
    "no_lines",
    "no_source",
    "transpose_fixed",
    "transpose_naive",
    "vector_pitch",
)
"""Those with counters of instructions."""

with_library = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="ncu-report is not installed"
)


def path(name: str) -> Path:
    """The file of a report."""
    return FOLDER / f"{name}.ncu-rep"


@functools.cache
def report(name: str) -> Report:
    """A report, read."""
    return read_report(path(name))


def launch(name: str, kernel: str = "") -> Launch:
    """The first launch of a report whose kernel's name ends so."""
    return next(each for each in report(name).launches if each.name.endswith(kernel))
