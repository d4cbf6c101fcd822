"""Layouts of a chain of operations: the shortest path is the best of all combinations; costs are counted."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from layoutalg.analysis import Access, analyze
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import Layout
from layoutalg.registers import (
    Step,
    choose_layouts,
    convert_layout,
    elementwise_step,
    linear_fragment,
    load_step,
    operand_step,
    reduce_step,
    reduction_plans,
    register_layout,
    store_step,
)
from tests.sweeps import each

C = register_layout(Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128))), (16, 16))
A8 = register_layout(Layout(((4, 8), (4, 2)), ((64, 1), (16, 8))), (16, 16))
ROWS = register_layout(Layout(((4, 8), (4, 2)), ((64, 2), (16, 1))), (16, 16))
COLUMNS = register_layout(Layout(((2, 16), 8), ((8, 16), 1)), (16, 16))
ALL = [C, A8, ROWS, COLUMNS]
BY_ROW, BY_COLUMN = Layout((16, 16), (16, 1)), Layout((16, 16), (1, 16))


def brute(steps: list[Step], element: str) -> float:
    """The least cost of all combinations of forms."""
    best = float("inf")
    for forms in itertools.product(*(step.forms for step in steps)):
        cycles = sum(form.cycles for form in forms)
        for a, b in itertools.pairwise(forms):
            try:
                assert a.gives is not None and b.takes is not None
                cycles += convert_layout(a.gives, b.takes, element).plan.cost.cycles
            except LayoutAlgError:
                cycles = float("inf")
        best = min(best, cycles)
    return best


def drawn(rng: random.Random, element: str) -> list[Step]:
    def some() -> list[LinearLayout]:
        return rng.sample(ALL, rng.randint(1, 4))

    steps = [load_step(rng.choice((BY_ROW, BY_COLUMN)), some(), element)]
    for _ in range(rng.randint(0, 3)):
        if rng.random() < 0.5:
            steps.append(elementwise_step(some(), rng.randint(1, 9)))
        else:
            steps.append(operand_step(rng.choice(ALL), rng.choice(ALL)))
    if rng.random() < 0.5:
        return [*steps, reduce_step(some(), rng.choice("mn"))]
    return [*steps, store_step(rng.choice((BY_ROW, BY_COLUMN)), some(), element, "shared")]


@pytest.mark.deep(but=("0",))
@pytest.mark.parametrize("seed", range(4))
def test_the_choice_is_the_best_of_all_combinations(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        element = rng.choice(("f32", "f16"))
        steps = drawn(rng, element)
        found = choose_layouts(steps, element=element)
        assert found.cycles == pytest.approx(brute(steps, element))
        parts = [form.cycles for form in found.forms]
        parts += [one.plan.cost.cycles for one in found.conversions if one is not None]
        assert sum(parts) == pytest.approx(found.cycles)


def test_moves_cost_what_the_analysis_counts() -> None:
    """Rows in vectors of 16 bytes, and accumulators in pairs, as accesses of a thread-value layout."""
    rows = Access("ld.global.b128", Layout(((4, 8), 4, 2), ((64, 2), 16, 1)), "f32")  # type: ignore[arg-type]
    pairs = Access("st.shared.b64", Layout(((4, 8), 2, (2, 2)), ((32, 1), 16, (8, 128))), "f32")  # type: ignore[arg-type]
    counted = analyze(BY_ROW, rows)
    assert load_step(BY_ROW, [ROWS]).forms[0].cycles == counted.sectors / 4  # type: ignore[union-attr]
    stored = analyze(BY_ROW, pairs)
    assert store_step(BY_ROW, [C], space="shared").forms[0].cycles == stored.total  # type: ignore[union-attr]


def test_reductions_and_what_they_leave() -> None:
    (form,) = reduce_step([C], "n").forms
    assert form.cycles == reduction_plans(linear_fragment(C), along="n")[0].cycles
    assert form.gives is not None and form.gives.out_bits == {"m": 4}
    assert form.gives.in_bits == {"register": 1, "lane": 5, "warp": 0}


def test_a_conversion_is_taken_where_it_pays() -> None:
    dear = [elementwise_step([ROWS]), store_step(BY_ROW, [COLUMNS, ROWS], space="global")]
    assert choose_layouts(dear).conversions == (None, choose_layouts(dear).conversions[1])
    forced = choose_layouts(
        [operand_step(C, C, "Q K"), operand_step(A8, C, "P V")], {"C": C, "A": A8}, "e4m3"
    )
    assert forced.cycles > 0 and str(forced).splitlines()[1].startswith("convert: ")


STORED = store_step(BY_ROW, [C])


@each(
    ("error", "part", "call"),
    [
        (ArgumentTypeError, "needs steps", lambda: choose_layouts([])),
        (
            ShapeError,
            "no form of load",
            lambda: choose_layouts([store_step(BY_ROW, [C]), load_step(BY_ROW, [C])]),
        ),
        (ShapeError, "another tile", lambda: load_step(Layout((8, 16), (16, 1)), [C])),
    ],
)
def test_what_is_no_chain_is_refused(error: type[Exception], part: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=part):
        call()
