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
from tests.draws.fragments import LARGE, M16N8, accumulators, conversions, elements, operand_a, swapped, wgmma
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


C16, C32 = (register_layout(accumulators(n), (16, n)) for n in (16, 32))
A8, A16 = (register_layout(operand_a(bits), (16, 256 // bits)) for bits in (8, 16))
TF32 = register_layout(Layout(((4, 8), (2, 2, 2)), ((16, 1), (8, 64, 128))), (16, 16))
ROWS = LinearLayout(
    {
        "register": [(0, 1), (0, 2), (0, 4), (16, 0), (32, 0)],
        "lane": [(0, 8), (0, 16), (0, 32), (1, 0), (2, 0)],
        "warp": [(4, 0), (8, 0)],
    },
    {"m": 64, "n": 64},
)
"""128 threads that loaded 16 bytes each of a 64 x 64 tile of f16."""
WGMMA = register_layout(wgmma(64), (64, 64))


def vector(register: list[int], lane: list[int], warp: list[int] | None = None, n: int = 16) -> LinearLayout:
    ins = {"register": register, "lane": lane} | ({} if warp is None else {"warp": warp})
    return LinearLayout(ins, {"n": n})


IN_ORDER, TURNED = vector([1, 2, 4], [8]), vector([4, 2, 1], [8])
PARTS, EVERYWHERE = vector([1], [2, 4], [8]), vector([1, 8], [2, 4], [0])
HALVES = vector([1, 2, 4], [8, 16], n=32)
KNOWN: list[tuple[LinearLayout, LinearLayout, str, str, Cost | None]] = [
    # what fused attention relies on: two m16n8 accumulators side by side are one m16k16 A operand
    (C16, A16, "f16", "rename", Cost()),
    # four neighbours of k in a register instead of two: words are exchanged between two lanes
    (C32, A8, "e4m3", "shuffle", Cost(selects=8, permutes=4, shuffles=4)),
    (C32, A8, "f32", "shuffle", Cost(selects=32, shuffles=16)),
    (C16, TF32, "tf32", "shuffle", None),
    (C16, swapped(C16), "f16", "shuffle", None),
    # 8 kB, 128 bytes a wavefront, by 4 warps, in and out: 16 wavefronts a warp each way
    (ROWS, WGMMA, "f16", "shared", Cost(wavefronts=32, barriers=1)),
    (ROWS, WGMMA, "f32", "shared", Cost(wavefronts=64, barriers=1)),
    (WGMMA, ROWS, "f16", "shared", Cost(wavefronts=32, barriers=1)),
    *((C32, C32, element, "rename", Cost()) for element in ("s4", "u8", "f16", "f32", "c128")),
    # other names are free for whole registers, and permutes for parts
    (IN_ORDER, TURNED, "f32", "rename", Cost()),
    (IN_ORDER, TURNED, "f16", "rename", Cost(permutes=4)),
    (IN_ORDER, TURNED, "u8", "rename", Cost(permutes=2)),
    # what one warp holds for all is taken from there
    (vector([1, 2], [4], [0, 0], 8), vector([4], [1], [2, 0], 8), "u32", "shuffle", None),
    (PARTS, EVERYWHERE, "u32", "shared", None),
    (EVERYWHERE, PARTS, "u32", "select", None),
    (HALVES, vector([1, 2, 4], [16, 8], n=32), "s4", "shuffle", Cost(shuffles=1)),
]


@each(("src", "dst", "element", "kind", "cost"), KNOWN)
def test_known_conversions_cost_what_is_known(
    src: LinearLayout, dst: LinearLayout, element: str, kind: str, cost: Cost | None
) -> None:
    found = convert_layout(src, dst, element)
    for plan in (found.plan, *found.alternatives):
        assert np.array_equal(plan.run(elements(src)), elements(dst))
    assert found.plan.kind == kind and cost in (None, found.plan.cost)
    assert found.plan.cost.barriers == (kind == "shared")


def test_what_does_not_fit_shared_memory_is_shuffled_or_refused() -> None:
    def turned(name: str) -> LinearLayout:
        ins = {key: bases[::-1] if key == name else bases for key, bases in LARGE.ins}
        return LinearLayout(ins, {"n": 1 << 17})

    found = convert_layout(LARGE, turned("lane"))
    assert found.plan.kind == "shuffle" and found.refused[0].startswith("shared: shared memory of a tile")
    with pytest.raises(ResourceError, match="the limit is 232448"):
        convert_layout(LARGE, turned("warp"))


@each(
    ("src", "dst", "element", "error", "part"),
    [
        (HALVES, vector([8, 2, 4], [1, 16], n=32), "s4", UnsupportedError, "elements of 4 bits"),
        (HALVES, vector([1, 2, 4], [8 | 1, 16], n=32), "s4", UnsupportedError, "elements of 4 bits"),
        (C32, register_layout(M16N8, (16, 8)), "f32", ShapeError, "hold different tensors"),
        (vector([], [0], n=2), vector([], [1], n=2), "f32", DivisibilityError, "no place of the source"),
        (C32, C32, "f33", UnknownNameError, "unknown dtype 'f33'"),
    ],
)
def test_what_is_not_converted(
    src: LinearLayout, dst: LinearLayout, element: str, error: type[Exception], part: str
) -> None:
    with pytest.raises(error, match=part):
        convert_layout(src, dst, element)
    with pytest.raises(ShapeError, match=r"\(warps, lanes, 16\) is needed"):
        convert_layout(C32, C32).plan.run(np.zeros((1, 32, 5)))


@each("arch", list(ARCHS))
def test_every_architecture_converts(arch: str) -> None:
    found = convert_layout(C32, A8, "f32", arch)
    assert [plan.kind for plan in (found.plan, *found.alternatives)] == ["shuffle", "shared"]


def test_a_plan_is_told_in_one_line() -> None:
    found = convert_layout(C32, A8, "e4m3")
    assert str(found) == "shuffle: 8 selects, 4 permutes, 4 shuffles; 10 cycles"
    assert str(found.alternatives[0]) == "shared: 4 permutes, 8 wavefronts, 1 barrier; 12 cycles"
    assert str(convert_layout(C32, C32)) == "rename: no instructions"
