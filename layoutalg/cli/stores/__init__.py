"""Stores of results on disk: timings of `layoutalg tune`, and what `layoutalg verify --random` has run.

actions     show, merge, export, lock, fit and replay timings
page        a store of timings as a page, which `actions` imports when one is wanted
sweeps      random problems and configurations, each verified once
"""

from __future__ import annotations

from layoutalg.cli.stores.actions import (
    ACTIONS,
    OPERANDS,
    TAKES,
    Asked,
    Found,
    TuneAnswer,
    by_place,
    record_row,
    shown_time,
    timing_row,
    unfit_words,
)
from layoutalg.cli.stores.sweeps import RandomCases, Sweep, sweep

__all__ = [
    "ACTIONS",
    "OPERANDS",
    "TAKES",
    "Asked",
    "Found",
    "RandomCases",
    "Sweep",
    "TuneAnswer",
    "by_place",
    "record_row",
    "shown_time",
    "sweep",
    "timing_row",
    "unfit_words",
]
