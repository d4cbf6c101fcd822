"""The tiers of tests: what is counted, which parameters a marker means, and what is said of too much work."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.budget import Budget
from layoutalg.codegen.expr import Const
from layoutalg.errors import UndecidedError
from layoutalg.layout import Layout
from tests import tiers
from tests.sweeps import each
from tests.tiers import LIMIT, PRICES, Tiers, Work, costliest, sentence, too_much


@pytest.mark.deep(but=("light", "lighter"))
@pytest.mark.parametrize("weight", ["light", "heavy", "lighter"])
def test_a_marker_leaves_out_all_but_some_parameters(weight: str, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("deep") is None) == ("light" in weight)


@pytest.mark.deep(only=("heavy",))
@pytest.mark.parametrize("weight", ["light", "heavy", "lighter"])
def test_a_marker_leaves_out_some_parameters(weight: str, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("deep") is None) == ("light" in weight)


def _item(*ids: str, complete: bool = True, **names: Any) -> list[Any]:
    """Items of one test with a marker, chosen by the plugin."""
    mark = pytest.mark.deep(**names).mark
    items = [
        SimpleNamespace(
            nodeid=f"test_x.py::test_x[{name}]",
            own_markers=[mark],
            callspec=SimpleNamespace(id=name),
            get_closest_marker=lambda _: mark,
        )
        for name in ids
    ]
    Tiers.pytest_collection_modifyitems(SimpleNamespace(complete=complete), items)  # type: ignore[arg-type]
    return [item for item in items if item.own_markers]


def test_a_name_that_no_parameter_has_is_refused_where_all_are_collected() -> None:
    assert len(_item("a", "b", "c", but=("b",))) == 2
    assert len(_item("a", complete=False, but=("b",))) == 1
    with pytest.raises(pytest.UsageError, match=r"test_x has no parameters \['d'\]"):
        _item("a", "b", only=("b", "d"))
    with pytest.raises(pytest.UsageError, match="deep takes but= or only="):
        _item("a", "b", nearly=("b",))


def test_what_a_test_does_is_counted() -> None:
    meter = tiers._Meter()
    Layout((4, 8), (8, 1))
    assert meter.work.done == {"layouts": 1}
    with meter.apart():
        Layout((4, 8), (8, 1))
        Const(7)
    Const(7)
    Budget("is it so?", 10).spend(9)
    with pytest.raises(UndecidedError):
        Budget("is it so?", 10).spend(11)
    assert meter.work.done == {"layouts": 1, "expressions": 1, "units of budget": 9}
    subprocess.run([sys.executable, "-B", "-c", ""], check=True)
    subprocess.run(["true"], check=True)
    assert meter.work.done["Python processes"] == meter.work.done["other processes"] == 1
    assert set(meter.work.done) <= set(PRICES)


def test_a_sample_of_the_cases_is_tried_in_the_first_tier() -> None:
    tried: list[int] = []

    @each("n", range(100), sample=4)
    def take(n: int) -> None:
        tried.append(n)

    take()
    assert tried == ([0, 25, 50, 75] if tiers.first_tier() else list(range(100)))


@given(st.integers())
def test_examples_are_counted(number: int) -> None:
    assert tiers._done["examples"] >= 1


def test_more_than_the_limit_is_said_with_what_it_is_made_of() -> None:
    small, large = (
        Work({"units of budget": 90_000}, 0.1),
        Work({"units of budget": 900_000, "layouts": 1}, 0.1),
    )
    assert small.price < LIMIT < large.price
    assert [too_much(small, exempt=False), too_much(large, exempt=True), too_much(large, exempt=False)] == [
        0,
        0,
        1,
    ]
    assert "900,000 units of budget, 1 layouts.  Make it cheaper" in sentence(large)


def test_the_costliest_are_shown_by_work_and_by_seconds() -> None:
    seen = [(Work({"kernels": n}, 0.01 * n), f"t{n}") for n in range(30)]
    lines = list(costliest([*seen, (Work({}, 9.0), "slow")]))
    assert [line.split()[-1] for line in lines[1:]] == [*(f"t{n}" for n in range(29, 19, -1)), "slow"]
