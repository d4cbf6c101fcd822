"""Every search counts all that it does: nothing runs on without counting, whatever the input."""

from __future__ import annotations

import random

import pytest

from layoutalg import budget
from layoutalg.budget import Budget, budget_of, metered, spend, with_budget
from layoutalg.decide import image_size
from layoutalg.errors import ArgumentTypeError, ShapeError, UndecidedError
from layoutalg.layout import Layout
from tests.draws.growth import PROCEDURES, work_of

UNITS, LINES_PER_UNIT, LINES_PER_MODE = 5_000, 16, 4_000

QUICK_LINES = {"analyze": 64, "solve": 96}
"""Lines of a unit where most of them are short: NumPy's, sympy's and those of a predicate."""

MODES = (5, 10, 20)


@pytest.mark.deep(only=("solve",))
@pytest.mark.parametrize("name", PROCEDURES)
def test_all_work_is_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executed lines stay within what was counted and what reading the modes takes, at n, 2n and 4n modes."""
    monkeypatch.setattr(budget, "UNITS", UNITS)
    for seed in range(4):
        for count in MODES:
            question = PROCEDURES[name](random.Random(f"{name} {seed} {count}"), count)
            least, each = LINES_PER_MODE * count, QUICK_LINES.get(name, LINES_PER_UNIT)
            work = work_of(question, each * 3 * UNITS + least)
            assert work.steps <= each * work.units + least, (seed, count)


def test_the_same_question_takes_the_same_work() -> None:
    counted = []
    for _ in range(2):
        with metered() as meter:
            image_size(Layout((1 << 13, 1 << 13, 1 << 14), (30011, 40009, 50021)))
        counted.append(meter.units)
    assert counted[0] == counted[1] > 0


def test_a_part_draws_from_the_whole() -> None:
    with (
        pytest.raises(UndecidedError, match="all of it the budget of 10 units") as info,
        budget_of("all of it", 10),
    ):
        part = Budget("a part", 100)
        part.spend(10)
        part.spend()
    assert info.value.budget == 10
    spend(1 << 60)  # nothing is asked


def test_budgets_are_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "UNITS", 1000)
    layout = Layout((1 << 13, 1 << 13, 1 << 14), (30011, 40009, 50021))
    with pytest.raises(UndecidedError, match="budget of 1000 units"):
        image_size(layout)
    with pytest.raises(UndecidedError, match="budget of 2000 units"):
        with_budget(2, image_size, layout)
    found = with_budget(1000, image_size, layout)
    assert found == with_budget(10, with_budget, 100, image_size, layout) > 0
    with pytest.raises(UndecidedError, match="budget of 1000 units"):
        image_size(layout)


@pytest.mark.parametrize("times", [0, -1, 1 << 70, 10**5000], ids=["none", "negative", "many", "endless"])
def test_no_other_number_of_times(times: int) -> None:
    with pytest.raises(ShapeError, match="1 to 1000000"):
        with_budget(times, max, 1, 2)


def test_what_is_no_number_is_refused() -> None:
    for times in (True, 2.0, "3", None):
        with pytest.raises(ArgumentTypeError, match="integer"):
            with_budget(times, max, 1, 2)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="operation"):
        with_budget(2, 3)  # type: ignore[arg-type]
