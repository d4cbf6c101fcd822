"""The whole conversion: every plan is right, the cheapest is taken, and known cases cost what is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import (
    DivisibilityError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.f2 import LinearLayout
from layoutalg.layout import Layout
from layoutalg.registers import Cost, Load, Select, Shuffle, Store, convert_layout, converted, register_layout
from layoutalg.registers.place_map import crosses
from tests.draws.fragments import M16N8, accumulators, conversions, elements, operand_a, swapped, wgmma
from tests.sweeps import each

ELEMENTS = st.sampled_from(("u8", "f16", "f32", "f64", "c128"))


@given(conversions(max_lanes=4), ELEMENTS)
def test_every_plan_is_the_definition(pair: tuple[LinearLayout, LinearLayout], element: str) -> None:
    src, dst = pair
    found = convert_layout(src, dst, element)
    expected = converted(src, dst, elements(src))
    for plan in (found.plan, *found.alternatives):
        assert np.array_equal(plan.run(elements(src)), expected)
        assert plan.cost.cycles >= found.plan.cost.cycles


@given(conversions(), ELEMENTS)
def test_the_kind_is_what_the_blocks_of_the_map_say(
    pair: tuple[LinearLayout, LinearLayout], element: str
) -> None:
    found = convert_layout(*pair, element)
    kinds = {plan.kind for plan in (found.plan, *found.alternatives)}
    assert len(kinds) == 1 + len(found.alternatives)
    if crosses(found.places, "warp"):
        assert kinds == {"shared"} and found.refused == ("shuffle: values move between warps",)
    elif crosses(found.places, "lane"):
        assert kinds == {"shuffle", "shared"} and not found.refused
    else:
        assert kinds in ({"rename"}, {"select"}) and not found.refused
    for plan in (found.plan, *found.alternatives):
        used = {type(step) for step in plan.steps}
        assert (Shuffle in used) == (plan.kind == "shuffle")
        assert ({Store, Load} <= used) == (plan.kind == "shared")
        assert plan.kind != "rename" or not used


@given(conversions(in_warp=True), ELEMENTS)
def test_selects_and_shuffles_are_counted_in_registers(
    pair: tuple[LinearLayout, LinearLayout], element: str
) -> None:
    """Units narrower than a register count as one, wider ones as several."""
    found = convert_layout(*pair, element)
    for plan in (found.plan, *found.alternatives):
        if plan.kind in ("shuffle", "select"):
            words = max(1, (dtype(element).bits << plan.packed) // 32)
            different = sum(
                a != b
                for step in plan.steps
                if isinstance(step, Select)
                for a, b in zip(step.even, step.odd, strict=True)
            )
            moving = sum(step.moving for step in plan.steps if isinstance(step, Shuffle))
            assert (plan.cost.selects, plan.cost.shuffles) == (different * words, moving * words)
            assert plan.cost.permutes == 0 or dtype(element).bits < 32


C32 = register_layout(accumulators(32), (16, 32))


def _cost(src: LinearLayout, dst: LinearLayout, element: str) -> tuple[str, Cost]:
    found = convert_layout(src, dst, element)
    expected = converted(src, dst, elements(src))
    assert np.array_equal(found.plan.run(elements(src)), expected)
    return found.plan.kind, found.plan.cost


def test_an_accumulator_is_the_next_f16_operand_as_it_is() -> None:
    """What fused attention relies on: two m16n8 accumulators side by side are one m16k16 A operand."""
    c = register_layout(accumulators(16), (16, 16))
    assert c == register_layout(operand_a(16), (16, 16))
    assert _cost(c, register_layout(operand_a(16), (16, 16)), "f16") == ("rename", Cost())


def test_an_accumulator_is_not_the_next_8_bit_operand() -> None:
    """Four neighbours of k in a register instead of two: words are exchanged between two lanes."""
    a = register_layout(operand_a(8), (16, 32))
    assert _cost(C32, a, "e4m3") == ("shuffle", Cost(selects=8, permutes=4, shuffles=4))
    assert _cost(C32, a, "f32") == ("shuffle", Cost(selects=32, shuffles=16))


def test_an_accumulator_becomes_a_tf32_operand_by_shuffles() -> None:
    a = register_layout(Layout(((4, 8), (2, 2, 2)), ((16, 1), (8, 64, 128))), (16, 16))
    c = register_layout(accumulators(16), (16, 16))
    kind, cost = _cost(c, a, "tf32")
    assert kind == "shuffle" and cost.barriers == 0


@pytest.mark.parametrize("element", ["u8", "f16", "f32", "f64"])
def test_a_fragment_is_transposed(element: str) -> None:
    c = register_layout(accumulators(16), (16, 16))
    found = convert_layout(c, swapped(c), element)
    assert {plan.kind for plan in (found.plan, *found.alternatives)} == {"shuffle", "shared"}
    for plan in (found.plan, *found.alternatives):
        values = elements(c)
        assert np.array_equal(plan.run(values), elements(swapped(c)))


def test_rows_of_memory_become_wgmma_fragments_through_shared_memory() -> None:
    """128 threads that loaded 16 bytes each of a 64 x 64 tile of f16, and the accumulator of m64n64."""
    rows = LinearLayout(
        {
            "register": [(0, 1), (0, 2), (0, 4), (16, 0), (32, 0)],
            "lane": [(0, 8), (0, 16), (0, 32), (1, 0), (2, 0)],
            "warp": [(4, 0), (8, 0)],
        },
        {"m": 64, "n": 64},
    )
    mma = register_layout(wgmma(64), (64, 64))
    for src, dst in ((rows, mma), (mma, rows)):
        # 8 kB, 128 bytes a wavefront, by 4 warps, in and out: 16 wavefronts a warp each way.
        assert _cost(src, dst, "f16") == ("shared", Cost(wavefronts=32, barriers=1))
        assert _cost(src, dst, "f32") == ("shared", Cost(wavefronts=64, barriers=1))


def test_the_same_layout_costs_nothing() -> None:
    for element in ("s4", "u8", "f16", "f32", "c128"):
        assert _cost(C32, C32, element) == ("rename", Cost())


def test_other_names_are_free_for_whole_registers_and_permutes_for_parts() -> None:
    registers = LinearLayout({"register": [1, 2, 4], "lane": [8]}, {"n": 16})
    turned = LinearLayout({"register": [4, 2, 1], "lane": [8]}, {"n": 16})
    assert _cost(registers, turned, "f32") == ("rename", Cost())
    assert _cost(registers, turned, "f16") == ("rename", Cost(permutes=4))
    assert _cost(registers, turned, "u8") == ("rename", Cost(permutes=2))


def test_what_one_warp_holds_for_all_is_taken_from_there() -> None:
    """Every warp holds the whole vector; each wants its own part, spread over lanes: nothing crosses."""
    all_hold = LinearLayout({"register": [1, 2], "lane": [4], "warp": [0, 0]}, {"n": 8})
    parts = LinearLayout({"register": [4], "lane": [1], "warp": [2, 0]}, {"n": 8})
    found = convert_layout(all_hold, parts)
    assert not crosses(found.places, "warp") and found.plan.kind == "shuffle"
    assert np.array_equal(found.plan.run(elements(all_hold)), elements(parts))


def test_a_broadcast_over_warps_goes_through_shared_memory() -> None:
    parts = LinearLayout({"register": [1], "lane": [2, 4], "warp": [8]}, {"n": 16})
    everywhere = LinearLayout({"register": [1, 8], "lane": [2, 4], "warp": [0]}, {"n": 16})
    assert convert_layout(parts, everywhere).plan.kind == "shared"
    assert convert_layout(everywhere, parts).plan.kind == "select"  # each warp has its part already


def test_what_does_not_fit_shared_memory_is_shuffled_or_refused() -> None:
    bits = 17
    src = LinearLayout(
        {"register": [1 << j for j in range(7)], "lane": [1 << j for j in range(7, 12)],
         "warp": [1 << j for j in range(12, bits)]}, {"n": 1 << bits},
    )  # fmt: skip
    lanes = LinearLayout(
        {name: bases[::-1] if name == "lane" else bases for name, bases in src.ins}, {"n": 1 << bits}
    )
    found = convert_layout(src, lanes)
    assert found.plan.kind == "shuffle" and found.refused[0].startswith("shared: shared memory of a tile")
    warps = LinearLayout(
        {name: bases[::-1] if name == "warp" else bases for name, bases in src.ins}, {"n": 1 << bits}
    )
    with pytest.raises(ResourceError, match=r"in bytes: 524288 asked, the limit is 232448"):
        convert_layout(src, warps)


def test_elements_narrower_than_a_byte_move_as_bytes_or_not_at_all() -> None:
    src = LinearLayout({"register": [1, 2, 4], "lane": [8, 16]}, {"n": 32})
    whole = LinearLayout({"register": [1, 2, 4], "lane": [16, 8]}, {"n": 32})
    assert _cost(src, whole, "s4") == ("shuffle", Cost(shuffles=1))
    torn = LinearLayout({"register": [8, 2, 4], "lane": [1, 16]}, {"n": 32})
    with pytest.raises(UnsupportedError, match=r"elements of 4 bits that do not move as whole bytes"):
        convert_layout(src, torn, "s4")
    inside = LinearLayout({"register": [1, 2, 4], "lane": [8 | 1, 16]}, {"n": 32})
    with pytest.raises(UnsupportedError, match=r"elements of 4 bits that do not move as whole bytes"):
        convert_layout(src, inside, "s4")


def test_what_is_asked_wrongly_is_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"values have the shape \(1, 32, 5\); \(warps, lanes, 16\) is needed"
    ):
        convert_layout(C32, C32).plan.run(np.zeros((1, 32, 5)))
    with pytest.raises(ShapeError, match=r"hold different tensors"):
        convert_layout(C32, register_layout(M16N8, (16, 8)))
    with pytest.raises(DivisibilityError, match=r"which no place of the source does"):
        convert_layout(LinearLayout({"lane": [0]}, {"n": 2}), LinearLayout({"lane": [1]}, {"n": 2}))
    with pytest.raises(UnknownNameError, match=r"unknown dtype 'f33'"):
        convert_layout(C32, C32, "f33")


@each("arch", list(ARCHS))
def test_every_architecture_converts(arch: str) -> None:
    found = convert_layout(C32, register_layout(operand_a(8), (16, 32)), "f32", arch)
    assert [plan.kind for plan in (found.plan, *found.alternatives)] == ["shuffle", "shared"]


def test_a_plan_is_told_in_one_line() -> None:
    found = convert_layout(C32, register_layout(operand_a(8), (16, 32)), "e4m3")
    assert str(found) == "shuffle: 8 selects, 4 permutes, 4 shuffles; 10 cycles"
    assert str(found.alternatives[0]) == "shared: 4 permutes, 8 wavefronts, 1 barrier; 12 cycles"
    assert str(convert_layout(C32, C32)) == "rename: no instructions"
