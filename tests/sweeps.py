"""Long sweeps: a few of their cases for every change, all of them for `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first(count: int, cases: Iterable[Any]) -> list[Any]:
    """The cases, those after the first `count` marked deep."""
    return [case if i < count else pytest.param(case, marks=pytest.mark.deep) for i, case in enumerate(cases)]
