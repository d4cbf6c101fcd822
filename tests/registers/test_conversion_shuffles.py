"""Plans of selects and shuffles do what the definition says, for any map inside a warp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.f2 import LinearLayout
from layoutalg.registers import Cost, Select, Shuffle, converted
from layoutalg.registers.place_map import crosses, place_map
from layoutalg.registers.shuffles import shuffle_plans
from layoutalg.registers.steps import cost_of, run
from tests.draws.fragments import conversions, elements
from tests.sweeps import each


@given(conversions(in_warp=True))
def test_every_plan_is_the_conversion(pair: tuple[LinearLayout, LinearLayout]) -> None:
    src, dst = pair
    found = place_map(src, dst)
    assert not crosses(found, "warp")
    expected = converted(src, dst, elements(src))
    assert (expected == elements(dst)).all()
    plans = list(shuffle_plans(found))
    assert plans
    for steps in plans:
        assert np.array_equal(run(steps, elements(src)), expected)
        assert any(isinstance(step, Shuffle) for step in steps) or not crosses(found, "lane")


@given(conversions(in_warp=True))
def test_what_stays_in_its_lane_is_not_shuffled(pair: tuple[LinearLayout, LinearLayout]) -> None:
    found = place_map(*pair)
    costs = [cost_of(steps) for steps in shuffle_plans(found)]
    if not crosses(found, "lane"):
        assert min(cost.shuffles for cost in costs) == 0
    if found.sublayout_is_zero(["lane", "warp"], ["register"]) and found.sublayout_is_zero(
        ["register"], ["lane"]
    ):
        assert min(cost.selects for cost in costs) == 0  # registers and lanes do not mix


@given(st.integers(0, 3), st.integers(0, 3), st.permutations(range(5)), st.permutations(range(5)))
def test_exchanging_bits_costs_what_the_formula_says(
    swaps: int, others: int, registers: list[int], lanes: list[int]
) -> None:
    """m register bits against m lane bits: 2 m R selects and (1 - 2^-m) R shuffles."""
    count = swaps + others
    names = [*(("register", j) for j in range(count)), *(("lane", j) for j in range(5))]
    place = {name: i for i, name in enumerate(names)}
    for i in range(swaps):
        r, n = ("register", sorted(registers)[i]), ("lane", lanes[i])
        place[r], place[n] = place[n], place[r]
    src = LinearLayout(
        {"register": [1 << j for j in range(count)], "lane": [1 << (count + j) for j in range(5)]},
        {"n": 1 << (count + 5)},
    )
    dst = LinearLayout(
        {
            "register": [1 << place["register", j] for j in range(count)],
            "lane": [1 << place["lane", j] for j in range(5)],
        },
        src.outs,
    )
    size = 1 << count
    best = min((cost_of(steps) for steps in shuffle_plans(place_map(src, dst))), key=lambda cost: cost.cycles)
    assert best == Cost(selects=2 * swaps * size, shuffles=size - (size >> swaps))


WARP = {"register": [1, 2], "lane": [4, 8, 16]}


@each(
    ("src", "dst", "cost"),
    [
        # a permutation of lanes shuffles every register once
        (
            {"register": [1, 2], "lane": [4, 8, 16]},
            {"register": [1, 2], "lane": [16, 4, 8]},
            Cost(shuffles=4),
        ),
        # a broadcast asks one lane
        ({"lane": [1, 2, 4]}, {"lane": [0, 0, 0]}, Cost(shuffles=1)),
        # a lane that has everything is asked for each value: seven have to leave lane 0, one in each round
        ({"register": [1, 2, 4], "lane": [8, 16, 32]}, {"lane": [1, 2, 4]}, None),
    ],
)
def test_known_maps_are_shuffled_as_often_as_it_takes(src: Any, dst: Any, cost: Cost | None) -> None:
    size = 1 << sum(len(bases) for bases in src.values())
    held, wanted = LinearLayout(src, {"n": size}), LinearLayout(dst, {"n": size})
    steps, *_ = shuffle_plans(place_map(held, wanted))
    assert np.array_equal(run(steps, elements(held)), elements(wanted))
    assert cost_of(steps) == cost if cost is not None else cost_of(steps).shuffles == 7


def test_the_warp_may_choose_lanes_and_registers() -> None:
    """Warp 1 wants its registers and lanes exchanged; no value leaves its warp."""
    src = LinearLayout({"register": [1], "lane": [2], "warp": [4]}, {"n": 8})
    for moved in (1, 2, 3):
        dst = LinearLayout({"register": [1], "lane": [2], "warp": [4 | moved]}, {"n": 8})
        plans = list(shuffle_plans(place_map(src, dst)))
        for steps in plans:
            assert np.array_equal(run(steps, elements(src)), elements(dst))
        best = min((cost_of(steps) for steps in plans), key=lambda cost: cost.cycles)
        assert best == (Cost(selects=2), Cost(shuffles=2), Cost(selects=2, shuffles=2))[moved - 1]


@pytest.mark.parametrize("lane", [1, 3])
def test_selects_test_bits_of_the_lane(lane: int) -> None:
    """The register depends on the parity of the lane's bits, as an XOR layout makes it."""
    src = LinearLayout({"register": [1], "lane": [2, 4]}, {"n": 8})
    dst = LinearLayout({"register": [1], "lane": [2 | lane & 1, 4 | lane >> 1]}, {"n": 8})
    (steps,) = shuffle_plans(place_map(src, dst))
    assert steps == (Select(lane, 0, (0, 1), (1, 0)),)
