"""Each step does what its one sentence says, and costs what it says."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.errors import DivisibilityError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.registers import Cost, Load, Rename, Select, Shuffle, Store, Transfer, converted
from layoutalg.registers.steps import CYCLES, cost_of, run

VALUES = np.arange(2 * 4 * 3).reshape(2, 4, 3)
"""(warp, lane, register)."""


def test_a_rename_repeats_and_drops() -> None:
    assert (run([Rename((2, 2, 0, 1))], VALUES) == VALUES[:, :, [2, 2, 0, 1]]).all()
    assert cost_of([Rename((2, 2, 0, 1))]) == Cost()


def test_a_select_looks_at_the_parity_of_its_bits() -> None:
    step = Select(0b11, 1, (0, 1), (2, 1))
    out = run([step], VALUES)
    for warp, lane in np.ndindex(2, 4):
        odd = (bin(lane & 0b11).count("1") + warp) % 2
        assert out[warp, lane].tolist() == VALUES[warp, lane, [2 if odd else 0, 1]].tolist()
    assert cost_of([step], words=2) == Cost(selects=2)  # the second value is the same either way


def test_a_shuffle_takes_the_same_register_of_another_lane() -> None:
    step = Shuffle((2, 1), (3,), (0, 1, 2))
    out = run([step], VALUES)
    for warp, lane, i in np.ndindex(VALUES.shape):
        swapped = (lane & 1) << 1 | lane >> 1
        assert out[warp, lane, i] == VALUES[warp, swapped ^ 3 * warp ^ (0, 1, 2)[i], i]
    assert not step.is_xor and step.moving == 3


@pytest.mark.parametrize(
    ("step", "moving"),
    [
        (Shuffle((1, 2), (0,), (0, 1, 0)), 1),
        (Shuffle((1, 2), (2,), (0, 1, 0)), 3),
        (Shuffle((1, 0), (0,), (0, 0, 0)), 3),
    ],
)
def test_only_what_leaves_its_lane_is_shuffled(step: Shuffle, moving: int) -> None:
    assert cost_of([step]) == Cost(shuffles=moving)
    assert cost_of([step], words=2) == Cost(shuffles=2 * moving)


def test_an_exchange_goes_through_its_tile() -> None:
    """One warp of 2 lanes writes pairs along rows and reads along columns, under a swizzle."""
    tile = ComposedLayout(Swizzle(1, 0, 1), 0, Layout((4,)))
    store = Store(tile, 4, Transfer("st.shared.b64", ((0, 1),), (0,), (2,), (), 1))
    load = Load(tile, Transfer("ld.shared.b32", ((1,), (0,)), (2, 0), (1,), (), 2))
    values = np.array([[[10, 11], [20, 21]]])
    assert run([store, load], values).tolist() == [[[10, 20], [11, 21]]]
    assert cost_of([store, load]) == Cost(wavefronts=3, barriers=1)


def test_costs_add_and_weigh() -> None:
    total = Cost(1, 2, 3, 4, 5) + Cost(5, 4, 3, 2, 1)
    assert total == Cost(6, 6, 6, 6, 6)
    assert total.cycles == 6 * sum(CYCLES.values())
    assert set(CYCLES) == set(Cost.__slots__)


def test_the_definition_looks_elements_up() -> None:
    src = LinearLayout({"register": [1], "lane": [2, 0]}, {"n": 4})
    dst = LinearLayout({"lane": [1, 2]}, {"n": 4})
    values = np.array([[[7, 8], [9, 6], [7, 8], [9, 6]]])
    assert converted(src, dst, values).tolist() == [[[7], [8], [9], [6]]]
    with pytest.raises(DivisibilityError, match=r"holds element \(2,\), which no place of the source does"):
        converted(LinearLayout({"lane": [1, 1]}, {"n": 4}), dst, np.zeros((1, 4, 1)))
